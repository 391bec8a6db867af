"""Read data sets with their metrics and their official aggregation. A suite is one class and one line in `core/registry.py`."""

from titjudge.core.types import Pair, Suite, Table

__all__ = ["Pair", "Suite", "Table"]
