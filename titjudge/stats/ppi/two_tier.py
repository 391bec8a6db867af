"""A cheap judge on all prompts and a dear (expensive) one on a random part: estimates of the dear judge's scores.

Prediction-powered inference (`titjudge.stats.ppi.inference`) with the dear judge in the place of people: intervals are valid for the
dear judge however wrong the cheap one is, as long as the part is random. Where the two judges differ in the same way on
nearly all prompts of the part (yes / no answers, scores at an end of the scale), too few others are seen to tell how often
they do not, and the dear judge's own interval is given. `python -m benchmarks.verdicts --answers CHEAP DEAR` measures the
coverage, and how many dear judgements are saved; `python -m benchmarks.coverage` measures it near an end of the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.serialization import fields_of
from titjudge.core.types import Table
from titjudge.stats.bootstrap import LEVEL, Floats, Interval
from titjudge.stats.equality import with_ties
from titjudge.stats.ppi.inference import Estimate, ppi_mean
from titjudge.stats.scores.population import adjusted_scores
from titjudge.stats.scores.scores_table import ScoreTable

FEWEST = 2  # prompts that the dear judge has judged
ALONE = "the two judges differ in the same way on nearly all prompts: the dear judge alone"
_OTHERS = 10  # prompts off the most common difference of the two judges, below which the cheap one is not used
_NAMED = 3  # estimates in a note
_SUSPECT = 3.29  # standard errors; one random part in a thousand differs more from the rest


@dataclass(frozen=True, slots=True)
class Tier:
    """The estimate for a generator, or for the difference of two, on the dear judge's scale."""

    names: tuple[str, ...]
    estimate: Estimate

    @property
    def saved(self) -> float | None:
        """Share of the judgements saved, of those that the dear judge alone would need for as narrow an interval."""
        worth = self.estimate.worth
        return 1 - self.estimate.labelled / worth if worth else None

    def to_json(self) -> dict[str, Any]:
        """Return the estimate by name, that of the dear judge alone as `dear`."""
        estimate = {("dear" + key.removeprefix("people") if key.startswith("people") else key): value
                    for key, value in fields_of(self.estimate).items() if not key.startswith("naive")}  # fmt: skip
        return {"generators": list(self.names), "saved": self.saved, **estimate}


@dataclass(frozen=True, slots=True)
class TwoTier:
    """Generators, best first, and every two of them (in that order)."""

    generators: tuple[Tier, ...]
    differences: tuple[Tier, ...]
    notes: tuple[str, ...]
    level: float = LEVEL

    def tables(self) -> list[Table]:
        """Tabulate the generators, and the differences of neighbours."""
        neighbours = set(pairwise(tier.names[0] for tier in self.generators))
        differences = [difference for difference in self.differences if difference.names in neighbours]
        notes = (
            f"{100 * self.level:g}% intervals over prompts like these, for the dear judge; saved: share of dear judgements that "
            "the cheap judge spares at this width",
            *self.notes,
        )
        tables = (
            _table("Generators as the dear judge would score them", "generator", self.generators, notes),
            _table("Differences of neighbours", "first / second", differences),
        )
        return [table for table in tables if table.rows]


def two_tier(cheap: ScoreTable, dear: ScoreTable, *, level: float = LEVEL) -> TwoTier:
    """Estimate the dear judge's scores of the generators that both judges have.

    Prompts that the cheap judge has not scored are left out on both sides.

    Raises:
        DataError: No common generator, or fewer than two common prompts.
    """
    names = [name for name in cheap.generators if name in set(dear.generators)]
    place = {prompt: row for row, prompt in enumerate(cheap.prompts)}
    common = [(row, place[prompt]) for row, prompt in enumerate(dear.prompts) if prompt in place]
    if not names or len(common) < FEWEST:
        raise DataError(
            f"{len(names)} generators and {len(common)} prompts in common with {cheap.source}: at least one and two are needed",
            dear.source,
        )
    low = cheap.means[:, [cheap.column(name) for name in names]]
    high = np.full(low.shape, np.nan)
    scores = dear.means[:, [dear.column(name) for name in names]]
    for row, cheap_row in common:
        high[cheap_row] = scores[row]
    ends = dear.bounds
    both = int((np.isfinite(low) & np.isfinite(high)).sum(axis=0).max())
    if both < FEWEST:
        most = f"{both} prompt{'' if both == 1 else 's'}"
        raise DataError(
            f"no generator has more than {most} with a score in common with {cheap.source}: it takes two", dear.source
        )
    dearer, cheaper = adjusted_scores(high), adjusted_scores(low)
    tiers = [Tier((name,), _joined(dearer[:, k], cheaper[:, k], level, ends)) for k, name in enumerate(names)]
    tiers.sort(key=lambda tier: (tier.estimate.value is None, -(tier.estimate.value or 0.0), tier.names))
    column = {name: k for k, name in enumerate(names)}
    span = (ends[0] - ends[1], ends[1] - ends[0]) if ends else None
    differences = []
    for a, b in combinations([tier.names[0] for tier in tiers], 2):
        x, y = column[a], column[b]
        differences.append(Tier((a, b), _joined(high[:, x] - high[:, y], low[:, x] - low[:, y], level, span)))
    notes = [
        *_notes(cheap, dear, low, high, len(common)),
        *_estimated(names, low, high),
        *_doubts([*tiers, *differences]),
    ]
    return TwoTier(tuple(tiers), tuple(differences), tuple(notes), level)


def _estimated(names: Sequence[str], low: Floats, high: Floats) -> list[str]:
    """Note which generators have no score by the dear judge inside its part, or none by the cheap one."""
    notes = []
    for what, scores in (("dear", high), ("cheap", low)):
        inside = np.isfinite(scores).any(axis=1, keepdims=True)
        counts = (inside & ~np.isfinite(scores)).sum(axis=0).tolist()
        if missing := ", ".join(f"{name} {count:,}" for name, count in zip(names, counts, strict=True) if count):
            notes.append(
                f"prompts without a score of the {what} judge that other generators have: {missing}; means are estimated for the "
                "same prompts"
            )
    return notes


def _joined(dear: Floats, cheap: Floats, level: float, bounds: Interval | None) -> Estimate:
    """Estimate the mean of `dear` over prompts, NaN without a score; `cheap` is scaled to its standard deviation first."""
    both, rest = np.isfinite(dear) & np.isfinite(cheap), ~np.isfinite(dear) & np.isfinite(cheap)
    spread = float(cheap[both].std()) if both.any() else 0.0
    cheap = cheap * (float(dear[both].std()) / spread if spread > 0 else 1.0)
    bounds = bounds if bounds and np.isfinite(bounds).all() else None
    estimate = ppi_mean(dear[both], cheap[both], cheap[rest], level=level, bounds=bounds, skewed=True)
    residuals = with_ties(dear[both] - estimate.power * cheap[both])
    common = int(np.unique(residuals, return_counts=True)[1].max(initial=0))
    if estimate.power and 2 * common > len(residuals) and len(residuals) - common < _OTHERS:
        return replace(estimate, value=estimate.people, interval=estimate.people_interval, power=0.0, worth=float(estimate.labelled),
                       reason=estimate.reason or ALONE)  # fmt: skip
    return estimate


def _doubts(tiers: Sequence[Tier]) -> list[str]:
    """Note which estimates have no interval, an approximate one, or that of the dear judge alone, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for tier in tiers:
        if tier.estimate.reason:
            by_reason.setdefault(tier.estimate.reason, []).append(" / ".join(tier.names))
    return [
        f"{', '.join(names[:_NAMED])}{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}: {reason}"
        for reason, names in by_reason.items()
    ]


def _notes(cheap: ScoreTable, dear: ScoreTable, low: Floats, high: Floats, common: int) -> list[str]:
    """Note what was left out, and warn where the dear judge's part does not look random."""
    notes = []
    if strange := len(dear.prompts) - common:
        notes.append(f"{strange:,} prompts of {dear.source} are not among those of {cheap.source}: left out")
    if lost := int((np.isfinite(high) & ~np.isfinite(low)).sum()):
        notes.append(f"{lost:,} images of the dear judge have no score of the cheap one: left out")
    if others := set(dear.generators) ^ set(cheap.generators):
        notes.append(f"judged by one of the two only, left out: {', '.join(sorted(others))}")
    complete = np.isfinite(low).all(axis=1)
    mean = low[complete].mean(axis=1)
    part = np.asarray(np.isfinite(high[complete]).any(axis=1))
    if 1 < part.sum() < len(mean) - 1:
        a, b = mean[part], mean[~part]
        error = float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
        if error > 0 and abs(float(a.mean() - b.mean())) > _SUSPECT * error:
            notes.append(
                "the cheap judge scores the dear judge's part otherwise than the rest: it is no random part, and the intervals "
                "do not hold (`judge --limit N --limit-seed S` draws one)"
            )
    return notes


def _table(title: str, head: str, tiers: Sequence[Tier], notes: Sequence[str] = ()) -> Table:
    estimates = ("joined", "from", "to", "dear alone", "from (alone)", "to (alone)")
    counts = ("dear judgements", "of prompts", "saved")
    return Table(title, (head, *estimates, *counts), tuple(map(_row, tiers)), tuple(notes))


def _row(tier: Tier) -> tuple[Any, ...]:
    estimate = tier.estimate
    ends, alone = estimate.interval or (None, None), estimate.people_interval or (None, None)
    counts = (estimate.labelled, estimate.labelled + estimate.unlabelled, tier.saved)
    return (" / ".join(tier.names), estimate.value, *ends, estimate.people, *alone, *counts)
