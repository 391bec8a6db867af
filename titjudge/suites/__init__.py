"""Data sets with their metrics and their official aggregation. A suite is one class and one line in `registry.py`."""
