"""Experiment trackers that show the results of a run: Weights & Biases, MLflow, TensorBoard and Trackio.

Each is a `titjudge.report.sinks.Sink` for `--sink`, and gets numbers, tables and images with scores. Without its package it raises
`MissingExtra`.
"""
