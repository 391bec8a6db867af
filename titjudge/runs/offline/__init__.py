"""Questions written to files and answers read from files."""
