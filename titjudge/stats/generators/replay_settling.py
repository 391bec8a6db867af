"""Replay sequential comparisons on scores that are already known: how many judgements they would have taken."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.declarations import NEEDS_ALL, NEEDS_BOTH, Declaration, Population, Unit
from titjudge.core.grouping import grouped
from titjudge.core.tables import Cell, CellFormat, Table, dollars
from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.sequential import FEWEST, OPEN, Race, Settled, settle
from titjudge.stats.scores.scores_table import ScoreTable

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
    """What a question between some generators took, averaged over random orders of the prompts.

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
        """Return the cells of its row in a table, after the names; `cost` is the price in USD of what is counted, where known."""
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
    were told apart.
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
        note = f"on average {100 * share:.1f}% of the judgements; {settled:,} of {len(pairs):,} settled"
        tables.append(
            Table(
                "When each pair was settled",
                columns,
                rows,
                (note,),
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


def _explanation(scores: ScoreTable) -> str:
    asymptotic = f" (asymptotic, as the scale has no ends: at {FEWEST} prompts at the earliest)"
    return (
        "`judge --settle` replayed on these scores, with the prompts in random order: stopped when an interval that holds at every "
        f"moment leaves zero{asymptotic if scores.width is None else ''}. Open: the prompts did not settle it."
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
