"""What a dry run is made for, and how its stand-ins are known."""

from __future__ import annotations

from enum import StrEnum

STAND_IN = "estimate"  # the `model_version` of a reply that a dry run made up


class DryRun(StrEnum):
    """Why metrics are walked through without sending anything; what they get are stand-ins, or replies from the cache."""

    EXPECTED = "expected"  # to say what a run is likely to cost: what several items ask is asked once
    WORST = "worst"  # to reserve room for one item under a cap, as if no other item asked the same
