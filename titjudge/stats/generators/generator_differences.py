"""Is one generator better than another? Differences of mean scores, paired by prompt.

The interval is Student's t over prompts (see `intervals`), taken as a sample of prompts like them (no correction for a finite
population). p is from a sign-flip test over prompts, adjusted by Holm over the pairs of generators, and by
Benjamini-Hochberg over the slices of one pair. `python -m benchmarks.verdicts` measures coverage, and how often gates err.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.tables import p_value
from titjudge.core.types import Table
from titjudge.stats.bootstrap import FEW_PROMPTS, Floats, Interval
from titjudge.stats.bounds import approximate_bound, bound
from titjudge.stats.equality import score_differences, with_ties
from titjudge.stats.generators.slices import averages
from titjudge.stats.intervals import TAIL, exact_bound, mean_interval, mean_p, moments
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import adjusted, below_best_p, benjamini_hochberg, holm, sign_flip_p

POWER = 0.8
_MOST_PROMPTS = 100_000
_TOGETHER = 1024  # columns of differences that are tested at once
WORSE, NOT_WORSE, CANNOT_TELL = "worse", "not worse", "cannot tell"


@dataclass(frozen=True, slots=True)
class GeneratorDifference:
    """`a` minus `b` over the prompts that both have; positive: `a` is better.

    Attributes:
        wins, same, losses: Prompts on which `a` is better, equal, worse.
        detectable: The smallest difference that as many prompts with this spread show with a power of 80%.
        error, skewness: Of the difference, as `intervals.moments` gives them.
        by: Column -> value -> the same over the prompts with this value.
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
        """Return the fields by name, without `error` and `skewness`."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("error", "skewness")}
        return record | {"by": {c: {v: each.to_json() for v, each in values.items()} for c, values in self.by.items()}}


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict on each candidate: worse than the baseline by more than `delta`, not worse, or cannot tell.

    Attributes:
        least: By candidate, the lower end of its difference whatever the scores look like; on a scale with ends.
        needed: By candidate, the number of prompts like these after which it would be said to be not worse.
        reasons: By candidate, why the scores that are left out may decide.
    """

    delta: float
    verdicts: Mapping[str, str]
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
        outcome = WORSE if self.failed else CANNOT_TELL if self.open else NOT_WORSE
        return {
            "delta": self.delta, "verdicts": dict(self.verdicts), "outcome": outcome, "least": dict(self.least),
            "needed": dict(self.needed), "reasons": dict(self.reasons),
        }  # fmt: skip


def generator_differences(
    table: ScoreTable, *, baseline: str | None = None, chosen: bool = False
) -> list[GeneratorDifference]:
    """Compare every two generators, or every other one with the baseline.

    Args:
        table: The scores.
        baseline: Name of a generator.
        chosen: Whether the baseline was chosen on these very prompts, as the best. Its advantage is flattered then: p adjusted
            allows for that (`significance.below_best_p`), and all intervals hold together, whichever came out best (Bonferroni
            over all pairs of generators).

    Raises:
        DataError: The baseline is unknown, there are fewer than two generators, or no two of them share two prompts.
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
        names = [table.generators[k] for k in pairs[shared.index(max(shared))]]
        raise table.too_few(names, max(shared), "a comparison needs two")
    blocks = (np.stack(columns[k : k + _TOGETHER], axis=1) for k in range(0, len(columns), _TOGETHER))
    ps = [p for block in blocks for p in sign_flip_p(block)]
    tail = TAIL / comb(len(table.generators), 2) if chosen else TAIL
    differences = []
    for k, (a, b) in enumerate(pairs):
        start = k * len(cuts)
        overall, *slices = [
            _difference(
                table.generators[a], table.generators[b], columns[start + j], scales[column], ps[start + j], tail
            )
            for j, (column, _, _) in enumerate(cuts)
        ]
        by: dict[str, dict[str, GeneratorDifference]] = {column: {} for column in table.slices}
        for (column, value, _), one in zip(cuts[1:], _adjusted(slices, benjamini_hochberg), strict=True):
            if one.prompts:
                by[column][value] = one
        differences.append(replace(overall, by=by))
    if not chosen or baseline is None:
        return _adjusted(differences, holm)
    average = averages(table.means)
    order = sorted(range(len(differences)), key=lambda k: -np.nan_to_num(average[pairs[k][0]], nan=-np.inf))
    below = below_best_p(table.means[:, [table.column(baseline), *(pairs[k][0] for k in order)]])
    for k, p in zip(order, below, strict=True):
        differences[k] = replace(differences[k], p_adjusted=p)
    return differences


def is_best(table: ScoreTable, generator: str) -> bool:
    """Whether a generator has the highest mean of three or more: the choice of many then flatters it."""
    average = np.nan_to_num(with_ties(averages(table.means)), nan=-np.inf)
    return len(average) > 2 and bool(average[table.column(generator)] == average.max())


def _difference(a: str, b: str, column: Floats, table: ScoreTable, p: float, tail: float) -> GeneratorDifference:
    """Summarise the differences of one pair, NaN where one has no score; `table` gives the ends of the scale."""
    from scipy.special import stdtrit

    d = column[np.isfinite(column)]
    n = len(d)
    _, mean, error, skewness = moments(d, np.ones(n))[0]
    interval = mean_interval(d, table.spans(declared=True), tail)
    if interval is None and n > 1 and (spans := table.spans()) is not None:
        interval = exact_bound(mean, n, spans, tail)
    detectable = (
        float(stdtrit(n - 1, 1 - TAIL) + stdtrit(n - 1, POWER)) * error if error > 0 and interval is not None else None
    )
    return GeneratorDifference(
        a,
        b,
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


def _adjusted(differences: Sequence[GeneratorDifference], correction: Any) -> list[GeneratorDifference]:
    ps = adjusted([each.p for each in differences], correction)
    return [replace(each, p_adjusted=p) for each, p in zip(differences, ps, strict=True)]


def gate(differences: Sequence[GeneratorDifference], delta: float, table: ScoreTable) -> Gate:
    """Decide for each candidate (`a`) whether it is worse than the baseline (`b`) by more than `delta`.

    It is worse when the whole interval lies below -delta. With several candidates "worse" is corrected by Holm, so that any
    false alarm is as rare as with one. It is not worse when the whole interval lies above, and on a scale with ends
    Gaffke's bound too, which holds also where a few collapses have not come yet (`bounds`); unless one of the two lacks
    scores on clearly more prompts.

    Args:
        differences: Of the candidates from the baseline.
        delta: The loss that is allowed.
        table: The scores, of which the differences are.
    """
    below = [_beyond(each, -delta) for each in differences]
    worse = holm([1.0 if p is None else p for p in below])
    verdicts: dict[str, str] = {}
    least: dict[str, float] = {}
    needed: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for each, p in zip(differences, worse, strict=True):
        columns = table.column(each.a), table.column(each.b)
        above = each.interval is not None and each.interval[0] > -delta
        if table.width is not None and each.interval is not None:
            d = table.differences(*columns)
            least[each.a] = bound(d, -table.width, TAIL)
            above &= least[each.a] > -delta
            if not above and (prompts := _prompts_for(d, -table.width, -delta)):
                needed[each.a] = prompts
        if reason := table.unequally_missing(*columns):
            reasons[each.a] = reason
        verdicts[each.a] = WORSE if p < TAIL else NOT_WORSE if above and not reason else CANNOT_TELL
    return Gate(delta, verdicts, least, needed, reasons)


def _prompts_for(d: Floats, end: float, limit: float) -> int | None:
    """Estimate how many prompts like these have Gaffke's bound above the limit; None where 100,000 have not."""
    counts = np.unique(np.geomspace(len(d) + 1, _MOST_PROMPTS, 400).round())
    enough = counts[approximate_bound(d, end, TAIL, counts) > limit]
    return int(enough[0]) if len(enough) else None


def _beyond(each: GeneratorDifference, limit: float) -> float | None:
    """One-sided p of the hypothesis that the mean is not below `limit`; below .025 exactly where the interval is below."""
    if each.interval is None or each.difference is None:
        return None
    if each.error > 1e-12:
        return mean_p((limit - each.difference) / each.error, each.prompts, each.skewness)
    high = each.interval[1]  # every prompt shows the same: the exact bound
    room = (high - each.difference) / (1 - TAIL ** (1 / each.prompts))
    share = (limit - each.difference) / room if room else 1.0
    return float((1 - min(share, 1.0)) ** each.prompts) if share > 0 else 1.0


def generators_table(table: ScoreTable) -> Table:
    """Tabulate each generator's mean with its interval, and the standard deviation of the images of one prompt."""
    rows = []
    scored = np.isfinite(table.means)
    average = with_ties(np.where(scored, table.means, 0.0).sum(axis=0) / np.maximum(scored.sum(axis=0), 1))
    for k in np.argsort(np.where(scored.any(axis=0), -average, np.inf), kind="stable").tolist():
        values = table.means[scored[:, k], k]
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


def _columns(adjustment: str) -> tuple[str, ...]:
    return ("a", "b", "a - b", "low", "high", "wins", "same", "losses", "p", f"p {adjustment}", "detectable", "prompts")


def difference_rows(each: GeneratorDifference) -> tuple[Any, ...]:
    """Return the cells of a difference under `_columns`."""
    return (each.a, each.b, each.difference, *(each.interval or (None, None)), each.wins, each.same, each.losses, p_value(each.p),
            p_value(each.p_adjusted), each.detectable, each.prompts)  # fmt: skip


def verdict_tables(
    table: ScoreTable, differences: Sequence[GeneratorDifference], *, chosen: bool = False
) -> list[Table]:
    """Tabulate the generators, their differences, and the differences by each column of slices.

    Args:
        table: The scores.
        differences: As `generator_differences` gives them.
        chosen: As for `generator_differences`.
    """
    adjustment = (
        "p best, and intervals that hold together, allow for the second having the highest mean of all here, for which it may "
        "have been chosen"
        if chosen
        else "p Holm adjusted by Holm over all rows"
    )
    note = (
        f"a - b paired by prompt with 95% interval, positive: a is better; p by exchange within prompts, {adjustment}; "
        "detectable: the smallest difference that these prompts would have shown with 80% power"
    )
    tables = [
        generators_table(table),
        Table(
            "Differences between generators",
            _columns("best" if chosen else "Holm"),
            tuple(map(difference_rows, differences)),
            (note,),
        ),
    ]
    for column in table.slices:
        rows = tuple((value, *difference_rows(one)) for each in differences for value, one in each.by[column].items())
        note = "p BH: adjusted by Benjamini and Hochberg over all slices of one pair"
        tables.append(Table(f"Differences by {column}", (column, *_columns("BH")), rows, (note,)))
    return tables
