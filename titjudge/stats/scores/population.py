"""Which generators can be compared, and their scores as if each had every prompt.

A generator with scores on other prompts than the rest has a mean that is not comparable with their means: easy prompts
raise it. Every order, "best" and position is taken from `adjusted_scores`; every difference from the prompts that the two
share. On complete data these are the scores themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from titjudge.stats.bootstrap import Floats, Ints, group_sums
from titjudge.stats.scores.families import FEWEST as FEWEST


def shared_prompts(means: Floats, unit: Ints | None = None) -> Ints:
    """Count the prompts on which each two generators both have a score: shape (generators, generators).

    Args:
        means: Shape (prompts, generators), NaN if there is no score.
        unit: Number of the family of each prompt; a family counts once.
    """
    scored = np.isfinite(means)
    if unit is None:
        shared: Ints = scored.astype(np.int64).T @ scored
        return shared
    count = int(unit.max(initial=-1)) + 1
    columns = [group_sums(unit, count, *(scored & column[:, None]).T.astype(np.float64)) for column in scored.T]
    return np.stack([(sums > 0).sum(axis=0) for sums in columns])


def comparable(means: Floats, fewest: int = FEWEST, unit: Ints | None = None) -> list[int]:
    """Choose the generators to compare: the largest group in which every two share at least `fewest` prompts, or families.

    Of groups of one size, the one with more scores is chosen. The other generators are set aside: they enter no maximum, tier
    or correction, so that they change no result of the others.

    Args:
        means: Shape (prompts, generators), NaN if there is no score.
        fewest: Number of prompts.
        unit: Number of the family of each prompt; None if each prompt is a unit.

    Returns:
        Columns in ascending order; empty if no two generators share this number of prompts.
    """
    shared = shared_prompts(means, unit)
    counts = np.diag(shared)
    by_count = np.lexsort((-shared.sum(axis=0), -counts)).tolist()
    groups = []
    for start in by_count:
        group = [start]
        for k in by_count:
            if k != start and (shared[k, group] >= fewest).all():
                group.append(k)
        groups.append(group)
    best = max(groups, key=lambda group: (len(group), shared[np.ix_(group, group)].sum()), default=[])
    return sorted(best) if len(best) > 1 else []


def compared(means: Floats, unit: Ints | None = None) -> NDArray[np.bool_]:
    """Mark the generators of a table that are compared: as `comparable`, on fewer prompts if no two share enough.

    The only generator with a score is marked, too.
    """
    columns = np.asarray(np.isfinite(means).any(axis=0))
    if columns.sum() < 2:
        return columns
    most = int(np.triu(shared_prompts(means, unit), 1).max())
    return np.isin(np.arange(means.shape[1]), comparable(means, max(1, min(FEWEST, most)), unit))


def scores_of_all(means: Floats, unit: Ints | None = None) -> Floats:
    """Return `adjusted_scores` among the generators that are `compared`, and the scores themselves of the others."""
    adjusted = adjusted_scores(np.where(compared(means, unit), means, np.nan))
    return np.where(np.isfinite(adjusted).any(axis=0), adjusted, means)


def is_complete(means: Floats) -> bool:
    """Return True if every generator with a score has one on every prompt with a score."""
    scored = np.isfinite(means)
    return bool(scored[np.ix_(scored.any(axis=1), scored.any(axis=0))].all())


def adjusted_scores(means: Floats) -> Floats:
    """Estimate the score of each generator on every prompt, so that the means of generators can be compared.

    Least squares with an effect of the generator and an effect of the prompt. The mean of a column is the estimated mean over
    all prompts, and its spread is the spread of the estimate (the influence of each prompt), so that an interval of the mean
    over prompts is valid. A generator that has every prompt keeps its scores; so do all if the data are complete.

    Args:
        means: Shape (prompts, generators), NaN if there is no score.

    Returns:
        Same shape. NaN for generators that no chain of shared prompts connects with the others, and on prompts without any
        score of a connected generator.
    """
    if is_complete(means):
        return means
    scored = np.isfinite(means)
    connected = _connected(scored)
    rows = np.asarray(scored[:, connected].any(axis=1, keepdims=True))
    out = np.full(means.shape, np.nan)
    cells = np.ix_(rows[:, 0], connected)
    out[cells] = _influences(means[cells])
    for k in np.flatnonzero(connected & (scored | ~rows).all(axis=0)):
        out[:, k] = means[:, k]
    return out


def _connected(scored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark the columns of the largest group that shared prompts connect."""
    neighbours = shared_prompts(np.where(scored, 0.0, np.nan)) > 0
    reach = np.logical_or(neighbours, np.eye(len(scored[0]), dtype=bool))
    while not np.array_equal(further := np.asarray((reach.astype(np.int64) @ reach) > 0), reach):
        reach = further
    counts = scored.sum(axis=0)
    largest = max(reach, key=lambda group: (int(group.sum()), int((counts * group).sum())))
    connected: NDArray[np.bool_] = np.asarray(largest) & (counts > 0)
    return connected


def _influences(scores: Floats) -> Floats:
    """Fit generator and prompt effects; return the estimated means plus the influence of each prompt on them."""
    scored = np.isfinite(scores)
    present = scored.sum(axis=1)
    values = np.where(scored, scores, 0.0)
    shares = scored / present[:, None]
    inverse = np.linalg.pinv(np.diag(scored.sum(axis=0).astype(np.float64)) - shares.T @ scored)
    effects = inverse @ (values - shares * values.sum(axis=1, keepdims=True)).sum(axis=0)
    levels = (values - scored * effects).sum(axis=1) / present
    residuals = np.where(scored, values - levels[:, None] - effects, 0.0)
    moved = len(scores) * residuals @ inverse
    out: Floats = effects + moved + (levels - moved @ shares.mean(axis=0))[:, None]
    return out
