"""Models in this process."""
