"""What the simulations of coverage share: their rows, and the share of intervals that hold the truth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Rows = list[tuple[str, list[float]]]
"""Name of a simulated statistic, and its shares by number of prompts."""


def covered(intervals: Iterable[tuple[float | None, float | None] | None], truth: float) -> float:
    """The share of the intervals that hold the truth; none at all holds nothing, an end that is None is infinite."""

    def holds(low: float | None, high: float | None) -> bool:
        return (low is None or low <= truth) and (high is None or truth <= high)

    return float(np.mean([each is not None and holds(*each) for each in intervals]))
