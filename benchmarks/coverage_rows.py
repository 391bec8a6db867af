"""What the simulations of coverage share: their rows, and the share of intervals that hold the truth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Doubtful = tuple[float, float]
"""A share of the results, and the share of those whose line has a note that the level is not reliable."""
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


def told(held: Iterable[bool], doubts: Iterable[str]) -> float | Doubtful:
    """Return the share of the intervals that hold the truth, and that of the lines with a note about their level, if any."""
    noted = np.array([bool(doubt) for doubt in doubts])
    share = float(np.mean(list(held)))
    return (share, float(noted.mean())) if noted.any() else share


def unnoted(false: Iterable[bool], doubts: Iterable[str]) -> float | Doubtful:
    """Return the share of the lines that are false without a note about their level, and that of the lines with a note, if any."""
    noted = np.array([bool(doubt) for doubt in doubts])
    share = float((np.array(list(false)) & ~noted).mean())
    return (share, float(noted.mean())) if noted.any() else share
