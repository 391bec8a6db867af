"""The run folder: its files, journals, manifest and identity."""
