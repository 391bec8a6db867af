"""Is one generator better than another? Paired by prompt, across different images.

The interval is Student's t over prompts (see `intervals`), which stand for prompts like these (no correction for a finite pool of prompts).
p is by exchanging the two generators within prompts; after Holm over the pairs of generators, and after Benjamini-Hochberg
over the slices of one pair. `python -m benchmarks.verdicts` measures how often intervals hold and gates err.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.types import Table
from titjudge.stats.bootstrap import FEW_PROMPTS, Floats, Interval
from titjudge.stats.equality import score_differences, with_ties
from titjudge.stats.intervals import TAIL, exact_bound, mean_intervals, mean_p, moments
from titjudge.stats.scores_table import ScoreTable
from titjudge.stats.tables import p_value

FLIPS = 9999
POWER = 0.8
_TOGETHER = 1024  # columns of differences that are exchanged at once
_EXACT = 13  # prompts whose signs are all tried: 2^13 is below FLIPS
WORSE, NOT_WORSE, CANNOT_TELL = "worse", "not worse", "cannot tell"


@dataclass(frozen=True, slots=True)
class GeneratorDifference:
    """`a` minus `b` over the prompts that both have; positive: `a` is better.

    Attributes:
        wins, same, losses: prompts on which `a` is better, equal, worse.
        detectable: the smallest difference that as many prompts with this spread show four times in five (power 80%).
        by: column -> value -> the same over those prompts.
    """

    a: str
    b: str
    difference: float | None
    interval: Interval | None
    p: float | None
    p_adjusted: float | None
    wins: int
    same: int
    losses: int
    prompts: int
    detectable: float | None
    error: float = 0.0
    skewness: float = 0.0
    reason: str = ""
    by: Mapping[str, Mapping[str, GeneratorDifference]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write the numbers as JSON has them."""
        found = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("by", "error", "skewness")
        }
        return found | {"by": {c: {v: each.to_json() for v, each in values.items()} for c, values in self.by.items()}}

    def ends(self) -> tuple[float | None, float | None]:
        """Split the interval into its ends; None where there is none."""
        return self.interval or (None, None)


@dataclass(frozen=True, slots=True)
class Gate:
    """What a gate says of each candidate: worse than the baseline by more than `delta`, not so, or cannot tell."""

    delta: float
    verdicts: Mapping[str, str]

    @property
    def failed(self) -> bool:
        """Whether a generator is worse than allowed, by its interval."""
        return WORSE in self.verdicts.values()

    @property
    def open(self) -> bool:
        """Whether these prompts cannot tell of a generator."""
        return CANNOT_TELL in self.verdicts.values()

    def to_json(self) -> dict[str, Any]:
        """Write the verdict as JSON has it."""
        outcome = WORSE if self.failed else CANNOT_TELL if self.open else NOT_WORSE
        return {"delta": self.delta, "verdicts": dict(self.verdicts), "outcome": outcome}


def generator_differences(
    table: ScoreTable, *, baseline: str | None = None, seed: int = 0
) -> list[GeneratorDifference]:
    """Compare every two generators, or every other one with the baseline.

    Raises:
        DataError: the baseline is not there, there are fewer than two generators, or no two of them share two prompts.
    """
    if len(table.generators) < 2:
        only = f"only the generator '{table.generators[0]}'" if table.generators else "no generator"
        raise DataError(f"{only}: a comparison needs two", table.source)
    if baseline is None:
        pairs = list(combinations(range(len(table.generators)), 2))
    else:
        base = table.column(baseline)
        pairs = [(k, base) for k in range(len(table.generators)) if k != base]
    cuts = [("", "", table.means)]
    cuts += [(column, value, means) for column, values in table.slices.items() for value, means in values.items()]
    scales = {column: table.on_scale_of(column) for column in ("", *table.slices)}
    columns = [score_differences(means[:, a], means[:, b]) for a, b in pairs for _, _, means in cuts]
    shared = [int(np.isfinite(columns[k]).sum()) for k in range(0, len(columns), len(cuts))]
    if max(shared) < 2:
        first, second = (table.generators[k] for k in pairs[shared.index(max(shared))])
        said = f"{max(shared)} prompt{'' if max(shared) == 1 else 's'}"
        raise DataError(
            f"'{first}' and '{second}' have {said} with a score in common: a comparison needs two", table.source
        )
    ps = [
        p
        for k in range(0, len(columns), _TOGETHER)
        for p in sign_flip_p(np.stack(columns[k : k + _TOGETHER], axis=1), seed)
    ]
    found = []
    for k, (a, b) in enumerate(pairs):
        names = table.generators[a], table.generators[b]
        start = k * len(cuts)
        each = [
            _difference(names, columns[start + j], scales[column], ps[start + j])
            for j, (column, _, _) in enumerate(cuts)
        ]
        by: dict[str, dict[str, GeneratorDifference]] = {column: {} for column in table.slices}
        slices = _adjusted(each[1:], false_discoveries)
        for (column, value, _), one in zip(cuts[1:], slices, strict=True):
            if one.prompts:
                by[column][value] = one
        found.append(replace(each[0], by=by))
    return _adjusted(found, holm)


def _difference(names: tuple[str, str], column: Floats, table: ScoreTable, p: float) -> GeneratorDifference:
    from scipy.special import stdtrit

    d = column[np.isfinite(column)]
    n = len(d)
    _, mean, error, skewness = moments(d, np.ones(n))[0]
    interval = mean_intervals(d, np.ones(n), table.spans(declared=True))[0] if n > 1 else None
    if interval is None and n > 1 and (spans := table.spans()) is not None:
        interval = exact_bound(mean, n, spans)
    detectable = (
        float(stdtrit(n - 1, 1 - TAIL) + stdtrit(n - 1, POWER)) * error if error > 0 and interval is not None else None
    )
    return GeneratorDifference(
        *names,
        difference=mean if n else None,
        interval=interval,
        p=p if n > 1 else None,
        p_adjusted=None,
        wins=int((d > 0).sum()),
        same=int((d == 0).sum()),
        losses=int((d < 0).sum()),
        prompts=n,
        detectable=detectable,
        error=error,
        skewness=skewness,
        reason="" if interval else FEW_PROMPTS if n < 2 else "every prompt shows the same",
    )


def sign_flip_p(differences: Floats, seed: int = 0) -> list[float]:
    """Compute the two-sided p of each column's mean when the sign of each prompt is arbitrary; NaN are no prompts.

    Exact for up to 13 prompts that differ; else by 9,999 random exchanges, the same for all columns, or by Hoeffding's bound
    on all exchanges where that is smaller: Holm over many pairs needs a p below one in ten thousand.

    Args:
        differences: Shape (prompts, columns).
        seed: Of the random exchanges.
    """
    d = np.where(np.isfinite(differences), differences, 0.0)
    moved = np.count_nonzero(d, axis=0)
    found = [1.0] * d.shape[1]
    for k in np.flatnonzero((moved > 1) & (moved <= _EXACT)):
        values = d[d[:, k] != 0, k]
        signs = 1 - 2.0 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1)
        found[k] = float((np.abs(signs @ values) >= abs(values.sum()) - 1e-9 * np.abs(values).sum()).mean())
    many = np.flatnonzero(moved > _EXACT)
    if not len(many):
        return found
    scale = np.abs(d[:, many]).sum(axis=0)
    values = (d[:, many] / scale).astype(np.float32)
    reached = np.abs(values.sum(axis=0)) - 1e-5
    larger = np.zeros(len(many), dtype=np.int64)
    rng, done = np.random.default_rng(seed), 0
    step = max(1, (1 << 22) // len(d))  # not by the columns: they may come in parts, and see the same exchanges
    while done < FLIPS:
        count = min(step, FLIPS - done)
        signs32 = rng.integers(0, 2, (count, len(d)), dtype=np.int8).astype(np.float32) * 2 - 1
        larger += (np.abs(signs32 @ values) >= reached).sum(axis=0)
        done += count
    bound = 2 * np.exp(-(d[:, many].sum(axis=0) ** 2) / (2 * (d[:, many] ** 2).sum(axis=0)))
    for k, p in zip(many, np.minimum((larger + 1) / (FLIPS + 1), bound), strict=True):
        found[k] = float(p)
    return found


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values so that any false one among them is as rare as their level (Holm 1979)."""
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate(np.asarray(ps, dtype=np.float64)[order] * np.arange(len(ps), 0, -1))
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(each) for each in adjusted]


def false_discoveries(ps: Sequence[float]) -> list[float]:
    """Adjust p-values so that few of those that are called are false (Benjamini and Hochberg 1995)."""
    from scipy.stats import false_discovery_control

    return [float(each) for each in false_discovery_control(ps)]


def _adjusted(differences: Sequence[GeneratorDifference], adjust: Any) -> list[GeneratorDifference]:
    tested = [each.p for each in differences if each.p is not None]
    adjusted = iter(adjust(tested) if tested else ())
    return [each if each.p is None else replace(each, p_adjusted=next(adjusted)) for each in differences]


def gate(differences: Sequence[GeneratorDifference], delta: float) -> Gate:
    """Say for each candidate (`a`) whether it is worse than the baseline (`b`) by more than `delta`.

    It is worse when the whole interval lies below -delta, and not worse when the whole interval lies above. Several
    candidates are held to Holm's level together, so that any false alarm is as rare as with one.
    """
    below = [_beyond(each, -delta) for each in differences]
    worse = holm([1.0 if p is None else p for p in below])
    verdicts = {}
    for each, p in zip(differences, worse, strict=True):
        low, _ = each.ends()
        verdicts[each.a] = WORSE if p < TAIL else NOT_WORSE if low is not None and low > -delta else CANNOT_TELL
    return Gate(delta, verdicts)


def _beyond(each: GeneratorDifference, limit: float) -> float | None:
    """One-sided p of a mean that is not below `limit`; below .025 exactly where the interval is."""
    if each.interval is None or each.difference is None:
        return None
    if each.error > 1e-12:
        return mean_p((limit - each.difference) / each.error, each.prompts, each.skewness)
    high = each.interval[1]  # every prompt shows the same: the exact bound
    room = (high - each.difference) / (1 - TAIL ** (1 / each.prompts))
    share = (limit - each.difference) / room if room else 1.0
    return float((1 - min(share, 1.0)) ** each.prompts) if share > 0 else 1.0


def generators_table(table: ScoreTable) -> Table:
    """Each generator's mean with its interval, and how far the images of one prompt lie apart."""
    rows = []
    there = np.isfinite(table.means)
    average = with_ties(np.where(there, table.means, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1))
    for k in np.argsort(np.where(there.any(axis=0), -average, np.inf), kind="stable").tolist():
        known = np.isfinite(table.means[:, k])
        values = table.means[known, k]
        interval = table.per_prompt.intervals(values[:, None], table.bounds)[0] if len(values) > 1 else None
        variance = table.seed_variance[k]
        rows.append((
            table.generators[k], float(values.mean()) if len(values) else None, *(interval or (None, None)),
            len(values), int(table.images[:, k].sum()), None if variance is None else variance**0.5,
        ))  # fmt: skip
    columns = ("generator", "mean", "low", "high", "prompts", "images", "spread between seeds")
    return Table(
        f"Generators by {table.metric}", columns, tuple(rows),
        (f"{table.per_prompt.about}, then the mean over prompts with 95% interval; the standard deviation of the images of "
         "a prompt is the spread between seeds",),
    )  # fmt: skip


COLUMNS = ("a", "b", "a - b", "low", "high", "wins", "same", "losses", "p", "p adjusted", "detectable", "prompts")


def difference_rows(each: GeneratorDifference) -> tuple[Any, ...]:
    """Make the row of a difference in a table."""
    return (each.a, each.b, each.difference, *each.ends(), each.wins, each.same, each.losses, p_value(each.p),
            p_value(each.p_adjusted), each.detectable, each.prompts)  # fmt: skip


def verdict_tables(table: ScoreTable, differences: Sequence[GeneratorDifference]) -> list[Table]:
    """Show the generators, their differences, and one table a column of slices."""
    note = (
        "a - b paired by prompt with 95% interval, positive: a is better; p by exchange within prompts, adjusted by Holm; "
        "detectable: the smallest difference that these prompts would have shown with 80% power"
    )
    tables = [
        generators_table(table),
        Table("Differences between generators", COLUMNS, tuple(map(difference_rows, differences)), (note,)),
    ]
    for column in table.slices:
        rows = [
            (value, *difference_rows(one)) for each in differences for value, one in each.by.get(column, {}).items()
        ]
        tables.append(
            Table(
                f"Differences by {column}",
                (column, *COLUMNS),
                tuple(rows),
                ("p adjusted by Benjamini-Hochberg over all slices of one pair",),
            )
        )
    return tables
