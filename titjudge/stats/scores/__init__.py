"""The scores of a run as tables: by prompt, by part, claims met, missing scores."""
