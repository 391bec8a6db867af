"""Local web servers: shared parts of all pages, and a live view of runs."""
