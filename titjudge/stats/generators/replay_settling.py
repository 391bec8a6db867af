"""Replay sequential comparisons on scores that are already known: how many judgements they would have taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.types import Table
from titjudge.stats.generators.sequential import OPEN, Race, Settled, settle
from titjudge.stats.scores.scores_table import ScoreTable


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


def replay_pairs(
    table: ScoreTable, pairs: Sequence[tuple[str, str]], *, margin: float | None = None, repeat: int = 1, seed: int = 0
) -> list[Settled]:
    """Settle each pair in each of `repeat` random orders of the prompts.

    Raises:
        DataError: No such generator, or fewer than two common prompts.
    """
    rng = np.random.default_rng(seed)
    settled = []
    for names in pairs:
        columns = [table.column(name) for name in names]
        scores = table.means[:, columns]
        scores = scores[np.isfinite(scores).all(axis=1)]
        if len(scores) < 2:
            raise table.too_few(names, len(scores), "it takes two")
        settled += [settle(names, rng.permutation(scores), width=table.width, margin=margin) for _ in range(repeat)]
    return settled


def replay_race(
    table: ScoreTable, names: Sequence[str], *, margin: float | None = None, repeat: int = 1, seed: int = 0
) -> list[RaceResult]:
    """Race for the best of several generators in random orders.

    Raises:
        DataError: As `replay_pairs`.
    """
    means = table.means[:, [table.column(name) for name in names]]
    means = means[np.isfinite(means).all(axis=1)]
    if len(means) < 2:
        raise table.too_few(names, len(means), "it takes two")
    rng, races = np.random.default_rng(seed), []
    for _ in range(repeat):
        race = Race(names, table.width, margin)
        race.add(rng.permutation(means))
        left = tuple(race.left)
        races.append(RaceResult(tuple(names), race.verdict, left, race.prompts, race.judged, means.size))
    return races


def replay_tables(pairs: Sequence[Settled], races: Sequence[RaceResult]) -> list[Table]:
    """Tabulate the pairs and the races, each averaged over its orders."""
    tables = []
    if pairs:
        share = float(np.mean([pair.used / pair.of for pair in pairs]))
        settled = sum(pair.verdict != OPEN for pair in pairs)
        note = f"on average {100 * share:.1f}% of the judgements; {settled:,} of {len(pairs):,} settled"
        rows = _rows(((pair.a, pair.b), pair.verdict, pair.used, pair.of) for pair in pairs)
        columns: tuple[str, ...] = ("a", "b", "verdict", "prompts used", "of", "share")
        tables.append(Table("Settling pairs", columns, tuple((*names, *cells) for names, cells in rows), (note,)))
    if races:
        rows = _rows((race.generators, race.verdict, race.used, race.of) for race in races)
        columns = ("generators", "verdict", "judgements used", "of", "share")
        tables.append(Table("Racing for the best", columns, tuple((", ".join(names), *cells) for names, cells in rows)))
    return tables


def _rows(orders: Iterable[tuple[tuple[str, ...], str, int, int]]) -> list[tuple[tuple[str, ...], tuple[Any, ...]]]:
    """Average (generators, verdict, used, of) over the orders of the same generators."""
    by_names: dict[tuple[str, ...], list[tuple[str, int, int]]] = {}
    for names, verdict, used, total in orders:
        by_names.setdefault(names, []).append((verdict, used, total))
    return [
        (names, (
            verdicts(verdict for verdict, _, _ in ends), float(np.mean([used for _, used, _ in ends])), ends[0][2],
            float(np.mean([used / total for _, used, total in ends])),
        ))
        for names, ends in by_names.items()
    ]  # fmt: skip


def verdicts(names: Iterable[str]) -> str:
    """Count verdicts, the most frequent first: `A 15x, open 5x`; a single one without its count."""
    counted = Counter(names).most_common()
    return counted[0][0] if len(counted) == 1 else ", ".join(f"{name} {count}x" for name, count in counted)
