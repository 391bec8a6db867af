"""Read data sets with their metrics and their official aggregation. A suite is a class and a line in `core/registry.py`, or a YAML file in this folder."""

from titjudge.core.types import InvalidItem, Item, Pair, Table
from titjudge.suites.base import Suite, SuiteInputs

__all__ = ["InvalidItem", "Item", "Pair", "Suite", "SuiteInputs", "Table"]
