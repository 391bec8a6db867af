"""Commands that print ratios, each with its reference beside it: `python -m benchmarks.NAME`."""
