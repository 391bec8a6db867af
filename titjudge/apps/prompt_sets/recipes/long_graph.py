"""LongT2IBench (paper, "Generate - Refine - Qualify"): write a prompt of a given length, and its graph of elements."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from titjudge.apps.prompt_sets.recipes._drafts import (
    IN_ENGLISH,
    Draft,
    bullets,
    drafted,
    filler,
    keeps,
    not_english,
    numbered,
    words,
)
from titjudge.core import item_meta
from titjudge.core.types import Ask, Item, Json
from titjudge.metrics import task
from titjudge.metrics.graph_alignment import PromptGraph

IN_INTERVAL, ENTITIES_SAID = "words in the interval", "entities in the words of the prompt"
GRAPH_CHECKS = (ENTITIES_SAID, "refined", "qualified: complete, faithful")
CATEGORIES = ("action", "connection", "description", "possession", "from/to", "spatial")
_PLANNED = {"entities": [{"name": "image", "attributes": []}]}  # the graph of a dry run


class Text(Draft):
    """What is answered to `recipes/long_graph`."""

    prompt: str = Field(min_length=1)


class Qualified(Draft):
    """What is answered to `recipes/graph_qualify`."""

    complete: bool
    faithful: bool
    problems: list[str] = Field(default_factory=list)
    categories: list[Literal["action", "connection", "description", "possession", "from/to", "spatial"]] = Field(
        default_factory=list
    )


class RefinedGraph(PromptGraph, Draft):
    """What is answered to `recipes/graph_refine`."""


@task(
    "long-graph",
    roles=("judge",),
    source="LongT2IBench paper, data preparation and annotation; templates ours",
)
async def long_graph(item: Item, ask: Ask) -> list[Json]:
    """Write a prompt of a given length with its graph of entities, attributes and relations, refined and qualified."""
    fewest, most = int(item_meta.FEWEST.required(item)), int(item_meta.MOST.required(item))

    def check_length(draft: Text) -> list[str]:
        return length_problems(draft.prompt, fewest, most) + not_english(draft.prompt)

    draft = await drafted(
        ask,
        "recipes/long_graph",
        Text,
        check_length,
        {"prompt": filler(item, most - 1)},
        subject=item.prompt,
        fewest=fewest,
        most=most - 1,
    )
    prompt = draft.prompt
    graph, categories = await qualified_graph(ask, prompt)
    line = {
        "prompt": prompt,
        "subject": item.prompt,
        "words": len(words(prompt)),
        "interval": f"{fewest}-{most}",
        "graph": as_lists(graph),
        "relation_categories": categories,
        "checks": [IN_INTERVAL, IN_ENGLISH, *GRAPH_CHECKS],
    }
    return [line]


async def qualified_graph(ask: Ask, prompt: str) -> tuple[RefinedGraph, list[str]]:
    """Extract the graph of a prompt, refined until it is qualified; also return the category of each relation."""
    first = (
        await ask("longt2ibench/extract_graph", role="judge", schema=PromptGraph, planned=_PLANNED, prompt=prompt)
    ).data
    qualified: list[Qualified] = []

    async def check(draft: RefinedGraph) -> list[str]:
        if problems := unsaid_entities([entity.name for entity in draft.entities], prompt):
            return problems
        verdict = await _qualify(ask, prompt, draft)
        qualified.append(verdict)
        if len(verdict.categories) != len(draft.relations):
            return [f"{len(verdict.categories)} categories came for {len(draft.relations)} relations"]
        return [] if verdict.complete and verdict.faithful else verdict.problems or ["it is not complete and faithful"]

    graph = await drafted(ask, "recipes/graph_refine", RefinedGraph, check, _PLANNED, prompt=prompt, graph=_json(first))
    return graph, list(qualified[-1].categories)


def as_lists(graph: PromptGraph) -> dict[str, list[Any]]:
    """Convert a graph to the form of `item.meta["graph"]`."""
    return {
        "entities": [entity.name for entity in graph.entities],
        "attributes": [[entity.name, text] for entity in graph.entities for text in entity.attributes],
        "relations": [[link.subject, link.relation, link.object] for link in graph.relations],
    }


def length_problems(prompt: str, fewest: int, most: int) -> list[str]:
    """Check that a prompt has from `fewest` words to fewer than `most`."""
    count = len(words(prompt))
    return [] if fewest <= count < most else [f"it has {count} words, not {fewest} to {most - 1}"]


def unsaid_entities(names: Iterable[str], prompt: str) -> list[str]:
    """Check that the prompt has a word of each entity; `image` stands for the whole and needs none."""
    return [
        f"the prompt does not say '{name}'"
        for name in names
        if name != "image" and not any(keeps(prompt, word) for word in words(name))
    ]


async def _qualify(ask: Ask, prompt: str, graph: PromptGraph) -> Qualified:
    """Ask the judge whether a graph is complete and faithful, and of which category each relation is."""
    relations = [f"{link.subject} - {link.relation} - {link.object}" for link in graph.relations]
    reply = await ask(
        "recipes/graph_qualify",
        role="judge",
        schema=Qualified,
        planned={"complete": True, "faithful": True},
        prompt=prompt,
        graph=_json(graph),
        relations=numbered(relations) or bullets(["there are no relations"]),
    )
    verdict: Qualified = reply.data
    return verdict


def _json(graph: PromptGraph) -> str:
    return json.dumps(graph.model_dump(), ensure_ascii=False, indent=1)
