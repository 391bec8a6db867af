"""Sign-flip permutation tests, and corrections for multiple testing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from titjudge.stats.bootstrap import Floats, Ints, table_sums, unit_sums
from titjudge.stats.equality import score_differences
from titjudge.stats.intervals import moments, two_sided_p

ALPHA = 0.05
POWER = 0.8  # with which differences are detectable, and which plans aim at
FLIPS = 99_999
_FEWEST_FLIPS = 9_999
_ADDITIONS = 50_000_000  # of one column: from 500 prompts on there are fewer flips
_EXACT = 16  # prompts whose signs are all tried: 2^16 is below FLIPS
_SKEWED = 0.25  # skewness of the mean: normal differences of 40 prompts reach it in 1 of 1,000 cases
_STEPS = 2.0**30  # of the largest difference: sums of whole numbers are the same on every processor
_COLUMNS, _ROWS = 32, 16  # summed at once
EXCHANGES = 1999  # of several columns
_UNITS = 500  # prompts that are exchanged one by one; of more, neighbours in size are exchanged together
_KEPT = 4096  # results of `range_p`: the verdict, the tiers and the tables of a report test the same scores
_range_ps: dict[tuple[tuple[int, ...], bytes], float | None] = {}


def sign_flip_p(differences: Floats) -> list[float]:
    """Compute the two-sided p of each column's mean by a sign-flip permutation test; NaN: no prompt.

    Exact for up to 16 prompts that differ; otherwise by 99,999 random flips (fewer for more than 500 prompts, but at
    least 9,999), or by Hoeffding's bound on all flips if that is smaller: Holm over many pairs needs a p below one in ten
    thousand. Flips are assigned by the size of a difference, so p depends neither on the order of the prompts nor on the
    other columns.

    Flips need symmetric differences. If the differences of more than 16 prompts are clearly skewed, such as by rare blank
    images, the p of their interval counts if it is larger.

    Args:
        differences: Paired differences, shape (prompts, columns).
    """
    sizes = np.abs(np.where(np.isfinite(differences), differences, 0.0))
    moved = np.count_nonzero(sizes, axis=0)
    total, squares = np.abs(np.nansum(differences, axis=0)), (sizes**2).sum(axis=0)
    ps = np.ones(len(moved))
    order = np.argsort(moved, kind="stable")
    few = order[(moved[order] > 1) & (moved[order] <= _EXACT)]
    many = order[moved[order] > _EXACT]
    for exact, chosen in ((True, few), (False, many)):
        for start in range(0, len(chosen), _COLUMNS):
            columns = chosen[start : start + _COLUMNS]
            steps = np.rint(differences[:, columns] / sizes[:, columns].max(axis=0) * _STEPS)
            steps = np.where(np.isfinite(steps), steps, 0.0)
            reached = np.abs(steps.sum(axis=0)) - moved[columns]  # a half for each rounding, of both sums
            ordered = -np.sort(-np.abs(steps), axis=0)[: moved[columns].max()]
            ps[columns] = _all_flips(ordered, reached) if exact else _random_flips(ordered, reached, moved[columns])
    if len(many):
        ps[many] = np.minimum(ps[many], 2 * np.exp(-(total[many] ** 2) / (2 * squares[many])))
    measured = moments(np.nan_to_num(differences[:, many]), np.isfinite(differences[:, many]) * 1.0)
    for k, (prompts, mean, error, skewness) in zip(many.tolist(), measured, strict=True):
        if abs(skewness) > _SKEWED * prompts**0.5:
            ps[k] = max(ps[k], two_sided_p(mean, error, prompts, skewness))
    return [float(p) for p in ps]


def _all_flips(sizes: Floats, reached: Floats) -> Floats:
    """Compute the share of all flips of the signs, of up to 16 rows, whose sum is at least `reached` in size."""
    free = len(sizes) - 1  # the first sign may stay: the opposite of each flip has a sum of the same size
    signs = 1 - 2.0 * ((np.arange(2**free)[:, None] >> np.arange(free)) & 1)
    shares: Floats = (np.abs(sizes[0] + signs @ sizes[1:]) >= reached).mean(axis=0)
    return shares


def _random_flips(sizes: Floats, reached: Floats, moved: Ints) -> Floats:
    """Estimate what `_all_flips` computes; `moved` counts the rows of each column that are not 0, which come first."""
    flips = np.clip(_ADDITIONS // moved, _FEWEST_FLIPS, FLIPS)
    rng, sums = np.random.default_rng(0), np.zeros((sizes.shape[1], FLIPS + 1))
    most = int(flips.max())
    for start in range(0, len(sizes), _ROWS):
        rows = sizes[start : start + _ROWS]
        bits = np.frombuffer(rng.bytes(len(rows) * (FLIPS + 1) // 8), dtype=np.uint8)
        positive = np.unpackbits(bits).reshape(len(rows), -1)[:, :most].astype(np.float64)
        sums[:, :most] += rows.T @ positive
    sums = np.abs(2 * sums - sizes.sum(axis=0)[:, None])
    larger = [
        np.count_nonzero(column[:count] >= least) for column, count, least in zip(sums, flips, reached, strict=True)
    ]
    return (np.array(larger) + 1) / (flips + 1)


def below_best_p(scores: Floats, unit: Ints | None = None) -> list[float | None]:
    """Test whether each column has a lower mean than the best one, which was chosen on the same prompts.

    Multiple comparisons with the best: `range_p` of the columns down to the one in question, `stepped_down`.

    Args:
        scores: Shape (prompts, columns), NaN if there is no score; the best column first, then in order.
        unit: Number of the family of each prompt, which is exchanged as one; None if each prompt is a unit.

    Returns:
        One p for each column but the first; None for one that shares fewer than two prompts with the first.
    """
    ps = stepped_down([range_p(scores[:, : k + 1], unit) for k in range(1, scores.shape[1])])
    for k in range(1, len(ps)):  # columns with equal means have one p, whichever comes first
        gap = score_differences(scores[:, k], scores[:, k + 1])
        if np.isfinite(gap).any() and abs(np.nansum(gap)) < 1e-9:
            ps[k] = ps[k - 1]
    return ps


def stepped_down(ps: Sequence[float | None]) -> list[float | None]:
    """Raise each p to the largest p after it.

    The columns are sorted from the best to the worst: one is not called worse than the best if a column with a lower mean
    is not.
    """
    stepped, worst = list(ps), 0.0
    for k, p in reversed(list(enumerate(ps))):
        if p is not None:
            stepped[k] = worst = max(worst, p)
    return stepped


def range_p(scores: Floats, unit: Ints | None = None) -> float | None:
    """Compute how often some two columns lie as far apart as the first and the last do, if all are equal.

    The scores of each prompt are turned round among the columns that it has, 1,999 times; of two columns that is
    `sign_flip_p`. Two columns are compared on the prompts that both have. Their gap counts in units of its standard
    error, so that a column with few prompts does not widen the range. Families of prompts are exchanged as one; if some
    of their scores are missing, p is the p-value of the two ends times the number of pairs of columns (Bonferroni).

    Args:
        scores: Shape (prompts, columns), NaN if there is no score.
        unit: Number of the family of each prompt; None if each prompt is a unit.

    Returns:
        None if the first and the last column share fewer than two prompts, or families.
    """
    if unit is not None:
        if np.isfinite(scores).all():
            return range_p(table_sums(scores, unit))
        sums, _ = unit_sums(score_differences(scores[:, 0], scores[:, -1]), unit)
        return min(1.0, comb(scores.shape[1], 2) * sign_flip_p(sums[:, None])[0]) if len(sums) > 1 else None
    scores = scores[np.lexsort(scores.T)]  # tables list the same prompts in another order
    key = scores.shape, hashlib.sha256(scores.tobytes()).digest()
    try:
        return _range_ps[key]
    except KeyError:  # looked up once: another thread may clear the results in between
        p = _range_p(scores)
    if len(_range_ps) >= _KEPT:
        _range_ps.clear()
    _range_ps[key] = p
    return p


def _range_p(scores: Floats) -> float | None:
    """Compute `range_p`, which keeps its results."""
    has_score = np.isfinite(scores)
    if (has_score[:, 0] & has_score[:, -1]).sum() < 2:
        return None
    scores = scores[has_score.sum(axis=1) > 1]
    if scores.shape[1] == 2:
        return sign_flip_p(score_differences(scores[:, [0]], scores[:, [1]]))[0]
    centred, has_score = _centred(scores)
    present = has_score.sum(axis=1)
    cuts = np.linspace(0, len(present), min(len(present), _UNITS), endpoint=False).astype(np.intp)
    units = np.union1d(cuts, np.flatnonzero(np.diff(present, prepend=0)))
    places = present[units]
    ends, shared = _gaps(centred, has_score, [0], [-1])
    gap = (ends.sum() - 2 * shared[0]) / np.sqrt(shared[0])  # 2 of rounding on each prompt
    turned, counts = _turned(centred, has_score, units)
    rng, larger, done = np.random.default_rng(0), 0, 0
    while done < EXCHANGES:
        draws = min(max(1, (1 << 20) // len(units)), EXCHANGES - done)
        shifts = (rng.random((draws, len(units))) * places).astype(np.int8)
        sums = sum((shifts == shift).astype(np.float64) @ unit_sums for shift, unit_sums in enumerate(turned))
        widest = (
            np.ptp(sums, axis=1) / np.sqrt(shared[0]) if counts is None else (np.abs(sums) / np.sqrt(counts)).max(1)
        )
        larger += int((widest >= gap).sum())
        done += draws
    return (larger + 1) / (EXCHANGES + 1)


def _gaps(
    centred: Floats, has_score: NDArray[np.bool_], a: Sequence[int] | Ints, b: Sequence[int] | Ints
) -> tuple[Floats, Floats]:
    """Subtract columns `b` from columns `a` on the prompts that both have (0 elsewhere), and count these prompts."""
    both = has_score[:, a] & has_score[:, b]
    return np.where(both, centred[:, a] - centred[:, b], 0.0), both.sum(axis=0).astype(np.float64)


def _centred(scores: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Subtract the mean of each prompt, in whole steps, and return which scores there are (0 elsewhere); same shape.

    The prompts are sorted by the number and the sizes of their scores, whichever generator has them, so that neighbours
    may be exchanged together.
    """
    has_score = np.isfinite(scores)
    centred = np.where(has_score, scores - np.nanmean(scores, axis=1, keepdims=True), 0.0)
    centred = np.rint(centred / (np.abs(centred).max() or 1.0) * _STEPS)
    sizes = np.sort(np.where(has_score, centred, np.inf), axis=1)
    order = np.lexsort((*centred.T, *sizes.T, has_score.sum(axis=1)))
    return centred[order], has_score[order]


def _turned(
    centred: Floats, has_score: NDArray[np.bool_], units: NDArray[np.intp]
) -> tuple[list[Floats], Floats | None]:
    """Turn the scores of each prompt round by 0, 1, ... places among the columns that it has, and sum them within each unit.

    Args:
        centred: Scores, shape (prompts, columns).
        has_score: Which of them there are, same shape.
        units: First prompt of each unit, prompts that are exchanged together.

    Returns:
        Sums of each unit by column for each turn, and None; if scores are missing, sums of the gap of every two columns,
        and on how many prompts both have a score.
    """
    patterns = [np.ix_((has_score == pattern).all(axis=1), pattern) for pattern in np.unique(has_score, axis=0)]
    first, second = np.triu_indices(centred.shape[1], 1)
    counts = None if has_score.all() else _gaps(centred, has_score, first, second)[1]
    turned = []
    for shift in range(centred.shape[1]):
        rolled = np.zeros_like(centred)
        for cells in patterns:
            rolled[cells] = np.roll(centred[cells], shift, axis=1)
        if counts is not None:
            rolled = _gaps(rolled, has_score, first, second)[0][:, counts > 0]
        turned.append(np.add.reduceat(rolled, units, axis=0))
    return turned, None if counts is None else counts[counts > 0]


def mcnemar_p(only_first: int, only_second: int) -> float | None:
    """Compute the two-sided p of McNemar's exact test from the cases that only the first, and only the second, gets right.

    None without such cases.
    """
    if not only_first + only_second:
        return None
    from scipy.stats import binomtest  # which takes longer to import than a short run

    return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values so that the probability of any false discovery is at most their level (Holm 1979)."""
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate(np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1))
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(stepped, 1.0)
    return list(map(float, corrected))


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjust p-values so that the expected share of false discoveries is at most their level (Benjamini and Hochberg 1995)."""
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(ps)]


def adjusted(ps: Sequence[float | None], correction: Callable[[Sequence[float]], list[float]]) -> list[float | None]:
    """Apply `holm` or `benjamini_hochberg` to the p-values that are defined; None stays None."""
    defined = [p for p in ps if p is not None]
    corrected = iter(correction(defined) if defined else ())
    return [None if p is None else next(corrected) for p in ps]
