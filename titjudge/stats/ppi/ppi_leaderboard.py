"""A leaderboard of generators as people would rank them, from few human and many judge pairs, and how many labels are missing.

Prediction-powered inference: few preferences of people and many of a judge give valid intervals for PEOPLE.

Angelopoulos et al. 2023, with power tuning (PPI++, Angelopoulos, Duchi and Zrnic 2023):

    estimate = mean of people on the labelled pairs + lambda * (judge on the other pairs - judge on the labelled pairs)

lambda in [0, 1] minimises the estimated variance (its trace, for several generators at once): an uninformative judge gets 0,
and the interval of people alone remains. Means are in closed form; variances are sums over prompts of linearised
contributions, so that pairs of one prompt may be correlated, labelled or not. As lambda is fitted on the labelled prompts,
their part has one degree of freedom less.

Valid when the labelled pairs are a random sample of all pairs. The judge may be anything that does not depend on the
labels; a pair without an answer of the judge counts as its tie, which costs precision but not validity, as long as
unanswered unlabelled pairs are listed as ties, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from titjudge.core.declarations import RELIABLE, Declaration, Doubt, Excluded, Population, Unit
from titjudge.core.grouping import group_means
from titjudge.core.serialization import fields_of
from titjudge.core.tables import Cell, Table, percent, plain, rank_range
from titjudge.core.types import Json, Note, Pair
from titjudge.core.words import first_of
from titjudge.stats.bootstrap import LEVEL, Floats, Interval, Ints, codes, number
from titjudge.stats.equality import with_ties
from titjudge.stats.generators.slices import possible_ranks
from titjudge.stats.intervals import FEW_ANNOTATORS
from titjudge.stats.pairwise_accuracy import sign_of
from titjudge.stats.ranking.bradley_terry import bradley_terry, opponents
from titjudge.stats.scores.families import annotators_note
from titjudge.stats.significance import POWER

FEW = 20  # labelled prompts below which an interval is only approximate


PEOPLE = Declaration(
    "people",
    "win rate of each generator with {people}",
    Population.HUMAN_PAIRS,
    Unit.PROMPT,
    order="group, then win rate or strength",
    by_column={"judge_alone": Population.JUDGED_PAIRS},
)
COUPLES = Declaration(
    "couples",
    "win rate of two generators",
    Population.HUMAN_PAIRS,
    Unit.PROMPT,
    order="place in the leaderboard",
    by_column={"judge_alone": Population.JUDGED_PAIRS},
    counts="labels",
)
GAPS = Declaration(
    "gaps", "win rates of neighbours", Population.HUMAN_PAIRS, Unit.PROMPT, order="place in the leaderboard"
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One mean, estimated by people with the judge (`value`), by people alone (`people`), and by the judge alone (`naive`).

    Attributes:
        value, people, naive: In [0, 1].
        interval: 95%, unless another level is asked for; None, with a `reason`, if undefined.
        power: lambda, the weight of the judge.
        worth: Number of labels with which people alone would reach the same precision (effective sample size).
    """

    value: float | None
    interval: Interval | None
    power: float
    people: float | None
    people_interval: Interval | None
    naive: float | None
    naive_interval: Interval | None
    labelled: int
    unlabelled: int
    prompts: int
    worth: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PreferenceArrays:
    """Preferences as arrays, for K estimates at once: the pairs that people labelled, then the others.

    Attributes:
        people: Wins by people on the labelled pairs, shape (labelled, K).
        judge: Wins by the judge on all pairs, shape (pairs, K).
        mask: 1 if a pair counts for an estimate, otherwise 0; shape (pairs, K).
        group: Number of the prompt of each pair.
        annotator: Number of the annotator of each pair, if annotators are a small sample as well; otherwise empty.
    """

    people: Floats
    judge: Floats
    mask: Floats
    group: Ints
    annotator: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def groups(self) -> int:
        """Number of prompts."""
        return int(self.group.max(initial=-1)) + 1

    def linear(self, values: Floats, rows: slice) -> tuple[Floats, Floats]:
        """Compute masked column means, shape (K,), and the contribution of each prompt to their error, shape (groups, K).

        A contribution is the change when the prompt is left out (delete-one jackknife), so that the variance is not
        underestimated if a prompt has many pairs.
        """
        mask, group = self.mask[rows], self.group[rows]
        count = mask.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (values * mask).sum(axis=0) / count
            share = np.nan_to_num(mask * (values - mean) / count)
        out = np.zeros((self.groups, values.shape[1]))
        np.add.at(out, group, share)
        remaining = 1 - self.leverage(rows)
        return mean, np.divide(out, remaining, out=np.zeros_like(out), where=remaining > 1e-12)

    def leverage(self, rows: slice) -> Floats:
        """Compute the share of each prompt in each column's rows; shape (groups, K), 0 for a column without rows."""
        mask = self.mask[rows]
        share = np.zeros((self.groups, mask.shape[1]))
        np.add.at(share, self.group[rows], mask / np.maximum(mask.sum(axis=0), 1.0))
        return share

    def effective(self, rows: slice) -> Floats:
        """Compute the effective number of prompts (of equal size) of each column; shape (K,), 0 for a column without rows."""
        squares = (self.leverage(rows) ** 2).sum(axis=0)
        effective: Floats = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0)
        return effective


def _cut(rate: float) -> float:
    """Cut a rate to the scale from 0 to 1, which a correction by few labels can leave; NaN stays."""
    return float(np.clip(rate, 0.0, 1.0))


class Means(NamedTuple):
    """K estimates of one kind: values, shape (K,), their covariance, (K, K), and effective numbers of prompts, (K,).

    The effective number is one more than the degrees of freedom of an interval.
    """

    value: Floats
    spread: Floats
    effective: Floats

    def interval(self, k: int, level: float) -> Interval | None:
        """Compute the interval of one estimate by Student's t, cut to the scale; None without variance."""
        value, variance = float(self.value[k]), float(self.spread[k, k])
        if not np.isfinite(value) or variance <= 0:
            return None
        half = half_width(float(self.effective[k]), level) * variance**0.5
        return _cut(value - half), _cut(value + half)


@dataclass(frozen=True, slots=True)
class Fit:
    """K estimates.

    Attributes:
        joint, people, naive: By people with the judge, by people alone, and by the judge alone.
        power: lambda.
        parts: Per-prompt contributions of people, the judge on labelled pairs, and the judge on the rest, each (groups, K).
        annotators: The part of the covariance that comes from the choice of few annotators.
        labelled_prompts: Number of prompts with a labelled pair.
        level: Coverage of all intervals, in (0, 1).
    """

    columns: PreferenceArrays
    joint: Means
    people: Means
    naive: Means
    power: float
    parts: tuple[Floats, Floats, Floats]
    annotators: Floats
    labelled_prompts: int
    level: float

    def estimate(self, k: int) -> Estimate:
        """Return column `k` with its intervals."""
        columns, reason = self.columns, self.undefined(k)
        labels, pairs = (int(mask[:, k].sum()) for mask in (columns.mask[: len(columns.people)], columns.mask))
        spread, alone = float(self.joint.spread[k, k]), float(self.people.spread[k, k])
        few = f"only {self.labelled_prompts} labelled prompts: the interval is approximate"
        return Estimate(
            value=number(_cut(self.joint.value[k])),
            interval=None if reason else self.joint.interval(k, self.level),
            power=self.power,
            people=number(self.people.value[k]),
            people_interval=None if reason else self.people.interval(k, self.level),
            naive=number(self.naive.value[k]),
            naive_interval=self.naive.interval(k, self.level),
            labelled=labels,
            unlabelled=pairs - labels,
            prompts=columns.groups,
            worth=labels * alone / spread if not reason and spread > 0 else None,
            reason=reason or (few if self.labelled_prompts < FEW else ""),
        )

    def undefined(self, k: int) -> str:
        """Return why column `k` has no interval; empty when it has one."""
        if not self.columns.mask[: len(self.columns.people), k].any():
            return "people labelled no pair"
        if self.labelled_prompts < 2:
            return "people labelled pairs of fewer than two prompts: no interval"
        return "" if self.people.spread[k, k] > 0 else "all labels are equal: no interval"

    def difference(self, k: int, j: int) -> tuple[float, float]:
        """Return the difference of two columns and its variance."""
        value, spread, _ = self.joint
        return float(value[k] - value[j]), float(spread[k, k] + spread[j, j] - 2 * spread[k, j])


def fit(columns: PreferenceArrays, level: float = LEVEL) -> Fit:
    """Compute the power-tuned estimate of every column; NaN for a column without labelled rows."""
    labelled, others, every = slice(len(columns.people)), slice(len(columns.people), None), slice(None)
    people, a = columns.linear(columns.people, labelled)
    judge, b = columns.linear(columns.judge[labelled], labelled)
    rest, u = columns.linear(columns.judge[others], others)
    gap = b - u
    usable = np.isfinite(rest).all() and np.isfinite(judge).all()
    below = float((gap * gap).sum()) if usable else 0.0
    prompts = len(np.unique(columns.group[labelled]))
    freedom = prompts - 1 - 1 / a.shape[1]  # degrees of freedom: lambda takes one, for all columns together
    power = float(np.clip((a * gap).sum() / below, 0.0, 1.0)) if below > 0 and freedom > 0 else 0.0
    value = people + power * (rest - judge) if power else people
    contributions = ((prompts - 1) / freedom) ** 0.5 * (a - power * b) + power * u if power else a
    naive, all_judge = columns.linear(columns.judge, every)
    effective, spread = columns.effective(labelled), contributions.T @ contributions
    (with_judge, few), (by_people, _) = (_of_annotators(columns, weight) for weight in (power, 0.0))
    if len(columns.annotator):
        whole = np.diag(spread + with_judge)
        parts_of_freedom = np.diag(spread) ** 2 / np.maximum(effective - 1, 1) + few**2 / columns.annotator.max()
        effective = np.divide(whole**2, parts_of_freedom, out=effective - 1, where=parts_of_freedom > 0) + 1
    return Fit(
        columns,
        Means(value, spread + with_judge, effective),
        Means(people, a.T @ a + by_people, effective),
        Means(naive, all_judge.T @ all_judge, columns.effective(every)),
        power,
        (a, b, u),
        with_judge,
        prompts,
        level,
    )


def _of_annotators(columns: PreferenceArrays, weight: float) -> tuple[Floats, Floats]:
    """Estimate the covariance of all columns that comes from the choice of few annotators; 0 if they are not a sample.

    Their variance, without the variance of one person's answers on one prompt, which is already in the variance over prompts.

    Returns:
        The covariance, and the variances before this subtraction, by which degrees of freedom are counted.
    """
    labels, size = columns.people.shape
    people = int(columns.annotator.max(initial=-1)) + 1
    if people < 2:
        return np.zeros((size, size)), np.zeros(size)
    rows, mask = columns.people - weight * columns.judge[:labels], columns.mask[:labels]
    count = np.maximum(mask.sum(axis=0), 1.0)
    rows = mask * (rows - (rows * mask).sum(axis=0) / count) / count
    cells = np.zeros((people, columns.groups, size))
    np.add.at(cells, (columns.annotator, columns.group[:labels]), rows)
    by_person, single = cells.sum(axis=1), cells.reshape(-1, size)
    whole, times = by_person.T @ by_person, people / (people - 1)
    values, vectors = np.linalg.eigh((whole - single.T @ single) * times)
    spread: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return spread, np.diag(whole) * times


def half_width(prompts: float, level: float) -> float:
    """Compute the half-width of an interval, in standard errors: the quantile of Student's t with (effective) prompts - 1 degrees of freedom."""
    from titjudge.stats.special import stdtrit

    return float(stdtrit(max(prompts - 1, 1.0), 0.5 + level / 2))


# -- pairs -----------------------------------------------------------------------------------------------------------

Key = tuple[str, str, str]  # prompt, and the two images in sorted order


@dataclass(slots=True)
class Joined:
    """Human and judge pairs matched, each pair once, as wins (1, 0.5, 0) of the first image in sorted order.

    Attributes:
        labelled: Wins by people and by the judge.
        rest: Wins by the judge on pairs without a label.
        unjudged: Labelled pairs without an answer of the judge, which counts as a tie.
        annotator: The person who labelled each pair, if each was labelled by one of few people; otherwise empty.
    """

    labelled: dict[Key, tuple[float, float]]
    rest: dict[Key, float]
    unjudged: int
    annotator: Mapping[Key, str]


def join(human: Sequence[Pair], judge: Sequence[Pair]) -> Joined:
    """Match human pairs with judge pairs, in either order of the two images; repeated ones are averaged.

    Raises:
        DataError: A preference is not a, b or tie.
    """
    people, machine = _wins(human), _wins(judge)
    known = {_key(pair): pair.annotator for pair in human if pair.annotator}
    one_each = len(known) == len(human) and 1 < len(set(known.values())) < FEW_ANNOTATORS
    return Joined(
        annotator=known if one_each else {},
        labelled={key: (value, machine.get(key, 0.5)) for key, value in people.items()},
        rest={key: value for key, value in machine.items() if key not in people},
        unjudged=sum(key not in machine for key in people),
    )


def _wins(pairs: Sequence[Pair]) -> dict[Key, float]:
    """Return how often the first image of each pair, in sorted order, wins: 1, 0.5 or 0, repeated pairs averaged."""
    wins: dict[Key, list[float]] = {}
    for pair in pairs:
        win = (1 + sign_of(pair)) / 2
        wins.setdefault(_key(pair), []).append(1 - win if pair.a > pair.b else win)
    return group_means(wins)


def _key(pair: Pair) -> Key:
    return pair.prompt_id, min(pair.a, pair.b), max(pair.a, pair.b)


class PairRows(NamedTuple):
    """Pairs of images of two generators, labelled ones first.

    Attributes:
        first, second: Numbers of the two generators.
        people, judge: Wins of the first: by people on the labelled pairs, by the judge on all.
        prompt: Prompt of each pair.
        annotator: The person who labelled each pair, as in `Joined`.
    """

    first: Ints
    second: Ints
    people: Floats
    judge: Floats
    prompt: NDArray[Any]
    annotator: NDArray[Any]

    @classmethod
    def of(cls, joined: Joined, names: Sequence[str], generator_of: Mapping[str, str]) -> PairRows:
        """Arrange the pairs whose images are of two of the generators."""
        place = {name: k for k, name in enumerate(names)}
        number = {image: place[name] for image, name in generator_of.items() if name in place}

        def of_two(keys: Iterable[Key]) -> list[tuple[Key, int, int]]:
            known = [(key, number.get(key[1]), number.get(key[2])) for key in keys]
            return [(key, x, y) for key, x, y in known if x is not None and y is not None and x != y]

        labelled, rest = of_two(joined.labelled), of_two(joined.rest)
        first, second = np.array([row[1:] for row in (*labelled, *rest)], dtype=np.int64).reshape(-1, 2).T
        people, judge = np.array([joined.labelled[key] for key, _, _ in labelled]).reshape(-1, 2).T
        judge = np.concatenate([judge, [joined.rest[key] for key, _, _ in rest]])
        who = [joined.annotator[key] for key, _, _ in labelled] if joined.annotator else []
        prompts = [key[0] for key, _, _ in (*labelled, *rest)]
        return cls(first, second, people, judge, np.array(prompts, dtype=object), np.array(who, dtype=object))

    def only(self, rows: NDArray[np.bool_]) -> PairRows:
        """Keep some of the pairs."""
        return PairRows._make(column[rows[: len(column)]] for column in self)

    def columns(self, generators: Sequence[int]) -> PreferenceArrays:
        """Arrange the wins of some generators, with a column for each of them."""
        first, second = (side[:, None] == np.array(generators) for side in (self.first, self.second))
        people, judge = (
            first[: len(wins)] * wins[:, None] + second[: len(wins)] * (1 - wins)[:, None]
            for wins in (self.people, self.judge)
        )
        return PreferenceArrays(people, judge, (first | second) * 1.0, codes(self.prompt)[0], codes(self.annotator)[0])

    def couples(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Count the labelled and the other pairs of every two generators."""
        couples = list(
            zip(np.minimum(self.first, self.second).tolist(), np.maximum(self.first, self.second).tolist(), strict=True)
        )
        labelled, rest = Counter(couples[: len(self.people)]), Counter(couples[len(self.people) :])
        return {couple: (labelled[couple], rest[couple]) for couple in sorted({*couples})}


@dataclass(frozen=True, slots=True)
class GeneratorRank:
    """One generator among its opponents: its win rate (ties count half), its rank, and the range of ranks it may have.

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
    """Best first. `power` is lambda, the judge's weight; `level` the level of all intervals.

    `excluded` has the human pairs that do not count, by reason; `families` is True if families are the unit; `annotators`
    counts the people who labelled the pairs, if they are few.
    """

    standings: tuple[GeneratorRank, ...]
    gaps: tuple[Gap, ...]
    couples: tuple[Couple, ...]
    power: float
    labelled: int
    unlabelled: int
    warnings: tuple[Note, ...]
    level: float = LEVEL
    excluded: Excluded = field(default_factory=dict)
    families: bool = False
    annotators: int = 0

    def _over(self, declaration: Declaration) -> Declaration:
        sizes = {Population.HUMAN_PAIRS: [self.labelled], Population.JUDGED_PAIRS: [self.labelled + self.unlabelled]}
        few = {s.generator: self.doubt for s in self.standings}
        return declaration.over(sizes, self.excluded, families=self.families, doubts=few)

    @property
    def doubt(self) -> str:
        """The `Doubt` about the level of the intervals; empty if it is reliable."""
        return Doubt.FEW_PEOPLE if 0 < self.annotators < RELIABLE else ""

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
        } | ({"doubt": self.doubt} if self.doubt else {})

    def tables(self) -> list[Table]:
        """Tabulate the leaderboard, the win rates of pairs of generators, and the gaps between neighbours."""
        return [self._board(), self._couples(), self._gaps()]

    def _board(self) -> Table:
        """Tabulate the leaderboard."""
        about = (
            f"weight of the judge {self.power:.2f}; win rate against the others, ties count half; {100 * self.level:g}% intervals; a "
            "rank is a range; worth labels: number of labels with the same information"
        )
        use = "use the first column of win rates; the judge's column is only as good as the judge"
        notes = (Note("about_people_board", about), Note("column_to_use", use), *self.warnings)
        strengths = any(s.strength is not None for s in self.standings)
        first = ("generator", "rank", *(["strength"] if strengths else []))
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
        return Table("Leaderboard for people", (*first, *_WAYS.values()), rows, notes, declared=self._over(PEOPLE),
                     keys=(*first, *_WAYS))  # fmt: skip

    def _couples(self) -> Table:
        rows = tuple((f"{c.first} / {c.second}", *_ways(c.win_rate), *_labels(c.win_rate)) for c in self.couples)
        line = "how often people prefer the first; the judge has a separate weight for each pair of generators"
        return Table("Generators in pairs", ("couple", *_WAYS.values()), rows, (Note("about_couples", line),), keys=("couple", *_WAYS),
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
        line = f"more labels: drawn like those there are, they separate the two with {100 * POWER:g}% power"
        return Table(
            "What more labels would buy", columns, rows, (Note("about_more_labels", line),), declared=self._over(GAPS)
        )


_WAYS = {
    "both": "people, with the judge", "people_alone": "people alone", "judge_alone": "judge alone",
    "labels": "labels", "worth": "worth labels",
}  # fmt: skip


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

    Ranges of ranks use differences at a level corrected for all pairs of generators (Bonferroni). Pairs of unknown images
    or of one generator with itself are left out. Generators of which people labelled no pair come last, and change no
    number of the others.

    Raises:
        DataError: A preference is not a, b or tie.
    """
    joined = join(human, judge)
    names = _named(joined.labelled, generator_of)
    aside = [name for name in _named(joined.rest, generator_of) if name not in names]
    everyone = PairRows.of(joined, [*names, *aside], generator_of)
    if not names:
        nobody = Note("no_labels_of_two", "people labelled no pair of two known generators")
        return PeopleBoard((), (), (), 0.0, 0, len(everyone.judge), (nobody,), level)
    rows = everyone.only((everyone.first < len(names)) & (everyone.second < len(names)))
    couples = rows.couples()
    groups = _groups({(names[k], names[j]): counts for (k, j), counts in couples.items()})
    alike = all(complete for _, complete in groups) and len(groups) == 1
    warnings = [*(_sampled(everyone.couples().values()) if alike else ()), *_apart(groups)]
    if not alike:  # the judge's answers on pairs of generators that people never saw correct nothing
        met = [
            couples[min(x, y), max(x, y)][0] > 0 for x, y in zip(rows.first.tolist(), rows.second.tolist(), strict=True)
        ]
        rows = rows.only(np.array(met))
    fitted = fit(rows.columns(range(len(names))), level)
    estimates = [fitted.estimate(k) for k in range(len(names))]
    rates = with_ties(fitted.joint.value)
    order: list[int] = []
    standings, gaps = [], []
    for group, complete in groups:
        members = [names.index(name) for name in group]
        by, strength = {k: float(rates[k]) for k in members}, dict[int, float]()
        ranks = _ranks(fitted, members)
        if not complete:
            by, strength, ranks, words = _strengths(human, generator_of, group, members)
            warnings.append(words)
        members.sort(key=lambda k: (-by[k] if k in by else 0.0, names[k]))
        ranked = [k for k in members if k in by]
        standings += [
            GeneratorRank(names[k], estimates[k], ranked.index(k) + 1 if k in by else None, ranks[k], strength.get(k))
            for k in members
        ]
        gaps += [_gap(fitted, names, k, j) for k, j in pairwise(members) if complete]
        order += members
    reasons = {rate.reason for rate in estimates if rate.reason}
    warnings += (Note("win_rate_undefined", reason) for reason in sorted(reasons))
    if aside:
        apart = fit(everyone.columns(range(len(names), len(names) + len(aside))), level)
        standings += [GeneratorRank(name, apart.estimate(k), None, None) for k, name in enumerate(aside)]
        warnings.append(Note("generators_without_labels", f"{first_of(aside)}: {apart.undefined(0)}"))
    if people := len(set(joined.annotator.values())):
        warnings.append(annotators_note(people))
    if joined.unjudged:
        line = f"{joined.unjudged} labelled pairs have no answer of the judge: counted as its ties"
        warnings.append(Note("labelled_pairs_unjudged", line))
    couples = rows.couples()
    pairs = tuple(
        Couple(names[k], names[j], win_rate(rows, k, j, level))
        for k, j in combinations(order, 2)
        if (min(k, j), max(k, j)) in couples
    )
    labelled = len(rows.people)
    sizes = labelled, len(rows.judge) - labelled
    return PeopleBoard(
        tuple(standings), tuple(gaps), pairs, fitted.power, *sizes, tuple(warnings), level, annotators=people
    )


def _named(keys: Iterable[Key], generator_of: Mapping[str, str]) -> list[str]:
    """List the generators of pairs of two known generators."""
    couples = ({generator_of.get(a, ""), generator_of.get(b, "")} for _, a, b in keys)
    return sorted({name for couple in couples if len(couple) > 1 and "" not in couple for name in couple})


def win_rate(rows: PairRows, first: int, second: int, level: float = LEVEL) -> Estimate:
    """Estimate how often people prefer one generator over another (ties count half), in [0, 1], over all pairs of the two."""
    two = np.isin(rows.first, (first, second)) & np.isin(rows.second, (first, second))
    return fit(rows.only(two).columns([first]), level).estimate(0)


def _groups(couples: Mapping[tuple[str, str], Sequence[int]]) -> list[tuple[list[str], bool]]:
    """Group the generators that people compared (`bradley_terry.opponents`).

    Labels that look like a random sample of all pairs of generators, of which the judge has the others, count as labels of all.
    """
    groups = opponents(couple for couple, (labelled, _) in couples.items() if labelled)
    ((everybody, complete), *_) = opponents(couples)
    if len(groups) == 1 and groups[0][0] == everybody and complete and not _sampled(couples.values()):
        return [(everybody, True)]
    return groups


def _apart(groups: Sequence[tuple[Sequence[str], bool]]) -> list[Note]:
    if len(groups) < 2:
        return []
    apart = "; ".join(", ".join(names) for names, _ in groups)
    line = f"people compared no generators of different groups: ranks count within each group ({apart})"
    return [Note("ranks_within_groups", line)]


def _strengths(
    human: Sequence[Pair], generator_of: Mapping[str, str], group: Sequence[str], members: Sequence[int]
) -> tuple[dict[int, float], dict[int, float], dict[int, tuple[int, int]], Note]:
    """Order generators that met unlike opponents by Bradley-Terry strength.

    Returns:
        By number: the sort key (empty if there is no fit), the strength, and the range of ranks, from 95% intervals that
        do not overlap; and a note.
    """
    named = {image: name for image, name in generator_of.items() if name in group}
    fit = bradley_terry(human, named)
    number = dict(zip(group, members, strict=True))
    if fit.reason:
        what = f"not every two generators met ({', '.join(group)}), so win rates do not rank them; strengths have {fit.reason}"
        return {}, {}, dict.fromkeys(members, (1, len(members))), Note("not_ranked_by_strength", what)
    strength = {number[row.generator]: row.strength for row in fit.generators}
    low, high = np.array([row.interval or (None, None) for row in fit.generators], dtype=np.float64).T
    ranks = dict(
        zip(strength, possible_ranks(low[:, None] > high), strict=True)
    )  # an open end is NaN, above and below none
    what = (
        f"not every two generators met ({', '.join(group)}): they are ranked by Bradley-Terry strength, not by win rate"
    )
    return strength, strength, ranks, Note("ranked_by_strength", what)


def _ranks(fitted: Fit, members: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Compute the ranks that each generator may have, given which others are certainly better or worse."""
    size = len(members)
    couples = max(size * (size - 1) // 2, 1)
    effective = fitted.joint.effective
    t = half_width(float(effective[effective > 0].min()), 1 - (1 - fitted.level) / couples)
    usable = {k: not fitted.undefined(k) for k in members}
    above = np.zeros((size, size), dtype=bool)
    for (row, k), (column, j) in permutations(enumerate(members), 2):
        if usable[j] and usable[k]:
            difference, variance = fitted.difference(k, j)
            above[row, column] = variance > 0 and difference > t * variance**0.5
    return dict(zip(members, possible_ranks(above), strict=True))


def _gap(fitted: Fit, names: Sequence[str], k: int, j: int) -> Gap:
    """Compute the difference of two neighbours, and how many more labels would separate them if it is not certain."""
    if reason := fitted.undefined(k) or fitted.undefined(j):
        return Gap(names[k], names[j], None, None, False, None, reason)
    difference, variance = fitted.difference(k, j)
    if variance <= 0:
        return Gap(names[k], names[j], difference, None, False, None, "the difference does not vary: no interval")
    half = half_width(float(fitted.joint.effective[[k, j]].min()), fitted.level) * variance**0.5
    separated = abs(difference) > half
    interval = (max(-1.0, difference - half), min(1.0, difference + half))
    if interval == (-1.0, 1.0):
        return Gap(names[k], names[j], difference, None, False, None, "too few labelled prompts: no interval")
    if separated:
        return Gap(names[k], names[j], difference, interval, True, 0)
    needed, why = more_labels(fitted, k, j)
    return Gap(names[k], names[j], difference, interval, False, needed, why)


def more_labels(fitted: Fit, k: int, j: int) -> tuple[int | None, str]:
    """Find how many more labels, drawn like the present ones, separate columns `k` and `j` with 80% power; or None and a reason.

    Takes the estimated difference and variance for the truth; lambda is tuned again for every number of labels.
    """
    from scipy.stats import norm

    difference = abs(fitted.difference(k, j)[0])
    target = (difference / float(norm.ppf(0.5 + fitted.level / 2) + norm.ppf(POWER))) ** 2
    a, b, u = (part[:, k] - part[:, j] for part in fitted.parts)
    people = fitted.annotators  # more labels of the same people do not lower what these vary by
    fixed = float(people[k, k] + people[j, j] - 2 * people[k, j])
    labelled, total = len(fitted.columns.people), len(fitted.columns.judge)

    def variance(labels: int) -> float:
        """Compute the variance of the difference if people had labelled `labels` pairs, with the best weight of the judge."""
        remaining = total - labels
        less, rest = (labelled / labels) ** 0.5, ((total - labelled) / remaining) ** 0.5 if remaining else 0.0
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


def _sampled(couples: Collection[Sequence[int]]) -> list[Note]:
    """Warn when the labelled pairs are distributed over pairs of generators differently from the rest (chi-squared test)."""
    from scipy.stats import chi2_contingency

    counts = np.array(list(couples))
    if len(counts) < 2 or not counts.sum(axis=0).all():
        return []
    if chi2_contingency(counts).pvalue < 0.001:
        line = "the labelled pairs are not a random sample of all pairs (their generators differ): the level of the intervals is not reliable"
        return [Note("labels_not_random", line)]
    return []
