"""Finished runs as training data for reward models."""
