"""LongT2IBench: long prompts as graphs of entities, attributes and relations (AAAI 2026; repository @e47380b)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.data_paths import inside
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import read_json, write_atomic
from titjudge.core.numbers import finite
from titjudge.core.score_parts import alignment
from titjudge.core.types import InvalidItem, Item, Score, Status, Table
from titjudge.metrics.graph_alignment import Graph, forced, ratio
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, parse_target, target_text
from titjudge.suites.base import Suite, number_repeats
from titjudge.suites.longt2ibench.dataset import Annotated, Generation, read_generations, read_split
from titjudge.suites.longt2ibench.relations import relation_rates
from titjudge.suites.longt2ibench.statistics import (
    Recall,
    alignment_rates,
    by_interval,
    generators,
    interval,
    tables,
    words,
)
from titjudge.suites.samples import sample_of

__all__ = [
    "LongT2IBench",
    "aggregate_generations",
    "aggregate_predictions",
    "aggregate_run",
    "generation_results",
    "prediction_results",
]

METRIC = "graph-alignment"
_ANSWERED = (Status.OK, Status.TRUNCATED, Status.UNPARSED)
SPLITS = ("test", "val", "train")


def aggregate_generations(
    generations: Path, split: Path | None = None, *, matching: str = "casefold"
) -> tuple[dict[str, Any], list[Table]]:
    """Compute results from saved answers of the official script (`generation_results_<timestamp>.json`).

    The predicted score always follows the rule that a misaligned entity takes its attributes and relations along;
    interpretation accuracy compares the answers as they are.

    Args:
        generations: The output of test_generation.py.
        split: The split file with the annotations; without it there is no interpretation accuracy.
        matching: exact, casefold or loose (also without punctuation and leading articles); with `-group` behind it, all
            attributes of an entity that stand together count as one. The official rule is not published.

    Returns:
        `{"matching", "interpretation": {"entity" | "attribute" | "relation" | "all": {"align", "misalign", "overall",
        "counts"}}, "correlation": {"overall" | "30-50" | ... : {"srcc", "plcc", "average", "n"}}, "coverage",
        "problems", ...}` and the tables; recalls in [0, 1], None where undefined.

    Raises:
        DataError: A file cannot be read.
        ConfigError: The matching rule is unknown.
    """
    recall = Recall(matching)
    annotated, problems = _annotations(split) if split else ({}, [])
    counts = {"results": 0, "parsed": 0, "incomplete": 0, "unparsed": 0, "failed": 0, "duplicates": 0, "compared": 0}
    rows: list[tuple[str, float, float]] = []
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
        known = {"entity": truth.entities, "relation": _relations(truth.truth)} if truth else None
        parsed = parse_target(result.text, known)
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
        images.append((_generator(truth) if truth else "", result.image))
        alignments.append((result.prompt, truth.truth if truth else None, consistent))
        predicted, human = ratio(consistent), truth.ratio if truth else result.ratio
        if predicted is not None and human is not None:
            rows.append((result.prompt, predicted, human))
    summary = _summary(rows, counts, problems, matching, recall if split else None)
    summary["alignment"] = alignment_rates(
        (generator, *row) for generator, row in zip(generators(images), alignments, strict=True)
    )
    return summary, tables(summary)


def aggregate_predictions(predictions: Path) -> tuple[dict[str, Any], list[Table]]:
    """Compute SRCC and PLCC from `score_results/prediction_results.json` of the official script.

    Raises:
        DataError: It is no such file.
    """
    raw = read_json(predictions)
    if not isinstance(raw, list):
        raise DataError("expected a list of original_text, true_score, predicted_score", predictions)
    rows: list[tuple[str, float, float]] = []
    problems: list[tuple[str, str]] = []
    for number, each in enumerate(raw):
        each = each if isinstance(each, Mapping) else {}
        predicted, human = finite(each.get("predicted_score")), finite(each.get("true_score"))
        if predicted is None or human is None or not isinstance(each.get("original_text"), str):
            problems.append((f"prediction {number}", "original_text, true_score and predicted_score are needed"))
        else:
            rows.append((each["original_text"], predicted, human))
    summary = _summary(rows, {"results": len(raw), "used": len(rows)}, problems, "", None)
    return summary, tables(summary)


def _summary(
    rows: Sequence[tuple[str, float, float]],
    counts: Mapping[str, int],
    problems: Sequence[tuple[str, str]],
    matching: str,
    recall: Recall | None,
) -> dict[str, Any]:
    return {
        "matching": matching,
        "interpretation": recall.to_json() if recall else {},
        "contradicted": recall.contradicted if recall else 0,
        "correlation": by_interval(rows),
        "short_prompts": sum(not interval(words(prompt)) for prompt, _, _ in rows),
        "coverage": {**counts, "scored": len(rows)},
        "problems": [{"name": name, "reason": reason} for name, reason in problems],
    }


def _annotations(split: Path) -> tuple[dict[str, list[Annotated]], list[tuple[str, str]]]:
    """Read the annotations by prompt, and what could not be used: its name and the reason."""
    annotated: dict[str, list[Annotated]] = {}
    problems: list[tuple[str, str]] = []
    for each in read_split(split):
        if isinstance(each, Annotated):
            annotated.setdefault(each.prompt, []).append(each)
            problems += [(f"{split.name}[{each.index}]", reason) for reason in each.problems]
        else:
            problems.append((each.id, each.reason))
    return annotated, problems


def _truth(result: Generation, annotated: Mapping[str, Sequence[Annotated]]) -> Annotated | None:
    """Find the annotation of a result by prompt and image; of several, the one with the result's number."""
    same = [each for each in annotated.get(result.prompt, ()) if _same_image(each.image, result.image)]
    return next((each for each in same if str(each.index) == result.id), same[0] if same else None)


def _same_image(listed: str, saved: str) -> bool:
    one, two = Path(os.path.normpath(listed)).parts, Path(os.path.normpath(saved)).parts
    return bool(one) and two[-len(one) :] == one


def _relations(truth: Alignment) -> list[str]:
    return [f"{one}[{relation}]{two}" for (one, relation, two), _ in truth["relation"]]


def aggregate_run(
    items: Sequence[Item], scores: Sequence[Score], *, matching: str = "casefold"
) -> tuple[dict[str, Any], list[Table]]:
    """Compute what `aggregate_generations` does from the scores of a run.

    Raises:
        ConfigError: The matching rule is unknown.
    """
    summary = LongT2IBench(matching=matching).summary(items, scores)
    return summary, tables(summary)


def generation_results(items: Sequence[Item], scores: Sequence[Score]) -> dict[str, Any]:
    """Return the answers of a run as test_generation.py saves them: `summary`, and `results` with a text for each item.

    The text is the judge's own where it answered in the official form (protocol official), else its verdicts in that form.
    """
    by_id = {score.item_id: score for score in scores if score.metric == METRIC}
    results = []
    for number, item in enumerate(items):
        score = by_id.get(item.id)
        predicted = alignment(score.parts) if score else None
        if score and (predicted is None or score.parts.get("graph_from") == "the judge"):
            text = score.parts.get("output") if score.status in _ANSWERED else None
        else:
            text = target_text(_alignment(predicted)) if predicted else None
        result: dict[str, Any] = {
            "id": item.meta.get("index", number),
            "image_path": str(item.image or ""),
            "input_text": item.prompt,
            "generated_text": text,
            "ground_truth_score": item.meta.get("align_ratio"),
            "success": text is not None,
            "retries": 0,
        }
        if text is None:
            result["error"] = f"{score.status}: {score.reason}" if score else "not judged"
        results.append(result)
    good = sum(result["success"] for result in results)
    counts = {"total_samples": len(results), "successful": good, "failed": len(results) - good, "retried_samples": 0}
    return {"config": {}, "summary": counts, "results": results}


def prediction_results(items: Sequence[Item], scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return the scores of a run beside people's as test_score.py saves them, without the items that lack either."""
    values = {score.item_id: score.value for score in scores if score.metric == METRIC}
    return [
        {"original_text": item.prompt, "true_score": item.meta["align_ratio"], "predicted_score": values[item.id]}
        for item in items
        if values.get(item.id) is not None and item.meta.get("align_ratio") is not None
    ]


class LongT2IBench(Suite):
    """LongT2IBench: entities, attributes and relations of long prompts, judged in three hops.

    It reads DATA/split/<split>.json or DATA/data/split/<split>.json, with images relative to DATA (or `data`, or
    `image_prompts_1st` or `imgs` in it); DATA may also be the split file itself.

    Args:
        split: test, val or train.
        matching: How predicted elements are matched, see `aggregate_generations`.
    """

    name = "longt2ibench"
    metrics: tuple[str, ...] = (METRIC,)
    DEVIATIONS: tuple[str, ...] = (
        "the alignment score is the ratio of aligned elements in the judge's answer (paper, Alignment Score); upstream reads "
        "it with a trained head from a <level> token, which no other model has (the metric longt2iexpert reads that head: the "
        "paper names Qwen2.5-VL-7B-Instruct, the released code loads Qwen2-VL)",
        "misaligned entities take their attributes and relations along in code; upstream only the prompt says so",
        "each attribute counts as one element (the paper does not say whether attributes of one entity count together)",
        "interpretation accuracy has no published code: it is micro recall over the annotated elements, which the paper's "
        "Table 2 fits; how elements are matched is an option (default: case-folded, single attributes)",
        "an element predicted both aligned and misaligned is found in neither list; extra predictions are not penalised",
        "word-count intervals have no published code: words between white space, [30, 50) and so on, 110 in the last",
        "the six categories of relations (Figure 4d) have no published rule: here the words of a relation decide, such as `on` or "
        "`with`, and a relation without such a word is an action",
        "strict: the judge gets the graph (from the annotation, else extracted by the judge model) and answers in JSON, one "
        "verdict for each element, at temperature 0; wording ours. official: the published HA-CoT prompt and decoding "
        "(T=0.6, top_p 0.9, 1,024 tokens, no seed)",
        "answers with missing or cut-off lists have no score; in saved generations the listed elements still enter recall",
        "the generator is the key `model` or `generator` of an element, else the folder of its image, where images lie in several",
        "a missing Align ratio is missing; upstream reads 0.0. Unreadable images are not scored; upstream scores a black one",
        "official prompts are those of test_generation.py; test_score.py uses another one than the model was trained on",
    )

    def __init__(self, *, split: str = "test", matching: str = "casefold") -> None:
        if split not in SPLITS:
            raise ConfigError(f"split is one of {', '.join(SPLITS)}, not '{split}'")
        Recall(matching)
        self._split, self._matching = split, matching

    def load(self, folder: Path) -> Iterator[Item | InvalidItem]:
        """Yield items in the order of the split file.

        `id` is the image path; where an image is listed again, "(2)" and so on follows, and it counts again, as upstream.
        `prompt_id` is a hash of the prompt. `meta`: index, align_ratio (people's), words, annotation (people's alignment by
        category), graph.

        Raises:
            DataError: There is no split file, or it is no JSON array.
        """
        file, root = self._find(folder)
        elements = list(read_split(file))
        listed = [(_generator(each), each.image) for each in elements if isinstance(each, Annotated)]
        names = iter(generators(listed))
        yield from number_repeats(
            _item(each, next(names), root, self.image_roots) if isinstance(each, Annotated) else each
            for each in elements
        )

    def _find(self, folder: Path) -> tuple[Path, Path]:
        if folder.is_file():
            return folder, folder.parent.parent if folder.parent.name == "split" else folder.parent
        for root in (folder, folder / "data"):
            if (root / "split" / f"{self._split}.json").is_file():
                return root / "split" / f"{self._split}.json", root
        raise DataError(f"there is no split/{self._split}.json", folder)

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Make the tables of `aggregate_generations` from the scores of a run."""
        return tables(self.summary(items, scores))

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write generation_results.json and prediction_results.json."""
        results = {"generation": generation_results(items, scores), "prediction": prediction_results(items, scores)}
        for name, content in results.items():
            write_atomic(folder / f"{name}_results.json", json.dumps(content, ensure_ascii=False, indent=2))
        return len(results)

    def summary(self, items: Sequence[Item], scores: Sequence[Score]) -> dict[str, Any]:
        """Compute the object of `aggregate longt2ibench --json` from scores."""
        by_id = {item.id: item for item in items}
        recall = Recall(self._matching)
        rows: list[tuple[str, float, float]] = []
        alignments: list[tuple[str, str, Alignment | None, Alignment]] = []
        problems: list[tuple[str, str]] = []
        judged = [
            (by_id[score.item_id], score) for score in scores if score.metric == METRIC and score.item_id in by_id
        ]
        for item, score in judged:
            parts = alignment(score.parts)
            if score.value is None or parts is None:
                problems.append((item.id, f"{score.status}: {score.reason}"))
                continue
            predicted = _alignment(parts)
            truth = _alignment(item.meta["annotation"]) if "annotation" in item.meta else None
            alignments.append((item.generator, item.prompt, truth, predicted))
            if truth:
                recall.add(truth, predicted)
            if item.meta.get("align_ratio") is not None:
                rows.append((item.prompt, score.value, item.meta["align_ratio"]))
        answered = len(judged) - len(problems)
        counts = {"items": len(items), "answered": answered, "unanswered": len(items) - answered}
        return {
            **_summary(rows, counts, problems, self._matching, recall),
            "alignment": alignment_rates(alignments),
            "relations": relation_rates((truth, predicted) for _, _, truth, predicted in alignments),
        }


def _alignment(raw: Mapping[str, Any]) -> Alignment:
    """Read an alignment as scores and items hold it: JSON."""
    return {
        category: [(tuple(element), bool(aligned)) for element, aligned in raw.get(category, ())]
        for category in CATEGORIES
    }


def _generator(each: Annotated) -> str:
    return str(each.raw.get("model") or each.raw.get("generator") or "")


def _item(each: Annotated, generator: str, root: Path, roots: Sequence[Path]) -> Item | InvalidItem:
    group = hashlib.sha256(each.prompt.encode("utf-8", "replace")).hexdigest()[:12]
    try:
        places = [inside(root, f"{below}{each.image}", roots=roots) for below in ("", "image_prompts_1st/", "imgs/")]
    except DataError as error:
        return InvalidItem(each.image, error.message, generator, group)
    image = next((place for place in places if place.is_file()), places[0])
    truth = {
        category: [[list(element), aligned] for element, aligned in each.truth[category]] for category in CATEGORIES
    }
    meta: dict[str, Any] = {
        "index": each.index,
        "align_ratio": each.ratio,
        "words": words(each.prompt),
        "annotation": truth,
        "graph": _graph(each).to_json(),
    }
    if each.problems:
        meta["annotation_problems"] = list(each.problems)
    return Item(each.image, each.prompt, image, generator, group, meta, sample_of(each.raw))


def _graph(each: Annotated) -> Graph:
    entities = dict.fromkeys([element[0] for element, _ in each.truth["entity"]] or each.entities)
    attributes = dict.fromkeys((entity, attribute) for (entity, attribute), _ in each.truth["attribute"])
    relations = dict.fromkeys((one, relation, two) for (one, relation, two), _ in each.truth["relation"])
    return Graph(tuple(entities), tuple(attributes), tuple(relations))
