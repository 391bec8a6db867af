"""The scale of a metric as its scores show it: cosines and logits have no range that says what a large difference is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from titjudge.stats.equality import apart

CLEAR = 0.1  # least share of all its scores' spread by which a judge keeps the best images apart from the worst


def spread(values: Iterable[float], limits: tuple[float, float]) -> float:
    """Measure the distance between the least and the greatest score, at most that between a metric's `limits`.

    Where scores do not differ, or there are none: the distance between the limits, and 1 where those are infinite.
    """
    listed = sorted(values)
    whole = limits[1] - limits[0]
    otherwise = whole if math.isfinite(whole) else 1.0
    return min(apart(listed[0], listed[-1], otherwise), whole) if listed else otherwise


def span(by_level: Mapping[int, Sequence[float]], limits: tuple[float, float]) -> float:
    """Measure the distance between the mean of the images without errors and that of the images with most; always positive.

    Args:
        by_level: scores by number of errors, more is better.
        limits: the metric's range; ends may be infinite.
    Returns: the spread of all scores where the judge does not keep those images clearly apart.
    """
    levels = sorted(level for level, values in by_level.items() if values)
    whole = spread((value for values in by_level.values() for value in values), limits)
    if len(levels) > 1:
        best, worst = (sum(by_level[level]) / len(by_level[level]) for level in (levels[0], levels[-1]))
        if best - worst > CLEAR * whole:
            return best - worst
    return whole
