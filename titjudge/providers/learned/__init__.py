"""Learned metrics as providers."""
