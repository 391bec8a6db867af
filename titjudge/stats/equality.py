"""When two scores count as equal: one rule for accuracy, ranks, leaderboards, duels, cascades and trust cards.

The same cosine, or the same mean of a checklist, comes out a last digit apart when it is added up in another order or by
another processor's routines. Such scores are a tie: no verdict may hang on the machine.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

RELATIVE = 1e-9  # of the larger of the two; float64 keeps 16 digits, and no judge's scale has that many steps
ABSOLUTE = 1e-14  # what a sum of terms about 1 leaves in the place of nothing


def same(a: float, b: float) -> bool:
    """Whether two scores are equal but for rounding."""
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def apart(low: float, high: float, otherwise: float) -> float:
    """Measure the distance between two scores; `otherwise` where they are equal but for rounding."""
    return otherwise if same(low, high) else high - low


def with_ties(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make values that are equal but for rounding exactly equal, to the least of them; shape unchanged.

    Neighbours in order are joined where `same` holds for them, so that "equal" is transitive; NaN and infinities stay.
    After this `==`, `<` and ranks may be used as they are.
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
    """Subtract `y` from `x`; what is equal but for rounding differs by exactly 0, NaN stays."""
    difference: NDArray[np.float64] = x - y
    with np.errstate(invalid="ignore"):
        near = np.abs(difference) <= np.maximum(RELATIVE * np.maximum(np.abs(x), np.abs(y)), ABSOLUTE)
    difference[near] = 0.0
    return difference


def reaches(values: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Where a value is at least the threshold, or equal to it but for rounding."""
    slack = max(RELATIVE * abs(threshold), ABSOLUTE)
    return np.asarray(values >= threshold - (slack if math.isfinite(slack) else 0.0))
