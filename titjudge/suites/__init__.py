"""Read data sets with their metrics and their official aggregation. A suite is one class and one line in `core/registry.py`."""

from titjudge.core.types import InvalidItem, Item, Pair, Suite, Table

__all__ = ["InvalidItem", "Item", "Pair", "Suite", "Table"]
