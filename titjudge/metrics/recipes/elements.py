"""What judges need beside a prompt: a graph, facets, yes / no questions with gold answers, by the steps of the other recipes."""

from __future__ import annotations

from typing import Any

from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.metrics.facet_map import by_pillar, mapped
from titjudge.metrics.graph_alignment import Graph, graph_of
from titjudge.metrics.recipes.long_graph import GRAPH_CHECKS, as_lists, qualified_graph
from titjudge.metrics.recipes.tiif import QUESTION_CHECKS, checked_questions

_MOST = 20  # concepts that are asked about


@metric(
    "elements",
    roles=("judge",),
    range=(0, 1),
    source="steps of LongT2IBench, Qwen-Image-Bench and TIIF-Bench, as in long-graph, facets and tiif",
)
async def elements(item: Item, ask: Ask) -> Score:
    """Add to a prompt what it lacks of a graph, facets, and questions with gold answers; what it has stays as it is."""
    line: dict[str, Any] = dict(item.meta)
    checks = list(line.get("checks", ()))
    if "provenance" in line:
        line["written"] = line.pop("provenance")
    graph = graph_of(item)
    if graph is None:
        made, line["relation_categories"] = await qualified_graph(ask, item.prompt)
        line["graph"] = as_lists(made)
        graph = Graph.from_json(line["graph"])
        checks += GRAPH_CHECKS
    if not line.get("facets"):
        line["notes"] = await mapped(ask, item.prompt)
        line["facets"] = by_pillar(line["notes"])
        checks.append("facets of the rubric, three or more")
    if not line.get("questions"):
        asked = (await checked_questions(ask, [item.prompt], _things(graph))).questions
        line["questions"] = [each.question for each in asked]
        line["gold_answers"] = [each.answer for each in asked]
        checks += QUESTION_CHECKS
    return Score.of(1, lines=[{**line, "checks": checks}])


def _things(graph: Graph) -> list[str]:
    """List the entities of a graph, each with what is said of it; light, mood and style of the image are none."""
    said = {name: [text for entity, text in graph.attributes if entity == name] for name in graph.entities}
    things = [f"{name} ({', '.join(texts)})" if texts else name for name, texts in said.items()]
    return [thing for name, thing in zip(said, things, strict=True) if name != "image"][:_MOST] or things
