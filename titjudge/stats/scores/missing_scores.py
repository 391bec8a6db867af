"""Scores that are missing: prompts that are left out, which may be just those on which a generator does badly."""

from __future__ import annotations

import numpy as np

from titjudge.stats.bootstrap import Floats
from titjudge.stats.significance import ALPHA, mcnemar_p


def lacking(missing: Floats) -> tuple[int, int]:
    """Count the prompts on which the first of two generators lacks more of its scores than the second, and the reverse.

    Args:
        missing: Share of a prompt's images that have no score, shape (prompts, 2); NaN where there is no image.
    """
    both = missing[np.isfinite(missing).all(axis=1)]
    return int((both[:, 0] > both[:, 1]).sum()), int((both[:, 1] > both[:, 0]).sum())


def unequally_missing(first: str, second: str, missing: Floats, level: float = ALPHA) -> str:
    """Say that one of two generators lacks scores on clearly more prompts, by McNemar's exact test; empty where none does.

    Args:
        first: Name of the first generator.
        second: Name of the second.
        missing: As for `lacking`.
        level: Significance level.
    """
    first_lacks, second_lacks = lacking(missing)
    p = mcnemar_p(first_lacks, second_lacks)
    if p is None or p >= level:
        return ""
    (name, most), (other, least) = sorted([(first, first_lacks), (second, second_lacks)], key=lambda lacks: -lacks[1])
    return (
        f"{name} lacks a score on {most:,} prompts where {other} has one, and {other} on {least:,} where {name} has one"
    )
