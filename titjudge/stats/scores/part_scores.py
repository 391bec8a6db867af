"""Scores of parts that measure a capability of their own: pillars and facets of a checklist, claims by kind of element.

Claims are those of the agentic judge, of the graph metric, or questions of DSG and TIFA.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.grouping import group_means
from titjudge.core.score_parts import LEVELS, alignment, claims, element_scores, levels, questions, sequence
from titjudge.core.types import Item, Score, Values

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


_PLACE = ("position", "span", "start")
_TUPLE = re.compile(r"(?:\d+\s*\|\s*)?(?P<kind>\w+)[^()]*\((?P<names>[^()]+)\)")


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """One requirement of a prompt, with its `position` in the prompt, in [0, 1], and whether the image meets it; None: not seen."""

    claim: str
    kind: str
    position: float
    met: bool | None
    generator: str
    prompt_id: str

    @classmethod
    def from_record(cls, record: Values) -> ClaimOutcome:
        """Make a claim from a record with these keys.

        Raises:
            DataError: `position` is not a number in [0, 1], or `met` is not true, false or null.
        """
        name = str(record.get("claim", ""))
        position, met = record.get("position"), record.get("met")
        if isinstance(position, bool) or not isinstance(position, int | float) or not 0 <= position <= 1:
            raise DataError(f"claim '{name}': position is a number from 0 to 1, not {position!r}")
        if met is not None and not isinstance(met, bool):
            raise DataError(f"claim '{name}': met is true, false or null, not {met!r}")
        return cls(name, str(record.get("kind", "")), float(position), met, record["generator"], record["prompt_id"])


def claims_of(items: Iterable[Item], scores: Iterable[Score]) -> list[ClaimOutcome]:
    """List the claims of all scores that have some, with their position in the prompt.

    `parts["claims"]` (of the agentic judge) is a list of `{"claim", "kind", "met" or "verdict", "position"}`; instead of a
    position there may be a `span`, `[start, end]` in characters of the prompt. The position of an element of the graph metric
    (`parts["alignment"]`) is where its entity is first named in the prompt, that of a question of DSG or TIFA
    (`parts["questions"]`) where its object is; elements and questions that the prompt does not name are left out.

    Raises:
        DataError: A claim is malformed.
    """
    item_of = {item.id: item for item in items}
    return [
        claim for score in scores if score.item_id in item_of for claim in _claims_in(item_of[score.item_id], score)
    ]


def _claims_in(item: Item, score: Score) -> Iterator[ClaimOutcome]:
    """Yield the claims of one score: those of the agentic judge, else of the graph metric, else the questions."""
    rows, aligned = claims(score.parts), alignment(score.parts)
    facts = {"generator": item.generator, "prompt_id": item.prompt_id}
    if rows:
        for row in rows:
            if any(row.get(key) is not None for key in _PLACE):
                yield ClaimOutcome.from_record(
                    {**row, "met": _met(row, score), "position": _position(row, len(item.prompt)), **facts}
                )
    elif aligned is not None:
        for kind, marks in aligned.items():
            for element, met in _elements(marks):
                yield from _claim_at(" ".join(element), str(kind), element[:1], met, item, facts)
    else:
        for question in questions(score.parts) if score.value is not None else ():
            if (described := _described(question)) is not None:
                yield from _claim_at(str(question.get("question", "")), *described, item, facts)


def _elements(marks: Any) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each element of a graph, and whether it is aligned."""
    for mark in sequence(marks):
        if len(sequence(mark)) == 2 and (element := sequence(mark[0])):
            yield [str(word) for word in element], bool(mark[1])


def _claim_at(
    claim: str, kind: str, names: Sequence[str], met: bool, item: Item, facts: Values
) -> Iterator[ClaimOutcome]:
    """Yield the claim at the position of the first of the names that the prompt contains; nothing where it contains none."""
    place = next((position for name in names if (position := place_of(name, item.prompt)) is not None), None)
    if place is not None:
        yield ClaimOutcome.from_record({"claim": claim, "kind": kind, "position": place, "met": met, **facts})


def _described(question: Values) -> tuple[str, list[str], bool] | None:
    """Return kind, names and answer of a question of DSG (`attribute - color (cat, red)`) or TIFA (`element`)."""
    dsg = _TUPLE.match(str(question.get("tuple", "")))
    if dsg and isinstance(question.get("yes"), bool):
        names = [name.strip() for name in dsg["names"].split(",")]
        return dsg["kind"].strip(), names, bool(question["yes"] and question.get("valid", True))
    if question.get("element") and isinstance(question.get("right"), bool):
        return str(question.get("type", "")), [str(question["element"])], bool(question["right"])
    return None


def _met(row: Values, score: Score) -> Any:
    """Read the verdict of a claim, a word or true, false, null; None where the item has no score."""
    if score.value is None:
        return None
    return {"met": True, "not_met": False}.get(str(row["verdict"])) if "verdict" in row else row.get("met")


def _position(row: Values, length: int) -> Any:
    if row.get("position") is not None:
        return row["position"]
    span = row.get("span", row.get("start"))
    start = span[0] if isinstance(span, Sequence) and span else span
    return min(max(float(start), 0.0) / max(length, 1), 1.0) if isinstance(start, int | float) else start


def place_of(name: str, prompt: str) -> float | None:
    """Return the position, in [0, 1], at which a prompt first has a name, or its last word (singular or plural); None if nowhere."""
    last = name.split()[-1] if name.split() else ""
    forms = (name, last, last.removesuffix("s"), f"{last}s")
    for form in filter(None, forms):
        match = re.search(rf"\b{re.escape(form)}\b", prompt, re.IGNORECASE)
        if match:
            return match.start() / len(prompt)
    return None
