"""Kinds of dry runs, and the mark of their made-up replies."""

from __future__ import annotations

from enum import StrEnum

STAND_IN = "estimate"  # the `model_version` of a reply that a dry run made up


class DryRun(StrEnum):
    """Why metrics are run without sending anything; they get made-up replies (stand-ins), or those of the cache."""

    EXPECTED = "expected"  # to estimate the cost of a run: a question that several items share counts once
    WORST = "worst"  # to reserve budget for one item, as if it shared no question with others
