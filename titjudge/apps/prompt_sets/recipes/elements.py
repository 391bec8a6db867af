"""Annotate prompts for judges with a graph, facets, and yes / no questions, by steps of the other recipes."""

from __future__ import annotations

from titjudge.apps.prompt_sets.recipes.facet_map import by_pillar, mapped
from titjudge.apps.prompt_sets.recipes.long_graph import GRAPH_CHECKS, as_lists, qualified_graph
from titjudge.apps.prompt_sets.recipes.tiif import QUESTION_CHECKS, checked_questions
from titjudge.core.types import Ask, Item, Json
from titjudge.metrics import task
from titjudge.metrics.graph_alignment import Graph, graph_of

_MOST = 20  # concepts to write questions about


@task(
    "elements",
    roles=("judge",),
    source="steps of LongT2IBench, Qwen-Image-Bench and TIIF-Bench, as in long-graph, facets and tiif",
)
async def elements(item: Item, ask: Ask) -> list[Json]:
    """Annotate a prompt with a graph, facets, and questions with gold answers, if it has none."""
    line: Json = dict(item.meta)
    checks = list(line.get("checks", ()))
    if "provenance" in line:
        line["written"] = line.pop("provenance")
    graph = graph_of(item)
    if graph is None:
        qualified, line["relation_categories"] = await qualified_graph(ask, item.prompt)
        line["graph"] = as_lists(qualified)
        graph = Graph.from_json(line["graph"])
        checks += GRAPH_CHECKS
    if not line.get("facets"):
        line["notes"] = await mapped(ask, item.prompt)
        line["facets"] = by_pillar(line["notes"])
        checks.append("facets of the rubric, three or more")
    if not line.get("questions"):
        questions = (await checked_questions(ask, [item.prompt], _concepts(graph))).questions
        line["questions"] = [question.question for question in questions]
        line["gold_answers"] = [question.answer for question in questions]
        checks += QUESTION_CHECKS
    return [{**line, "checks": checks}]


def _concepts(graph: Graph) -> list[str]:
    """List the entities of a graph with their attributes, except "image", which has light, mood and style."""
    concepts = {}
    for name in graph.entities:
        attributes = ", ".join(text for entity, text in graph.attributes if entity == name)
        concepts[name] = f"{name} ({attributes})" if attributes else name
    return [concept for name, concept in concepts.items() if name != "image"][:_MOST] or list(concepts.values())
