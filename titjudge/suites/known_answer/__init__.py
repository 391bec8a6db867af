"""Images whose errors are known by construction."""
