"""How far the mean over few prompts can be believed: Gaffke's bound, which trusts no standard deviation.

An effect that comes in one prompt of ten does not show in half of all samples of six prompts: their standard deviation is
then next to nothing, and Student's t is certain of what is not so. Gaffke (2005) puts one more prompt beside those seen, at
the end of what a prompt can show, and weighs them all by the spacings of uniform points. Where all n prompts show the same
this is the exact bound (an effect in up to 1 - alpha^(1/n) of prompts is not excluded: 46% for 6 at .025), and for prompts
that do or do not it is Clopper and Pearson's.
"""

from __future__ import annotations

import functools

import numpy as np

from titjudge.stats.bootstrap import Floats

DRAWS = 20_000
_BLOCK = 1 << 21


def below(means: Floats, end: float, limits: Floats) -> Floats:
    """Compute the probability with which Gaffke's mean, the further prompt at `end`, lies at or below each limit; shape of `limits`."""
    found = _gaffke(means, end)
    return (np.searchsorted(found, limits, side="right") + 1) / (len(found) + 1)


def bound(means: Floats, end: float, alpha: float) -> float:
    """Compute the one-sided bound of the mean on the side of `end`: the lower one where `end` is below the prompts seen, else the upper."""
    found = _gaffke(means, end)
    lower = end <= float(means.mean())
    place = int(alpha * len(found)) if lower else len(found) - 1 - int(alpha * len(found))
    return float(found[place])


def approximate_bound(means: Floats, end: float, alpha: float, counts: Floats) -> Floats:
    """`bound` for so many prompts as `counts` says that are like these; from the first three moments, shape (counts,)."""
    from scipy.special import ndtri

    seen = np.asarray(means, dtype=np.float64)
    centre = (seen.mean() * counts + end) / (counts + 1)
    second = (_power(seen, centre, 2) * counts + (end - centre) ** 2) / ((counts + 1) * (counts + 2))
    third = 2 * (_power(seen, centre, 3) * counts + (end - centre) ** 3) / ((counts + 1) * (counts + 2) * (counts + 3))
    deviation = np.sqrt(np.maximum(second, 1e-24))
    z = ndtri(alpha if end <= seen.mean() else 1 - alpha)
    found: Floats = centre + deviation * (z + (z**2 - 1) / 6 * third / deviation**3)
    return found


def _power(seen: Floats, centre: Floats, power: int) -> Floats:
    found: Floats = ((seen[:, None] - centre) ** power).mean(axis=0)
    return found


def _gaffke(means: Floats, end: float) -> Floats:
    """Sorted draws of the weighted mean."""
    points = np.append(means, end)
    return np.sort(np.concatenate([weights @ points for weights in _weights(len(points))]))


@functools.lru_cache(maxsize=4)
def _weights(points: int) -> list[Floats]:
    """Spacings of uniform points (Dirichlet with all ones), in blocks of shape (rows, points).

    The last weight, that of the further prompt, runs evenly through its distribution: where all others agree it decides.
    """
    rng = np.random.default_rng(points)
    last = 1 - (1 - (np.arange(DRAWS) + 0.5) / DRAWS) ** (1 / (points - 1))
    blocks = []
    for part in np.array_split(last, max(1, DRAWS * points // _BLOCK)):
        each = rng.standard_exponential((len(part), points - 1))
        each *= ((1 - part) / each.sum(axis=1))[:, None]
        blocks.append(np.column_stack([each, part]))
    return blocks
