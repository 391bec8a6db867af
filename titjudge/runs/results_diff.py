"""Two results.json side by side, cell by cell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TOLERANCE = 1e-9
_BRACKETS = re.compile(r"\[[^]]*\]")
_SECTIONS = ("metrics", "leaderboard", "leaderboard_srcc", "items", "bad_items", "failures", "cut", "spent", "list_cost")  # fmt: skip


def cells(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield every cell of two results: where it stands, and what it is in each (a missing one is None)."""
    yield from _table_cells(before.get("tables") or [], now.get("tables") or [])
    for name in _SECTIONS:
        yield from _walk(name, before.get(name), now.get(name))


def _table_cells(before: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    yield "number of tables", len(before), len(now)
    for first, second in zip(before, now, strict=False):
        title = f"table '{second['title']}'"
        yield f"{title}, title", first["title"], second["title"]
        yield f"{title}, columns", first["columns"], second["columns"]
        yield f"{title}, number of rows", len(first["rows"]), len(second["rows"])
        for one, other in zip(first["rows"], second["rows"], strict=False):
            for column, left, right in zip(second["columns"], one, other, strict=False):
                yield f"{title}, row '{other[0]}', column '{column}'", left, right


def _walk(path: str, before: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _walk(f"{path}.{key}", before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (first, second) in enumerate(zip(before, now, strict=True)):
            yield from _walk(f"{path}[{number}]", first, second)
    else:
        yield path, before, now


def without_intervals(where: str, value: Any) -> Any:
    """Leave out the interval that a cell holds or is: `0.88 [0.80, 0.95]` is `0.88 []`."""
    if "interval" in where:
        return None
    return _BRACKETS.sub("[]", value) if isinstance(value, str) else value


def same(first: Any, second: Any) -> bool:
    """Tell whether two JSON values are equal; numbers to 1e-9 relative."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if _number(first) and _number(second):
        return first == second or math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=1e-12)
    return type(first) is type(second) and bool(first == second)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """Show a cell in a message."""
    return "no value" if value is None else repr(value)
