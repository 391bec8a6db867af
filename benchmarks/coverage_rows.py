"""What the simulations of coverage share: their rows, and the share of intervals that hold the truth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Doubtful = tuple[float, float]
"""A share of the results whose line calls the level reliable (of all, if none does), and the share of the others."""
Rows = list[tuple[str, list[float | Doubtful]]]
"""Name of a simulated statistic, and its shares by number of prompts."""


def holds(interval: tuple[float | None, float | None] | None, truth: float) -> bool:
    """Tell whether an interval holds the truth; none at all holds nothing, an end that is None is infinite."""
    if interval is None:
        return False
    low, high = interval
    return (low is None or low <= truth) and (high is None or truth <= high)


def covered(intervals: Iterable[tuple[float | None, float | None] | None], truth: float) -> float:
    """The share of the intervals that hold the truth."""
    return float(np.mean([holds(each, truth) for each in intervals]))


def told(found: Iterable[bool], doubts: Iterable[str]) -> float | Doubtful:
    """Return the share of what is found among the results whose line has no doubt about the level, and the share of the others."""
    hits, doubtful = np.array(list(found)), np.array([bool(doubt) for doubt in doubts])
    if not doubtful.any():
        return float(hits.mean())
    return float(hits[doubtful if doubtful.all() else ~doubtful].mean()), float(doubtful.mean())
