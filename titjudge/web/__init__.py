"""Local web servers: what all pages share, and a live view of runs."""
