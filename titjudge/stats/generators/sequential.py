"""Sequential comparison: stop as soon as one of several generators is known to be better.

One may look after every prompt and stop at any time, and errs in at most 5% of all runs, where looking at a fixed-sample test
every ten prompts errs about one time in two.

On a scale with ends it is a test by betting (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", JRSS B 86, 2024, section 4), which is valid for every number of prompts and every distribution of scores, even
if one image in fifty is blank: a wealth of 1 is bet on "a is better", a share of it against each prompt, and grows by
chance to 40 in at most one run of 40 (Ville's inequality). The wealth is split over a fixed grid of shares. If scores use
little of their scale, the test takes many prompts even if all of them show the same difference: fewer cannot rule out
that one image in many is blank, and no valid test of the mean can do without them.

On a scale without ends nothing is valid for every distribution. There it is an asymptotic confidence sequence (Waudby-Smith,
Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics
52, 2024, Theorem 2.2), with the mean square of the differences as the variance, one added prompt that differs by the range of
the scores so far, and no verdict before 30 prompts. `python -m benchmarks.verdicts` and `.coverage` measure the error rates.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from titjudge.core.declarations import NEEDS_ALL, NEEDS_BOTH, Declaration, Population, Unit
from titjudge.core.grouping import grouped
from titjudge.core.tables import Cell, CellFormat, Note, Table, dollars
from titjudge.stats.bootstrap import LEVEL, Floats, Interval
from titjudge.stats.equality import score_differences, score_distance
from titjudge.stats.scores.scores_table import ScoreTable

FEWEST = 30  # prompts before any verdict on a scale without ends: the theorem is asymptotic
TUNED = 100  # prompts at which the asymptotic interval is narrowest
OPEN, EQUIVALENT = "open", "equivalent"
BETTING, ASYMPTOTIC = "betting", "asymptotic"
_BETS = np.geomspace(0.02, 0.999, 16)  # shares of the wealth, of the most that one prompt can take
_MOST_AT_ONCE = 1 << 18  # logarithms computed together


def _stakes() -> Floats:
    """Split the wealth over `_BETS`: more on large bets, which win soonest if scores use little of their scale."""
    stakes = np.sqrt(_BETS)
    stakes *= 0.7 / stakes.sum()
    stakes[-1] += 0.3
    return np.asarray(np.log(stakes))


_STAKES = _stakes()


def _wealth(logs: Floats) -> Floats:
    """Join the logarithms of the bets (last axis) to the logarithm of the whole wealth."""
    staked = logs + _STAKES
    most = staked.max(axis=-1)
    joined: Floats = most + np.log(np.exp(staked - most[..., None]).sum(axis=-1))
    return joined


def _gains(differences: Floats, mean: float, width: float) -> Floats:
    """Compute the logarithm of the result of each bet of 1 (last axis) on "the mean difference is above `mean`", by prompt."""
    gains: Floats = np.log1p(_BETS * ((differences - mean) / (mean + width))[..., None])
    return gains


def radius(prompts: Any, squares: Any, level: float = LEVEL) -> Any:
    """Compute the half-width of the asymptotic interval after each number of prompts, given the sum of squared differences."""
    alpha = 1 - level
    rho = (2 * math.log(1 / alpha) + math.log(1 + 2 * math.log(1 / alpha))) / TUNED
    mixed = prompts * rho + 1
    return np.sqrt(squares / prompts * 2 * mixed / (prompts**2 * rho) * np.log(np.sqrt(mixed) / alpha))


def share_at_most(hits: float, trials: int) -> float:
    """Compute a 95% upper confidence bound of a share, valid after every trial simultaneously: one may look, and stop, at any time.

    Exact for trials that are hits or misses, and valid for fractional hits (`hits` is their sum), as long as the mean of a
    trial does not depend on the ones before. The uniform mixture of likelihood ratios over all shares (Robbins, "Statistical
    methods related to the law of the iterated logarithm", 1970) exceeds 20 in at most 5% of all
    sequences (Ville's inequality); a likelihood ratio is convex in the hit, so that fractional hits do not increase it.
    """
    misses = trials - hits
    if misses <= 0:
        return 1.0
    mixed = math.lgamma(hits + 1) + math.lgamma(misses + 1) - math.lgamma(trials + 2) + math.log(1 - LEVEL)
    low, high = hits / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = middle < 1 and mixed <= (hits * math.log(middle) if hits else 0.0) + misses * math.log1p(-middle)
        low, high = (middle, high) if inside else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of a comparison: `verdict` is the better one, "equivalent" or "open", after `used` of `of` prompts.

    `interval` is the interval of a - b at this point.
    """

    a: str
    b: str
    verdict: str
    used: int
    of: int
    interval: Interval | None

    @property
    def generators(self) -> tuple[str, str]:
        """The two generators."""
        return self.a, self.b


@dataclass
class Race:
    """Find the better of two generators, or the best of several, prompt by prompt; beaten ones drop out.

    With two, a verdict is wrong in at most 5% of runs. With k the best one drops out in at most 2.5% and equal ones are
    distinguished in at most 5%: each of the k - 1 comparisons of one generator may err in 2.5% / (k - 1), in either
    direction.

    Args:
        names: Of the generators.
        width: Of the scale: the largest possible difference of two scores; None if the scale has no ends.
        margin: Equivalence margin; None asks for a winner only.
    """

    names: Sequence[str]
    width: float | None
    margin: float | None = None
    prompts: int = 0
    judged: int = 0  # prompts x generators that were still in
    unbeaten: list[str] = field(default_factory=list)
    verdict: str = OPEN

    def __post_init__(self) -> None:
        k = len(self.names)
        self.unbeaten = list(self.names)
        self._error = (1 - LEVEL) / 2 / max(1, k - 1)
        self._means = [0.0]  # that a mean difference is shown to exceed
        if self.margin is not None:  # a margin of the whole scale is meaningless: all are equivalent
            self._means.append(-(self.margin if self.width is None else min(self.margin, self.width * (1 - 1e-9))))
        self._logs = np.zeros((len(self._means), k, k, len(_BETS)))
        self._sums, self._squares = np.zeros((k, k)), np.zeros((k, k))
        self._ends = (math.inf, -math.inf)  # lowest and highest score so far
        self._seen: list[Floats] = []  # differences of the first two

    @property
    def over(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != OPEN

    @property
    def method(self) -> str:
        """How it is decided: by `betting` on a scale with ends, otherwise by an `asymptotic` interval."""
        return ASYMPTOTIC if self.width is None else BETTING

    def add(self, scores: Floats | Sequence[float]) -> None:
        """Add the scores of further prompts, up to the verdict.

        Args:
            scores: Shape (generators,) or (prompts, generators), in the order of the names; scores of generators that
                dropped out are ignored.
        """
        rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        while len(rows) and not self.over:
            k = len(self.unbeaten)
            rows = rows[self._advance(rows[: max(1, _MOST_AT_ONCE // (k * (k - 1) * len(_BETS)))]) :]

    def _advance(self, scores: Floats) -> int:
        """Add prompts up to the first at which something is decided, or all; returns how many."""
        place = [self.names.index(name) for name in self.unbeaten]
        first, second = (
            np.array(indices) for indices in zip(*((i, j) for i in place for j in place if i != j), strict=True)
        )
        d = score_differences(scores[:, first], scores[:, second])
        exceeded = (
            self._asymptotic(scores[:, place], d, first, second) if self.width is None else self._bet(d, first, second)
        )
        decided = exceeded[0].any(axis=1)
        if self.margin is not None:
            decided |= exceeded[1].all(axis=1)
        used = int(np.argmax(decided)) + 1 if decided.any() else len(scores)
        self._keep(used, first, second)
        if len(self.names) == 2:
            self._seen.append(d[:used, 0])
        self.prompts += used
        self.judged += used * len(place)
        beaten = set(second[exceeded[0][used - 1]].tolist())
        self.unbeaten = [self.names[k] for k in place if k not in beaten]
        if len(self.unbeaten) == 1:
            self.verdict = self.unbeaten[0]
        elif self.margin is not None:
            kept = ~np.isin(first, list(beaten)) & ~np.isin(second, list(beaten))
            if exceeded[1][used - 1, kept].all():
                self.verdict = EQUIVALENT
        return used

    def _bet(self, d: Floats, first: NDArray[Any], second: NDArray[Any]) -> list[NDArray[np.bool_]]:
        """Return for each of `_means` whether the mean of each pair is known to exceed it, after each prompt."""
        width = self.width or 0.0
        self._after = [
            self._logs[k, first, second] + np.cumsum(_gains(np.clip(d, -width, width), mean, width), axis=0)
            for k, mean in enumerate(self._means)
        ]
        return [_wealth(logs) >= -math.log(self._error) for logs in self._after]

    def _asymptotic(
        self, scores: Floats, d: Floats, first: NDArray[Any], second: NDArray[Any]
    ) -> list[NDArray[np.bool_]]:
        """Return the same by the asymptotic interval, with the range of the scores so far instead of the scale."""
        n = self.prompts + np.arange(1, len(d) + 1)
        sums, squares = (
            self._sums[first, second] + np.cumsum(d, axis=0),
            self._squares[first, second] + np.cumsum(d**2, axis=0),
        )
        lows = np.minimum.accumulate(np.minimum(scores.min(axis=1), self._ends[0]))
        highs = np.maximum.accumulate(np.maximum(scores.max(axis=1), self._ends[1]))
        self._after = [sums, squares, lows, highs]
        spans = np.array([score_distance(low, high, 1.0) for low, high in zip(lows, highs, strict=True)])
        half = radius(n[:, None], squares + spans[:, None] ** 2, 1 - 2 * self._error)
        return [(sums / n[:, None] - half > mean) & (n >= FEWEST)[:, None] for mean in self._means]

    def _keep(self, used: int, first: NDArray[Any], second: NDArray[Any]) -> None:
        """Keep what was added up over the first `used` of the prompts that were looked at."""
        if self.width is not None:
            for k, logs in enumerate(self._after):
                self._logs[k, first, second] = logs[used - 1]
            return
        sums, squares, lows, highs = self._after
        self._sums[first, second], self._squares[first, second] = sums[used - 1], squares[used - 1]
        self._ends = (float(lows[used - 1]), float(highs[used - 1]))

    def interval(self) -> Interval | None:
        """Return the 95% interval of the first mean minus the second, valid at every moment, in a race of two; otherwise None."""
        if len(self.names) != 2 or not self.prompts:
            return None
        d = np.concatenate(self._seen)
        if self.width is None:
            half = radius(self.prompts, self._squares[0, 1] + score_distance(*self._ends, 1.0) ** 2)
            return float(d.mean() - half), float(d.mean() + half)
        d = np.clip(d, -self.width, self.width)
        return self._exceeds(d), -self._exceeds(-d)

    def _exceeds(self, d: Floats) -> float:
        """Find the largest mean that the mean of these differences is known to exceed."""
        width = self.width or 0.0
        low, high = -width, float(d.mean())
        values, counts = np.unique(d, return_counts=True)  # scores of few levels have few differences
        for _ in range(30):
            middle = (low + high) / 2
            exceeded = middle > -width and _wealth(counts @ _gains(values, middle, width)) >= -math.log(self._error)
            low, high = (middle, high) if exceeded else (low, middle)
        return low


def settle(names: tuple[str, str], scores: Floats, *, width: float | None, margin: float | None = None) -> Settled:
    """Go through the scores of two generators in the given order and stop at the first verdict.

    Args:
        names: The two generators, a and b.
        scores: Of each prompt by a and by b, in random order, shape (prompts, 2).
        width: Of the scale, as in `Race`.
        margin: Equivalence margin; None asks for a winner only.
    """
    race = Race(names, width, margin)
    race.add(scores)
    return Settled(*names, race.verdict, race.prompts, len(scores), race.interval())


SETTLED = Declaration(
    "settle",
    "prompts until a pair is settled",
    Population.COMMON_OF_TWO,
    Unit.PROMPT,
    NEEDS_BOTH,
    "order of the pairs",
)
RACES = Declaration(
    "races", "judgements until a race is over", Population.COMMON_OF_RACE, Unit.PROMPT, NEEDS_ALL, "order of the races"
)


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The result of one race.

    Attributes:
        generators: The generators that raced.
        verdict: The best one, "equivalent" or "open".
        left: Those that no other has beaten.
        prompts: Prompts that it took.
        used: Judgements that it took, of all (`of`).
    """

    generators: tuple[str, ...]
    verdict: str
    left: tuple[str, ...]
    prompts: int
    used: int
    of: int


@dataclass(frozen=True, slots=True)
class ReplayAverage:
    """The prompts or judgements that a question between generators took, averaged over random orders of the prompts.

    Attributes:
        generators: The generators.
        verdicts: The verdicts, counted.
        used: Prompts or judgements that it took, of all (`total`).
        share: Share of all that it took.
        open: Share of the orders that stayed open.
    """

    generators: tuple[str, ...]
    verdicts: str
    used: float
    total: int
    share: float
    open: float

    def cells(self, cost: float | None = None) -> tuple[Any, ...]:
        """Return the cells of its row in a table, after the names; `cost` is the price in USD of one counted thing, if known."""
        spared = () if cost is None else (dollars(cost * (self.total - self.used)),)
        return self.verdicts, self.used, self.total, Cell(self.share, CellFormat.PERCENT, bar=True), *spared


def replay_pairs(
    table: ScoreTable, pairs: Sequence[tuple[str, str]], *, margin: float | None = None, repeat: int = 1, seed: int = 0
) -> list[Settled]:
    """Settle each pair in each of `repeat` random orders of the prompts.

    Raises:
        DataError: No such generator, or fewer than two common prompts.
    """
    settled = []
    for names in pairs:
        orders = _orders(table.common_scores(names, "it takes two"), repeat, seed)
        settled += [settle(names, scores, width=table.width, margin=margin) for scores in orders]
    return settled


def replay_race(
    table: ScoreTable, names: Sequence[str], *, margin: float | None = None, repeat: int = 1, seed: int = 0
) -> list[RaceResult]:
    """Race for the best of several generators in random orders.

    Raises:
        DataError: As `replay_pairs`.
    """
    races = []
    for means in _orders(table.common_scores(names, "it takes two"), repeat, seed):
        race = Race(names, table.width, margin)
        race.add(means)
        unbeaten = tuple(race.unbeaten)
        races.append(RaceResult(tuple(names), race.verdict, unbeaten, race.prompts, race.judged, means.size))
    return races


def _orders(scores: Floats, repeat: int, seed: int) -> Iterator[Floats]:
    """Yield the prompts in random orders, which depend neither on names nor on the order of rows.

    The scores are the seed, too. One permutation of all sorted scores would not be random: with it 9% of equal generators
    were distinguished.
    """
    steps = np.rint(scores * 2.0**20) + 0.0  # without the rounding of a mean, and -0
    steps = steps[:, np.lexsort(np.sort(steps, axis=0))]
    order = np.lexsort(steps.T)
    rng = np.random.default_rng([seed, zlib.crc32(steps[order].tobytes())])
    yield from (scores[rng.permutation(order)] for _ in range(repeat))


def replay_best(scores: ScoreTable, best: str, orders: int = 20) -> list[Settled]:
    """Settle the best generator against each other one with which it shares enough prompts, in random orders of these."""
    settled = []
    for name in scores.generators:
        if name != best and len(scores.differences(scores.column(best), scores.column(name))) >= FEWEST:
            settled += replay_pairs(scores, [(best, name)], repeat=orders)
    return settled


def replay_tables(pairs: Sequence[Settled], races: Sequence[RaceResult], scores: ScoreTable) -> list[Table]:
    """Tabulate the pairs and the races on these scores, each averaged over its orders."""
    spared = () if scores.cost is None else ("spared",)
    tables = []
    if pairs:
        cost = None if scores.cost is None else 2 * scores.cost  # a prompt is judged for both
        rows = tuple((*average.generators, *average.cells(cost)) for average in replay_averages(pairs))
        unit = "prompts" if scores.unit is None else "families"
        columns: tuple[str, ...] = ("a", "b", "verdict", f"{unit} used", "of", "share", *spared)
        share = float(np.mean([pair.used / pair.of for pair in pairs]))
        settled = sum(pair.verdict != OPEN for pair in pairs)
        line = f"on average {100 * share:.1f}% of the judgements; {settled:,} of {len(pairs):,} settled"
        tables.append(
            Table(
                "When each pair was settled",
                columns,
                rows,
                (Note("settled_on_average", line),),
                axis=(0, 1),
                explanation=(_explanation(scores),),
                declared=scores.over(SETTLED, [pair.generators for pair in pairs]),
            )
        )
    if races:
        rows = tuple((", ".join(average.generators), *average.cells(scores.cost)) for average in replay_averages(races))
        columns = ("generators", "verdict", "judgements used", "of", "share", *spared)
        declared = scores.over(RACES, [race.generators for race in races])
        tables.append(Table("Racing for the best", columns, rows, axis=(0, 1), declared=declared))
    return tables


def _explanation(scores: ScoreTable) -> Note:
    asymptotic = f" (asymptotic, as the scale has no ends: at {FEWEST} prompts at the earliest)"
    return Note(
        "about_replay",
        "`judge --settle` replayed on these scores, with the prompts in random order: stopped when an interval that holds at every "
        f"moment leaves zero{asymptotic if scores.width is None else ''}. Open: the prompts did not settle it.",
    )


def replay_averages(orders: Iterable[Settled | RaceResult]) -> list[ReplayAverage]:
    """Average what the orders of the same generators took."""
    by_names = grouped(orders, lambda order: order.generators)
    return [_average(names, ends) for names, ends in by_names.items()]


def _average(names: tuple[str, ...], orders: Sequence[Settled | RaceResult]) -> ReplayAverage:
    """Average what the orders of one question took."""
    return ReplayAverage(
        names,
        verdicts(order.verdict for order in orders),
        float(np.mean([order.used for order in orders])),
        orders[0].of,
        float(np.mean([order.used / order.of for order in orders])),
        sum(order.verdict == OPEN for order in orders) / len(orders),
    )


def verdicts(names: Iterable[str]) -> str:
    """Count verdicts, the most frequent first: `A 15x, open 5x`; a single one without its count."""
    counted = Counter(names).most_common()
    return counted[0][0] if len(counted) == 1 else ", ".join(f"{name} {count}x" for name, count in counted)
