"""An agentic judge that looks again at the image where it is unsure."""
