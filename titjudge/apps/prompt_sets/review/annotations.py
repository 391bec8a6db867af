"""The parts of a prompt, as lines that people can correct: facets with notes, a graph, questions with answers.

facets      FACET: NOTE                               (c_i, d_i) of Qwen-Image-Bench, section 3.2
graph       ENTITY, ENTITY | ATTRIBUTE or ENTITY | RELATION | ENTITY
questions   yes | QUESTION or no | QUESTION
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from titjudge.apps.prompt_sets.recipes.facet_map import FACETS, by_pillar
from titjudge.core.errors import DataError, must_be, unknown

Parts = Mapping[str, Sequence[str]]
"""Lines by part."""
_SIDE = " | "


def lines_of(line: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write the parts of a line of `prompts make` as lines; without parts that are missing or have another form."""
    found: dict[str, list[str]] = {}
    notes, graph = line.get("notes"), line.get("graph")
    if isinstance(notes, dict) and notes and notes.keys() <= FACETS.keys():
        found["facets"] = [f"{name}: {note}" for name, note in notes.items()]
    lists = [graph.get(key, []) for key in ("entities", "attributes", "relations")] if isinstance(graph, dict) else []
    if lists and all(isinstance(each, list) for each in lists):
        rows = [[name] for name in lists[0]] + lists[1] + lists[2]
        found["graph"] = [_SIDE.join(map(str, row)) for row in rows if isinstance(row, list)]
    questions, answers = line.get("questions"), line.get("gold_answers")
    if isinstance(questions, list) and isinstance(answers, list) and len(questions) == len(answers) > 0:
        found["questions"] = [f"{answer}{_SIDE}{text}" for text, answer in zip(questions, answers, strict=True)]
    return {part: [_spaced(part, text) for text in lines] for part, lines in found.items()}


def fields_of(parts: Parts) -> dict[str, Any]:
    """Make the fields of a line of `prompts make` from corrected parts.

    Raises:
        DataError: A line has another form; quotes it.
    """
    return {key: value for part, lines in parts.items() for key, value in _FIELDS[part](_cleaned(part, lines)).items()}


def majority(people: Sequence[Parts]) -> dict[str, list[str]]:
    """Keep what more than half of the people have: facets and questions by their names, with the most frequent note or answer.

    Attributes and relations of entities that are dropped are dropped too.
    """
    kept: dict[str, list[str]] = {}
    for part in dict.fromkeys(part for person in people for part in person):
        texts: dict[str, Counter[str]] = {}
        for person in people:
            for key, text in {_key(part, text): text for text in person.get(part, ())}.items():
                texts.setdefault(key, Counter())[text] += 1
        kept[part] = [found.most_common(1)[0][0] for found in texts.values() if 2 * found.total() > len(people)]
    if graph := kept.get("graph"):
        entities = {row[0] for text in graph if len(row := text.split(_SIDE)) == 1}
        kept["graph"] = [
            text
            for text in graph
            if {text.split(_SIDE)[0], text.split(_SIDE)[-1 if text.count(_SIDE) == 2 else 0]} <= entities
        ]
    return kept


def disagreements(people: Sequence[Parts]) -> dict[str, list[list[Any]]]:
    """List the lines that some people have and others do not, with how many have them, by part."""
    found: dict[str, list[list[Any]]] = {}
    for part in dict.fromkeys(part for person in people for part in person):
        counts = Counter(text for person in people for text in dict.fromkeys(person.get(part, ())))
        if some := [[text, count] for text, count in counts.items() if count < len(people)]:
            found[part] = some
    return found


def _key(part: str, text: str) -> str:
    """Return the name of a facet, the text of a question, or a whole line of a graph: people vote on these."""
    return text.partition(":")[0] if part == "facets" else text.partition(_SIDE)[2] if part == "questions" else text


def _cleaned(part: str, lines: Any) -> list[str]:
    if part not in _FIELDS:
        raise DataError(unknown("part", part, _FIELDS))
    if not isinstance(lines, list | tuple) or not all(isinstance(text, str) for text in lines):
        raise DataError(must_be(f"'{part}'", "a list of texts", lines))
    cleaned = list(dict.fromkeys(_spaced(part, text) for text in lines if text.strip()))
    if not cleaned:
        raise DataError(f"{part}: no line is left. Write one, or reject the prompt")
    return cleaned


def _facets(lines: Sequence[str]) -> dict[str, Any]:
    notes: dict[str, str] = {}
    for text in lines:
        name, _, note = text.partition(":")
        if name not in FACETS:
            raise DataError(unknown("facet", name, FACETS))
        if name in notes:
            raise DataError(f"facets: '{text}' must be FACET: NOTE, each facet once")
        notes[name] = note.strip()
    return {"notes": notes, "facets": by_pillar(notes), "dims_en": "; ".join(notes)}


def _graph(lines: Sequence[str]) -> dict[str, Any]:
    rows = [[side.strip() for side in text.split("|")] for text in lines]
    entities = [row[0] for row in rows if len(row) == 1]
    for text, row in zip(lines, rows, strict=True):
        ends = {row[0], row[-1]} if len(row) == 3 else {row[0]}
        if len(row) > 3 or not all(row) or not ends <= set(entities):
            raise DataError(
                f"graph: '{text}' must be ENTITY, ENTITY | ATTRIBUTE or ENTITY | RELATION | ENTITY, and each entity must have a line"
            )
    attributes, relations = ([row for row in rows if len(row) == size] for size in (2, 3))
    return {"graph": {"entities": entities, "attributes": attributes, "relations": relations}}


def _questions(lines: Sequence[str]) -> dict[str, Any]:
    rows = [[side.strip() for side in text.split("|", 1)] for text in lines]
    for text, row in zip(lines, rows, strict=True):
        if len(row) != 2 or row[0] not in ("yes", "no") or not row[1]:
            raise DataError(f"questions: '{text}' must be yes | QUESTION or no | QUESTION")
        if sum(other[1:] == row[1:] for other in rows) > 1:
            raise DataError(f"questions: '{row[1]}' has two answers. Keep one")
    return {"questions": [row[1] for row in rows], "gold_answers": [row[0] for row in rows]}


_FIELDS = {"facets": _facets, "graph": _graph, "questions": _questions}


def corrected(own: Parts, given: Any) -> dict[str, list[str]]:
    """Return the parts that a person has changed, with their lines cleaned.

    Args:
        own: The parts of the line.
        given: The lines that the page sends, by part.

    Raises:
        DataError: It is malformed, or has a part that the line does not have.
    """
    if not isinstance(given, dict) or not given.keys() <= own.keys():
        raise DataError(must_be("'parts'", f"lines by part ({', '.join(own) or 'none here'})", given))
    cleaned = {part: _cleaned(part, lines) for part, lines in given.items()}
    changed = {part: lines for part, lines in cleaned.items() if lines != own[part]}
    fields_of(changed)
    return changed


def _spaced(part: str, text: str) -> str:
    """Write a line with single spaces, and one on each side of a bar, so that equal lines of two people are the same text."""
    sign, sides = (":", 1) if part == "facets" else ("|", 1 if part == "questions" else -1)
    spaced = [" ".join(side.split()) for side in text.split(sign, sides)]
    return (": " if sign == ":" else _SIDE).join(spaced)
