"""Compare two results.json cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TOLERANCE = 1e-9
_SECTIONS = ("metrics", "leaderboard", "leaderboard_srcc", "items", "bad_items", "failures", "cut", "spent", "list_cost", "verdict")  # fmt: skip


def cells(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield every cell of two results: its place in words, and its value in each (None where it is missing)."""
    yield from _table_cells(before.get("tables") or [], now.get("tables") or [])
    for name in _SECTIONS:
        yield from _walk(name, before.get(name), now.get(name))


def added(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Name the tables and columns that only the second results have."""
    pairs, new_tables = _paired(before.get("tables") or [], now.get("tables") or [])
    names = [f"the table '{table['title']}'" for table in new_tables]
    for first, second in pairs:
        columns = [name for name in (second or first)["columns"] if name not in first["columns"]]
        names += [f"the column '{name}' of '{first['title']}'" for name in columns]
    return names


def _paired(before: Sequence[Any], now: Sequence[Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Pair the tables with the same title, None standing for one that is gone, and list those that are new."""
    new, pairs = list(now), []
    for first in before:
        second = next((table for table in new if table["title"] == first["title"]), None)
        pairs.append((first, second))
        new = [table for table in new if table is not second]
    return pairs, new


def _table_cells(before: Sequence[Any], now: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    for first, second in _paired(before, now)[0]:
        title = f"table '{first['title']}'"
        if second is None:
            yield title, first["title"], None
            continue
        index = {name: number for number, name in enumerate(second["columns"])}
        columns = first["columns"]
        if len(index) < len(second["columns"]) or not index.keys() >= set(columns):
            yield f"{title}, columns", first["columns"], second["columns"]
            continue
        yield f"{title}, number of rows", len(first["rows"]), len(second["rows"])
        for row, second_row in zip(first["rows"], second["rows"], strict=False):
            for column, value in zip(columns, row, strict=False):
                yield f"{title}, row '{second_row[0]}', column '{column}'", value, second_row[index[column]]


def _walk(path: str, before: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _walk(f"{path}.{key}", before.get(key), now.get(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (first, second) in enumerate(zip(before, now, strict=True)):
            yield from _walk(f"{path}[{number}]", first, second)
    else:
        yield path, before, now


def same(first: Any, second: Any) -> bool:
    """Tell whether two JSON values are equal, numbers to a relative tolerance of 1e-9."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if _number(first) and _number(second):
        return first == second or math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=1e-12)
    return type(first) is type(second) and bool(first == second)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of_cell(value: Any) -> str:
    """Format a cell for a message."""
    return "no value" if value is None else repr(value)
