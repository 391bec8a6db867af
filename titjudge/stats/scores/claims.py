"""Claims of scores: from `parts["claims"]` of the agentic judge, from the graph metric, from questions of DSG and TIFA."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.score_parts import alignment, claims, questions, sequence
from titjudge.core.types import Item, Score, Values

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
                yield from _named(" ".join(element), str(kind), element[:1], met, item, facts)
    else:
        for question in questions(score.parts) if score.value is not None else ():
            if (described := _described(question)) is not None:
                yield from _named(str(question.get("question", "")), *described, item, facts)


def _elements(marks: Any) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each element of a graph, and whether it is aligned."""
    for mark in sequence(marks):
        if len(sequence(mark)) == 2 and (element := sequence(mark[0])):
            yield [str(word) for word in element], bool(mark[1])


def _named(claim: str, kind: str, names: Sequence[str], met: bool, item: Item, facts: Values) -> Iterator[ClaimOutcome]:
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
