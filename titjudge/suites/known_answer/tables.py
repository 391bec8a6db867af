"""Tables of known-answer results: each metric against what is true by construction. Intervals resample prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from titjudge.core import item_meta
from titjudge.core.grouping import grouped
from titjudge.core.numbers import mean
from titjudge.core.registry import base_metric
from titjudge.core.score_parts import alignment, predictions
from titjudge.core.tables import percent, plain
from titjudge.core.types import Item, Note, Score, Table
from titjudge.stats.bootstrap import Interval, codes
from titjudge.stats.intervals import mean_interval
from titjudge.stats.ranking.correlation import correlation
from titjudge.suites.base import Scored, benchmark_table

RESAMPLES = 2000
READS_TEXT = "text-rendering"
ANSWERS = "yes-no"
ByMetric = Mapping[str, Sequence[Scored]]
"""The scores of each metric, with their items."""


def tables(items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
    """Make the tables of `KnownAnswer.aggregate`, without the ones that have no data."""
    by_id = {item.id: item for item in items}
    known = [(by_id[score.item_id], score) for score in scores if score.item_id in by_id]
    scored = grouped(known, lambda pair: pair[1].metric)
    all_tables = (
        _correlations(scored),
        _verdict_table(
            "Known answers: yes / no",
            ("metric", "images", "questions", "right", "accuracy", "yes instead of no", "no instead of yes"),
            {metric: pairs for metric, pairs in scored.items() if base_metric(metric) == ANSWERS},
            _answers,
            Note(
                "true_of_image",
                "against what is true of the image, not what the prompt requires; unanswered images are not counted",
            ),
        ),
        _verdict_table(
            "Known answers: graph elements",
            ("metric", "elements", "judged", "right", "accuracy", "shown where it is not", "missed where it is"),
            scored,
            _elements,
        ),
        _words(scored),
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


def _correlations(scored: ByMetric) -> Table:
    """Correlate the scores of each metric with the true alignment of the images."""
    rows = []
    line = "true alignment: elements of the prompt that the image shows over all; 95% intervals by resampling prompts"
    notes = [Note("true_alignment", line)]
    for metric, pairs in scored.items():
        if base_metric(metric) == READS_TEXT:
            continue
        values = [adherence(item, score) for item, score in pairs]
        truth = [item_meta.ALIGNMENT.required(item) for item, _ in pairs]
        result = correlation(values, truth, [item.prompt_id for item, _ in pairs], resamples=RESAMPLES)
        srcc, plcc = plain(result.srcc, result.srcc_interval), plain(result.plcc, result.plcc_interval)
        rows.append((metric, srcc, plcc, plain(result.krcc, result.krcc_interval), result.n, result.missing))
        if base_metric(metric) == ANSWERS:
            line = (
                f"{metric}: the share of answers that the prompt requires; the score itself marks the judge, and does not"
                " say which image is better"
            )
            notes.append(Note("answers_that_mark_judge", line))
        if result.reason:
            notes.append(Note("correlation_undefined", f"{metric}: {result.reason}"))
    columns = ("metric", "SRCC", "PLCC", "KRCC", "images", "without a score")
    return benchmark_table("Known answers: scores against true alignment", columns, rows, *notes)


def _mean(rows: Iterable[tuple[str, float]]) -> tuple[float | None, Interval | None]:
    """Compute the mean of (prompt id, value in [0, 1]) rows and its 95% interval over prompts."""
    listed = list(rows)
    if not listed:
        return None, None
    values = np.array([value for _, value in listed], dtype=np.float64)
    return float(values.mean()), mean_interval(values, (0.0, 1.0), codes(label for label, _ in listed)[0])


Verdict = tuple[str, str, bool, bool]  # category or level, prompt id, truth, verdict


def _verdict_rows(metric: str, verdicts: Sequence[Verdict]) -> list[tuple[Any, ...]]:
    """Make a row of all verdicts and one of each category: accuracy, and the two kinds of errors."""
    rows = []
    categories = sorted({verdict[0] for verdict in verdicts})
    for category in ["all", *(categories if len(categories) > 1 else [])]:
        chosen = [verdict[1:] for verdict in verdicts if category in ("all", verdict[0])]
        share, interval = _mean((prompt, float(truth == judged)) for prompt, truth, judged in chosen)
        right = sum(truth == judged for _, truth, judged in chosen)
        wrong_yes = mean(float(judged) for _, truth, judged in chosen if not truth)
        wrong_no = mean(float(not judged) for _, truth, judged in chosen if truth)
        shares = percent(share, interval), percent(wrong_yes), percent(wrong_no)
        rows.append((metric, category, len(chosen), right, *shares))
    return rows


def _verdict_table(
    title: str,
    columns: Sequence[str],
    scored: ByMetric,
    verdicts_of: Callable[[Item, Score], list[Verdict]],
    *notes: Note,
) -> Table:
    """Make the table of the verdicts that the scores of each metric contain, against the truth about each image."""
    rows: list[tuple[Any, ...]] = []
    for metric, pairs in scored.items():
        if verdicts := [verdict for pair in pairs for verdict in verdicts_of(*pair)]:
            rows += _verdict_rows(metric, verdicts)
    return benchmark_table(title, columns, rows, *notes)


def _answers(item: Item, score: Score) -> list[Verdict]:
    """List the answers to yes / no questions."""
    truth, answers = item_meta.GOLD_ANSWERS.required(item), predictions(score.parts)
    if score.value is None or len(truth) != len(answers):
        return []
    level = f"level {item_meta.LEVEL.required(item)}" if item_meta.LEVEL.is_in(item) else "all"
    return [(level, item.prompt_id, t == "yes", a == "yes") for t, a in zip(truth, answers, strict=True)]


def _elements(item: Item, score: Score) -> list[Verdict]:
    """List the verdicts on elements of the annotation (a judge that extracts a graph may name others)."""
    judged = alignment(score.parts)
    if score.value is None or judged is None:
        return []
    graph, truth = item_meta.GRAPH.required(item), item_meta.GRAPH_TRUTH.required(item)
    verdicts: list[Verdict] = []
    for category, key in (("entity", "entities"), ("attribute", "attributes"), ("relation", "relations")):
        elements = [(name,) if isinstance(name, str) else tuple(name) for name in graph[key]]
        true = dict(zip(elements, truth[category], strict=True))
        for element, aligned in judged.get(category, ()):
            if tuple(element) in true:
                verdicts.append((category, item.prompt_id, true[tuple(element)], bool(aligned)))
    return verdicts


def _words(by_metric: ByMetric) -> Table:
    rows: list[tuple[Any, ...]] = []
    for metric, pairs in by_metric.items():
        scored = [score for _, score in pairs if base_metric(metric) == READS_TEXT and score.value is not None]
        if not scored:
            continue
        gned = plain(*_mean((score.prompt_id, score.value or 0.0) for score in scored))
        recall = plain(*_mean((score.prompt_id, float(score.parts["recall"])) for score in scored))
        rows.append((metric, gned, recall, sum(score.value == 0 for score in scored), len(scored)))
    columns = ("metric", "GNED", "recall", "read without error", "images with words")
    note = "against the words really drawn: 0 is perfect reading, whatever the prompt asked for"
    return benchmark_table("Known answers: words", columns, rows, Note("words_drawn", note))
