"""Lazy exports: names of a package that are imported on first use, so that `--help` and `import titjudge` stay fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

Lazy = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def lazy_exports(package: str, modules: Mapping[str, str]) -> Lazy:
    """Make `__all__`, `__getattr__` and `__dir__` of a package that exports names of its modules.

    The package imports the same names `if TYPE_CHECKING`, for type checkers, editors and the API reference.

    Args:
        package: The package's `__name__`.
        modules: The exported names of each module, separated by spaces.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in home:
            return getattr(importlib.import_module(home[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return sorted(home), get, lambda: sorted(home)
