"""LongT2IBench on disk: the split files with both shapes of annotation, and saved generations of the official script.

- raw: `entity_scores {entity: 0|1}`, `attribute_scores {entity: {attribute: 0|1}}`,
  `relation_scores [{entity1, relation, entity2, score}]`
- ready: `entity_alignment`, `attribute_alignment`, `relation_alignment`, each `{align: [text], misalign: [text]}`, with
  attributes as `[a, b]entity` and relations as `entity1[relation]entity2`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import read_json
from titjudge.core.numbers import finite
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, Marks, read_elements


@dataclass(frozen=True, slots=True)
class Annotated:
    """One element of a split file. `ratio` is people's alignment ratio; `problems` name what could not be used."""

    index: int
    prompt: str
    image: str
    ratio: float | None
    truth: Alignment
    entities: tuple[str, ...]
    problems: tuple[str, ...]
    raw: Mapping[str, Any]


def to_ready(structure: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a raw annotation into the ready shape, as train.py converts it; a ready one as it is.

    The rule is not symmetric: entities and attributes with a value other than 0 and 1 vanish, a relation with any score
    but 1 (or none) is misaligned.

    Raises:
        DataError: the structure is of neither shape.
    """
    if "entity_alignment" in structure:
        return dict(structure)
    if not isinstance(structure.get("entity_scores"), Mapping):
        raise DataError("the annotation has neither entity_alignment nor entity_scores")
    entities = structure["entity_scores"]
    ready = dict(structure)
    ready["entity_alignment"] = {
        name: [entity for entity, value in entities.items() if value == wanted] for name, wanted in _WANTED
    }
    ready["attribute_alignment"] = {
        name: [
            f"[{', '.join(chosen)}]{entity}"
            for entity, values in _mapping(structure, "attribute_scores").items()
            if (chosen := [attribute for attribute, value in _as_mapping(values, entity).items() if value == wanted])
        ]
        for name, wanted in _WANTED
    }
    written: dict[str, list[str]] = {"align": [], "misalign": []}
    for one, relation, two, aligned in _raw_relations(structure):
        written["align" if aligned else "misalign"].append(f"{one}[{relation}]{two}")
    ready["relation_alignment"] = written
    return ready


_WANTED = (("align", 1), ("misalign", 0))


def _as_mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DataError(f"the annotation of '{name}' is not an object")
    return value


def _mapping(structure: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _as_mapping(structure.get(key, {}), key)


def _raw_relations(structure: Mapping[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    relations = structure.get("relation_scores", [])
    if not isinstance(relations, list):
        raise DataError("relation_scores is not a list")
    for each in relations:
        if not isinstance(each, Mapping) or not {"entity1", "relation", "entity2"} <= each.keys():
            raise DataError("a relation has entity1, relation and entity2")
        yield str(each["entity1"]), str(each["relation"]), str(each["entity2"]), each.get("score") == 1


def read_annotation(structure: Mapping[str, Any]) -> tuple[Alignment, tuple[str, ...], tuple[str, ...]]:
    """Read the alignment that people gave, the list of all entities, and what was left out.

    Raises:
        DataError: the structure is of neither shape.
    """
    listed = structure.get("entities", [])
    entities = tuple(map(str, listed)) if isinstance(listed, list) else ()
    if "entity_alignment" not in structure:
        return _raw_annotation(structure, entities)
    found: dict[str, Marks] = {}
    problems: list[str] = []
    known = {"entity": entities}
    for category in CATEGORIES:
        marks = []
        for name, _ in _WANTED:
            for text in _texts(structure, category, name):
                elements, bad = ([(text,)], []) if category == "entity" else read_elements(text, category, known)
                marks += [(element, name == "align") for element in elements]
                problems += [f"{category} '{each}' cannot be read" for each in bad]
        found[category] = marks
    return found, entities, tuple(problems)


def _texts(structure: Mapping[str, Any], category: str, name: str) -> list[str]:
    lists = structure.get(f"{category}_alignment")
    texts = lists.get(name, []) if isinstance(lists, Mapping) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{category}_alignment is not an object with two lists of texts, align and misalign")
    return texts


def _raw_annotation(
    structure: Mapping[str, Any], entities: tuple[str, ...]
) -> tuple[Alignment, tuple[str, ...], tuple[str, ...]]:
    to_ready(structure)  # checks the shape
    problems = []
    found: dict[str, list[tuple[tuple[str, ...], bool]]] = {"entity": [], "attribute": [], "relation": []}
    values: list[tuple[tuple[str, ...], Any]] = [
        ((entity,), value) for entity, value in structure["entity_scores"].items()
    ]
    values += [
        ((entity, attribute), value)
        for entity, of in _mapping(structure, "attribute_scores").items()
        for attribute, value in of.items()
    ]
    for element, value in values:
        if value == 0 or value == 1:
            found["entity" if len(element) == 1 else "attribute"].append((element, value == 1))
        else:
            problems.append(f"{' / '.join(element)}: the value {value!r} is neither 0 nor 1 (left out, as upstream)")
    found["relation"] = [((one, relation, two), aligned) for one, relation, two, aligned in _raw_relations(structure)]
    return found, entities or tuple(structure["entity_scores"]), tuple(problems)


def read_split(path: Path) -> Iterator[Annotated | tuple[int, str]]:
    """Every element of a split file, or its number and the reason why it cannot be used.

    Raises:
        DataError: the file is not a readable JSON array.
    """
    elements = read_json(path)
    if not isinstance(elements, list):
        raise DataError("a split file is a JSON array", path)
    for index, element in enumerate(elements):
        try:
            yield _annotated(index, element)
        except DataError as error:
            yield index, error.message


def _annotated(index: int, element: Any) -> Annotated:
    if not isinstance(element, Mapping):
        raise DataError("the element is not an object")
    for key in ("en_prompt_text", "img_path"):
        if not isinstance(element.get(key), str) or not element[key].strip():
            raise DataError(f"the element has no text {key}")
    structure = element.get("en_structured_data")
    if not isinstance(structure, Mapping):
        raise DataError("the element has no en_structured_data")
    truth, entities, problems = read_annotation(structure)
    people = finite(element.get("Align ratio"))
    if people is None:
        problems = (*problems, "there is no numeric Align ratio (upstream reads 0.0)")
    return Annotated(index, element["en_prompt_text"], element["img_path"], people, truth, entities, problems, element)


@dataclass(frozen=True, slots=True)
class Generation:
    """One result of a saved generation_results file; `text` is None where the official script failed."""

    id: str
    prompt: str
    image: str
    text: str | None
    ratio: float | None
    error: str


def read_generations(path: Path) -> Sequence[Generation]:
    """Read the results of a `generation_results_<timestamp>.json`.

    Raises:
        DataError: not such a file.
    """
    raw = read_json(path)
    results = raw.get("results") if isinstance(raw, Mapping) else None
    if not isinstance(results, list):
        raise DataError("expected an object with a list `results` (output of test_generation.py)", path)
    found = []
    for place, each in enumerate(results):
        each = each if isinstance(each, Mapping) else {"error": "the result is not an object"}
        text = each.get("generated_text")
        usable = isinstance(text, str) and each.get("success", True) is not False
        error = "" if usable else str(each.get("error") or "the official script failed on it")
        found.append(
            Generation(
                str(each.get("id", f"result {place}")),
                str(each.get("input_text", "")),
                str(each.get("image_path", "")),
                text if usable else None,
                finite(each.get("ground_truth_score")),
                error,
            )
        )
    return found
