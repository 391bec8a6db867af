"""Sign-flip permutation tests, and corrections for multiple testing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from titjudge.stats.bootstrap import Floats

FLIPS = 9999
_EXACT = 13  # prompts whose signs are all tried: 2^13 is below FLIPS


def sign_flip_p(differences: Floats, seed: int = 0) -> list[float]:
    """Compute the two-sided p of each column's mean by a sign-flip permutation test; NaN is no prompt.

    Exact for up to 13 prompts that differ; else by 9,999 random flips, the same for all columns, or by Hoeffding's bound
    on all flips where that is smaller: Holm over many pairs needs a p below one in ten thousand.

    Args:
        differences: Paired differences, shape (prompts, columns).
        seed: Of the random flips.
    """
    d = np.where(np.isfinite(differences), differences, 0.0)
    moved = np.count_nonzero(d, axis=0)
    ps = [1.0] * d.shape[1]
    for k in np.flatnonzero((moved > 1) & (moved <= _EXACT)):
        values = d[d[:, k] != 0, k]
        signs = 1 - 2.0 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1)
        ps[k] = float((np.abs(signs @ values) >= abs(values.sum()) - 1e-9 * np.abs(values).sum()).mean())
    many = np.flatnonzero(moved > _EXACT)
    if not len(many):
        return ps
    scale = np.abs(d[:, many]).sum(axis=0)
    values = (d[:, many] / scale).astype(np.float32)
    reached = np.abs(values.sum(axis=0)) - 1e-5
    larger = np.zeros(len(many), dtype=np.int64)
    rng, done = np.random.default_rng(seed), 0
    step = max(1, (1 << 22) // len(d))  # not by the columns: they may come in parts, and see the same exchanges
    while done < FLIPS:
        count = min(step, FLIPS - done)
        signs32 = rng.integers(0, 2, (count, len(d)), dtype=np.int8).astype(np.float32) * 2 - 1
        larger += (np.abs(signs32 @ values) >= reached).sum(axis=0)
        done += count
    bound = 2 * np.exp(-(d[:, many].sum(axis=0) ** 2) / (2 * (d[:, many] ** 2).sum(axis=0)))
    for k, p in zip(many, np.minimum((larger + 1) / (FLIPS + 1), bound), strict=True):
        ps[k] = float(p)
    return ps


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values so that the probability of any false discovery is at most their level (Holm 1979)."""
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate(np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1))
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(each) for each in corrected]


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjust p-values so that the expected share of false discoveries is at most their level (Benjamini and Hochberg 1995)."""
    from scipy.stats import false_discovery_control

    return [float(each) for each in false_discovery_control(ps)]


def adjusted(ps: Sequence[float | None], correction: Callable[[Sequence[float]], list[float]]) -> list[float | None]:
    """Apply `holm` or `benjamini_hochberg` to the p-values that are defined; None stays None."""
    known = [p for p in ps if p is not None]
    corrected = iter(correction(known) if known else ())
    return [None if p is None else next(corrected) for p in ps]
