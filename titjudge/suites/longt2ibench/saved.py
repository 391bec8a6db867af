"""The files of the official scripts of LongT2IBench: results from saved ones, and those that a run would have written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.files import read_json
from titjudge.core.numbers import finite
from titjudge.core.score_parts import alignment
from titjudge.core.types import Item, Json, Score, Status, Table, Values
from titjudge.metrics.graph_alignment import forced, ratio
from titjudge.metrics.longt2ibench_text import CATEGORIES, Alignment, parse_target, target_text
from titjudge.suites.longt2ibench.dataset import Annotated, Generation, read_generations, read_split
from titjudge.suites.longt2ibench.statistics import Recall, alignment_rates, generators, summarise, tables

METRIC = "graph-alignment"
_ANSWERED = (Status.OK, Status.TRUNCATED, Status.UNPARSED)


def aggregate_generations(
    generations: Path, split: Path | None = None, *, matching: str = "casefold"
) -> tuple[Json, list[Table]]:
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


def aggregate_predictions(predictions: Path) -> tuple[Json, list[Table]]:
    """Compute SRCC and PLCC from `score_results/prediction_results.json` of the official script.

    Raises:
        DataError: It is no such file.
    """
    raw = read_json(predictions)
    if not isinstance(raw, list):
        raise DataError("expected a list of original_text, true_score, predicted_score", predictions)
    rows: list[tuple[str, float, float]] = []
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
    """Read the annotations by prompt, and what could not be used: its name and the reason."""
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

    The text is the judge's own where it answered in the official form (protocol official), else its verdicts in that form.
    """
    by_id = {score.item_id: score for score in scores if score.metric == METRIC}
    results = []
    for number, item in enumerate(items):
        score = by_id.get(item.id)
        predicted = alignment(score.parts) if score else None
        if score and (predicted is None or score.parts.get("graph_from") == "the judge"):
            text = _from_first_keyword(score.parts.get("output")) if score.status in _ANSWERED else None
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


def _from_first_keyword(output: str | None) -> str | None:
    """Cut what stands before the first list off an answer, as test_generation.py does before it saves it."""
    return output if output is None else output[max(output.find("all entity:"), 0) :].strip()


def prediction_results(items: Sequence[Item], scores: Sequence[Score]) -> list[Json]:
    """Return the scores of a run beside people's as test_score.py saves them, without the items that lack either."""
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
    """Read an alignment as scores and items hold it: JSON."""
    return {
        category: [(tuple(element), bool(aligned)) for element, aligned in raw.get(category, ())]
        for category in CATEGORIES
    }


def generator_of(element: Annotated) -> str:
    """Return the generator that an element names; empty where it names none."""
    return str(element.raw.get("model") or element.raw.get("generator") or "")
