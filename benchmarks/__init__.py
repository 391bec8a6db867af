"""Figures that docs/measurements/speed.md quotes: each command prints ratios or counts against a reference in the same run."""
