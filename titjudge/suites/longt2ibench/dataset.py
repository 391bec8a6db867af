"""The files of LongT2IBench: splits with both shapes of annotation, and the answers that the official script saves.

- raw: `entity_scores {entity: 0|1}`, `attribute_scores {entity: {attribute: 0|1}}`,
  `relation_scores [{entity1, relation, entity2, score}]`
- ready: `entity_alignment`, `attribute_alignment`, `relation_alignment`, each `{align: [text], misalign: [text]}`, with
  attributes as `[a, b]entity` and relations as `entity1[relation]entity2`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import read_json
from titjudge.core.numbers import finite
from titjudge.core.types import InvalidItem, Values
from titjudge.core.words import is_texts
from titjudge.metrics.graph_alignment import Graph, relation_element
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, Marks, read_elements


@dataclass(frozen=True, slots=True)
class Annotated:
    """One element of a split file.

    Attributes:
        index: Its number in the file, from 0.
        prompt: The prompt.
        image: The path of the image as the file has it.
        ratio: The share of aligned elements that people found; None where there is none.
        truth: Which elements people found aligned.
        entities: All entities of the prompt.
        problems: What of the annotation was left out, and why.
        raw: The element as it stands in the file.
    """

    index: int
    prompt: str
    image: str
    ratio: float | None
    truth: Alignment
    entities: tuple[str, ...]
    problems: tuple[str, ...]
    raw: Values

    @property
    def graph(self) -> Graph:
        """The elements that people marked."""
        entities = dict.fromkeys([element[0] for element, _ in self.truth["entity"]] or self.entities)
        attributes = dict.fromkeys((entity, attribute) for (entity, attribute), _ in self.truth["attribute"])
        relations = dict.fromkeys((first, relation, second) for (first, relation, second), _ in self.truth["relation"])
        return Graph(tuple(entities), tuple(attributes), tuple(relations))


def read_annotation(structure: Values) -> tuple[Alignment, tuple[str, ...], tuple[str, ...]]:
    """Read the alignment that people gave, the names of all entities, and what was left out.

    Raises:
        DataError: The structure is of neither shape.
    """
    listed = structure.get("entities", [])
    entities = tuple(map(str, listed)) if isinstance(listed, list) else ()
    if "entity_alignment" not in structure:
        return _read_raw(structure, entities)
    truth: dict[str, Marks] = {}
    problems: list[str] = []
    for category in CATEGORIES:
        marks = []
        for name in ("align", "misalign"):
            for text in _texts(structure, category, name):
                elements, unread = (
                    ([(text,)], []) if category == "entity" else read_elements(text, category, {"entity": entities})
                )
                marks += [(element, name == "align") for element in elements]
                problems += [f"{category} '{entry}' cannot be read" for entry in unread]
        truth[category] = marks
    return truth, entities, tuple(problems)


def _texts(structure: Values, category: str, name: str) -> list[str]:
    lists = structure.get(f"{category}_alignment")
    texts = lists.get(name, []) if isinstance(lists, Mapping) else None
    if not is_texts(texts):
        raise DataError(f"{category}_alignment is not an object with two lists of texts, align and misalign")
    return texts


def _read_raw(structure: Values, entities: tuple[str, ...]) -> tuple[Alignment, tuple[str, ...], tuple[str, ...]]:
    """Read an annotation of the raw shape.

    The rule is that of train.py, which is not symmetric: an entity or attribute with a value other than 0 and 1 is left
    out, a relation with any score but 1 (or none) is misaligned.
    """
    if not isinstance(structure.get("entity_scores"), Mapping):
        raise DataError("the annotation has neither entity_alignment nor entity_scores")
    scores = {(entity,): value for entity, value in structure["entity_scores"].items()}
    attributes = {
        (entity, attribute): value
        for entity, values in _mapping(structure.get("attribute_scores", {}), "attribute_scores").items()
        for attribute, value in _mapping(values, entity).items()
    }
    relations = structure.get("relation_scores", [])
    if not isinstance(relations, list):
        raise DataError("relation_scores is not a list")
    if not all(isinstance(relation, Mapping) and relation.keys() >= _ENDS for relation in relations):
        raise DataError("a relation has entity1, relation and entity2")
    truth: Alignment = {
        "entity": [(element, value == 1) for element, value in scores.items() if value in (0, 1)],
        "attribute": [(element, value == 1) for element, value in attributes.items() if value in (0, 1)],
        "relation": [(relation_element(relation), relation.get("score") == 1) for relation in relations],
    }
    problems = tuple(
        f"{' / '.join(element)}: the value {value!r} is neither 0 nor 1 (left out, as upstream)"
        for element, value in (scores | attributes).items()
        if value not in (0, 1)
    )
    return truth, entities or tuple(structure["entity_scores"]), problems


_ENDS = {"entity1", "relation", "entity2"}


def _mapping(value: Any, name: str) -> Values:
    if not isinstance(value, Mapping):
        raise DataError(f"the annotation of '{name}' is not an object")
    return value


def read_split(path: Path) -> Iterator[Annotated | InvalidItem]:
    """Read every element of a split file; one that cannot be used is an InvalidItem, `<file>[<number>]`.

    Raises:
        DataError: The file is not a readable JSON array.
    """
    elements = read_json(path)
    if not isinstance(elements, list):
        raise DataError("a split file is a JSON array", path)
    for index, element in enumerate(elements):
        try:
            yield _annotated(index, element)
        except DataError as error:
            yield InvalidItem(f"{path.name}[{index}]", error.message)


def _annotated(index: int, element: Any) -> Annotated:
    """Read one element of a split.

    Raises:
        DataError: It lacks a prompt, an image or an annotation.
    """
    if not isinstance(element, Mapping):
        raise DataError("the element is not an object")
    for key in ("en_prompt_text", "img_path"):
        if not isinstance(element.get(key), str) or not element[key].strip():
            raise DataError(f"the element has no text {key}")
    structure = element.get("en_structured_data")
    if not isinstance(structure, Mapping):
        raise DataError("the element has no en_structured_data")
    truth, entities, problems = read_annotation(structure)
    ratio = finite(element.get("Align ratio"))
    if ratio is None:
        problems = (*problems, "there is no numeric Align ratio (upstream reads 0.0)")
    return Annotated(index, element["en_prompt_text"], element["img_path"], ratio, truth, entities, problems, element)


@dataclass(frozen=True, slots=True)
class Generation:
    """One result of a saved generation_results file; `text` is None where the official script failed."""

    id: str
    prompt: str
    image: str
    text: str | None
    ratio: float | None
    error: str


def read_generations(path: Path) -> Iterator[Generation]:
    """Read the results of a `generation_results_<timestamp>.json`.

    Raises:
        DataError: It is no such file.
    """
    raw = read_json(path)
    results = raw.get("results") if isinstance(raw, Mapping) else None
    if not isinstance(results, list):
        raise DataError("expected an object with a list `results` (output of test_generation.py)", path)
    for number, result in enumerate(results):
        result = result if isinstance(result, Mapping) else {"error": "the result is not an object"}
        text = result.get("generated_text")
        usable = isinstance(text, str) and result.get("success", True) is not False
        yield Generation(
            id=str(result.get("id", f"result {number}")),
            prompt=str(result.get("input_text", "")),
            image=str(result.get("image_path", "")),
            text=text if usable else None,
            ratio=finite(result.get("ground_truth_score")),
            error="" if usable else str(result.get("error") or "the official script failed on it"),
        )
