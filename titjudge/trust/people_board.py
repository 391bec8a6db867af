"""A leaderboard of generators as people would rank them, from few human and many judge pairs; and what more labels buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from titjudge.compare.resample import LEVEL, Floats, Interval, codes
from titjudge.trust.ppi import Columns, Estimate, Fit, Joined, estimate, fit, join, quantile, undefined
from titjudge.types import Pair, Table

POWER = 0.8


@dataclass(frozen=True, slots=True)
class Standing:
    """One generator: its win rate against the others (ties count half), and the ranks that cannot be told apart."""

    generator: str
    win_rate: Estimate
    rank: int | None
    ranks: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Two neighbours: `difference` in win rate with its interval, whether zero is outside it, and how many MORE labels
    would put it outside with 80% power if the difference is what it seems; None with a reason when none would."""

    first: str
    second: str
    difference: float | None
    interval: Interval | None
    separated: bool
    more_labels: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PeopleBoard:
    """Best first. `power` is lambda, the judge's weight."""

    standings: tuple[Standing, ...]
    gaps: tuple[Gap, ...]
    power: float
    labelled: int
    unlabelled: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "generators": [
                {"generator": s.generator, "rank": s.rank, "ranks": s.ranks, **s.win_rate.to_json()}
                for s in self.standings
            ],
            "gaps": [{name: getattr(gap, name) for name in gap.__dataclass_fields__} for gap in self.gaps],
            "power": self.power,
            "labelled": self.labelled,
            "unlabelled": self.unlabelled,
            "warnings": list(self.warnings),
        }

    def tables(self) -> list[Table]:
        from titjudge.compare.tables import percent

        notes = (
            f"{self.labelled} pairs labelled by people, {self.unlabelled} more judged; weight of the judge {self.power:.2f}",
            "win rate against the others, ties count half; 95% intervals over prompts; a rank is a range of places",
            *self.warnings,
        )
        board = tuple(
            (
                s.generator,
                None
                if s.ranks is None
                else f"{s.ranks[0]}-{s.ranks[1]}"
                if s.ranks[0] < s.ranks[1]
                else str(s.ranks[0]),
                percent(s.win_rate.value, s.win_rate.interval),
                percent(s.win_rate.people, s.win_rate.people_interval),
                percent(s.win_rate.naive),
                s.win_rate.labelled,
                s.win_rate.worth and round(s.win_rate.worth),
            )
            for s in self.standings
        )
        columns = (
            "generator",
            "rank",
            "people, with the judge",
            "people alone",
            "judge alone",
            "labels",
            "worth labels",
        )
        gaps = tuple(
            (
                f"{g.first} / {g.second}",
                percent(g.difference, g.interval),
                "yes" if g.separated else "no",
                g.more_labels,
                g.reason or None,
            )
            for g in self.gaps
        )
        return [
            Table("Leaderboard for people", columns, board, notes),
            Table("What more labels would buy", ("neighbours", "difference", "separated", "more labels", "note"), gaps),
        ]


def people_board(
    human: Sequence[Pair], judge: Sequence[Pair], generator_of: Mapping[str, str], *, level: float = LEVEL
) -> PeopleBoard:
    """Rank generators by how often people prefer them, from few human pairs and many judge pairs.

    Ranges of ranks use differences at a level corrected for all couples (Bonferroni). Pairs of unknown images or of one
    generator with itself are left out.

    Raises:
        DataError: a preference is not a, b or tie.
    """
    joined = join(human, judge)
    names = sorted(
        {generator_of[image] for key in (*joined.labelled, *joined.rest) for image in key[1:] if image in generator_of}
    )
    columns, couples = _columns(joined, names, generator_of)
    if not len(columns.people):
        return PeopleBoard((), (), 0.0, 0, len(columns.rest), ("people labelled no pair of two known generators",))
    found = fit(columns)
    each = [estimate(found, columns, k, level=level, bounds=(0.0, 1.0)) for k in range(len(names))]
    order = sorted(range(len(names)), key=lambda k: (each[k].value is None, -(each[k].value or 0.0), names[k]))
    place = {k: i + 1 for i, k in enumerate(order) if each[k].value is not None}
    ranks = _ranks(found, columns, len(names), level)
    standings = tuple(Standing(names[k], each[k], place.get(k), ranks[k]) for k in order)
    gaps = tuple(_gap(found, columns, names, k, j, level) for k, j in pairwise(order))
    warnings = [*_sampled(couples), *sorted({e.reason for e in each if e.reason})]
    if joined.unjudged:
        warnings.append(f"{joined.unjudged} labelled pairs have no answer of the judge: counted as its ties")
    return PeopleBoard(standings, gaps, found.power, len(columns.people), len(columns.rest), tuple(warnings))


def _columns(
    joined: Joined, names: Sequence[str], generator_of: Mapping[str, str]
) -> tuple[Columns, Mapping[tuple[str, str], list[int]]]:
    """Wins by generator; and for each couple how many pairs are labelled and how many are not."""
    number = {name: k for k, name in enumerate(names)}
    couples: dict[tuple[str, str], list[int]] = {}

    def known(keys: Mapping[Any, Any]) -> list[Any]:
        made = [(key, generator_of.get(key[1]), generator_of.get(key[2])) for key in keys]
        return [(key, number[x], number[y]) for key, x, y in made if x is not None and y is not None and x != y]

    labelled, rest = known(joined.labelled), known(joined.rest)
    for column, rows in enumerate((labelled, rest)):
        for _, x, y in rows:
            couple = (names[min(x, y)], names[max(x, y)])
            couples.setdefault(couple, [0, 0])[column] += 1
    group, groups = codes(key[0] for key, _, _ in [*labelled, *rest])
    size = len(labelled)
    people, mask = _spread([(x, y, joined.labelled[key][0]) for key, x, y in labelled], len(names))
    judge, _ = _spread([(x, y, joined.labelled[key][1]) for key, x, y in labelled], len(names))
    other, rest_mask = _spread([(x, y, joined.rest[key]) for key, x, y in rest], len(names))
    return Columns(people, judge, mask, group[:size], other, rest_mask, group[size:], len(groups)), couples


def _spread(rows: Sequence[tuple[int, int, float]], size: int) -> tuple[Floats, Floats]:
    """Wins of each generator in each pair, and which generators are in it: both of shape (pairs, generators)."""
    values, mask = np.zeros((len(rows), size)), np.zeros((len(rows), size))
    for i, (x, y, win) in enumerate(rows):
        values[i, x], values[i, y] = win, 1 - win
        mask[i, x] = mask[i, y] = 1.0
    return values, mask


def _difference(found: Fit, k: int, j: int) -> tuple[float, float]:
    """(difference, its variance) of two columns."""
    spread = found.spread
    return float(found.value[k] - found.value[j]), float(spread[k, k] + spread[j, j] - 2 * spread[k, j])


def _ranks(found: Fit, columns: Columns, size: int, level: float) -> list[tuple[int, int] | None]:
    couples = max(size * (size - 1) // 2, 1)
    wide = quantile(float(found.effective[found.effective > 0].min()), 1 - (1 - level) / couples)
    usable = [not undefined(found, columns, k) for k in range(size)]
    out: list[tuple[int, int] | None] = []
    for k in range(size):
        if not usable[k]:
            out.append(None)
            continue
        better = worse = 0
        for j in range(size):
            if j != k and usable[j]:
                difference, variance = _difference(found, k, j)
                certain = variance > 0 and abs(difference) > wide * variance**0.5
                better += certain and difference < 0
                worse += certain and difference > 0
        out.append((1 + better, size - worse))
    return out


def _gap(found: Fit, columns: Columns, names: Sequence[str], k: int, j: int, level: float) -> Gap:
    reason = undefined(found, columns, k) or undefined(found, columns, j)
    if reason:
        return Gap(names[k], names[j], None, None, False, None, reason)
    difference, variance = _difference(found, k, j)
    if variance <= 0:
        return Gap(names[k], names[j], difference, None, False, None, "the difference does not vary: no interval")
    wide = quantile(float(min(found.effective[k], found.effective[j])), level) * variance**0.5
    separated = abs(difference) > wide
    interval = (difference - wide, difference + wide)
    if separated:
        return Gap(names[k], names[j], difference, interval, True, 0)
    more, why = more_labels(found, k, j, len(columns.people), len(columns.rest), level=level)
    return Gap(names[k], names[j], difference, interval, False, more, why)


def more_labels(
    found: Fit, k: int, j: int, labelled: int, unlabelled: int, *, level: float = LEVEL, power: float = POWER
) -> tuple[int | None, str]:
    """How many more labels, drawn like those there are, separate columns `k` and `j` with that power; None and why not.

    Takes today's difference and scatter for the truth; the judge's weight is tuned anew for every number of labels.
    """
    from scipy.stats import norm

    difference = abs(float(found.value[k] - found.value[j]))
    wanted = (difference / float(norm.ppf(0.5 + level / 2) + norm.ppf(power))) ** 2
    a, b, u = (part[:, k] - part[:, j] for part in found.parts)
    total = labelled + unlabelled

    def variance(labels: int) -> float:
        left = total - labels
        less, rest = (labelled / labels) ** 0.5, (unlabelled / left) ** 0.5 if left else 0.0
        gap = less * b - rest * u
        below = float(gap @ gap)
        weight = min(max(float(less * a @ gap) / below, 0.0), 1.0) if below > 0 and left else 0.0
        miss = less * a - weight * gap
        return float(miss @ miss)

    if difference == 0 or variance(total) > wanted:
        return None, "labels on all the pairs there are would not be enough"
    low, high = labelled, total
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if variance(middle) <= wanted else (middle, high)
    return high - labelled, ""


def _sampled(couples: Mapping[tuple[str, str], Sequence[int]]) -> list[str]:
    """A warning when labelled pairs are spread over couples of generators quite otherwise than the rest."""
    from scipy.stats import chi2_contingency

    counts = np.array(list(couples.values()))
    if len(counts) < 2 or not counts.sum(axis=0).all():
        return []
    if chi2_contingency(counts).pvalue < 0.001:
        return [
            "the labelled pairs are no random sample of all pairs (couples of generators differ): intervals may not hold"
        ]
    return []
