"""A gate for a new checkpoint: is a candidate worse than the baseline by more than is allowed?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from titjudge.core.serialization import fields_of
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.bounds import approximate_bound, bound
from titjudge.stats.generators.generator_differences import GeneratorDifference
from titjudge.stats.intervals import TAIL, mean_p, moments
from titjudge.stats.scores.population import FEWEST
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import holm


class GateVerdict(StrEnum):
    """What a gate says of a candidate."""

    WORSE = "worse"
    NOT_WORSE = "not worse"
    CANNOT_TELL = "cannot tell"


WORSE, NOT_WORSE, CANNOT_TELL = GateVerdict
_MOST_PROMPTS = 100_000


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict on each candidate: worse than the baseline by more than `delta`, not worse, or cannot tell.

    Attributes:
        least: By candidate, the lower end of its difference whatever the scores look like; on a scale with ends.
        needed: By candidate, the number of prompts like these after which it would be said to be not worse.
        reasons: By candidate, why the scores that are left out may decide.
    """

    delta: float
    verdicts: Mapping[str, GateVerdict]
    least: Mapping[str, float] = field(default_factory=dict)
    needed: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether any candidate is worse than allowed."""
        return WORSE in self.verdicts.values()

    @property
    def open(self) -> bool:
        """Whether these prompts cannot tell for some candidate."""
        return CANNOT_TELL in self.verdicts.values()

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, and the outcome over all candidates."""
        return fields_of(self) | {"outcome": WORSE if self.failed else CANNOT_TELL if self.open else NOT_WORSE}


def gate(differences: Sequence[GeneratorDifference], delta: float, table: ScoreTable) -> Gate:
    """Decide for each candidate (`a`) whether it is worse than the baseline (`b`) by more than `delta`.

    It is worse when the whole interval lies below -delta. With several candidates "worse" is corrected by Holm, so that any
    false alarm is as rare as with one. It is not worse when the whole interval lies above, and on a scale with ends
    Gaffke's bound too, which holds also where a few collapses have not come yet (`bounds`); unless one of the two has no
    score on clearly more prompts, whether its image is missing or could not be scored. It cannot tell of an incomplete run.

    Args:
        differences: Of the candidates from the baseline.
        delta: The loss that is allowed.
        table: The scores, of which the differences are.
    """
    scores = {
        difference.a: table.unit_differences(table.column(difference.a), table.column(difference.b))
        for difference in differences
    }
    below = [_p_below(*scores[difference.a], difference.interval, -delta) for difference in differences]
    verdicts: dict[str, GateVerdict] = {}
    least: dict[str, float] = {}
    needed: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for difference, p in zip(differences, holm([1.0 if p is None else p for p in below]), strict=True):
        name, interval, (sums, counts) = difference.a, difference.interval, scores[difference.a]
        above = interval is not None and interval[0] > -delta
        if table.width is not None and interval is not None:
            size = float(counts.mean())  # of a family; a larger one can lose more
            values, end = sums / size, -table.width * float(counts.max()) / size
            least[name] = max(bound(values, end, TAIL), -table.width)
            above &= least[name] > -delta
            if not above and len(values) >= FEWEST and (enough := _units_for(values, end, -delta)):
                needed[name] = math.ceil(enough * size)
        reason = table.unequally_missing(table.column(name), table.column(difference.b))
        if table.incomplete:
            reason = f"the run is incomplete ({table.incomplete})"
        if reason:
            reasons[name] = reason
        worse = p < TAIL and not table.incomplete
        verdicts[name] = WORSE if worse else NOT_WORSE if above and not reason else CANNOT_TELL
    return Gate(delta, verdicts, least, needed, reasons)


def _units_for(differences: Floats, end: float, limit: float) -> int | None:
    """Estimate how many prompts, or families, like these have Gaffke's bound above the limit; None where 100,000 have not."""
    counts = np.unique(np.geomspace(len(differences) + 1, _MOST_PROMPTS, 400).round())
    enough = counts[approximate_bound(differences, end, TAIL, counts) > limit]
    return int(enough[0]) if len(enough) else None


def _p_below(sums: Floats, counts: Floats, interval: Interval | None, limit: float) -> float | None:
    """One-sided p of the hypothesis that the mean is not below `limit`; below .025 exactly where the interval is below."""
    if interval is None:
        return None
    prompts, mean, error, skewness = moments(sums, counts)[0]
    if error > 1e-12:
        return mean_p((limit - mean) / error, prompts, skewness)
    room = (interval[1] - mean) / (1 - TAIL ** (1 / prompts))  # every prompt shows the same: the exact bound
    share = (limit - mean) / room if room else 1.0
    return float((1 - min(share, 1.0)) ** prompts) if share > 0 else 1.0
