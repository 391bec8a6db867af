"""What settling a question would have cost, on scores that are there already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from titjudge.core.types import Table
from titjudge.stats.bootstrap import Floats
from titjudge.stats.equality import apart
from titjudge.stats.scores_table import ScoreTable
from titjudge.stats.sequential import OPEN, Race, Settled, settle


def replay_pairs(
    table: ScoreTable, pairs: Sequence[tuple[str, str]], *, margin: float | None = None, repeat: int = 1, seed: int = 0
) -> list[Settled]:
    """Settle each pair in each of `repeat` random orders of the prompts.

    Raises:
        DataError: no such generator, or fewer than two common prompts.
    """
    rng = np.random.default_rng(seed)
    found = []
    for names in pairs:
        columns = [table.column(name) for name in names]
        differences = table.differences(*columns)
        if len(differences) < 2:
            raise table.too_few(names, len(differences), "it takes two")
        span = _span(table.means[:, columns])
        found += [settle(names, rng.permutation(differences), span=span, margin=margin) for _ in range(repeat)]
    return found


def replay_race(
    table: ScoreTable, names: Sequence[str], *, margin: float | None = None, repeat: int = 1, seed: int = 0
) -> list[dict[str, Any]]:
    """Race for the best of several generators in random orders; `used` and `of` count judgements.

    Raises:
        DataError: as `replay_pairs`.
    """
    means = table.means[:, [table.column(name) for name in names]]
    means = means[np.isfinite(means).all(axis=1)]
    if len(means) < 2:
        raise table.too_few(names, len(means), "it takes two")
    rng, found = np.random.default_rng(seed), []
    for _ in range(repeat):
        race = Race(names, _span(means), margin)
        for scores in rng.permutation(means):
            race.add(scores)
            if race.over:
                break
        found.append({"generators": list(names), "verdict": race.verdict, "left": race.left, "prompts": race.prompts,
                      "used": race.judged, "of": means.size})  # fmt: skip
    return found


def _span(scores: Floats) -> float:
    return apart(float(np.nanmin(scores)), float(np.nanmax(scores)), 1.0)  # nothing differs: nothing is settled soon


def replay_tables(pairs: Sequence[Settled], races: Sequence[dict[str, Any]]) -> list[Table]:
    """One row a pair, and one a race, over all orders."""
    tables = []
    if pairs:
        by_pair: dict[tuple[str, str], list[Settled]] = {}
        for each in pairs:
            by_pair.setdefault((each.a, each.b), []).append(each)
        rows = [
            (a, b, verdicts(each.verdict for each in some), float(np.mean([each.used for each in some])), some[0].of,
             float(np.mean([each.used / each.of for each in some])))
            for (a, b), some in by_pair.items()
        ]  # fmt: skip
        share = float(np.mean([each.used / each.of for each in pairs]))
        settled = sum(each.verdict != OPEN for each in pairs)
        tables.append(
            Table(
                "Settling pairs",
                ("a", "b", "verdict", "prompts used", "of", "share"),
                tuple(rows),
                (f"on average {100 * share:.1f}% of the judgements; {settled:,} of {len(pairs):,} settled",),
            )
        )
    if races:
        by_race: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for one in races:
            by_race.setdefault(tuple(one["generators"]), []).append(one)
        raced = [
            (", ".join(names), verdicts(one["verdict"] for one in some), float(np.mean([one["used"] for one in some])),
             some[0]["of"], float(np.mean([one["used"] / one["of"] for one in some])))
            for names, some in by_race.items()
        ]  # fmt: skip
        columns = ("generators", "verdict", "judgements used", "of", "share")
        tables.append(Table("Racing for the best", columns, tuple(raced)))
    return tables


def verdicts(names: Any) -> str:
    counted = Counter(names).most_common()
    return counted[0][0] if len(counted) == 1 else ", ".join(f"{name} {count}x" for name, count in counted)
