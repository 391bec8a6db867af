"""Known-answer results: each metric against what is true by construction. Intervals resample prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from titjudge.core.registry import base_metric
from titjudge.core.score_parts import alignment, predictions
from titjudge.core.types import Item, Score, Table
from titjudge.stats.bootstrap import Interval

RESAMPLES = 2000
READS_TEXT = "text-rendering"
ANSWERS = "yes-no"


def tables(items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
    """Make the tables of `KnownAnswer.aggregate`; those without data are left out."""
    known = {item.id: item for item in items}
    by_metric: dict[str, list[Score]] = {}
    for score in scores:
        if score.item_id in known:
            by_metric.setdefault(score.metric, []).append(score)
    found = [
        _correlations(known, by_metric),
        _answers(known, by_metric),
        _elements(known, by_metric),
        _words(by_metric),
    ]
    return [table for table in found if table is not None]


def adherence(item: Item, score: Score) -> float | None:
    """Read what a score says of the image, higher is better.

    The yes-no metric's value marks the judge here; its adherence is the share of answers the prompt requires.
    """
    if score.value is None or base_metric(score.metric) == READS_TEXT:
        return None
    if base_metric(score.metric) != ANSWERS:
        return score.value
    wanted, given = item.meta["prompt_answers"], predictions(score.parts)
    if len(given) != len(wanted) or not wanted:
        return None
    hits: int = sum(a == b for a, b in zip(given, wanted, strict=True))
    return hits / len(wanted)


def _correlations(known: Mapping[str, Item], by_metric: Mapping[str, Sequence[Score]]) -> Table | None:
    from titjudge.stats.correlation import correlation
    from titjudge.stats.tables import plain

    rows = []
    notes = [
        "true alignment: elements of the prompt that the image shows over all; 95% intervals by resampling prompts"
    ]
    for metric, scores in by_metric.items():
        if base_metric(metric) == READS_TEXT:
            continue
        each = [known[score.item_id] for score in scores]
        values = [adherence(item, score) for item, score in zip(each, scores, strict=True)]
        truth = [item.meta["alignment"] for item in each]
        found = correlation(values, truth, [item.prompt_id for item in each], resamples=RESAMPLES)
        rows.append(
            (
                metric,
                plain(found.srcc, found.srcc_interval),
                plain(found.plcc, found.plcc_interval),
                plain(found.krcc, found.krcc_interval),
                found.n,
                found.missing,
            )
        )
        if base_metric(metric) == ANSWERS:
            notes.append(
                f"{metric}: the share of answers that the prompt requires; the score itself marks the judge, and does not"
                " say which image is better"
            )
        if found.reason:
            notes.append(f"{metric}: {found.reason}")
    if not rows:
        return None
    columns = ("metric", "SRCC", "PLCC", "KRCC", "images", "without a score")
    return Table("Known answers: scores against true alignment", columns, tuple(rows), tuple(notes))


def rate(rows: Iterable[tuple[str, bool]]) -> tuple[float | None, Interval | None, int, int]:
    """(share, 95% interval by resampling groups, hits, n) of (group, hit) rows; share None without rows."""
    import numpy as np

    from titjudge.stats.bootstrap import codes, group_sums
    from titjudge.stats.intervals import share_intervals

    listed = list(rows)
    if not listed:
        return None, None, 0, 0
    group, labels = codes(label for label, _ in listed)
    hit = np.array([hit for _, hit in listed], dtype=np.float64)
    sums = group_sums(group, len(labels), hit, np.ones(len(hit)))
    interval = share_intervals(sums[:, 0], sums[:, 1])[0]
    return float(hit.mean()), interval, int(hit.sum()), len(hit)


Verdict = tuple[str, str, bool, bool]  # kind or level, group, truth, verdict


def _verdict_rows(metric: str, verdicts: Sequence[Verdict]) -> list[tuple[Any, ...]]:
    """One row for all verdicts and one for each kind: accuracy, and the two ways of being wrong."""
    from titjudge.stats.tables import percent

    rows = []
    kinds = sorted({verdict[0] for verdict in verdicts})
    for kind in ["all", *(kinds if len(kinds) > 1 else [])]:
        some = [verdict for verdict in verdicts if kind in ("all", verdict[0])]
        share, interval, right, n = rate((group, truth == given) for _, group, truth, given in some)
        wrong_yes = rate((group, given) for _, group, truth, given in some if not truth)
        wrong_no = rate((group, not given) for _, group, truth, given in some if truth)
        rows.append((metric, kind, n, right, percent(share, interval), percent(wrong_yes[0]), percent(wrong_no[0])))
    return rows


def _answers(known: Mapping[str, Item], by_metric: Mapping[str, Sequence[Score]]) -> Table | None:
    rows: list[tuple[Any, ...]] = []
    for metric, scores in by_metric.items():
        if base_metric(metric) != ANSWERS:
            continue
        verdicts: list[Verdict] = []
        for score in scores:
            item = known[score.item_id]
            truth, given = item.meta["gold_answers"], predictions(score.parts)
            if score.value is None or len(truth) != len(given):
                continue
            level = f"level {item.meta['level']}" if "level" in item.meta else "all"
            verdicts += [(level, item.prompt_id, t == "yes", g == "yes") for t, g in zip(truth, given, strict=True)]
        if verdicts:
            rows += _verdict_rows(metric, verdicts)
    columns = ("metric", "images", "questions", "right", "accuracy", "yes where it is no", "no where it is yes")
    notes = ("against what is true of the image, not what the prompt requires; unanswered images are not counted",)
    return Table("Known answers: yes / no", columns, tuple(rows), notes) if rows else None


def _elements(known: Mapping[str, Item], by_metric: Mapping[str, Sequence[Score]]) -> Table | None:
    rows: list[tuple[Any, ...]] = []
    for metric, scores in by_metric.items():
        verdicts: list[Verdict] = []
        for score in scores:
            aligned = alignment(score.parts)
            if score.value is not None and aligned is not None:
                verdicts += _element_verdicts(known[score.item_id], aligned)
        if verdicts:
            rows += _verdict_rows(metric, verdicts)
    columns = ("metric", "elements", "judged", "right", "accuracy", "shown where it is not", "missed where it is")
    return Table("Known answers: graph elements", columns, tuple(rows)) if rows else None


def _element_verdicts(item: Item, alignment: Mapping[str, Any]) -> list[Verdict]:
    """Verdicts on elements that the annotation has too (a judge that lists its own may name others)."""
    graph, truth = item.meta["graph"], item.meta["graph_truth"]
    found: list[Verdict] = []
    for category, key in (("entity", "entities"), ("attribute", "attributes"), ("relation", "relations")):
        elements = [(name,) if isinstance(name, str) else tuple(name) for name in graph[key]]
        true = dict(zip(elements, truth[category], strict=True))
        for element, aligned in alignment.get(category, ()):
            if tuple(element) in true:
                found.append((category, item.prompt_id, true[tuple(element)], bool(aligned)))
    return found


def _words(by_metric: Mapping[str, Sequence[Score]]) -> Table | None:
    from titjudge.stats.tables import plain

    rows: list[tuple[Any, ...]] = []
    for metric, scores in by_metric.items():
        some = [score for score in scores if base_metric(metric) == READS_TEXT and score.value is not None]
        if not some:
            continue
        value, interval = mean_by_group((score.prompt_id, score.value or 0.0) for score in some)
        recall, recall_interval = mean_by_group((score.prompt_id, float(score.parts["recall"])) for score in some)
        exact = sum(score.value == 0 for score in some)
        rows.append((metric, plain(value, interval), plain(recall, recall_interval), exact, len(some)))
    columns = ("metric", "GNED", "recall", "read without error", "images with words")
    notes = ("against the words really drawn: 0 is perfect reading, whatever the prompt asked for",)
    return Table("Known answers: words", columns, tuple(rows), notes) if rows else None


def mean_by_group(rows: Iterable[tuple[str, float]]) -> tuple[float | None, Interval | None]:
    """Mean of (group, value) rows with its 95% interval by resampling groups."""
    import numpy as np

    from titjudge.stats.bootstrap import codes, group_sums
    from titjudge.stats.intervals import mean_intervals

    listed = list(rows)
    if not listed:
        return None, None
    group, labels = codes(label for label, _ in listed)
    value = np.array([value for _, value in listed], dtype=np.float64)
    sums = group_sums(group, len(labels), value, np.ones(len(value)))
    return float(value.mean()), mean_intervals(sums[:, 0], sums[:, 1], (0.0, 1.0))[0]
