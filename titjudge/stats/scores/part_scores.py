"""Scores of parts that measure a separate capability: pillars and facets of a checklist, claims by kind of element.

Claims come from the agentic judge, of the graph metric, or questions of DSG and TIFA.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from titjudge.core.errors import DataError, must_be
from titjudge.core.grouping import group_means
from titjudge.core.score_parts import LEVELS, alignment, claims, element_scores, levels, questions, sequence
from titjudge.core.types import Item, Score, Values

ELEMENT = "element"  # share of claims met, or mean of element scores, by kind: entity, attribute, relation, ...
_READ = frozenset("claims alignment questions elements level1 level2 level3".split())  # of the parts of a score
PARTS = {ELEMENT: "claims or elements"} | dict.fromkeys(LEVELS, "pillars")  # columns, and the kinds of parts


def part_scores(
    items: Mapping[str, Item], scores: Iterable[Score], columns: Iterable[str] = PARTS
) -> dict[str, dict[str, Mapping[str, float]]]:
    """Read the parts of scores: column -> item id -> value -> number; a column without any is left out.

    A facet or sub-capability gets the name of its pillar as well if several pillars have one of that name.

    Raises:
        DataError: A claim is malformed.
    """
    requested = set(columns)
    by_column: dict[str, dict[str, dict[tuple[str, ...], float]]] = {}
    for score in scores:
        if score.item_id not in items or score.value is None or _READ.isdisjoint(score.parts):
            continue
        parts = levels(score.parts) if requested & set(LEVELS) else {}
        if ELEMENT in requested:
            met: dict[tuple[str, ...], list[float]] = {}
            for _, kind, outcome in claims_of(items[score.item_id], score):
                if outcome is not None:
                    met.setdefault((kind,), []).append(outcome)
            for _, kind, value in element_scores(score.parts):
                met.setdefault((kind,), []).append(value)
            parts[ELEMENT] = group_means(met)
        for column in requested & set(parts):
            if parts[column]:
                by_column.setdefault(column, {})[score.item_id] = parts[column]
    return {column: _named(by_column[column]) for column in PARTS if column in by_column}


def _named(by_item: Mapping[str, Mapping[tuple[str, ...], float]]) -> dict[str, Mapping[str, float]]:
    """Name each part by the last of its names, with the first one (its pillar) added if that is ambiguous."""
    every = {names for values in by_item.values() for names in values}
    count = Counter(names[-1] for names in every)
    labels = {names: names[-1] if count[names[-1]] == 1 else f"{names[-1]} ({names[0]})" for names in every}
    return {id: {labels[names]: number for names, number in values.items()} for id, values in by_item.items()}


_PLACE = ("position", "span", "start")
_TUPLE = re.compile(r"(?:\d+\s*\|\s*)?(?P<kind>\w+)[^()]*\((?P<names>[^()]+)\)")


def claims_of(item: Item, score: Score) -> Iterator[tuple[float, str, bool | None]]:
    """Yield place, kind and outcome of each claim of a score.

    The place is in [0, 1] of the prompt; the outcome is whether the image meets the claim, or None if it was not seen.
    Claims come from the agentic judge, otherwise elements of the graph metric, otherwise questions of DSG and TIFA.
    Claims without a place in the prompt are skipped.

    Raises:
        DataError: An outcome is not true, false or null.
    """
    rows, aligned = claims(score.parts), alignment(score.parts)
    for row in rows:
        if (place := next((row[key] for key in _PLACE if row.get(key) is not None), None)) is not None:
            met = row.get("met")
            met = {"met": True, "not_met": False}.get(str(row["verdict"])) if "verdict" in row else met
            if met is not None and not isinstance(met, bool):
                raise DataError(must_be(f"'met' of claim '{row.get('claim', '')}'", "true, false or null", met))
            start = place[0] if isinstance(place, list | tuple) else place
            yield float(start) / (1 if "position" in row else max(1, len(item.prompt))), str(row.get("kind", "")), met
    found = map(_described, questions(score.parts)) if aligned is None else _elements(aligned)
    for kind, names, outcome in filter(None, found) if not rows else ():
        if (at := next((at for name in names if (at := place_of(name, item.prompt)) is not None), None)) is not None:
            yield at, kind, outcome


def _elements(aligned: Values) -> Iterator[tuple[str, list[str], bool]]:
    """Yield kind, first word and outcome of each element of a graph."""
    for kind, marks in aligned.items():
        for mark in sequence(marks):
            if len(sequence(mark)) == 2 and (element := sequence(mark[0])):
                yield str(kind), [str(element[0])], bool(mark[1])


def _described(question: Values) -> tuple[str, list[str], bool] | None:
    """Return kind, names and answer of a question of DSG (`attribute - color (cat, red)`) or TIFA (`element`)."""
    dsg = _TUPLE.match(str(question.get("tuple", "")))
    if dsg and isinstance(question.get("yes"), bool):
        names = [name.strip() for name in dsg["names"].split(",")]
        return dsg["kind"].strip(), names, bool(question["yes"] and question.get("valid", True))
    if question.get("element") and isinstance(question.get("right"), bool):
        return str(question.get("type", "")), [str(question["element"])], bool(question["right"])
    return None


def place_of(name: str, prompt: str) -> float | None:
    """Return the first place in a prompt, in [0, 1], of its name, or of the last word of its name; None if nowhere."""
    last = name.split()[-1] if name.split() else ""
    forms = filter(None, (name, last, last.removesuffix("s"), f"{last}s" if last else ""))
    found = (re.search(rf"\b{re.escape(form)}\b", prompt, re.IGNORECASE) for form in forms)
    return next((match.start() / len(prompt) for match in found if match), None)
