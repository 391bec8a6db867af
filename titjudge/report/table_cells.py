"""Cells and tables of the summary: what is shown, what it is sorted by, and where it leads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from titjudge.core.numbers import is_number

Json = dict[str, Any]
Cell = str | Json
DASH = "–"


def cell(
    text: str, *, sub: str = "", sort: float | None = None, link: str = "", bar: Sequence[float] | None = None
) -> Json:
    """Make a cell: `sub` is a second, quieter line, `link` a fragment of the page, `bar` (low, middle, high) to draw."""
    made: Json = {"t": text}
    if sub:
        made["s"] = sub
    if sort is not None and math.isfinite(sort):
        made["v"] = sort
    if link:
        made["h"] = link
    if bar is not None and all(math.isfinite(one) for one in bar):
        made["b"] = [round(one, 6) for one in bar]
    return made


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, notes: Sequence[str] = (), text: int = 1,
    empty: str = "", span: Sequence[float] | None = None, folded: bool = False,
) -> Json:  # fmt: skip
    """Make a table whose first `text` columns are words and the others numbers; `span` is the axis of all bars.

    A `folded` one shows its title until it is opened.
    """
    made: Json = {
        "title": title,
        "columns": list(columns),
        "rows": [[plain(one) for one in row] for row in rows],
        "text": text,
    }
    if notes:
        made["notes"] = [note for note in notes if note]
    if empty:
        made["empty"] = empty
    if span is not None:
        made["span"] = list(span)
    if folded:
        made["folded"] = True
    return made


def plain(value: Any) -> Cell:
    """Make a cell of any value of a results table."""
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
    """Address a place in the report with its filters: `#images?g=...`."""
    query = urlencode({name: value for name, value in wanted.items() if value not in (None, "")})
    return f"#{view}?{query}" if query else f"#{view}"


def number(value: float, digits: int | None = None) -> str:
    """Write a number for people: thousands apart, as many decimals as its size asks for."""
    if not math.isfinite(value):
        return DASH
    if isinstance(value, int):
        return f"{value:,}"
    if digits is None:
        digits = 4 if abs(value) < 2 else 2 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


def measured(value: Any, digits: int = 3, interval: Any = None) -> Cell:
    """Make a cell of a statistic with its interval below, or a dash where it is undefined."""
    if not is_number(value):
        return DASH
    ends = ends_of(interval)
    sub = f"{ends[0]:.{digits}f} – {ends[1]:.{digits}f}" if ends else ""
    return cell(number(float(value), digits), sub=sub, sort=float(value))


def p_value(p: Any) -> str:
    """Write `p < 0.001` or `p = 0.034`; nothing where it is not known."""
    if not is_number(p):
        return ""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def percent(value: Any, interval: Any = None, *, link: str = "", bar: bool = False) -> Cell:
    """Make a cell of a fraction of 1 in percent with its interval below."""
    if not is_number(value):
        return DASH
    ends = ends_of(interval)
    sub = f"{ends[0]:.1%} – {ends[1]:.1%}" if ends else ""
    drawn = (ends[0], float(value), ends[1]) if bar and ends else None
    return cell(f"{value:.1%}", sub=sub, sort=float(value), link=link, bar=drawn)


def ranged(value: Any, interval: Any, digits: int, *, link: str = "") -> Cell:
    """Make a cell of a mean with its interval below and drawn."""
    if not is_number(value):
        return DASH
    ends = ends_of(interval)
    sub = f"{ends[0]:.{digits}f} – {ends[1]:.{digits}f}" if ends else ""
    return cell(
        number(float(value), digits),
        sub=sub,
        sort=float(value),
        link=link,
        bar=(ends[0], value, ends[1]) if ends else None,
    )


def money(value: Any) -> str:
    """Write US dollars; small sums with the digits that say something."""
    if not is_number(value):
        return DASH
    return "$0" if value == 0 else f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def strings(value: Any) -> list[str]:
    """Return the members of a list as texts; none of anything else."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def ends_of(interval: Any) -> tuple[float, float] | None:
    if isinstance(interval, list | tuple) and len(interval) == 2 and all(is_number(end) for end in interval):
        return float(interval[0]), float(interval[1])
    return None
