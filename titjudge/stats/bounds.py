"""Bounds for the mean of a bounded quantity over few prompts: Gaffke's bound, which does not use the standard deviation.

An effect in one prompt of ten is absent from half of all samples of six prompts: their standard deviation is then near zero,
and a Student's t interval excludes the truth. Gaffke (2005) adds one more prompt, at the end of the scale, and weights all
prompts by the spacings of uniform points. Where all n prompts show the same this is the exact bound (an effect in up to
1 - alpha^(1/n) of prompts is not excluded: 46% for 6 at .025), and for 0/1 values it is that of Clopper and Pearson.
"""

from __future__ import annotations

import functools

import numpy as np

from titjudge.stats.bootstrap import Floats

DRAWS = 20_000
MOST_DRAWN = (
    400  # prompts: above, three moments give the bound to within 5% of its distance from the mean, on the safe side
)
_BLOCK = 1 << 21


def below(means: Floats, end: float, limits: Floats) -> Floats:
    """Compute the probability that Gaffke's mean, with the added prompt at `end`, is at most each limit; shape of `limits`."""
    draws = _gaffke(means, end)
    return (np.searchsorted(draws, limits, side="right") + 1) / (len(draws) + 1)


def bound(means: Floats, end: float, alpha: float) -> float:
    """Compute the one-sided bound of the mean on the side of `end`: the lower one where `end` is below the mean, else the upper."""
    if len(means) > MOST_DRAWN:
        return float(approximate_bound(means, end, alpha, np.array([len(means)]))[0])
    draws = _gaffke(means, end)
    tail = int(alpha * len(draws))
    return float(draws[tail if end <= float(means.mean()) else len(draws) - 1 - tail])


def approximate_bound(means: Floats, end: float, alpha: float, counts: Floats) -> Floats:
    """Approximate `bound` for each number of prompts in `counts` that are distributed as `means`; shape of `counts`.

    Uses the first three moments of Gaffke's mean (Cornish-Fisher).
    """
    from titjudge.stats.special import ndtri

    mean = means.mean()
    centre = (mean * counts + end) / (counts + 1)
    variance, skew = (((means - mean) ** power).mean() for power in (2, 3))
    shift, last = mean - centre, end - centre
    squares = (variance + shift**2) * counts + last**2
    cubes = (skew + 3 * variance * shift + shift**3) * counts + last**3
    second = squares / ((counts + 1) * (counts + 2))
    third = 2 * cubes / ((counts + 1) * (counts + 2) * (counts + 3))
    deviation = np.sqrt(np.maximum(second, 1e-24))
    z = ndtri(alpha if end <= mean else 1 - alpha)
    bounds: Floats = centre + deviation * (z + (z**2 - 1) / 6 * third / deviation**3)
    return bounds


def _gaffke(means: Floats, end: float) -> Floats:
    """Draw the weighted mean, sorted."""
    points = np.append(np.sort(means), end)
    return np.sort(np.concatenate([weights @ points for weights in _weights(len(points))]))


@functools.lru_cache(maxsize=4)
def _weights(points: int) -> list[Floats]:
    """Draw spacings of uniform points (Dirichlet with all ones), in blocks of shape (rows, points).

    The last weight, that of the added prompt, is stratified over its quantiles: where all others agree it alone matters.
    """
    rng = np.random.default_rng(points)
    last = 1 - (1 - (np.arange(DRAWS) + 0.5) / DRAWS) ** (1 / (points - 1))
    blocks = []
    for part in np.array_split(last, max(1, DRAWS * points // _BLOCK)):
        weights = rng.standard_exponential((len(part), points - 1))
        weights *= ((1 - part) / weights.sum(axis=1))[:, None]
        blocks.append(np.column_stack([weights, part]))
    return blocks
