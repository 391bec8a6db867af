"""The one bootstrap of titjudge: prompts are drawn with replacement, each with all that belongs to it.

Pairs of one prompt share images and are far from independent, so the prompt is the unit of resampling (a cluster
bootstrap).
A draw is a vector of multiplicities; every statistic that is a ratio of sums over prompts is then one matrix product.
The draws depend on (number of prompts, resamples, seed) alone: two metrics over the same prompts see the same draws.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Interval = tuple[float, float]
Label = TypeVar("Label", bound=Hashable)

LEVEL = 0.95
FEW_PROMPTS = "fewer than two prompts: no interval"
_BLOCK = 1 << 18  # multiplicities held at once: 2 MB, a few times over while they are made


def codes(labels: Iterable[Label]) -> tuple[Ints, list[Label]]:
    """Numbers for labels, in order of first appearance: `(codes of shape (n,), distinct labels)`."""
    known: dict[Label, int] = {}
    numbered = np.fromiter((known.setdefault(label, len(known)) for label in labels), dtype=np.int64)
    return numbered, list(known)


def multiplicities(prompts: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each prompt is drawn, in blocks of shape (rows, prompts); each row sums to `prompts`."""
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK // max(prompts, 1))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        picks = rng.integers(0, prompts, size=(rows, prompts))
        picks += np.arange(rows)[:, None] * prompts
        yield np.bincount(picks.ravel(), minlength=rows * prompts).reshape(rows, prompts).astype(np.float64)


def ratio_draws(numerator: Floats, denominator: Floats, *, resamples: int, seed: int) -> Floats:
    """Bootstrap draws of sum(numerator) / sum(denominator) over prompts.

    Args:
        numerator, denominator: sums per prompt, shape (prompts,) or (prompts, statistics).
    Returns:
        shape (resamples, statistics), NaN where a draw has nothing to divide by.
    """
    top, bottom = _columns(numerator), _columns(denominator)
    out = np.full((resamples, top.shape[1]), np.nan)
    done = 0
    for block in multiplicities(len(top), resamples, seed):
        below = block @ bottom
        rows = slice(done, done + len(block))
        np.divide(block @ top, below, out=out[rows], where=below > 0)
        done += len(block)
    return out


def percentile_interval(draws: Floats, level: float = LEVEL) -> Interval | None:
    """The central `level` of the defined draws (percentile method); None when no draw is defined."""
    defined = draws[np.isfinite(draws)]
    if not len(defined):
        return None
    low, high = np.percentile(defined, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def ratio_intervals(numerator: Floats, denominator: Floats, *, resamples: int, seed: int) -> list[Interval | None]:
    """One percentile interval for each statistic of `ratio_draws`; None where fewer than two prompts have data."""
    bottom = _columns(denominator)
    if not resamples or len(bottom) < 2:
        return [None] * bottom.shape[1]
    draws = ratio_draws(numerator, denominator, resamples=resamples, seed=seed)
    enough = np.count_nonzero(bottom > 0, axis=0) >= 2
    return [percentile_interval(draws[:, k]) if enough[k] else None for k in range(bottom.shape[1])]


def _columns(sums: Floats) -> Floats:
    return sums[:, None] if sums.ndim == 1 else sums


def group_sums(group: Ints, groups: int, *columns: Floats) -> Floats:
    """Column sums per group: shape (groups, columns)."""
    return np.stack([np.bincount(group, weights=column, minlength=groups) for column in columns], axis=1)


def number(value: float) -> float | None:
    """A plain float, or None for what is not finite."""
    return float(value) if np.isfinite(value) else None
