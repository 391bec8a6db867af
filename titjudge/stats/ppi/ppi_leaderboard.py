"""A leaderboard of generators as people would rank them, from few human and many judge pairs, and how many labels are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np

from titjudge.core.declarations import Declaration, Excluded, Population, Unit
from titjudge.core.serialization import fields_of
from titjudge.core.tables import Cell, Table, percent, plain, rank_range
from titjudge.core.types import Json, Pair
from titjudge.stats.bootstrap import LEVEL, Floats, Interval, codes
from titjudge.stats.equality import with_ties
from titjudge.stats.generators.slices import possible_ranks
from titjudge.stats.ppi.inference import (
    Estimate,
    Fit,
    Joined,
    PreferenceArrays,
    estimate,
    fit,
    half_width,
    join,
    undefined,
    win_rate,
)
from titjudge.stats.ranking.bradley_terry import bradley_terry, opponents
from titjudge.stats.scores.families import annotators_note
from titjudge.stats.significance import POWER

PEOPLE = Declaration(
    "people",
    "win rate of each generator with people",
    Population.HUMAN_PAIRS,
    Unit.PROMPT,
    order="group, then win rate or strength",
    by_column={"judge alone": Population.JUDGED_PAIRS},
)
COUPLES = Declaration(
    "couples",
    "win rate of two generators",
    Population.HUMAN_PAIRS,
    Unit.PROMPT,
    order="place in the leaderboard",
    by_column={"judge alone": Population.JUDGED_PAIRS},
    counts="labels",
)
GAPS = Declaration(
    "gaps", "win rates of neighbours", Population.HUMAN_PAIRS, Unit.PROMPT, order="place in the leaderboard"
)


@dataclass(frozen=True, slots=True)
class GeneratorRank:
    """One generator among those that it met: its win rate (ties count half), its rank, and the range of ranks it may have.

    `strength` is the Bradley-Terry strength, if the order follows it because not every two generators met.
    """

    generator: str
    win_rate: Estimate
    rank: int | None
    ranks: tuple[int, int] | None
    strength: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference in win rate of two neighbours on the leaderboard.

    Attributes:
        separated: Whether the interval excludes zero.
        more_labels: How many MORE labels would exclude zero with 80% power if the true difference is the estimate; None,
            with a reason, when no number would.
    """

    first: str
    second: str
    difference: float | None
    interval: Interval | None
    separated: bool
    more_labels: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Couple:
    """Two generators: how often people prefer `first` over `second` (ties count half)."""

    first: str
    second: str
    win_rate: Estimate


@dataclass(frozen=True, slots=True)
class PeopleBoard:
    """Best first. `power` is lambda, the judge's weight; `level` that of all intervals.

    `excluded` has the human pairs that do not count, by reason; `families` tells whether families are the unit.
    """

    standings: tuple[GeneratorRank, ...]
    gaps: tuple[Gap, ...]
    couples: tuple[Couple, ...]
    power: float
    labelled: int
    unlabelled: int
    warnings: tuple[str, ...]
    level: float = LEVEL
    excluded: Excluded = field(default_factory=dict)
    families: bool = False

    def _over(self, declaration: Declaration) -> Declaration:
        sizes = {Population.HUMAN_PAIRS: [self.labelled], Population.JUDGED_PAIRS: [self.labelled + self.unlabelled]}
        return declaration.over(sizes, self.excluded, families=self.families)

    def to_json(self) -> Json:
        """Return the leaderboard with all estimates."""
        return {
            "generators": [
                {"generator": s.generator, "rank": s.rank, "ranks": s.ranks, **fields_of(s.win_rate)}
                | ({} if s.strength is None else {"strength": s.strength})
                for s in self.standings
            ],
            "couples": [{"first": c.first, "second": c.second, **fields_of(c.win_rate)} for c in self.couples],
            "gaps": list(self.gaps),
            "level": self.level,
            "power": self.power,
            "labelled": self.labelled,
            "unlabelled": self.unlabelled,
            "warnings": list(self.warnings),
        }

    def tables(self) -> list[Table]:
        """Tabulate the leaderboard, the win rates of couples, and the gaps between neighbours."""
        return [self._board(), self._couples(), self._gaps()]

    def _board(self) -> Table:
        """Tabulate the leaderboard."""
        notes = (
            f"weight of the judge {self.power:.2f}; win rate against the others, ties count half; {100 * self.level:g}% intervals; a "
            "rank is a range of places; worth labels: how many labels alone would say as much",
            "believe the first column of win rates; that of the judge alone is only as good as the judge",
            *self.warnings,
        )
        strengths = any(s.strength is not None for s in self.standings)
        columns = ("generator", "rank", *(["strength"] if strengths else []), *_WAYS, "labels", "worth labels")
        rows = tuple(
            (
                s.generator,
                rank_range(s.ranks),
                *([plain(s.strength, digits=2)] if strengths else []),
                *_ways(s.win_rate),
                *_labels(s.win_rate),
            )
            for s in self.standings
        )
        return Table("Leaderboard for people", columns, rows, notes, declared=self._over(PEOPLE))

    def _couples(self) -> Table:
        rows = tuple((f"{c.first} / {c.second}", *_ways(c.win_rate), *_labels(c.win_rate)) for c in self.couples)
        notes = ("how often people prefer the first; each couple has a weight of the judge of its own",)
        return Table("Generators in pairs", ("couple", *_WAYS, "labels", "worth labels"), rows, notes,
                     declared=replace(self._over(COUPLES), sizes={}))  # fmt: skip

    def _gaps(self) -> Table:
        """Tabulate the differences of neighbours."""
        columns = ("neighbours", "difference", "separated", "more labels", "note")
        rows = tuple(
            (
                f"{g.first} / {g.second}",
                percent(g.difference, g.interval),
                "yes" if g.separated else "no",
                g.more_labels,
                g.reason or None,
            )
            for g in self.gaps
        )
        notes = (f"more labels: drawn like those there are, they separate the two with {100 * POWER:g}% power",)
        return Table("What more labels would buy", columns, rows, notes, declared=self._over(GAPS))


_WAYS = ("people, with the judge", "people alone", "judge alone")


def _ways(rate: Estimate) -> tuple[Cell | None, Cell | None, Cell | None]:
    return (
        percent(rate.value, rate.interval),
        percent(rate.people, rate.people_interval),
        percent(rate.naive, rate.naive_interval),
    )


def _labels(rate: Estimate) -> tuple[int, int | None]:
    return rate.labelled, None if rate.worth is None else round(rate.worth)


def people_board(
    human: Sequence[Pair], judge: Sequence[Pair], generator_of: Mapping[str, str], *, level: float = LEVEL
) -> PeopleBoard:
    """Rank generators by how often people prefer them, from few human pairs and many judge pairs.

    Ranges of ranks use differences at a level corrected for all couples (Bonferroni). Pairs of unknown images or of one
    generator with itself are left out.

    Raises:
        DataError: A preference is not a, b or tie.
    """
    joined = join(human, judge)
    names = sorted(
        {generator_of[image] for key in (*joined.labelled, *joined.rest) for image in key[1:] if image in generator_of}
    )
    columns, couples = _columns(joined, names, generator_of)
    if not len(columns.people):
        nobody = ("people labelled no pair of two known generators",)
        return PeopleBoard((), (), (), 0.0, 0, len(columns.rest), nobody, level)
    groups = _groups(couples)
    alike = all(complete for _, complete in groups) and len(groups) == 1
    sampled = _sampled(couples) if alike else []
    if not alike:  # what the judge says of couples that people never saw corrects nothing
        met = {couple for couple, (labelled, _) in couples.items() if labelled}
        rest = {key: win for key, win in joined.rest.items() if _couple(key, generator_of) in met}
        joined = replace(joined, rest=rest)
        columns, _ = _columns(joined, names, generator_of)
    fitted = fit(columns)
    estimates = [estimate(fitted, columns, k, level=level, bounds=(0.0, 1.0)) for k in range(len(names))]
    rates = with_ties(np.array([np.nan if rate.value is None else rate.value for rate in estimates]))
    warnings = [*sampled, *_apart(groups)]
    order, standings, gaps = [], [], []
    for group, complete in groups:
        members = [names.index(name) for name in group]
        by, strength = {k: float(rates[k]) for k in members}, dict[int, float]()
        ranks = _ranks(fitted, columns, members, level)
        if not complete:
            by, strength, ranks, words = _strengths(human, generator_of, group, members)
            warnings.append(words)
        members.sort(key=lambda k: (-by[k] if k in by else 0.0, names[k]))
        ranked = [k for k in members if k in by]
        standings += [
            GeneratorRank(names[k], estimates[k], ranked.index(k) + 1 if k in by else None, ranks[k], strength.get(k))
            for k in members
        ]
        gaps += [_gap(fitted, columns, names, k, j, level) for k, j in pairwise(members) if complete]
        order += members
    for k in range(len(names)):
        if k not in order:
            standings.append(GeneratorRank(names[k], estimates[k], None, None))
            gaps += [_gap(fitted, columns, names, order[-1], k, level)]
            order.append(k)
    warnings += sorted({rate.reason for rate in estimates if rate.reason})
    if joined.annotator:
        warnings.append(annotators_note(len(set(joined.annotator.values()))))
    if joined.unjudged:
        warnings.append(f"{joined.unjudged} labelled pairs have no answer of the judge: counted as its ties")
    pairs = _pairwise(joined, [names[k] for k in order], generator_of, level)
    sizes = len(columns.people), len(columns.rest)
    return PeopleBoard(tuple(standings), tuple(gaps), pairs, fitted.power, *sizes, tuple(warnings), level)


def _groups(couples: Mapping[tuple[str, str], Sequence[int]]) -> list[tuple[list[str], bool]]:
    """Group the generators that people compared (`bradley_terry.opponents`).

    Labels that look like a random sample of all couples, of which the judge has the others, count as labels of all.
    """
    groups = opponents(couple for couple, (labelled, _) in couples.items() if labelled)
    ((everybody, complete), *_) = opponents(couples)
    if len(groups) == 1 and groups[0][0] == everybody and complete and not _sampled(couples):
        return [(everybody, True)]
    return groups


def _apart(groups: Sequence[tuple[Sequence[str], bool]]) -> list[str]:
    if len(groups) < 2:
        return []
    apart = "; ".join(", ".join(names) for names, _ in groups)
    return [f"people compared no generators of different groups: ranks count within each group ({apart})"]


def _couple(key: Sequence[str], generator_of: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(generator_of.get(image, "") for image in key[1:]))


def _strengths(
    human: Sequence[Pair], generator_of: Mapping[str, str], group: Sequence[str], members: Sequence[int]
) -> tuple[dict[int, float], dict[int, float], dict[int, tuple[int, int]], str]:
    """Order generators that met unlike opponents by Bradley-Terry strength.

    Returns:
        By number: what to order by (empty if there is no fit), the strength, and the range of ranks, from 95% intervals that
        do not overlap; and a note.
    """
    named = {image: name for image, name in generator_of.items() if name in group}
    fit = bradley_terry(human, named)
    number = dict(zip(group, members, strict=True))
    if fit.reason:
        what = f"not every two generators met ({', '.join(group)}), so win rates do not rank them; strengths have {fit.reason}"
        return {}, {}, dict.fromkeys(members, (1, len(members))), what
    strength = {number[row.generator]: row.strength for row in fit.generators}
    low, high = np.array([row.interval or (None, None) for row in fit.generators], dtype=np.float64).T
    ranks = dict(
        zip(strength, possible_ranks(low[:, None] > high), strict=True)
    )  # an open end is NaN, above and below none
    what = (
        f"not every two generators met ({', '.join(group)}): they are ranked by Bradley-Terry strength, not by win rate"
    )
    return strength, strength, ranks, what


def _pairwise(
    joined: Joined, names: Sequence[str], generator_of: Mapping[str, str], level: float
) -> tuple[Couple, ...]:
    """Estimate the win rate of every couple that has pairs, the better one first."""
    by_couple: dict[frozenset[str], Joined] = {}
    for every, part in ((joined.labelled, "labelled"), (joined.rest, "rest")):
        for key, values in every.items():
            couple = frozenset(generator_of.get(image, "") for image in key[1:])
            own = by_couple.setdefault(couple, Joined(annotator=joined.annotator))
            getattr(own, part)[key] = values
    return tuple(
        Couple(first, second, win_rate(pairs, generator_of, first, second, level=level))
        for first, second in combinations(names, 2)
        if (pairs := by_couple.get(frozenset((first, second)))) is not None
    )


def _columns(
    joined: Joined, names: Sequence[str], generator_of: Mapping[str, str]
) -> tuple[PreferenceArrays, Mapping[tuple[str, str], list[int]]]:
    """Arrange wins by generator; also count the labelled and the unlabelled pairs of each couple."""
    number = {name: k for k, name in enumerate(names)}
    couples: dict[tuple[str, str], list[int]] = {}

    def with_generators(keys: Mapping[Any, Any]) -> list[Any]:
        named = [(key, generator_of.get(key[1]), generator_of.get(key[2])) for key in keys]
        return [(key, number[x], number[y]) for key, x, y in named if x is not None and y is not None and x != y]

    labelled, rest = with_generators(joined.labelled), with_generators(joined.rest)
    for column, rows in enumerate((labelled, rest)):
        for _, x, y in rows:
            couple = (names[min(x, y)], names[max(x, y)])
            couples.setdefault(couple, [0, 0])[column] += 1
    group, groups = codes(key[0] for key, _, _ in [*labelled, *rest])
    size = len(labelled)
    people, mask = _spread([(x, y, joined.labelled[key][0]) for key, x, y in labelled], len(names))
    judge, _ = _spread([(x, y, joined.labelled[key][1]) for key, x, y in labelled], len(names))
    other, rest_mask = _spread([(x, y, joined.rest[key]) for key, x, y in rest], len(names))
    who = joined.annotators(key for key, _, _ in labelled)
    arrays = PreferenceArrays(people, judge, mask, group[:size], other, rest_mask, group[size:], len(groups), who)
    return arrays, couples


def _spread(rows: Sequence[tuple[int, int, float]], size: int) -> tuple[Floats, Floats]:
    """Return the wins of each generator in each pair, and a mask of the generators in it: both (pairs, generators)."""
    values, mask = np.zeros((len(rows), size)), np.zeros((len(rows), size))
    for i, (x, y, win) in enumerate(rows):
        values[i, x], values[i, y] = win, 1 - win
        mask[i, x] = mask[i, y] = 1.0
    return values, mask


def _difference(fitted: Fit, k: int, j: int) -> tuple[float, float]:
    """Return the difference of two columns and its variance."""
    spread = fitted.spread
    return float(fitted.value[k] - fitted.value[j]), float(spread[k, k] + spread[j, j] - 2 * spread[k, j])


def _ranks(fitted: Fit, columns: PreferenceArrays, members: Sequence[int], level: float) -> dict[int, tuple[int, int]]:
    """Compute the ranks that each generator may have, given which others are certainly better or worse."""
    size = len(members)
    couples = max(size * (size - 1) // 2, 1)
    t = half_width(float(fitted.effective[fitted.effective > 0].min()), 1 - (1 - level) / couples)
    usable = {k: not undefined(fitted, columns, k) for k in members}
    above = np.zeros((size, size), dtype=bool)
    for (row, k), (column, j) in permutations(enumerate(members), 2):
        if usable[j] and usable[k]:
            difference, variance = _difference(fitted, k, j)
            above[row, column] = variance > 0 and difference > t * variance**0.5
    return dict(zip(members, possible_ranks(above), strict=True))


def _gap(fitted: Fit, columns: PreferenceArrays, names: Sequence[str], k: int, j: int, level: float) -> Gap:
    """Compute the difference of two neighbours, and how many more labels would separate them where it is not certain."""
    reason = undefined(fitted, columns, k) or undefined(fitted, columns, j)
    if reason:
        return Gap(names[k], names[j], None, None, False, None, reason)
    difference, variance = _difference(fitted, k, j)
    if variance <= 0:
        return Gap(names[k], names[j], difference, None, False, None, "the difference does not vary: no interval")
    half = half_width(float(min(fitted.effective[k], fitted.effective[j])), level) * variance**0.5
    separated = abs(difference) > half
    interval = (max(-1.0, difference - half), min(1.0, difference + half))
    if interval == (-1.0, 1.0):
        return Gap(names[k], names[j], difference, None, False, None, "too few labelled prompts: no interval")
    if separated:
        return Gap(names[k], names[j], difference, interval, True, 0)
    needed, why = more_labels(fitted, k, j, len(columns.people), len(columns.rest), level=level)
    return Gap(names[k], names[j], difference, interval, False, needed, why)


def more_labels(
    fitted: Fit, k: int, j: int, labelled: int, unlabelled: int, *, level: float = LEVEL
) -> tuple[int | None, str]:
    """Find how many more labels, drawn like the present ones, separate columns `k` and `j` with 80% power; or None and a reason.

    Takes the estimated difference and variance for the truth; lambda is tuned anew for every number of labels.
    """
    from scipy.stats import norm

    difference = abs(float(fitted.value[k] - fitted.value[j]))
    target = (difference / float(norm.ppf(0.5 + level / 2) + norm.ppf(POWER))) ** 2
    a, b, u = (part[:, k] - part[:, j] for part in fitted.parts)
    people = fitted.annotators  # more labels of the same people do not lower what these vary by
    fixed = float(people[k, k] + people[j, j] - 2 * people[k, j])
    total = labelled + unlabelled

    def variance(labels: int) -> float:
        """Compute the variance of the difference if people had labelled so many pairs, with the best weight of the judge."""
        remaining = total - labels
        less, rest = (labelled / labels) ** 0.5, (unlabelled / remaining) ** 0.5 if remaining else 0.0
        gap = less * b - rest * u
        below = float(gap @ gap)
        weight = min(max(float(less * a @ gap) / below, 0.0), 1.0) if below > 0 and remaining else 0.0
        miss = less * a - weight * gap
        return float(miss @ miss) + fixed

    if difference == 0 or variance(total) > target:
        return None, "labels on all the pairs there are would not be enough"
    low, high = labelled, total
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if variance(middle) <= target else (middle, high)
    return high - labelled, ""


def _sampled(couples: Mapping[tuple[str, str], Sequence[int]]) -> list[str]:
    """Warn when the labelled pairs are distributed over couples of generators differently from the rest (chi-squared test)."""
    from scipy.stats import chi2_contingency

    counts = np.array(list(couples.values()))
    if len(counts) < 2 or not counts.sum(axis=0).all():
        return []
    if chi2_contingency(counts).pvalue < 0.001:
        return [
            "the labelled pairs are no random sample of all pairs (couples of generators differ): intervals may not hold"
        ]
    return []
