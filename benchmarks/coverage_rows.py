"""What the simulations of coverage share: their rows, and the share of intervals that hold the truth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Doubtful = tuple[float, float]
"""A share of all results, and the share of the results whose line notes that the level is not reliable."""
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
    """Return the share of what is found, and the share of the lines that note that the level is not reliable.

    The first is over all results: a note depends on the scores, so results without it are a selection of another level.
    """
    hits, doubtful = np.mean(list(found)), np.mean([bool(doubt) for doubt in doubts])
    return (float(hits), float(doubtful)) if doubtful else float(hits)
