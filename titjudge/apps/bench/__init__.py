"""Prompts in, verdict out: images are generated and judged in rounds, under one cap."""
