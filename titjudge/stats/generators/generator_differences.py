"""Is one generator better than another? Differences of mean scores, paired by prompt.

The interval is Student's t over prompts (see `intervals`), taken as a sample of prompts like them (no correction for a finite
population). p is from a sign-flip test over prompts, adjusted by Holm over the pairs of generators, and by
Benjamini-Hochberg over the slices of one pair. `python -m benchmarks.verdicts` measures coverage, and how often gates err.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, repeat
from math import comb
from typing import Any, NamedTuple

import numpy as np

from titjudge.core.declarations import ESTIMATED, NEEDS_BOTH, Declaration, Population, Unit
from titjudge.core.errors import DataError
from titjudge.core.serialization import fields_of
from titjudge.core.tables import p_value, rank_range
from titjudge.core.types import Note, Table
from titjudge.stats.bootstrap import Floats, Interval, table_sums, unit_sums
from titjudge.stats.equality import score_differences, with_ties
from titjudge.stats.generators.slices import Ranks, averages, in_order
from titjudge.stats.intervals import (
    TAIL,
    approximate_bound,
    bound,
    doubt,
    exact_bound,
    mean_intervals,
    mean_p,
    moments,
    why_no_interval,
)
from titjudge.stats.scores.population import FEWEST, adjusted_scores, comparable, compared, scores_of_all
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import POWER, adjusted, below_best_p, benjamini_hochberg, holm, sign_flip_p

GENERATORS = Declaration(
    "generators", "mean score of each generator", Population.SAME_PROMPTS, Unit.PROMPT, ESTIMATED, "mean, best first"
)
DIFFERENCES = Declaration(
    "differences",
    "mean scores of two generators",
    Population.COMMON_OF_TWO,
    Unit.PROMPT,
    NEEDS_BOTH,
    "place in the table of generators",
    "p, by Holm over all rows",
    counts="prompts",
)
AGAINST_BEST = replace(
    DIFFERENCES, id="differences_to_best", correction="p best and intervals, over all compared generators"
)
BY_CATEGORY = replace(
    DIFFERENCES, id="differences_by_category", correction="p, by Benjamini and Hochberg over the categories of a pair"
)
_TOGETHER = 1024  # columns of differences that are tested at once


@dataclass(frozen=True, slots=True)
class GeneratorDifference:
    """`a` minus `b` over the prompts that both have; positive: `a` is better.

    Attributes:
        wins, same, losses: Prompts on which `a` is better, equal, worse.
        detectable: The smallest difference that as many prompts with this spread show with a power of 80%.
        families: Families of these prompts, which are the unit of interval and p; None if each prompt is a unit.
        by: Column -> value -> the same over the prompts with this value.
        doubt: The `Doubt` about the level of the interval; empty if it is reliable.
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
    reason: str = ""
    by: Mapping[str, Mapping[str, GeneratorDifference]] = field(default_factory=dict)
    families: int | None = None
    doubt: str = ""

    @property
    def pair(self) -> str:
        """Name of the pair, in the doubts about a table."""
        return f"{self.a} - {self.b}"

    @property
    def units(self) -> int:
        """Number of families, or of prompts if each is a unit."""
        return self.prompts if self.families is None else self.families

    def to_json(self) -> dict[str, Any]:
        """Return the fields; `families` and `doubt` only if there are any."""
        return {name: value for name, value in fields_of(self).items() if value or name not in ("families", "doubt")}


def generator_differences(
    table: ScoreTable, *, baseline: str | None = None, chosen: bool = False
) -> list[GeneratorDifference]:
    """Compare every two generators, or every other one with the baseline.

    Args:
        table: The scores.
        baseline: Name of a generator.
        chosen: Whether the baseline was chosen on these very prompts, as the best. Its advantage is flattered then: p
            adjusted allows for that (`significance.below_best_p`), and all intervals are simultaneous, whichever came out
            best (Bonferroni over all pairs of the generators that are compared).

    p adjusted is None for a pair with a generator that the table sets aside (`population.compared`); with a baseline, for a
    pair with too few common prompts, so that a gate tests every other candidate.

    Raises:
        DataError: The baseline is unknown, there are fewer than two generators, or no two of them share two prompts.
    """
    pairs = [(table.column(a), table.column(b)) for a, b in compared_pairs(table, baseline)]
    cuts = [_DifferenceSlice("", "", table.means, table)]
    for column, values in table.slices.items():
        scale = table.on_scale_of(column)
        cuts += [_DifferenceSlice(column, value, means, scale) for value, means in values.items()]
    columns = [score_differences(cut.means[:, a], cut.means[:, b]) for a, b in pairs for cut in cuts]
    shared = [int(np.isfinite(column).sum()) for column in columns[:: len(cuts)]]
    if (most := max(shared)) < 2:
        few = [table.generators[k] for k in pairs[shared.index(most)]]
        raise table.too_few(few, most, "a comparison needs two. Judge more prompts")
    ps = list[float]()
    for k in range(0, len(columns), _TOGETHER):
        block = np.stack(columns[k : k + _TOGETHER], axis=1)
        counts = table_sums(np.isfinite(block) * 1.0, table.unit)
        ps += sign_flip_p(np.where(counts > 0, table_sums(np.nan_to_num(block), table.unit), np.nan))
    tail = TAIL / max(1, comb(len(comparable(table.means, unit=table.unit)), 2)) if chosen else TAIL
    differences = []
    for k, (a, b) in enumerate(pairs):
        of_pair = slice(k * len(cuts), (k + 1) * len(cuts))
        names = table.generators[a], table.generators[b]
        overall, *sliced = (
            _difference(*names, column, cut.scale, p, tail)
            for column, cut, p in zip(columns[of_pair], cuts, ps[of_pair], strict=True)
        )
        differences.append(replace(overall, by=_by_column(cuts[1:], _adjusted(sliced, benjamini_hochberg))))
    if not chosen or baseline is None:
        most, in_table = max(difference.units for difference in differences), compared(table.means, table.unit)
        family = [
            bool(in_table[[*pair]].all()) if baseline is None else difference.units >= FEWEST or most < FEWEST
            for pair, difference in zip(pairs, differences, strict=True)
        ]
        return _adjusted(differences, holm, family)
    return _below_best(table, baseline, differences)


class _DifferenceSlice(NamedTuple):
    """The mean scores of the prompts with one value of a column; all prompts if the column has no name."""

    column: str
    value: str
    means: Floats
    scale: ScoreTable


def compared_pairs(table: ScoreTable, baseline: str | None = None) -> list[tuple[str, str]]:
    """List every two generators, or each other one with the baseline, in the order of the table of generators.

    Of two, the better one on their common prompts comes first, so that neither names nor the order of rows matter.
    """
    if len(table.generators) < 2:
        only = f"only the generator '{table.generators[0]}'" if table.generators else "no generator"
        raise DataError(f"{only} has scores, but a comparison requires two. Judge another generator", table.source)
    order = [table.generators[k] for k in in_order(table)]
    if baseline is not None:
        table.column(baseline)
        return [(name, baseline) for name in order if name != baseline]
    return [(a, b) if _lead(table, a, b) >= _lead(table, b, a) else (b, a) for a, b in combinations(order, 2)]


def _lead(table: ScoreTable, a: str, b: str) -> tuple[float, int, list[float]]:
    """Return the lead of `a` over `b`: by the mean difference, then by the prompts won, then by the largest differences."""
    d = np.sort(table.differences(table.column(a), table.column(b)))[::-1]
    mean = math.fsum(d)
    return 0.0 if abs(mean) < 1e-9 else mean, int(np.sign(d).sum()), d.tolist()


def _by_column(
    slices: Sequence[_DifferenceSlice], differences: Sequence[GeneratorDifference]
) -> dict[str, dict[str, GeneratorDifference]]:
    """Arrange differences by column and value; those without any prompt are left out."""
    by: dict[str, dict[str, GeneratorDifference]] = {part.column: {} for part in slices}
    for part, difference in zip(slices, differences, strict=True):
        if difference.prompts:
            by[part.column][part.value] = difference
    return by


def _below_best(
    table: ScoreTable, baseline: str, differences: Sequence[GeneratorDifference]
) -> list[GeneratorDifference]:
    """Adjust p for the choice of the baseline as the best."""
    base, compared = table.column(baseline), comparable(table.means, unit=table.unit)
    order = [base, *(k for k in in_order(table) if k != base and k in compared)]
    below = dict(zip(order[1:], below_best_p(table.means[:, order], table.unit), strict=True))
    return [replace(difference, p_adjusted=below.get(table.column(difference.a))) for difference in differences]


def is_best(table: ScoreTable, generator: str) -> bool:
    """Return True if a generator has the highest mean of three or more that are compared: choosing it flatters it."""
    compared = comparable(table.means, unit=table.unit)
    average = with_ties(averages(adjusted_scores(table.means[:, compared])))
    column = table.column(generator)
    return len(compared) > 2 and column in compared and bool(average[compared.index(column)] == average.max())


def _difference(a: str, b: str, column: Floats, table: ScoreTable, p: float, tail: float) -> GeneratorDifference:
    """Summarise the differences of one pair, NaN if a score is missing; `table` gives the ends of the scale."""
    from titjudge.stats.special import stdtrit

    d = column[np.isfinite(column)]
    sums, counts = unit_sums(column, table.unit)
    n, units = len(d), len(sums)
    _, mean, error, _ = moments(sums, counts)[0]
    interval = mean_intervals(sums, counts, table.spans(declared=True), tail)[0]
    if interval is None and units > 1 and (spans := table.spans()) is not None:
        interval = exact_bound(mean, units, spans, tail)
    detectable = (
        float(stdtrit(units - 1, 1 - TAIL) + stdtrit(units - 1, POWER)) * error
        if error > 1e-12 and interval is not None
        else None
    )
    return GeneratorDifference(
        a,
        b,
        difference=mean if n else None,
        interval=interval,
        p=p if units > 1 else None,
        p_adjusted=None,
        wins=int((d > 0).sum()),
        same=int((d == 0).sum()),
        losses=int((d < 0).sum()),
        prompts=n,
        detectable=detectable,
        reason=why_no_interval(interval, units),
        families=None if table.unit is None else units,
        doubt=doubt(interval, mean, units, table.spans(declared=True), p, tail, sums / counts),
    )


def _adjusted(
    differences: Sequence[GeneratorDifference], correction: Any, family: Iterable[bool] = repeat(True)
) -> list[GeneratorDifference]:
    """Adjust the p-values of differences; those outside of the `family` get none."""
    ps = adjusted([d.p if inside else None for d, inside in zip(differences, family, strict=False)], correction)
    return [replace(difference, p_adjusted=p) for difference, p in zip(differences, ps, strict=True)]


def generators_table(table: ScoreTable, ranks: Ranks) -> Table:
    """Tabulate each generator's mean with its interval, and the standard deviation of the images of one prompt."""
    rows, doubts = [], dict[str, str]()
    adjusted = scores_of_all(table.means, table.unit)
    for k in in_order(table):
        mean, interval, doubts[table.generators[k]] = table.measured(adjusted[:, k])
        variance = table.seed_variance[k]
        rows.append(
            (
                table.generators[k],
                rank_range(ranks.get(k)),
                mean,
                *(interval or (None, None)),
                table.prompts_of[k],
                int(table.images[:, k].sum()),
                None if variance is None else variance**0.5,
            )
        )
    columns = ("generator", "rank", "mean", "low", "high", "prompts", "images", "spread between seeds")
    return Table(
        f"Generators by {table.metric}",
        columns,
        tuple(rows),
        explanation=(
            Note(
                "about_generators",
                f"{table.per_prompt.about}; spread between seeds: standard deviation of the images of a prompt",
            ),
        ),
        secondary=("spread between seeds", "images"),
        estimates=True,
        declared=table.over(GENERATORS, doubts=doubts),
        keys=("generator", "rank", "mean", "low", "high", "prompts", "images", "spread between seeds"),
    )


def generator_records(table: ScoreTable, ranks: Ranks) -> list[dict[str, Any]]:
    """Return the rows of `generators_table` for JSON, with the ends of the ranks as numbers."""
    ends = [dict(zip(("rank_low", "rank_high"), ranks.get(k, (None, None)), strict=True)) for k in in_order(table)]
    rows = generators_table(table, ranks).records
    return [{**{key: row[key] for key in row if key != "rank"}, **low} for row, low in zip(rows, ends, strict=True)]


_SECONDARY = ("detectable", "p", "same", "prompts")
_KEYS = tuple("a b difference low high wins same losses p p_adjusted detectable prompts".split())


def _columns(adjustment: str, table: ScoreTable) -> tuple[str, ...]:
    return (
        "a",
        "b",
        f"a - b{table.direction}",
        "low",
        "high",
        "wins",
        "same",
        "losses",
        "p",
        f"p {adjustment}",
        "detectable",
        "prompts",
    )


def difference_rows(row: GeneratorDifference) -> tuple[Any, ...]:
    """Return the cells of a difference under `_columns`."""
    return (
        row.a, row.b, row.difference, *(row.interval or (None, None)), row.wins, row.same, row.losses, p_value(row.p),
        p_value(row.p_adjusted), row.detectable, row.prompts,
    )  # fmt: skip


def verdict_tables(
    table: ScoreTable, differences: Sequence[GeneratorDifference], ranks: Ranks, *, chosen: bool = False
) -> list[Table]:
    """Tabulate the generators, their differences, and the differences by each column of slices.

    Args:
        table: The scores.
        differences: As `generator_differences` gives them.
        ranks: As `slices.rank_ranges` gives them.
        chosen: As for `generator_differences`.
    """
    best = (
        "; p best and the intervals allow for the second having the best mean here, for which it may have been chosen"
    )
    note = (
        f"a - b positive: a is better; p by exchange within prompts{best if chosen else ''}; detectable: the smallest difference that "
        "this many prompts show with 80% power"
    )
    tables = [
        generators_table(table, ranks),
        Table(
            "Differences between generators",
            _columns("best" if chosen else "Holm", table),
            tuple(map(difference_rows, differences)),
            explanation=(Note("about_differences", note),),
            secondary=_SECONDARY,
            estimates=True,
            declared=table.over(
                AGAINST_BEST if chosen else DIFFERENCES,
                sized=False,
                doubts={each.pair: each.doubt for each in differences},
            ),
            keys=_KEYS,
        ),
    ]
    for column in table.slices:
        rows = tuple(
            (value, *difference_rows(in_slice))
            for difference in differences
            for value, in_slice in difference.by[column].items()
        )
        doubts = {
            f"{value}: {difference.pair}": in_slice.doubt
            for difference in differences
            for value, in_slice in difference.by[column].items()
        }
        tables.append(Table(f"Differences by {column}", (column, *_columns("BH", table.on_scale_of(column))), rows,
                            secondary=_SECONDARY, estimates=True, keys=("category", *_KEYS),
                            declared=table.over(BY_CATEGORY, sized=False, doubts=doubts)))  # fmt: skip
    return tables


class GateVerdict(StrEnum):
    """The result of a gate for a candidate."""

    WORSE = "worse"
    NOT_WORSE = "not worse"
    CANNOT_TELL = "cannot tell"


WORSE, NOT_WORSE, CANNOT_TELL = GateVerdict
_MOST_PROMPTS = 100_000


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict on each candidate: worse than the baseline by more than `delta`, not worse, or undecided.

    Attributes:
        least: By candidate, the lower end of its difference whatever the scores look like; on a scale with ends.
        needed: By candidate, the number of prompts like these after which it would pass as not worse.
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
        """Return True if some candidate is undecided with these prompts."""
        return CANNOT_TELL in self.verdicts.values()

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, and the outcome over all candidates."""
        return fields_of(self) | {"outcome": WORSE if self.failed else CANNOT_TELL if self.open else NOT_WORSE}


def gate(differences: Sequence[GeneratorDifference], delta: float, table: ScoreTable) -> Gate:
    """Decide for each candidate (`a`) whether it is worse than the baseline (`b`) by more than `delta`.

    It is worse when the whole interval lies below -delta. With several candidates "worse" is corrected by Holm, so that
    any false alarm is as rare as with one. It is not worse when the whole interval lies above, and on a scale with ends
    Gaffke's bound as well, which is valid even if a few collapses have not occurred yet (`bounds`); unless one of the two
    has no score on clearly more prompts, whether its image is missing or could not be scored. It is undecided for an
    incomplete run.

    Args:
        differences: Of the candidates from the baseline.
        delta: The loss that is allowed.
        table: The scores, of which the differences are.
    """
    scores = {
        difference.a: table.unit_differences(table.column(difference.a), table.column(difference.b))
        for difference in differences
    }
    below = {
        each.a: _p_below(*scores[each.a], each.interval, -delta)
        for each in differences
        if each.p_adjusted is not None  # the others share too few prompts
    }
    ps = dict(zip(below, holm([*below.values()]), strict=True))
    incomplete = table.incomplete and f"the run is incomplete ({table.incomplete})"
    verdicts: dict[str, GateVerdict] = {}
    least, needed, reasons = {}, {}, {}
    for difference in differences:
        name, interval, (sums, counts) = difference.a, difference.interval, scores[difference.a]
        above = interval is not None and interval[0] > -delta
        if table.width is not None and interval is not None:
            size = float(counts.mean())  # of a family; a larger one can lose more
            values, end = sums / size, -table.width * float(counts.max()) / size
            least[name] = max(bound(values, end, TAIL), -table.width)
            above &= least[name] > -delta
            if not above and len(values) >= FEWEST and (enough := _units_for(values, end, -delta)):
                needed[name] = math.ceil(enough * size)
        if reason := incomplete or table.unequally_missing(table.column(name), table.column(difference.b)):
            reasons[name] = reason
        worse = ps.get(name, 1.0) < TAIL and not incomplete
        verdicts[name] = WORSE if worse else NOT_WORSE if above and not reason else CANNOT_TELL
    return Gate(delta, verdicts, least, needed, reasons)


def _units_for(differences: Floats, end: float, limit: float) -> int | None:
    """Estimate how many prompts, or families, like these have Gaffke's bound above the limit; None if 100,000 have not."""
    counts = np.unique(np.geomspace(len(differences) + 1, _MOST_PROMPTS, 400).round())
    enough = counts[approximate_bound(differences, end, TAIL, counts) > limit]
    return int(enough[0]) if len(enough) else None


def _p_below(sums: Floats, counts: Floats, interval: Interval | None, limit: float) -> float:
    """One-sided p of the hypothesis that the mean is not below `limit`; below 0.025 exactly if the interval is below."""
    if interval is None:
        return 1.0
    prompts, mean, error, skewness = moments(sums, counts)[0]
    if error > 1e-12:
        return mean_p((limit - mean) / error, prompts, skewness)
    room = (interval[1] - mean) / (1 - TAIL ** (1 / prompts))  # every prompt shows the same: the exact bound
    share = (limit - mean) / room if room else 1.0
    return float((1 - min(share, 1.0)) ** prompts) if share > 0 else 1.0
