"""TIIF-Bench."""
