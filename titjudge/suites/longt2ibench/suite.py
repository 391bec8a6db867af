"""LongT2IBench: long prompts as graphs of entities, attributes and relations (AAAI 2026; repository @e47380b).

Its splits have annotations of two shapes:

- raw: `entity_scores {entity: 0|1}`, `attribute_scores {entity: {attribute: 0|1}}`,
  `relation_scores [{entity1, relation, entity2, score}]`
- ready: `entity_alignment`, `attribute_alignment`, `relation_alignment`, each `{align: [text], misalign: [text]}`, with
  attributes as `[a, b]entity` and relations as `entity1[relation]entity2`
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core import item_meta, registry
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.files import read_json, write_json
from titjudge.core.numbers import finite
from titjudge.core.registry import base_metric
from titjudge.core.score_parts import GraphFrom, alignment
from titjudge.core.types import InvalidItem, Item, Items, Json, Score, Status, Table, Values
from titjudge.core.words import is_texts
from titjudge.data.data_paths import inside
from titjudge.metrics.graph_alignment import Graph, forced, ratio, relation_element
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, Marks, parse_target, read_elements, target_text
from titjudge.suites.base import Results, Suite, SuiteInputs, judged, number_repeats
from titjudge.suites.longt2ibench.statistics import (
    Correlated,
    Recall,
    alignment_rates,
    generators,
    metrics_table,
    relation_rates,
    summarise,
    tables,
    words,
)
from titjudge.suites.samples import sample_of

METRIC = "graph-alignment"
_ANSWERED = (Status.OK, Status.TRUNCATED, Status.UNPARSED)


def aggregate_generations(generations: Path, split: Path | None = None, *, matching: str = "casefold") -> Results:
    """Compute results from saved answers of the official script (`generation_results_<timestamp>.json`).

    The predicted score always follows the rule that a misaligned entity takes its attributes and relations along;
    interpretation accuracy compares the answers as they are.

    Args:
        generations: The output of test_generation.py.
        split: The split file with the annotations; without it there is no interpretation accuracy.
        matching: exact, casefold or loose (also without punctuation and leading articles); with `-group` behind it, all
            adjacent attributes of an entity count as one. The official rule is not published.

    Returns:
        `{"matching", "interpretation": {"entity" | "attribute" | "relation" | "all": {"align", "misalign", "overall",
        "counts"}}, "correlation": {"overall" | "30-50" | ... : {"srcc", "plcc", "average", "n"}}, "coverage",
        "problems", ...}` and the tables; recalls in [0, 1], None if undefined.

    Raises:
        DataError: A file cannot be read.
        ConfigError: The matching rule is unknown.
    """
    recall = Recall(matching)
    annotated, problems = _annotations(split) if split else ({}, [])
    counts = dict.fromkeys("results parsed incomplete unparsed failed duplicates compared".split(), 0)
    rows: list[Correlated] = []
    images: list[tuple[str, str]] = []
    alignments: list[tuple[str, Alignment | None, Alignment]] = []
    seen: set[tuple[str, str, str]] = set()
    for result in read_generations(generations):
        name = f"result {result.id}"
        counts["results"] += 1
        key = (result.id, result.image, result.prompt)
        counts["duplicates"] += key in seen  # counts as another answer, as every row does upstream
        seen.add(key)
        if result.text is None:
            counts["failed"] += 1
            problems.append((name, result.error))
            continue
        truth = _truth(result, annotated)
        if truth is None and split:
            problems.append((name, "the split has no element with this prompt and image"))
        names = truth.graph.names | {"entity": [*truth.entities, *truth.graph.entities]} if truth else None
        parsed = parse_target(result.text, names)
        if parsed is None:
            counts["unparsed"] += 1
            problems.append((name, "no entity_score, attribute_score or relation_score in the text"))
            continue
        counts["parsed"] += 1
        problems += [(name, reason) for reason in parsed.problems]
        if truth:
            counts["compared"] += 1
            recall.add(truth.truth, parsed.alignment)
        if not parsed.complete:
            counts["incomplete"] += 1
            continue
        consistent, _ = forced(parsed.alignment)
        images.append((generator_of(truth) if truth else "", result.image))
        alignments.append((result.prompt, truth.truth if truth else None, consistent))
        predicted, human = ratio(consistent), truth.ratio if truth else result.ratio
        if predicted is not None and human is not None:
            rows.append((result.prompt, predicted, human))
    summary = summarise(rows, counts, problems, matching, recall if split else None)
    summary["alignment"] = alignment_rates(
        (generator, *row) for generator, row in zip(generators(images), alignments, strict=True)
    )
    return summary, tables(summary)


def aggregate_predictions(predictions: Path) -> Results:
    """Compute SRCC and PLCC from `score_results/prediction_results.json` of the official script.

    Raises:
        DataError: It is no such file.
    """
    raw = read_json(predictions)
    if not isinstance(raw, list):
        raise DataError(
            must_be("the content", "a list of original_text, true_score, predicted_score", raw), predictions
        )
    rows: list[Correlated] = []
    problems: list[tuple[str, str]] = []
    for number, entry in enumerate(raw):
        entry = entry if isinstance(entry, Mapping) else {}
        predicted, human = finite(entry.get("predicted_score")), finite(entry.get("true_score"))
        if predicted is None or human is None or not isinstance(entry.get("original_text"), str):
            problems.append((f"prediction {number}", "original_text, true_score and predicted_score are needed"))
        else:
            rows.append((entry["original_text"], predicted, human))
    summary = summarise(rows, {"results": len(raw), "used": len(rows)}, problems, "", None)
    return summary, tables(summary)


def _annotations(split: Path) -> tuple[dict[str, list[Annotated]], list[tuple[str, str]]]:
    """Read the annotations by prompt, and the unusable ones: name and reason."""
    annotated: dict[str, list[Annotated]] = {}
    problems: list[tuple[str, str]] = []
    for element in read_split(split):
        if isinstance(element, Annotated):
            annotated.setdefault(element.prompt, []).append(element)
            problems += [(f"{split.name}[{element.index}]", reason) for reason in element.problems]
        else:
            problems.append((element.id, element.reason))
    return annotated, problems


def _truth(result: Generation, annotated: Mapping[str, Sequence[Annotated]]) -> Annotated | None:
    """Find the annotation of a result by prompt and image; of several, the one with the result's number."""
    same = [element for element in annotated.get(result.prompt, ()) if _same_image(element.image, result.image)]
    return next((element for element in same if str(element.index) == result.id), same[0] if same else None)


def _same_image(listed: str, saved: str) -> bool:
    listed_parts, saved_parts = Path(os.path.normpath(listed)).parts, Path(os.path.normpath(saved)).parts
    return bool(listed_parts) and saved_parts[-len(listed_parts) :] == listed_parts


def generation_results(items: Sequence[Item], scores: Sequence[Score]) -> Json:
    """Return the answers of a run as test_generation.py saves them: `summary`, and `results` with a text for each item.

    The text is the judge's answer if it is in the official form (protocol official), otherwise its verdicts in that form.
    """
    by_id = {score.item_id: score for score in scores if score.metric == METRIC}
    results = []
    for number, item in enumerate(items):
        score = by_id.get(item.id)
        predicted = alignment(score.parts) if score else None
        if score and (predicted is None or score.parts.get("graph_from") == GraphFrom.JUDGE):
            text = score.parts.get("output") if score.status in _ANSWERED else None
            if text is not None:  # without the text before the first list, as test_generation.py saves it
                text = text[max(text.find("all entity:"), 0) :].strip()
        else:
            text = target_text(read_alignment(predicted)) if predicted else None
        result: Json = {
            "id": item_meta.INDEX.get(item, number),
            "image_path": str(item.image or ""),
            "input_text": item.prompt,
            "generated_text": text,
            "ground_truth_score": item_meta.ALIGN_RATIO.get(item),
            "success": text is not None,
            "retries": 0,
        }
        if text is None:
            result["error"] = f"{score.status}: {score.reason}" if score else "not judged"
        results.append(result)
    good = sum(result["success"] for result in results)
    counts = {"total_samples": len(results), "successful": good, "failed": len(results) - good, "retried_samples": 0}
    return {"config": {}, "summary": counts, "results": results}


def prediction_results(items: Sequence[Item], scores: Sequence[Score]) -> list[Json]:
    """Return the scores of a run beside people's as test_score.py saves them, without items that do not have both."""
    values = {score.item_id: score.value for score in scores if score.metric == METRIC}
    return [
        {
            "original_text": item.prompt,
            "true_score": item_meta.ALIGN_RATIO.required(item),
            "predicted_score": values[item.id],
        }
        for item in items
        if values.get(item.id) is not None and item_meta.ALIGN_RATIO.get(item) is not None
    ]


def read_alignment(raw: Values) -> Alignment:
    """Read an alignment as scores and items store it: JSON."""
    return {
        category: [(tuple(element), bool(aligned)) for element, aligned in raw.get(category, ())]
        for category in CATEGORIES
    }


def generator_of(element: Annotated) -> str:
    """Return the generator that an element names; empty if it names none."""
    return str(element.raw.get("model") or element.raw.get("generator") or "")


SPLITS = ("test", "val", "train")


def aggregate_run(items: Sequence[Item], scores: Sequence[Score], *, matching: str = "casefold") -> Results:
    """Compute what `aggregate_generations` does from the scores of a run.

    Raises:
        ConfigError: The matching rule is unknown.
    """
    summary = LongT2IBench(matching=matching).summary(items, scores)
    return summary, tables(summary)


class LongT2IBench(Suite):
    """LongT2IBench: entities, attributes and relations of long prompts, judged in three hops.

    It reads <split>.json in DATA (as the data set on the hub), DATA/split or DATA/data/split, with images relative to DATA (or
    `data`, or `image_prompts_1st` or `imgs` in it); DATA may also be the split file itself.

    Args:
        split: test, val or train.
        matching: How predicted elements are matched, see `aggregate_generations`.
    """

    name = "longt2ibench"
    metrics = (METRIC,)
    DEVIATIONS = (
        "the alignment score is the ratio of aligned elements in the judge's answer (paper, Alignment Score); upstream reads "
        "it with a trained head from a <level> token, which no other model has (the metric longt2iexpert reads that head: the "
        "paper names Qwen2.5-VL-7B-Instruct, the released code loads Qwen2-VL)",
        "code marks attributes and relations of misaligned entities as misaligned; upstream, only the prompt asks for this",
        "each attribute counts as one element (the paper does not state whether attributes of one entity count together)",
        "interpretation accuracy has no published code: it is micro recall over the annotated elements, which the paper's "
        "Table 2 fits; how elements are matched is an option (default: case-folded, single attributes)",
        "an element predicted both aligned and misaligned is found in neither list; extra predictions are not penalised",
        "word-count intervals have no published code: words between white space, [30, 50) and so on, 110 in the last",
        "the six categories of relations (Figure 4d) have no published rule: here the words of a relation decide, such as `on` or "
        "`with`, and a relation without such a word is an action",
        "strict: the judge gets the graph (from the annotation, otherwise extracted by the judge model) and answers in JSON, one "
        "verdict for each element, at temperature 0; wording ours. official: the published HA-CoT prompt and decoding "
        "(T=0.6, top_p 0.9, 1,024 tokens, no seed)",
        "answers without a word (an outage: the next run asks again) or with missing or cut-off lists have no score; in saved generations the listed elements still enter recall",
        "the generator is the key `model` or `generator` of an element, otherwise the folder of its image, if there are several",
        "the data set on the hub (yzc002/LongT2IBench) was not read for this: its place of test.json is from public pages",
        "a missing Align ratio is missing; upstream reads 0.0. Unreadable images are not scored; upstream scores a black one",
        "`prompts make --recipe long-graph`: a model refines and qualifies graphs, and people correct them in `prompts review`; "
        "annotators of `label --mode graph` can discard an image, as in the paper",
        "not included: the fine-tuned baselines of Table 1 (PickScore*, ImageReward*, FGA-BLIP2*). LongT2IExpert's weights were not run here; "
        "examples/train has its training",
        "official prompts are from test_generation.py; the prompt of test_score.py differs from the training prompt",
    )

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, split: str = "test", matching: str = "casefold") -> None:
        super().__init__(inputs)
        if split not in SPLITS:
            raise ConfigError(must_be("split", f"one of {', '.join(SPLITS)}", split))
        Recall(matching)
        self._split, self._matching = split, matching

    def load(self, folder: Path) -> Items:
        """Yield items in the order of the split file.

        `id` is the image path; if an image is listed again, "(2)" and so on follows, and it counts again, as upstream.
        `prompt_id` is a hash of the prompt. `meta`: index, align_ratio (people's), words, annotation (people's alignment by
        category), graph.

        Raises:
            DataError: There is no split file, or it is not a JSON array.
        """
        file, root = self._find(folder)
        elements = list(read_split(file))
        listed = [(generator_of(element), element.image) for element in elements if isinstance(element, Annotated)]
        names = iter(generators(listed))
        yield from number_repeats(
            _item(element, next(names), root, self.image_roots) if isinstance(element, Annotated) else element
            for element in elements
        )

    def _find(self, folder: Path) -> tuple[Path, Path]:
        """Find the split file, and the folder that its image paths are relative to.

        Raises:
            DataError: There is no such file.
        """
        if folder.is_file():
            return folder, folder.parent.parent if folder.parent.name == "split" else folder.parent
        for root, place in ((folder, "split"), (folder / "data", "split"), (folder, "")):
            file = root / place / f"{self._split}.json"
            if file.is_file():
                return file, root
        raise DataError(
            f"{self._split}.json is missing, also in split and data/split. Run `suites fetch longt2ibench`", folder
        )

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the tables of `aggregate_generations` from the scores of a run, and the correlations of its other metrics."""
        names = dict.fromkeys(score.metric for score in scores if base_metric(score.metric) == score.metric)
        others = {name: self._against_people(items, scores, name) for name in names if name != METRIC}
        alone = METRIC not in names and any(others.values())
        main = [] if alone else tables(self.summary(items, scores))
        return [*main, *metrics_table({name: rows for name, rows in others.items() if len(rows) > 1})]

    def _against_people(self, items: Sequence[Item], scores: Sequence[Score], metric: str) -> list[Correlated]:
        """List prompt, score (more is better) and people's alignment score of the images that have both."""
        sign = 1.0 if registry.metric_of(metric).higher_is_better else -1.0
        return [
            (item.prompt, sign * score.value, item_meta.ALIGN_RATIO.required(item))
            for item, score in judged(items, scores, metric)
            if score.value is not None and item_meta.ALIGN_RATIO.get(item) is not None
        ]

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write generation_results.json and prediction_results.json."""
        results = {"generation": generation_results(items, scores), "prediction": prediction_results(items, scores)}
        for name, content in results.items():
            write_json(folder / f"{name}_results.json", content)
        return len(results)

    def summary(self, items: Sequence[Item], scores: Sequence[Score]) -> Json:
        """Compute the object of `suites aggregate longt2ibench --json` from scores."""
        recall = Recall(self._matching)
        rows: list[Correlated] = []
        alignments: list[tuple[str, str, Alignment | None, Alignment]] = []
        problems: list[tuple[str, str]] = []
        pairs = judged(items, scores, METRIC)
        for item, score in pairs:
            parts = alignment(score.parts)
            if score.value is None or parts is None:
                problems.append((item.id, f"{score.status}: {score.reason}"))
                continue
            predicted = read_alignment(parts)
            truth = read_alignment(item_meta.ANNOTATION.required(item)) if item_meta.ANNOTATION.is_in(item) else None
            alignments.append((item.generator, item.prompt, truth, predicted))
            if truth:
                recall.add(truth, predicted)
            if item_meta.ALIGN_RATIO.get(item) is not None:
                rows.append((item.prompt, score.value, item_meta.ALIGN_RATIO.required(item)))
        answered = len(pairs) - len(problems)
        counts = {"items": len(items), "answered": answered, "unanswered": len(items) - answered}
        return {
            **summarise(rows, counts, problems, self._matching, recall),
            "alignment": alignment_rates(alignments),
            "relations": relation_rates((truth, predicted) for _, _, truth, predicted in alignments),
        }


def _item(annotated: Annotated, generator: str, root: Path, roots: Sequence[Path]) -> Item | InvalidItem:
    """Make the item of an annotated element, with its image from the first folder that has it."""
    group = hashlib.sha256(annotated.prompt.encode("utf-8", "replace")).hexdigest()[:12]
    try:
        places = [
            inside(root, f"{below}{annotated.image}", roots=roots) for below in ("", "image_prompts_1st/", "imgs/")
        ]
    except DataError as error:
        return InvalidItem(annotated.image, error.message, generator, group)
    image = next((place for place in places if place.is_file()), places[0])
    truth = {
        category: [[list(element), aligned] for element, aligned in annotated.truth[category]]
        for category in CATEGORIES
    }
    meta: Json = {
        item_meta.INDEX.name: annotated.index,
        item_meta.ALIGN_RATIO.name: annotated.ratio,
        "words": words(annotated.prompt),
        item_meta.ANNOTATION.name: truth,
        item_meta.GRAPH.name: annotated.graph.to_json(),
    }
    if annotated.problems:
        meta |= {"annotation_problems": list(annotated.problems)}
    return Item(annotated.image, annotated.prompt, image, generator, group, meta, sample_of(annotated.raw))


@dataclass(frozen=True, slots=True)
class Annotated:
    """One element of a split file.

    Attributes:
        index: Its number in the file, from 0.
        prompt: The prompt.
        image: The path of the image as the file has it.
        ratio: The share of aligned elements that people found; None if there is none.
        truth: Which elements people found aligned.
        entities: All entities of the prompt.
        problems: The parts of the annotation that were left out, with reasons.
        raw: The element as it is in the file.
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
    """Read the alignment that people gave, the names of all entities, and the parts that were left out.

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
        raise DataError(f"{category}_alignment must be an object with two lists of texts, align and misalign")
    return texts


def _read_raw(structure: Values, entities: tuple[str, ...]) -> tuple[Alignment, tuple[str, ...], tuple[str, ...]]:
    """Read an annotation of the raw shape.

    The rule comes from train.py and is not symmetric: an entity or attribute with a value that is neither 0 nor 1 is left
    out, a relation with any score but 1 (or none) is misaligned.
    """
    if not isinstance(structure.get("entity_scores"), Mapping):
        raise DataError("the annotation has neither entity_alignment nor entity_scores. Add one of them")
    scores = {(entity,): value for entity, value in structure["entity_scores"].items()}
    attributes = {
        (entity, attribute): value
        for entity, values in _mapping(structure.get("attribute_scores", {}), "attribute_scores").items()
        for attribute, value in _mapping(values, entity).items()
    }
    relations = structure.get("relation_scores", [])
    if not isinstance(relations, list):
        raise DataError(must_be("relation_scores", "a list", relations))
    if not all(isinstance(relation, Mapping) and relation.keys() >= _ENDS for relation in relations):
        raise DataError(f"each of relation_scores must have entity1, relation and entity2, not {relations!r:.80}")
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
        raise DataError(must_be(f"the annotation of '{name}'", "an object", value))
    return value


def read_split(path: Path) -> Iterator[Annotated | InvalidItem]:
    """Read every element of a split file; one that cannot be used is an InvalidItem, `<file>[<number>]`.

    Raises:
        DataError: The file is not a readable JSON array.
    """
    elements = read_json(path)
    if not isinstance(elements, list):
        raise DataError(must_be("the content", "a JSON array", elements), path)
    for index, element in enumerate(elements):
        try:
            yield _annotated(index, element)
        except DataError as error:
            yield InvalidItem(f"{path.name}[{index}]", error.message)


def _annotated(index: int, element: Any) -> Annotated:
    """Read one element of a split.

    Raises:
        DataError: It has no prompt, no image or no annotation.
    """
    if not isinstance(element, Mapping):
        raise DataError(must_be("the element", "an object", element))
    for key in ("en_prompt_text", "img_path"):
        if not isinstance(element.get(key), str) or not element[key].strip():
            raise DataError(must_be(f"'{key}'", "a text that is not empty", element.get(key)))
    structure = element.get("en_structured_data")
    if not isinstance(structure, Mapping):
        raise DataError(must_be("'en_structured_data'", "an object", structure))
    truth, entities, problems = read_annotation(structure)
    ratio = finite(element.get("Align ratio"))
    if ratio is None:
        problems = (*problems, "there is no numeric Align ratio (upstream reads 0.0)")
    return Annotated(index, element["en_prompt_text"], element["img_path"], ratio, truth, entities, problems, element)


@dataclass(frozen=True, slots=True)
class Generation:
    """One result of a saved generation_results file; `text` is None if the official script failed."""

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
        raise DataError(must_be("'results'", "a list (output of test_generation.py)", results), path)
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
