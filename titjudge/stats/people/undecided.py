"""Pairs that a metric does not decide: what is not known of two scores could reverse their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from titjudge.core.score_parts import bounds_of
from titjudge.core.types import Pair, Score


@dataclass(frozen=True, slots=True)
class Undecided:
    """How many pairs a metric does not decide, of those that it scored.

    Attributes:
        undecided: Pairs whose bounds overlap.
        scored: Pairs with two scores.
    """

    undecided: int
    scored: int


def undecided(pairs: Sequence[Pair], scores: Iterable[Score]) -> dict[str, Undecided]:
    """Count for each metric the pairs that it does not decide; metrics whose scores have no bounds are left out.

    The bounds of a score are `lower` and `upper` of its parts: what the claims that stayed open, or the tokens of an answer that
    a provider did not list, could make of it. A score without them is its own bounds.
    """
    bounds: dict[str, dict[str, tuple[float, float]]] = {}
    open_in = set()
    for score in scores:
        if score.value is None:
            continue
        of_metric = bounds.setdefault(score.metric, {})
        stated = bounds_of(score.parts)
        of_metric[score.item_id] = stated or (score.value, score.value)
        if stated:
            open_in.add(score.metric)
    return {metric: _count(pairs, bounds[metric]) for metric in bounds if metric in open_in}


def _count(pairs: Sequence[Pair], bounds: dict[str, tuple[float, float]]) -> Undecided:
    both = [(bounds[pair.a], bounds[pair.b]) for pair in pairs if pair.a in bounds and pair.b in bounds]
    overlap = sum(a != b and a[0] < b[1] and b[0] < a[1] for a, b in both)
    return Undecided(overlap, len(both))
