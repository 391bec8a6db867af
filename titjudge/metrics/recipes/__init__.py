"""Recipes for prompts, after the papers: each writes one prompt from a seed, checks it, and writes it again where a check fails.

A recipe has the form of a metric, so that cache, cap, dry run and resume are those of any run. Its value is 1, and its
parts are the prompt with what belongs to it; a prompt that fails a check three times has no score and is named.
"""
