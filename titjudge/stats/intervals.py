"""Intervals for shares and means over prompts that keep their level when there are few prompts.

Pairs of one prompt share images, so the prompt is the unit: everything here takes sums per prompt. A mean has Student's t over
prompts (linearised where prompts weigh differently). A share has Jeffreys' interval for as many independent trials as its
variance between prompts says it is worth (Korn and Graubard 1998): t would leave [0, 1], and trust prompts that agree.
Where all prompts agree at an end of the range there is no variance to go by, and the bound is exact: what all of n prompts
show may still fail in a share of 1 - .025^(1/n) of prompts (46% for 6).
`python -m benchmarks.coverage` measures how often these intervals hold.
"""

from __future__ import annotations

import numpy as np

from titjudge.stats.bootstrap import LEVEL, Floats, Interval

TAIL = (1 - LEVEL) / 2
_FLAT = 1e-12  # a standard error below this part of the scale is rounding


def share_intervals(hits: Floats, trials: Floats) -> list[Interval | None]:
    """For each statistic the interval of sum(hits) / sum(trials); None where fewer than two prompts have trials.

    Args:
        hits, trials: sums per prompt, shape (prompts,) or (prompts, statistics); hits are at most trials.
    """
    from scipy.special import betaincinv, ndtri, stdtrit

    found: list[Interval | None] = []
    for prompts, total, share, error in _linearised(hits, trials):
        if prompts < 2:
            found.append(None)
        elif error <= _FLAT and min(share, 1 - share) <= _FLAT:
            found.append(exact_bound(round(share), prompts, (0.0, 1.0)))
        else:
            worth = share * (1 - share) / max(error, _FLAT) ** 2 * (ndtri(TAIL) / stdtrit(prompts - 1, TAIL)) ** 2
            worth = min(worth, total)
            right, wrong = share * worth + 0.5, (1 - share) * worth + 0.5
            low, high = betaincinv(right, wrong, TAIL), betaincinv(right, wrong, 1 - TAIL)
            found.append((min(float(low), share), max(float(high), share)))
    return found


def mean_intervals(sums: Floats, counts: Floats, bounds: Interval | None = None) -> list[Interval | None]:
    """For each statistic the interval of sum(sums) / sum(counts); None where fewer than two prompts have data, and where all
    prompts agree on a scale without ends.

    Args:
        sums, counts: per prompt, shape (prompts,) or (prompts, statistics).
        bounds: what the mean cannot leave.
    """
    from scipy.special import stdtrit

    found: list[Interval | None] = []
    for prompts, _, mean, error in _linearised(sums, counts):
        if prompts < 2:
            found.append(None)
        elif error <= _FLAT * max(1.0, abs(mean)):
            found.append(exact_bound(mean, prompts, bounds) if bounds and np.isfinite(bounds).all() else None)
        else:
            wide = -float(stdtrit(prompts - 1, TAIL)) * error
            low, high = bounds or (-np.inf, np.inf)
            found.append((max(low, mean - wide), min(high, mean + wide)))
    return found


def exact_bound(value: float, prompts: int, bounds: Interval) -> Interval:
    """Compute the interval of a mean when every prompt shows the same: others may lie at the ends of the range."""
    share = 1 - float(TAIL ** (1 / prompts))
    low, high = bounds
    return value - share * (value - low), value + share * (high - value)


def _linearised(tops: Floats, bottoms: Floats) -> list[tuple[int, float, float, float]]:
    """For each statistic: prompts with data, sum of the bottoms, the ratio, and its standard error between prompts."""
    top, bottom = (each[:, None] if each.ndim == 1 else each for each in (tops, bottoms))
    prompts, total = np.count_nonzero(bottom > 0, axis=0), bottom.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(bottom > 0, top, 0.0).sum(axis=0) / total
        rest = np.where(bottom > 0, top - ratio * bottom, 0.0)
        error = np.sqrt((rest**2).sum(axis=0) * prompts / (prompts - 1)) / total
    return list(zip(prompts.tolist(), total.tolist(), ratio.tolist(), error.tolist(), strict=True))
