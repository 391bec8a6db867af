"""Qwen-Image-Bench."""
