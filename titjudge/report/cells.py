"""Cells with links within the page, and readers of values that a run folder of unknown origin may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from titjudge.core.tables import Cell, Value, text_of


def fragment(view: str, **filters: Any) -> str:
    """Make the link to a view of the report with its filters: `#images?g=...`."""
    query = urlencode({name: value for name, value in filters.items() if value not in (None, "")})
    return f"#{view}?{query}" if query else f"#{view}"


def linked(value: Value, link: str, *, bar: bool = False) -> Cell | None:
    """Make the cell of a value that leads to a part of the page; None stays None."""
    if value is None:
        return None
    cell = value if isinstance(value, Cell) else Cell(text_of(value))
    return replace(cell, link=link, bar=bar)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def strings(value: Any) -> list[str]:
    """Return the members of a list as texts; an empty list for anything else."""
    return [str(member) for member in value] if isinstance(value, list | tuple) else []
