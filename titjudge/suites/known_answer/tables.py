"""Tables of known-answer results: each metric against what is true by construction. Intervals resample prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from titjudge.core import item_meta
from titjudge.core.numbers import mean
from titjudge.core.registry import base_metric
from titjudge.core.score_parts import alignment, predictions
from titjudge.core.tables import percent, plain
from titjudge.core.types import Item, Score, Table, Values
from titjudge.stats.bootstrap import Interval, codes, group_sums
from titjudge.stats.intervals import mean_intervals, share_intervals
from titjudge.stats.ranking.correlation import correlation
from titjudge.suites.base import benchmark_table

RESAMPLES = 2000
READS_TEXT = "text-rendering"
ANSWERS = "yes-no"


def tables(items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
    """Make the tables of `KnownAnswer.aggregate`, without the ones that have no data."""
    items_by_id = {item.id: item for item in items}
    by_metric: dict[str, list[Score]] = {}
    for score in scores:
        if score.item_id in items_by_id:
            by_metric.setdefault(score.metric, []).append(score)
    all_tables = (
        _correlations(items_by_id, by_metric),
        _answers(items_by_id, by_metric),
        _elements(items_by_id, by_metric),
        _words(by_metric),
    )
    return [table for table in all_tables if table.rows]


def adherence(item: Item, score: Score) -> float | None:
    """Return how well an image follows its prompt by a score; None if the score does not show it.

    Of yes-no, whose value measures the judge here, it is the share of answers that the prompt requires.
    """
    if score.value is None or base_metric(score.metric) == READS_TEXT:
        return None
    if base_metric(score.metric) != ANSWERS:
        return score.value
    required, answers = item_meta.PROMPT_ANSWERS.required(item), predictions(score.parts)
    if len(answers) != len(required) or not required:
        return None
    hits: int = sum(a == b for a, b in zip(answers, required, strict=True))
    return hits / len(required)


def _correlations(items_by_id: Mapping[str, Item], by_metric: Mapping[str, Sequence[Score]]) -> Table:
    """Correlate the scores of each metric with the true alignment of the images."""
    rows = []
    notes = [
        "true alignment: elements of the prompt that the image shows over all; 95% intervals by resampling prompts"
    ]
    for metric, scores in by_metric.items():
        if base_metric(metric) == READS_TEXT:
            continue
        items = [items_by_id[score.item_id] for score in scores]
        values = [adherence(item, score) for item, score in zip(items, scores, strict=True)]
        truth = [item_meta.ALIGNMENT.required(item) for item in items]
        result = correlation(values, truth, [item.prompt_id for item in items], resamples=RESAMPLES)
        srcc, plcc = plain(result.srcc, result.srcc_interval), plain(result.plcc, result.plcc_interval)
        rows.append((metric, srcc, plcc, plain(result.krcc, result.krcc_interval), result.n, result.missing))
        if base_metric(metric) == ANSWERS:
            notes.append(
                f"{metric}: the share of answers that the prompt requires; the score itself marks the judge, and does not"
                " say which image is better"
            )
        if result.reason:
            notes.append(f"{metric}: {result.reason}")
    columns = ("metric", "SRCC", "PLCC", "KRCC", "images", "without a score")
    return benchmark_table("Known answers: scores against true alignment", columns, rows, *notes)


def _mean(rows: Iterable[tuple[str, float]], *, shares: bool = False) -> tuple[float | None, Interval | None]:
    """Compute the mean of (prompt id, value in [0, 1]) rows and its 95% interval by resampling prompts.

    `shares`: values are 0 and 1, so that the interval is the interval of a share.
    """
    listed = list(rows)
    if not listed:
        return None, None
    prompt, labels = codes(label for label, _ in listed)
    values = np.array([value for _, value in listed], dtype=np.float64)
    sums, counts = group_sums(prompt, len(labels), values, np.ones(len(values))).T
    intervals = share_intervals(sums, counts) if shares else mean_intervals(sums, counts, (0.0, 1.0))
    return float(values.mean()), intervals[0]


Verdict = tuple[str, str, bool, bool]  # category or level, prompt id, truth, verdict


def _verdict_rows(metric: str, verdicts: Sequence[Verdict]) -> list[tuple[Any, ...]]:
    """Make a row of all verdicts and one of each category: accuracy, and the two kinds of errors."""
    rows = []
    categories = sorted({verdict[0] for verdict in verdicts})
    for category in ["all", *(categories if len(categories) > 1 else [])]:
        chosen = [verdict[1:] for verdict in verdicts if category in ("all", verdict[0])]
        share, interval = _mean(((prompt, float(truth == judged)) for prompt, truth, judged in chosen), shares=True)
        right = sum(truth == judged for _, truth, judged in chosen)
        wrong_yes = mean(float(judged) for _, truth, judged in chosen if not truth)
        wrong_no = mean(float(not judged) for _, truth, judged in chosen if truth)
        shares = percent(share, interval), percent(wrong_yes), percent(wrong_no)
        rows.append((metric, category, len(chosen), right, *shares))
    return rows


def _answers(items_by_id: Mapping[str, Item], by_metric: Mapping[str, Sequence[Score]]) -> Table:
    """Compare the answers to yes / no questions with the truth about each image."""
    rows: list[tuple[Any, ...]] = []
    for metric, scores in by_metric.items():
        if base_metric(metric) != ANSWERS:
            continue
        verdicts: list[Verdict] = []
        for score in scores:
            item = items_by_id[score.item_id]
            truth, answers = item_meta.GOLD_ANSWERS.required(item), predictions(score.parts)
            if score.value is None or len(truth) != len(answers):
                continue
            level = f"level {item_meta.LEVEL.required(item)}" if item_meta.LEVEL.is_in(item) else "all"
            verdicts += [(level, item.prompt_id, t == "yes", a == "yes") for t, a in zip(truth, answers, strict=True)]
        if verdicts:
            rows += _verdict_rows(metric, verdicts)
    columns = ("metric", "images", "questions", "right", "accuracy", "yes instead of no", "no instead of yes")
    note = "against what is true of the image, not what the prompt requires; unanswered images are not counted"
    return benchmark_table("Known answers: yes / no", columns, rows, note)


def _elements(items_by_id: Mapping[str, Item], by_metric: Mapping[str, Sequence[Score]]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for metric, scores in by_metric.items():
        verdicts: list[Verdict] = []
        for score in scores:
            aligned = alignment(score.parts)
            if score.value is not None and aligned is not None:
                verdicts += _element_verdicts(items_by_id[score.item_id], aligned)
        if verdicts:
            rows += _verdict_rows(metric, verdicts)
    columns = ("metric", "elements", "judged", "right", "accuracy", "shown where it is not", "missed where it is")
    return benchmark_table("Known answers: graph elements", columns, rows)


def _element_verdicts(item: Item, alignment: Values) -> list[Verdict]:
    """List the verdicts on elements of the annotation (a judge that extracts a graph may name others)."""
    graph, truth = item_meta.GRAPH.required(item), item_meta.GRAPH_TRUTH.required(item)
    verdicts: list[Verdict] = []
    for category, key in (("entity", "entities"), ("attribute", "attributes"), ("relation", "relations")):
        elements = [(name,) if isinstance(name, str) else tuple(name) for name in graph[key]]
        true = dict(zip(elements, truth[category], strict=True))
        for element, aligned in alignment.get(category, ()):
            if tuple(element) in true:
                verdicts.append((category, item.prompt_id, true[tuple(element)], bool(aligned)))
    return verdicts


def _words(by_metric: Mapping[str, Sequence[Score]]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for metric, scores in by_metric.items():
        scored = [score for score in scores if base_metric(metric) == READS_TEXT and score.value is not None]
        if not scored:
            continue
        gned = plain(*_mean((score.prompt_id, score.value or 0.0) for score in scored))
        recall = plain(*_mean((score.prompt_id, float(score.parts["recall"])) for score in scored))
        rows.append((metric, gned, recall, sum(score.value == 0 for score in scored), len(scored)))
    columns = ("metric", "GNED", "recall", "read without error", "images with words")
    note = "against the words really drawn: 0 is perfect reading, whatever the prompt asked for"
    return benchmark_table("Known answers: words", columns, rows, note)
