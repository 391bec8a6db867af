"""Experiment trackers that take the results of a run."""
