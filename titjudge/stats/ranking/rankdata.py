"""Ranks with ties, like `scipy.stats.rankdata`, whose import takes longer than a short run."""

from __future__ import annotations

from typing import Literal

import numpy as np

from titjudge.stats.bootstrap import Floats


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
