"""What a benchmark's categories tell apart: how far generators differ within each, and how often each comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from titjudge.stats.bootstrap import Floats, Ints
from titjudge.stats.equality import with_ties


def between_variance(scores: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    """Compute the variance between generators in each category, from their mean scores; None with fewer than two."""
    return {name: float(np.var(each, ddof=1)) if len(each) > 1 else None for name, each in scores.items()}


def first_places(means: Floats) -> Ints:
    """Count for each generator the prompts on which none scores higher; those of one generator only do not count.

    Args:
        means: shape (prompts, generators), NaN where there is no score.
    """
    competing = means[np.isfinite(means).sum(axis=1) > 1]
    if not len(competing):
        return np.zeros(means.shape[1], dtype=np.int64)
    level = with_ties(np.where(np.isfinite(competing), competing, -np.inf))
    found: Ints = (level == level.max(axis=1, keepdims=True)).sum(axis=0)
    return found
