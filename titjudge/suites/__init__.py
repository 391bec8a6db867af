"""Read data sets with their metrics and their official aggregation.

A suite is a subclass of `Suite` and a line in `core/registry.py`, or a YAML file in this folder. It yields an `Item` for
each image, an `InvalidItem` with a reason for each that cannot be judged, and a `Pair` for each preference of people.
`aggregate` returns `Table`s in the units of the publication.

    suite = MySuite(SuiteInputs(protocol="official"))
    items = list(suite.load(Path("data")))

Files that cannot be read raise `DataError` with file and row; options that do not fit raise `ConfigError`.
"""

from titjudge.core.types import InvalidItem, Item, Pair, Table
from titjudge.suites.base import Suite, SuiteInputs

__all__ = ["InvalidItem", "Item", "Pair", "Suite", "SuiteInputs", "Table"]
