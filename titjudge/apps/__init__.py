"""Applications on top of titjudge: labelling pages, prompt sets, rewards, training data, generation, benchmarks, rendered scenes, Ray, trackers.

Nothing outside this package imports it. It announces its commands, tasks and sinks by the entry points that any other package uses
(`pyproject.toml`).
"""
