"""Bradley-Terry strengths of generators from comparisons with opponents drawn at random, whose strength a mean score would depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.grouping import group_means
from titjudge.core.run_records import BradleyTerryRecord
from titjudge.core.score_parts import against
from titjudge.core.types import Item, Pair, Score, Table
from titjudge.stats.equality import with_ties
from titjudge.stats.ranking.bradley_terry import bradley_terry
from titjudge.stats.scores.families import families, in_families

DUELS = Declaration(
    "duels", "strengths over drawn comparisons", Population.SCORED_IMAGES, Unit.PROMPT, order="strength"
)

POINTS = {"a": 1.0, "tie": 0.5, "b": 0.0}


def drawn_pairs(scores: Sequence[Score]) -> list[Pair]:
    """Read the comparisons of one metric, each once, as pairs with the judge's preference."""
    pairs: dict[tuple[str, str], Pair] = {}
    for score in scores:
        for other, points in against(score.parts).items():
            preference = "tie" if points == 0.5 else "a" if points > 0.5 else "b"
            if (other, score.item_id) not in pairs:
                pairs[score.item_id, other] = Pair(score.prompt_id, score.item_id, other, preference, "metric")
    return list(pairs.values())


def duel_tables(items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
    """Tabulate strengths for each metric that drew comparisons."""
    generator_of = {item.id: item.generator for item in items if item.generator}
    tables = []
    for name in sorted({score.metric for score in scores if score.parts.get("against")}):
        pairs = in_families(drawn_pairs([score for score in scores if score.metric == name]), families(items))
        fit = bradley_terry(pairs, generator_of)
        rows = _rows(pairs, generator_of, fit)
        notes = (
            f"{fit.pairs:,} comparisons were drawn. A lead of d means e^d wins for each loss. "
            "Rank by this and not by mean scores, which depend on whom an image happened to meet.",
            *((fit.reason,) if fit.reason else ()),
        )
        columns = ("rank", "generator", "strength", "from", "to", "points", "comparisons")
        tables.append(
            Table(f"Strengths over drawn comparisons (Bradley-Terry): {name}", columns, rows, notes, declared=DUELS)
        )
    return tables


def _ends(interval: tuple[float | None, float | None] | None) -> tuple[float | None, float | None]:
    """Return the ends of an interval as the table shows them: infinite where the record, which is JSON, has None."""
    if interval is None:
        return None, None
    low, high = interval
    return -math.inf if low is None else low, math.inf if high is None else high


def _rows(
    pairs: Sequence[Pair], generator_of: Mapping[str, str], fit: BradleyTerryRecord
) -> tuple[tuple[Any, ...], ...]:
    """Return the rows, strongest first; without a finite fit by the share of points, and without strengths."""
    points: dict[str, list[float]] = {}
    for pair in pairs:
        first, second = generator_of.get(pair.a), generator_of.get(pair.b)
        if first is not None and second is not None and first != second:
            won = POINTS[pair.preference]
            points.setdefault(first, []).append(won)
            points.setdefault(second, []).append(1 - won)
    share = group_means(points)
    fitted = {row.generator: (row.strength, *_ends(row.interval)) for row in fit.generators}
    names = list(fitted or share)
    strengths = with_ties(np.array([fitted[name][0] if fitted else share[name] for name in names]))
    value = dict(zip(names, strengths.tolist(), strict=True))
    return tuple(
        (
            1 + sum(other > value[name] for other in value.values()),
            name,
            *fitted.get(name, (None, None, None)),
            share[name],
            len(points[name]),
        )
        for name in sorted(value, key=lambda name: (-value[name], name))
    )
