"""Cells and tables of the report as JSON: text, sort key, link and bar of each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from titjudge.core.numbers import is_number, sum_words

Json = dict[str, Any]
Cell = str | Json
DASH = "–"


def cell(
    text: str, *, sub: str = "", sort: float | None = None, link: str = "", bar: Sequence[float] | None = None
) -> Json:
    """Make a cell.

    Args:
        text: What is shown.
        sub: Second line, in smaller letters.
        sort: Number that the column is sorted by.
        link: Fragment of the page.
        bar: (low, middle, high) of a bar to draw.
    """
    record: Json = {"t": text}
    if sub:
        record["s"] = sub
    if sort is not None and math.isfinite(sort):
        record["v"] = sort
    if link:
        record["h"] = link
    if bar is not None and all(math.isfinite(one) for one in bar):
        record["b"] = [round(one, 6) for one in bar]
    return record


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, notes: Sequence[str] = (), text: int = 1,
    empty: str = "", span: Sequence[float] | None = None, folded: bool = False,
) -> Json:  # fmt: skip
    """Make a table.

    Args:
        title: Its title.
        columns: Names of the columns.
        rows: Values, or cells.
        notes: Lines below it.
        text: Number of leading columns that are words; the others are numbers.
        empty: What is shown instead of no rows.
        span: Axis of all bars.
        folded: Show only the title until it is opened.
    """
    record: Json = {
        "title": title,
        "columns": list(columns),
        "rows": [[plain(one) for one in row] for row in rows],
        "text": text,
    }
    if notes:
        record["notes"] = [note for note in notes if note]
    if empty:
        record["empty"] = empty
    if span is not None:
        record["span"] = list(span)
    if folded:
        record["folded"] = True
    return record


def plain(value: Any) -> Cell:
    """Make a cell from any value of a results table."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return cell(number(value), sort=float(value))
    if isinstance(value, Mapping) and "t" in value:
        return dict(value)
    return str(value)


def fragment(view: str, **wanted: Any) -> str:
    """Make the link to a view of the report with its filters: `#images?g=...`."""
    query = urlencode({name: value for name, value in wanted.items() if value not in (None, "")})
    return f"#{view}?{query}" if query else f"#{view}"


def number(value: float, digits: int | None = None) -> str:
    """Format a number with thousands separators; without `digits` the decimals depend on its size."""
    if not math.isfinite(value):
        return DASH
    if isinstance(value, int):
        return f"{value:,}"
    if digits is None:
        digits = 4 if abs(value) < 2 else 2 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


def measured(value: Any, digits: int = 3, interval: Any = None, *, link: str = "", bar: bool = False) -> Cell:
    """Make the cell of a statistic with its interval below, or a dash where it is undefined."""
    if not is_number(value):
        return DASH
    return _statistic(number(float(value), digits), float(value), interval, f".{digits}f", link, bar)


def percent(value: Any, interval: Any = None, *, link: str = "", bar: bool = False) -> Cell:
    """Make the cell of a fraction in percent with its interval below, or a dash where it is undefined."""
    if not is_number(value):
        return DASH
    return _statistic(f"{value:.1%}", float(value), interval, ".1%", link, bar)


def _statistic(text: str, value: float, interval: Any, style: str, link: str, bar: bool) -> Cell:
    ends = ends_of(interval)
    sub = f"{ends[0]:{style}} – {ends[1]:{style}}" if ends else ""
    return cell(text, sub=sub, sort=value, link=link, bar=(ends[0], value, ends[1]) if bar and ends else None)


def p_value(p: Any) -> str:
    """Format as `p < 0.001` or `p = 0.034`; empty where it is undefined."""
    if not is_number(p):
        return ""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def money(value: Any) -> str:
    """Format US dollars, sums below $1 with four decimals."""
    if not is_number(value):
        return DASH
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def spending(value: Any, unpriced: int) -> str:
    """Format a sum of US dollars that `unpriced` requests are not in, as nobody knows their price."""
    return sum_words(value, unpriced, money(value)) if unpriced else money(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def strings(value: Any) -> list[str]:
    """Return the members of a list as texts; an empty list for anything else."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def ends_of(interval: Any) -> tuple[float, float] | None:
    """Return the ends of an interval; None for anything else."""
    if isinstance(interval, list | tuple) and len(interval) == 2 and all(is_number(end) for end in interval):
        return float(interval[0]), float(interval[1])
    return None
