"""Recipes that write prompts as the papers do: from a seed, checked, and drafted again if a check fails.

A recipe has the form of a metric, so that cache, cap, dry run and resume work as in any run. Its score is 1, and the
parts have the prompt and its metadata; a prompt that fails a check three times has no score, and the reason names the
check.
"""
