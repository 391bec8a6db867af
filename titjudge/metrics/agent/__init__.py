"""tit-agent: an agentic judge that settles the claims of a prompt by looking at the image again if it is unsure."""
