"""LongT2IBench: the entities, attributes and relations of a long prompt that an image shows (paper, HA-CoT).

An element of the graph is a tuple of strings: `(entity,)`, `(entity, attribute)` or `(entity1, relation, entity2)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import GraphFrom
from titjudge.core.types import Ask, Item, Json, Reply, Score, Status, Values
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, Marks, parse_target

OFFICIAL_DECODING = {"temperature": 0.6, "top_p": 0.9, "max_tokens": 1024}  # test_generation.py
STRICT_DECODING = {"temperature": 0, "max_tokens": 4096}


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class Entity(_Model):
    """An entity of a prompt with what the prompt says about it."""

    name: str = Field(min_length=1)
    attributes: list[str]


class Relation(_Model):
    """What connects two entities."""

    subject: str
    relation: str = Field(min_length=1)
    object: str


class PromptGraph(_Model):
    """What a language model answers when it takes a prompt apart."""

    entities: list[Entity] = Field(min_length=1)
    relations: list[Relation]

    @model_validator(mode="after")
    def _consistent(self) -> PromptGraph:
        names = [entity.name for entity in self.entities]
        if len(set(names)) < len(names):
            raise ValueError("two entities have the same name")
        for relation in self.relations:
            for end in (relation.subject, relation.object):
                if end not in names:
                    raise ValueError(f"the relation '{relation.relation}' contains '{end}', which is not an entity")
        return self


class ElementVerdict(_Model):
    """The verdict on one numbered element."""

    number: int
    seen: str
    aligned: bool


class GraphVerdict(_Model):
    """What the judge answers about a graph."""

    entities: list[ElementVerdict]
    attributes: list[ElementVerdict]
    relations: list[ElementVerdict]
    summary: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The elements of a prompt."""

    entities: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str, str], ...] = ()

    @property
    def elements(self) -> dict[str, list[tuple[str, ...]]]:
        """The elements by category."""
        return {
            "entity": [(name,) for name in self.entities],
            "attribute": list(self.attributes),
            "relation": list(self.relations),
        }

    @property
    def names(self) -> dict[str, list[str]]:
        """The names by category, as `parse_target` needs them to keep names with commas whole."""
        return {
            "entity": list(self.entities),
            "attribute": [attribute for _, attribute in self.attributes],
            "relation": [f"{first}[{relation}]{second}" for first, relation, second in self.relations],
        }

    def to_json(self) -> Json:
        """Return entities, attributes as [entity, attribute] and relations as [entity, relation, entity]."""
        return {
            "entities": list(self.entities),
            "attributes": [list(pair) for pair in self.attributes],
            "relations": [list(triple) for triple in self.relations],
        }

    @classmethod
    def from_json(cls, raw: Values) -> Graph:
        """Make it from `to_json` or LongT2IBench's annotation (attributes by entity and name, relations as objects)."""
        attributes = raw.get("attributes", ())
        if isinstance(attributes, Mapping):
            attributes = [
                (entity, f"{name}: {text}") for entity, by_name in attributes.items() for name, text in by_name.items()
            ]
        return cls(
            tuple(map(str, raw["entities"])),
            tuple((str(entity), str(attribute)) for entity, attribute in attributes),
            tuple(map(relation_element, raw.get("relations", ()))),
        )


def relation_element(relation: Values | Sequence[str]) -> tuple[str, str, str]:
    """Return a relation as an element: of an object with entity1, relation and entity2, or a list of the three."""
    if isinstance(relation, Mapping):
        return str(relation["entity1"]), str(relation["relation"]), str(relation["entity2"])
    first, words, second = relation
    return str(first), str(words), str(second)


def forced(alignment: Alignment) -> tuple[Alignment, int]:
    """Mark every attribute and relation of a misaligned entity as misaligned; also return how many that changed."""
    absent = {element[0].casefold() for element, aligned in alignment["entity"] if not aligned}
    absent -= {element[0].casefold() for element, aligned in alignment["entity"] if aligned}
    changed = 0
    consistent = {"entity": alignment["entity"]}
    for category, ends in (("attribute", (0,)), ("relation", (0, 2))):
        marks = []
        for element, aligned in alignment[category]:
            keep = aligned and not any(element[end].casefold() in absent for end in ends)
            changed += aligned and not keep
            marks.append((element, keep))
        consistent[category] = marks
    return consistent, changed


def ratio(alignment: Alignment) -> float | None:
    """Return the share of aligned elements, in [0, 1], all categories weighing the same; None without elements."""
    verdicts = [aligned for category in CATEGORIES for _, aligned in alignment[category]]
    return sum(verdicts) / len(verdicts) if verdicts else None


async def extract_graph(prompt: str, ask: Ask) -> Graph:
    """Have the judge extract the graph of a prompt.

    Raises:
        Unanswered: There is no usable answer.
    """
    reply = await ask(
        "longt2ibench/extract_graph", role="judge", schema=PromptGraph, params=STRICT_DECODING, prompt=prompt
    )
    answer: PromptGraph = reply.data
    names = tuple(entity.name for entity in answer.entities)
    attributes = dict.fromkeys((entity.name, text) for entity in answer.entities for text in entity.attributes if text)
    relations = dict.fromkeys((link.subject, link.relation, link.object) for link in answer.relations)
    return Graph(names, tuple(attributes), tuple(relations))


def read_verdict(graph: Graph, verdict: GraphVerdict) -> tuple[Alignment | None, str]:
    """Combine a judge's numbered verdicts with the elements of the graph.

    Attributes and relations of an entity that is not in the image need no verdict: they are misaligned.

    Returns:
        The alignment; or None and the reason, if an element has no verdict, or two that differ.
    """
    verdicts = {"entity": verdict.entities, "attribute": verdict.attributes, "relation": verdict.relations}
    alignment: dict[str, Marks] = {}
    absent: set[str] = set()
    missing, contradictory = [], []
    for category, elements in graph.elements.items():
        by_number: dict[int, bool] = {}
        for of_element in verdicts[category]:
            if by_number.setdefault(of_element.number, of_element.aligned) != of_element.aligned:
                contradictory.append(f"{category} {of_element.number}")
        marks = []
        for number, element in enumerate(elements, 1):
            ends = {element[0], element[-1]} if category == "relation" else {element[0]}
            if number in by_number:
                marks.append((element, by_number[number]))
            elif absent & ends:
                marks.append((element, False))
            else:
                missing.append(f"{category} {number}")
        alignment[category] = marks
        if category == "entity":
            absent = {element[0] for element, aligned in marks if not aligned}
    reasons = [f"no verdict on {', '.join(missing[:5])}"] if missing else []
    reasons += [f"two verdicts on {', '.join(contradictory[:5])}"] if contradictory else []
    return (None if reasons else alignment), "; ".join(reasons)


def _all_aligned(graph: Graph) -> Json:
    """Return an answer to `longt2ibench/align_graph` in which every element is aligned."""
    marks = {
        name: [ElementVerdict(number=number, seen="", aligned=True) for number in range(1, len(elements) + 1)]
        for name, elements in zip(("entities", "attributes", "relations"), graph.elements.values(), strict=True)
    }
    return GraphVerdict(**marks, summary="").model_dump()


@metric(
    "graph-alignment",
    roles=("judge",),
    range=(0, 1),
    version="2",  # 1 split names with commas under the official protocol
    source="LongT2IBench paper, HA-CoT and Alignment Score; test_generation.py @e47380b",
)
async def graph_alignment(item: Item, ask: Ask) -> Score:
    """Share of the entities, attributes and relations of a prompt that the image shows.

    Strict: the graph is `item.meta["graph"]`, if present, otherwise the judge extracts it from the prompt; then the
    judge sees the image and gives a verdict on each element, all in one answer. Official: the judge lists and marks the
    elements itself, with the published prompt and decoding. In both, attributes and relations of a misaligned entity
    are misaligned.
    """
    image = image_of(item)
    if not item.prompt.strip():
        return Score.none(Status.BAD_INPUT, "the prompt is empty")
    return await (_official if ask.protocol == "official" else _strict)(item, image, ask)


async def _official(item: Item, image: Path, ask: Ask) -> Score:
    """Have the judge list the elements of the prompt and mark them, in one answer, by the published prompt."""
    graph = graph_of(item)
    reply = await ask(
        "longt2ibench/ha_cot",
        role="judge",
        images=[image],
        params=OFFICIAL_DECODING,
        accept_truncated=True,
        prompt=item.prompt,
    )
    parsed = parse_target(reply.text, graph.names if graph else None)
    if parsed is None:
        return _unparsed(reply, "no entity_score, attribute_score and relation_score in the answer")
    if not parsed.complete:
        return _unparsed(reply, f"the lists are incomplete: {parsed.problems[-1]}")
    return _scored(parsed.alignment, GraphFrom.JUDGE, reply.text, list(parsed.problems))


def _unparsed(reply: Reply, reason: str) -> Score:
    if reply.status is Status.TRUNCATED:
        return Score.none(Status.TRUNCATED, f"the answer hit its token limit: {reason}", output=reply.text)
    return Score.none(Status.UNPARSED, reason, output=reply.text)


async def _strict(item: Item, image: Path, ask: Ask) -> Score:
    """Have the judge mark the numbered elements of a graph: the one in the data, otherwise one extracted from the prompt."""
    graph, source = graph_of(item), GraphFrom.DATA
    if graph is None:
        graph, source = await extract_graph(item.prompt, ask), GraphFrom.EXTRACTED
    reply = await ask(
        "longt2ibench/align_graph",
        role="judge",
        images=[image],
        schema=GraphVerdict,
        params=STRICT_DECODING,
        planned=_all_aligned(graph),
        prompt=item.prompt,
        entities=list(graph.entities),
        attributes=list(graph.attributes),
        relations=list(graph.relations),
    )
    alignment, reason = read_verdict(graph, reply.data)
    if alignment is None:
        return Score.none(Status.UNPARSED, reason, graph=graph.to_json(), output=reply.text)
    return _scored(alignment, source, reply.text, [], reply.data.summary)


def graph_of(item: Item) -> Graph | None:
    """Return the graph in the data of an item; None if there is none, or one without entities.

    Raises:
        Unanswered: It does not have the form of a graph.
    """
    graph = item_meta.GRAPH.get(item)
    try:
        return Graph.from_json(graph) if graph and graph.get("entities") else None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        form = "entities: [name], attributes: [[entity, attribute]], relations: [[entity, relation, entity]]"
        raise Unanswered(Status.BAD_INPUT, f"the item's graph does not have the form {form}") from error


def _scored(alignment: Alignment, source: GraphFrom, output: str, problems: Sequence[str], summary: str = "") -> Score:
    """Make the score of an alignment: the share of aligned elements, where elements of misaligned entities are misaligned too."""
    consistent, changed = forced(alignment)
    value = ratio(consistent)
    parts: Json = {
        "alignment": {
            category: [[list(element), aligned] for element, aligned in consistent[category]] for category in CATEGORIES
        },
        "forced": changed,
        "ratio_as_answered": ratio(alignment),
        "graph_from": source.value,
        "problems": list(problems),
        "output": output,
    }
    if value is None:
        return Score.none(Status.UNPARSED, "the answer names no element", **parts)
    return Score.of(value, reason=summary, **parts)
