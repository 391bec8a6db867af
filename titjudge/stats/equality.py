"""When two scores count as equal: one rule for accuracy, ranks, leaderboards, duels and trust cards.

The same cosine, or the same mean of a checklist, comes out a last digit apart when it is added up in another order or by
another processor's routines. Such scores are a tie: no verdict may depend on the machine. `rankdata` ranks with ties.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from titjudge.stats.bootstrap import Floats

RELATIVE = 1e-9  # of the larger of the two; float64 has 16 digits, and no judge's scale has that many steps
ABSOLUTE = 1e-14  # rounding error of a sum of terms of size 1 that cancel


def same(a: float, b: float) -> bool:
    """Whether two scores are equal up to rounding."""
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def score_distance(low: float, high: float, otherwise: float) -> float:
    """Return `high - low`, or `otherwise` if the two are equal up to rounding."""
    return otherwise if same(low, high) else high - low


def with_ties(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make values that are equal up to rounding exactly equal, to the least of them; shape unchanged.

    Neighbours in sorted order are joined if `same` is true for them, so that equality is transitive; NaN and infinities stay.
    After this `==`, `<` and ranks are safe.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.diff(ordered) <= np.maximum(RELATIVE * np.maximum(abs(ordered[1:]), abs(ordered[:-1])), ABSOLUTE)
    near &= np.isfinite(ordered[1:]) & np.isfinite(ordered[:-1])
    if not near.any():
        return values
    first = np.maximum.accumulate(np.where(np.concatenate(([True], ~near)), np.arange(len(flat)), 0))
    out = np.empty_like(flat)
    out[order] = ordered[first]
    return out.reshape(np.shape(values))


def score_differences(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract `y` from `x`; values equal up to rounding differ by exactly 0, NaN stays."""
    difference: NDArray[np.float64] = x - y
    with np.errstate(invalid="ignore"):
        near = np.abs(difference) <= np.maximum(RELATIVE * np.maximum(np.abs(x), np.abs(y)), ABSOLUTE)
    difference[near] = 0.0
    return difference


def reaches(values: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Whether each value is at least the threshold, or equal to it up to rounding."""
    slack = max(RELATIVE * abs(threshold), ABSOLUTE)
    return np.asarray(values >= threshold - (slack if math.isfinite(slack) else 0.0))


def rankdata(values: Floats, method: Literal["average", "min", "max"] = "average") -> Floats:
    """Rank along the last axis, 1 for the lowest; ties share a rank; NaN stays NaN and does not count."""
    values = np.asarray(values, dtype=np.float64)
    order = np.argsort(values, axis=-1, kind="stable")  # NaN comes last
    placed = np.take_along_axis(values, order, axis=-1)
    differs = placed[..., 1:] != placed[..., :-1]
    edge = np.ones((*values.shape[:-1], 1), dtype=bool)
    position = np.arange(values.shape[-1])
    first = np.maximum.accumulate(np.where(np.concatenate([edge, differs], axis=-1), position, 0), axis=-1)
    ends = np.where(np.concatenate([differs, edge], axis=-1), position, values.shape[-1])
    last = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    ranks = {"average": (first + last) / 2 + 1, "min": first + 1.0, "max": last + 1.0}[method]
    in_order = np.empty_like(values)
    np.put_along_axis(in_order, order, ranks, axis=-1)
    in_order[np.isnan(values)] = np.nan
    return in_order
