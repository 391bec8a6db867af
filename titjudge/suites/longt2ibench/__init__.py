"""LongT2IBench."""
