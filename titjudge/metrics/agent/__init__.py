"""tit-agent: an agentic judge that settles the claims of a prompt by looking at the image again where it is unsure."""
