"""Known-answer images: their content is known by construction, so they measure the judge.

    DATA/prompts.jsonl  prompt_id, prompt, questions, gold_answers, graph, text_words
    DATA/images.jsonl   image, prompt_id, alignment, answers, entity_scores, attribute_scores, relation_scores,
                        text_present[, level, variant_model]
    DATA/pairs.jsonl    optional; preferences by construction

The values in `item.meta` are TRUE OF THE IMAGE, not requirements of the prompt:

    gold_answers    `answers` of the image: the score of the yes-no metric is the judge's accuracy, not the image's
                    adherence (what the prompt requires is in `prompt_answers`)
    text_words      the words really drawn: GNED marks the reader, not the painter (the words asked for are in
                    `prompt_words`); an image without words has no GNED
    graph           the elements of the prompt as the graph metric takes them; `graph_truth` gives for each, in the same
                    order, whether the image shows it
    alignment       the true score: elements shown over all elements, in [0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.numbers import is_number
from titjudge.core.types import InvalidItem, Item, Items, Json, Pair, Score, Table, Values
from titjudge.metrics.graph_alignment import Graph, relation_element
from titjudge.suites.base import Suite
from titjudge.suites.folder import Folder, read_items
from titjudge.suites.manifests import TRUTH


class KnownAnswer(Suite):
    """Images whose graph, answers, texts and alignment are known by construction."""

    name = "known-answer"
    MARKS_JUDGE = frozenset({"yes-no", "text-rendering"})
    DEVIATIONS = (
        "yes-no: the gold answers are those true of the image, so the score is the judge's accuracy",
        "text-rendering: the gold words are those really drawn, so the score is the reader's error",
        "graph-alignment: the graph is given by the annotation, not extracted from the prompt",
    )
    metrics = ("tit", "tit-llm", "yes-no", "graph-alignment", "text-rendering")

    def load(self, folder: Path) -> Items:
        """Yield items with the true answers in `meta`, in the order of images.jsonl.

        Raises:
            DataError: There is nothing to judge at that place.
        """
        for item in read_items(folder, self.image_roots):
            yield item if isinstance(item, InvalidItem) else _with_truth(item)

    def pairs(self, folder: Path) -> list[Pair]:
        """Read the preferences by construction, if the folder has them."""
        return Folder().pairs(folder)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the tables of correlation with the true alignment, accuracy of yes / no and graph verdicts, and GNED."""
        from titjudge.suites.known_answer.tables import tables

        return tables(items, scores)


def _with_truth(item: Item) -> Item | InvalidItem:
    """Put the true answers of an item where metrics and tables look for them; an item without them cannot be judged."""
    problem = _problem(item.meta)
    if problem:
        return InvalidItem(
            item.id, f"no known answers: {problem}. Make the folder with `probe images`", item.generator, item.prompt_id
        )
    line = item.meta
    graph, truth = _graph(line)
    rest = {key: value for key, value in line.items() if key not in TRUTH}
    answers = {
        item_meta.PROMPT_ANSWERS.name: [str(answer).lower() for answer in line["gold_answers"]],
        item_meta.GOLD_ANSWERS.name: [str(answer).lower() for answer in line["answers"]],
        item_meta.PROMPT_WORDS.name: list(line.get("text_words") or ()),
        item_meta.TEXT_WORDS.name: list(line.get("text_present") or ()),
        item_meta.ANNOTATION.name: line["graph"],
        item_meta.GRAPH.name: graph,
        item_meta.GRAPH_TRUTH.name: truth,
        item_meta.ALIGNMENT.name: float(line["alignment"]),
    }
    return replace(item, meta=rest | answers)


def _problem(line: Values) -> str:
    """Return the fault of an annotation; empty if there is none."""
    if not isinstance(line.get("questions"), list):
        return "'questions' is missing"
    for key in ("questions", "gold_answers", "answers"):
        if not isinstance(line.get(key), list) or len(line[key]) != len(line.get("questions") or ()):
            return f"'{key}' is missing or not as long as 'questions'"
    if not {"yes", "no"}.issuperset(str(answer).lower() for key in ("answers", "gold_answers") for answer in line[key]):
        return "an answer is neither yes nor no"
    alignment = line.get("alignment")
    if not is_number(alignment):
        return "'alignment' is missing or not a number"
    if not 0 <= alignment <= 1:
        return f"'alignment' is {alignment}, not between 0 and 1"
    graph = line.get("graph")
    if not isinstance(graph, dict) or not isinstance(graph.get("entities"), list) or not graph["entities"]:
        return "'graph' is missing or has no entities"
    try:
        _graph(line)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        return f"the scores do not cover the graph ({error})"
    return ""


def _graph(line: Values) -> tuple[Json, dict[str, list[bool]]]:
    """Return the graph as the metric takes it, and for each element whether the image shows it, in the same order."""
    graph, entities, attributes = line["graph"], line["entity_scores"], line["attribute_scores"]
    relations = {relation_element(relation): bool(relation["score"]) for relation in line["relation_scores"]}
    return (
        Graph.from_json(graph).to_json(),
        {
            "entity": [bool(entities[entity]) for entity in graph["entities"]],
            "attribute": [
                bool(attributes[entity][name])
                for entity, named in graph.get("attributes", {}).items()
                for name in named
            ],
            "relation": [relations[relation_element(relation)] for relation in graph.get("relations", ())],
        },
    )


DONE = "done"
WRONG = {
    "not_done": "not done",
    "elsewhere": "done to another thing",
    "collateral": "done with a further change",
    "over_edit": "over-edited",
}
OUTCOMES = (DONE, *WRONG)


def is_known_edits(folder: Path) -> bool:
    """Return True if a folder was made by `probe images --edits`: results beside their sources, each with its change."""
    return (folder / "made.json").is_file() and (folder / "metadata.jsonl").is_file() and (folder / "sources").is_dir()


def known_edits(folder: Path) -> list[Item]:
    """Read the results whose outcome is known, in the order of the file.

    Raises:
        DataError: There is nothing to judge at that place.
    """
    items = (item for item in Folder().load(folder) if isinstance(item, Item))
    return [item for item in items if item.sources and item.generator in OUTCOMES]
