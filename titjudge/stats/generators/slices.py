"""Statistics of categories of prompts: variance between generators, first places, tiers of generators, maturity."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from titjudge.stats.bootstrap import Floats, Ints
from titjudge.stats.equality import with_ties
from titjudge.stats.scores.population import adjusted_scores, comparable, compared
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import ALPHA, below_best_p

K = TypeVar("K", bound=Hashable)

MATURE, DEVELOPING, CEILING, BEST = 0.6, 0.4, 0.35, 0.44  # shares of the scale: Qwen-Image-Bench paper, section 4.8


def averages(means: Floats) -> Floats:
    """Average each generator's scores over the prompts that it has; NaN if it has none.

    Means of generators with unlike prompts cannot be compared: give `adjusted_scores` for that.

    Args:
        means: Shape (prompts, generators), NaN if there is no score.
    """
    scored = np.isfinite(means)
    total = np.where(scored, means, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, scored.sum(axis=0), out=np.full(means.shape[1], np.nan), where=scored.any(axis=0))
    return mean


def between_variance(scores: Mapping[K, Sequence[float]]) -> dict[K, float | None]:
    """Compute the variance between generators in each category, from their mean scores; None with fewer than two."""
    return {name: float(np.var(values, ddof=1)) if len(values) > 1 else None for name, values in scores.items()}


def first_places(means: Floats) -> Ints:
    """Count the prompts on which each generator has the highest score, of the prompts on which all have one.

    Args:
        means: Shape (prompts, generators), NaN if there is no score.
    """
    scored = np.isfinite(means)
    columns = scored.any(axis=0)
    competing = means[scored[:, columns].all(axis=1)]
    if columns.sum() < 2 or not len(competing):
        return np.zeros(means.shape[1], dtype=np.int64)
    scores = with_ties(np.where(np.isfinite(competing), competing, -np.inf))
    firsts: Ints = (scores == scores.max(axis=1, keepdims=True)).sum(axis=0)
    return firsts


def best_first(means: Floats) -> list[int]:
    """Return the columns of the generators by their mean over one set of prompts (`adjusted_scores`), the highest first.

    Args:
        means: Shape (prompts, generators), NaN if there is no score; generators without a place in the order are left out.
    """
    average = with_ties(averages(adjusted_scores(means)))
    return [k for k in np.argsort(-average, kind="stable").tolist() if np.isfinite(average[k])]


def tiers(
    means: Floats,
    unit: Ints | None = None,
    decides: Callable[[int, int], bool] = lambda leader, other: True,
) -> list[list[int]]:
    """Group generators into tiers, best first: a tier ends before the first that is significantly worse than the tier's best.

    Exchanges within prompts, which allow for the best being chosen on the same prompts (`significance.below_best_p`).

    Args:
        means: Shape (prompts, generators), NaN if there is no score; a generator without any is in no tier.
        unit: Number of the family of each prompt; None if each prompt is a unit.
        decides: Whether the scores of two columns decide in favour of the first (`ScoreTable.decides`).
    """
    remaining = best_first(means)
    groups = []
    while remaining:
        worse = _worse_than_first(means[:, remaining], unit)
        end = next((k for k in worse if decides(remaining[0], remaining[k])), len(remaining))
        groups.append(remaining[:end])
        remaining = remaining[end:]
    return groups


def _worse_than_first(scores: Floats, unit: Ints | None) -> list[int]:
    """List the columns that are significantly worse than the first, the best one."""
    return [k for k, p in enumerate(below_best_p(scores, unit), 1) if p is not None and p < ALPHA]


def in_order(table: ScoreTable) -> list[int]:
    """Return the columns in the order of every list of generators: best first, and uncompared ones last."""
    order = best_first(np.where(compared(table.means, table.unit), table.means, np.nan))
    return [*order, *(k for k in range(len(table.generators)) if k not in order)]


def possible_ranks(above: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the lowest and the highest rank of each of several, of which the row is known to rank above the column."""
    low, high = 1 + above.sum(axis=0), len(above) - above.sum(axis=1)
    return list(zip(low.tolist(), high.tolist(), strict=True))


Ranks = Mapping[int, tuple[int, int]]
"""Column of a generator -> the lowest and the highest rank that the tests leave open; 1 is best."""


def rank_ranges(table: ScoreTable) -> Ranks:
    """Return the ranks of the columns that are compared.

    A generator ranks above another one if the tests of `tiers` distinguish them, for these two and all between which they lie,
    and if the scores of the two decide (`ScoreTable.decides`). Without such a test all have all ranks.
    """
    unit = table.unit
    order = [k for k in in_order(table) if compared(table.means, unit)[k]]
    above = np.zeros((len(order), len(order)), dtype=bool)  # the row ranks above the column
    end = 0 if comparable(table.means, unit=unit) else len(order)
    for k in range(len(order)):
        if end == len(order):
            break
        worse = _worse_than_first(table.means[:, order[k:]], unit)
        end = max(end, k + min(worse, default=len(order) - k))
        above[k, end:] = [table.decides(order[k], other) for other in order[end:]]
    return dict(zip(order, possible_ranks(above), strict=True)) if len(order) > 1 else {}


def tier_means(
    scores: Mapping[str, float], names_by_tier: Sequence[Sequence[str]]
) -> tuple[list[float | None], list[float | None]]:
    """Average each tier's generators, and compute the gap from each tier to the next.

    Args:
        scores: Mean score of each generator; generators without one are left out.
        names_by_tier: Names of the generators of each tier, best first.
    """
    by_tier = [[scores[name] for name in names if name in scores] for names in names_by_tier]
    means = [sum(members) / len(members) if members else None for members in by_tier]
    gaps = [None if a is None or b is None else a - b for a, b in pairwise(means)]
    return means, gaps


def maturity(means: Sequence[float], bounds: tuple[float, float] | None) -> str:
    """Classify a category by the scores of all generators: mature, developing or ceiling; empty if none fits.

    A ceiling is a low average with a low best score.

    Args:
        means: Mean score of each generator.
        bounds: Ends of the scale, on which higher is better.
    """
    if bounds is None or not np.isfinite(bounds).all():
        return ""
    shares = (np.asarray(means) - bounds[0]) / (bounds[1] - bounds[0])
    together = float(shares.mean())
    if together < CEILING and float(shares.max()) < BEST:
        return "ceiling"
    return "mature" if together > MATURE else "developing" if together >= DEVELOPING else ""
