"""Scores of parts that measure a capability of their own: pillars and facets of a checklist, claims by kind of element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from titjudge.core.grouping import group_means
from titjudge.core.score_parts import LEVELS, element_scores, levels
from titjudge.core.types import Item, Score
from titjudge.stats.scores.claims import claims_of

ELEMENT = "element"  # share of claims met, or mean of element scores, by kind: entity, attribute, relation, ...
PARTS = {ELEMENT: "claims or elements"} | dict.fromkeys(LEVELS, "pillars")  # columns, and what they are of


def part_scores(
    items: Mapping[str, Item], scores: Iterable[Score], columns: Iterable[str] = PARTS
) -> dict[str, dict[str, Mapping[str, float]]]:
    """Read the parts of scores: column -> item id -> value -> number; a column without any is left out.

    A facet, or sub-capability, whose name several pillars have is named with its pillar.

    Raises:
        DataError: A claim is malformed.
    """
    requested = set(columns)
    by_column: dict[str, dict[str, dict[tuple[str, ...], float]]] = {}
    for score in scores:
        if score.item_id not in items or score.value is None:
            continue
        parts = levels(score.parts) if requested & set(LEVELS) else {}
        if ELEMENT in requested:
            met: dict[tuple[str, ...], list[float]] = {}
            for claim in claims_of([items[score.item_id]], [score]):
                if claim.met is not None:
                    met.setdefault((claim.kind,), []).append(claim.met)
            for _, kind, value in element_scores(score.parts):
                met.setdefault((kind,), []).append(value)
            parts[ELEMENT] = group_means(met)
        for column in requested & set(parts):
            if parts[column]:
                by_column.setdefault(column, {})[score.item_id] = parts[column]
    return {column: _named(by_column[column]) for column in PARTS if column in by_column}


def _named(by_item: Mapping[str, Mapping[tuple[str, ...], float]]) -> dict[str, Mapping[str, float]]:
    """Name each part by the last of its names, with the first one (its pillar) added where that is ambiguous."""
    every = {names for values in by_item.values() for names in values}
    count = Counter(names[-1] for names in every)
    labels = {names: names[-1] if count[names[-1]] == 1 else f"{names[-1]} ({names[0]})" for names in every}
    return {id: {labels[names]: number for names, number in values.items()} for id, values in by_item.items()}
