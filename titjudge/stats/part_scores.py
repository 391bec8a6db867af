"""Parts of scores that stand for a capability of their own: pillars of a checklist, claims by kind of element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from titjudge.core.score_parts import pillars
from titjudge.core.types import Item, Score
from titjudge.stats.claims import claims_of

ELEMENT = "element"  # share of claims met, by kind: entity, attribute, relation, ...
PILLAR = "pillar"


def part_scores(
    items: Mapping[str, Item], scores: Iterable[Score], columns: Iterable[str] = (ELEMENT, PILLAR)
) -> dict[str, dict[str, Mapping[str, float]]]:
    """Read the parts of scores: column -> item id -> value -> number; a column without any is left out.

    Raises:
        DataError: a claim is malformed.
    """
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    wanted = set(columns)
    for score in scores:
        if score.item_id not in items or score.value is None:
            continue
        told: dict[str, Mapping[str, float]] = {PILLAR: pillars(score.parts)} if PILLAR in wanted else {}
        if ELEMENT in wanted:
            met: dict[str, list[bool]] = {}
            for claim in claims_of([items[score.item_id]], [score]):
                if claim.met is not None:
                    met.setdefault(claim.kind, []).append(claim.met)
            told[ELEMENT] = {kind: sum(each) / len(each) for kind, each in met.items()}
        for column, values in told.items():
            if values:
                found.setdefault(column, {})[score.item_id] = values
    return found
