"""Runs checked and joined: verify, replay, merge."""
