"""LongT2IBench: entities, attributes and relations of a long prompt, each aligned with the image or not (paper, HA-CoT).

An element is a tuple of texts: `(entity,)`, `(entity, attribute)` or `(entity1, relation, entity2)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from titjudge.core.errors import Unanswered
from titjudge.core.types import Ask, Item, Reply, Score, Status
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
                    raise ValueError(f"the relation '{relation.relation}' names '{end}', which is no entity")
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
    """The elements of a prompt, without verdicts."""

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

    def to_json(self) -> dict[str, Any]:
        """`{"entities": [...], "attributes": [[entity, attribute], ...], "relations": [[...], ...]}`."""
        return {
            "entities": list(self.entities),
            "attributes": [list(pair) for pair in self.attributes],
            "relations": [list(triple) for triple in self.relations],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Graph:
        """Read what `to_json` wrote, or a graph as LongT2IBench annotates: attributes by entity and name, relations as objects."""
        attributes = raw.get("attributes", ())
        if isinstance(attributes, Mapping):
            attributes = [(one, f"{name}: {value}") for one, of in attributes.items() for name, value in of.items()]
        relations = [
            (each["entity1"], each["relation"], each["entity2"]) if isinstance(each, Mapping) else each
            for each in raw.get("relations", ())
        ]
        return cls(
            tuple(map(str, raw["entities"])),
            tuple((str(entity), str(attribute)) for entity, attribute in attributes),
            tuple((str(one), str(relation), str(two)) for one, relation, two in relations),
        )


def forced(alignment: Alignment) -> tuple[Alignment, int]:
    """Make the alignment with every attribute and relation of a misaligned entity misaligned, and how many that changed."""
    absent = {element[0].casefold() for element, aligned in alignment["entity"] if not aligned}
    present = {element[0].casefold() for element, aligned in alignment["entity"] if aligned}
    absent -= present
    changed = 0
    found: dict[str, Marks] = {"entity": alignment["entity"]}
    for category, ends in (("attribute", (0,)), ("relation", (0, 2))):
        marks = []
        for element, aligned in alignment[category]:
            keep = aligned and not any(element[end].casefold() in absent for end in ends)
            changed += aligned and not keep
            marks.append((element, keep))
        found[category] = marks
    return found, changed


def ratio(alignment: Alignment) -> float | None:
    """Aligned elements over all elements, in [0, 1], each entity, attribute and relation counting alike; None of none."""
    verdicts = [aligned for category in CATEGORIES for _, aligned in alignment[category]]
    return sum(verdicts) / len(verdicts) if verdicts else None


async def extract_graph(prompt: str, ask: Ask) -> Graph:
    """Extract the graph of a prompt, by a language model.

    Raises:
        Unanswered: there is no usable answer.
    """
    reply = await ask(
        "longt2ibench/extract_graph", role="judge", schema=PromptGraph, params=STRICT_DECODING, prompt=prompt
    )
    answer: PromptGraph = reply.data
    attributes = dict.fromkeys((each.name, text) for each in answer.entities for text in each.attributes if text)
    relations = dict.fromkeys((each.subject, each.relation, each.object) for each in answer.relations)
    return Graph(tuple(each.name for each in answer.entities), tuple(attributes), tuple(relations))


def read_verdict(graph: Graph, verdict: GraphVerdict) -> tuple[Alignment | None, str]:
    """Read the alignment of a graph by a judge's numbered verdicts; None and the reason when one is missing or given twice.

    Attributes and relations of an entity that is not there need no verdict: they are misaligned.
    """
    given = {"entity": verdict.entities, "attribute": verdict.attributes, "relation": verdict.relations}
    found: dict[str, Marks] = {}
    absent: set[str] = set()
    missing, doubled = [], []
    for category, elements in graph.elements.items():
        by_number: dict[int, bool] = {}
        for each in given[category]:
            if by_number.setdefault(each.number, each.aligned) != each.aligned:
                doubled.append(f"{category} {each.number}")
        marks = []
        for number, element in enumerate(elements, 1):
            free = category != "entity" and absent.intersection(
                {element[0], element[-1]} if category == "relation" else {element[0]}
            )
            if number in by_number:
                marks.append((element, by_number[number]))
            elif free:
                marks.append((element, False))
            else:
                missing.append(f"{category} {number}")
        found[category] = marks
        if category == "entity":
            absent = {element[0] for element, aligned in marks if not aligned}
    if missing or doubled:
        reasons = [f"no verdict on {', '.join(missing[:5])}"] if missing else []
        reasons += [f"two verdicts on {', '.join(doubled[:5])}"] if doubled else []
        return None, "; ".join(reasons)
    return found, ""


@metric(
    "graph-alignment",
    roles=("judge",),
    range=(0, 1),
    source="LongT2IBench paper, HA-CoT and Alignment Score; test_generation.py @e47380b",
)
async def graph_alignment(item: Item, ask: Ask) -> Score:
    """Share of the entities, attributes and relations of a prompt that the image shows.

    Strict: the graph is `item.meta["graph"]` where there is one, else a language model extracts it; then the judge gives
    one verdict for each element in one answer. Official: the judge lists and marks the elements itself, asked with the
    published prompt and decoding. In both, what belongs to a misaligned entity is misaligned.
    """
    image = image_of(item)
    if not item.prompt.strip():
        return Score.none(Status.BAD_INPUT, "the prompt is empty")
    return await (_official if ask.protocol == "official" else _strict)(item, image, ask)


async def _official(item: Item, image: Path, ask: Ask) -> Score:
    reply = await ask(
        "longt2ibench/ha_cot",
        role="judge",
        images=[image],
        params=OFFICIAL_DECODING,
        accept_truncated=True,
        prompt=item.prompt,
    )
    parsed = parse_target(reply.text)
    if parsed is None:
        return _unread(reply, "no entity_score, attribute_score and relation_score in the answer")
    if not parsed.complete:
        return _unread(reply, f"the lists are incomplete: {parsed.problems[-1]}")
    return _scored(parsed.alignment, "the judge", reply.text, list(parsed.problems))


def _unread(reply: Reply, reason: str) -> Score:
    cut = reply.status is Status.TRUNCATED
    status = Status.TRUNCATED if cut else Status.UNPARSED
    return Score.none(status, f"the answer hit its token limit: {reason}" if cut else reason, output=reply.text)


async def _strict(item: Item, image: Path, ask: Ask) -> Score:
    given = graph_of(item)
    graph = given or await extract_graph(item.prompt, ask)
    reply = await ask(
        "longt2ibench/align_graph",
        role="judge",
        images=[image],
        schema=GraphVerdict,
        params=STRICT_DECODING,
        prompt=item.prompt,
        entities=list(graph.entities),
        attributes=list(graph.attributes),
        relations=list(graph.relations),
    )
    alignment, reason = read_verdict(graph, reply.data)
    if alignment is None:
        return Score.none(Status.UNPARSED, reason, graph=graph.to_json(), output=reply.text)
    return _scored(alignment, "the data" if given else "extracted", reply.text, [], reply.data.summary)


def graph_of(item: Item) -> Graph | None:
    """Return the graph that the data give for an item, if they give one with entities.

    Raises:
        Unanswered: It has another form.
    """
    given = item.meta.get("graph")
    try:
        return Graph.from_json(given) if given and given.get("entities") else None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        form = "entities: [name], attributes: [[entity, attribute]], relations: [[entity, relation, entity]]"
        raise Unanswered(Status.BAD_INPUT, f"the item's graph does not have the form {form}") from error


def _scored(alignment: Alignment, source: str, output: str, problems: Sequence[str], summary: str = "") -> Score:
    mended, changed = forced(alignment)
    value = ratio(mended)
    parts: dict[str, Any] = {
        "alignment": {
            category: [[list(element), aligned] for element, aligned in mended[category]] for category in CATEGORIES
        },
        "forced": changed,
        "ratio_as_answered": ratio(alignment),
        "graph_from": source,
        "problems": list(problems),
        "output": output,
    }
    if value is None:
        return Score.none(Status.UNPARSED, "the answer names no element", **parts)
    return Score.of(value, reason=summary, **parts)
