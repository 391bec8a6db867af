"""The unit of effects, from a judge's own scores: the range of a cosine or logit does not show what is large."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from titjudge.stats.equality import score_distance

# Least difference between the best and the worst images that counts, as a share of the spread of all scores.
CLEAR = 0.1


def spread(values: Iterable[float], limits: tuple[float, float]) -> float:
    """Return the difference between the greatest and the least score, at most that of the metric's `limits`.

    Where the scores do not differ, or there are none, it is that of the limits, or 1 where those are infinite.
    """
    ordered = sorted(values)
    whole = limits[1] - limits[0]
    default = whole if math.isfinite(whole) else 1.0
    return min(score_distance(ordered[0], ordered[-1], default), whole) if ordered else default


def span(by_level: Mapping[int, Sequence[float]], limits: tuple[float, float]) -> float:
    """Return the difference between the mean score of images without errors and that of images with the most errors.

    Args:
        by_level: Scores by number of errors; a higher score is better.
        limits: The metric's range; its ends may be infinite.

    Returns:
        A positive number: the spread of all scores where the means do not clearly differ in the right direction.
    """
    levels = sorted(level for level, values in by_level.items() if values)
    whole = spread((value for values in by_level.values() for value in values), limits)
    if len(levels) > 1:
        best, worst = (sum(by_level[level]) / len(by_level[level]) for level in (levels[0], levels[-1]))
        if best - worst > CLEAR * whole:
            return best - worst
    return whole
