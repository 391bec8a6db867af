"""Read data sets with their metrics and their official aggregation. A suite is one class and one line in `core/registry.py`."""

from titjudge.core.types import InvalidItem, Item, Pair, Table
from titjudge.suites.base import Suite

__all__ = ["InvalidItem", "Item", "Pair", "Suite", "Table"]
