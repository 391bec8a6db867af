"""Readers of the data that people have: images, tables, archives, prompts inside image files."""
