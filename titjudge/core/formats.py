"""Numbers as text: percentages to one decimal, coefficients to three, intervals in brackets, p-values."""

from __future__ import annotations

from collections.abc import Sequence

WIDE = 4  # with more metrics than this a leaderboard shows ranks only


def percent(value: float | None, interval: Sequence[float] | None = None) -> str | None:
    """Format a fraction with its interval: `88.9% [77.8, 97.2]`; None stays None."""
    if value is None:
        return None
    bracket = f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else ""
    return f"{100 * value:.1f}%{bracket}"


def plain(value: float | None, interval: Sequence[float | None] | None = None, digits: int = 3) -> str | None:
    """Format a number with its interval: `0.395 [0.351, 0.438]`; None stays None, as an end it is infinite."""
    if value is None:
        return None
    ends = [f"{end:.{digits}f}" if end is not None else "" for end in interval or ()]
    bracket = f" [{ends[0] or '-∞'}, {ends[1] or '∞'}]" if interval else ""
    return f"{value:.{digits}f}{bracket}"


def p_value(p: float | None) -> str | None:
    """Format a p-value: `0.013`, `<0.0001`; None stays None."""
    return None if p is None else "<0.0001" if p < 0.0001 else f"{p:.2g}"
