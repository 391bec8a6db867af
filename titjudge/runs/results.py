"""Compute results.json and its tables from items and scores. It reads no file, so that `verify` can repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from titjudge.core.numbers import known_sum, mean
from titjudge.core.registry import base_metric
from titjudge.core.run_records import SCHEMA_VERSION
from titjudge.core.score_parts import question_counts, steadiness, texts_cut
from titjudge.core.types import InvalidItem, Item, Pair, Score, Table
from titjudge.metrics import Metric, everywhere
from titjudge.stats.intervals import WAY
from titjudge.stats.people.agreement_tables import agreement_tables
from titjudge.stats.ranking.duels import duel_tables
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt

CONSTRUCTED = "the preferences of these data come from how the images were made; read `people` as `construction`"


def summarize(
    listed: Sequence[Item | InvalidItem],
    scores: Iterable[Score],
    suite: Any,
    pairs: Sequence[Pair],
    metrics: dict[str, Metric],
    *,
    status: str,
    money: Mapping[str, Any],
    extra_warnings: Sequence[str] = (),
    per_prompt: PerPrompt = MEAN,
) -> tuple[dict[str, Any], list[Table]]:
    """Compute the content of results.json, and its tables. Scores of other items or metrics are left out."""
    from titjudge.stats.people.agreement import agreement

    items = [item for item in listed if isinstance(item, Item)]
    bad = [item for item in listed if isinstance(item, InvalidItem)]
    scores = _in_order(scores, items, metrics)
    lower = {s.metric for s in scores if not metrics[base_metric(s.metric)].higher_is_better}
    marks = {s.metric for s in scores if base_metric(s.metric) in suite.MARKS_JUDGE}
    images = [item for item in listed if isinstance(item, Item) or item.is_image]
    ranges = {s.metric: metrics[base_metric(s.metric)].range for s in scores}
    excluded = not_applicable(images, scores, metrics)
    compared = agreement(
        images,
        scores,
        pairs,
        negate=lower,
        marks_judge=marks,
        ranges=ranges,
        not_applicable=excluded,
        per_prompt=per_prompt,
    )
    tables = [*agreement_tables(compared), *_steadiness(scores), *duel_tables(items, scores)]
    tables += suite.aggregate(items, scores)
    failures = [{"item": b.id, "status": "bad_input", "reason": b.reason} for b in bad]
    failures += [{"item": s.item_id, "status": str(s.status), "reason": s.reason} for s in scores if s.value is None]
    unpriced = money.get("unpriced", 0)
    results = {
        "schema_version": SCHEMA_VERSION,
        **compared.to_json(),
        "status": status,
        "spent": known_sum(money["spent"], unpriced),
        "list_cost": known_sum(money["list_cost"], money.get("unlisted", 0)),
        "items": len(items),
        "bad_items": [{"id": b.id, "reason": b.reason} for b in bad],
        "failures": failures,
        "pairs": [
            {"group": p.prompt_id, "a": p.a, "b": p.b, "preference": p.preference}
            | ({"both_bad": True} if p.both_bad else {})
            | ({"ranks": list(p.ranks)} if p.ranks else {})
            for p in pairs
        ],
        "reference": "construction" if pairs and all(p.source == "construction" for p in pairs) else "people",
        "cut": _cut(scores),
        "questions": _question_counts(scores),
        "intervals": WAY,
        "per_prompt": str(per_prompt),
        "not_applicable": {name: len(ids) for name, ids in excluded.items()},
        **({"unpriced": unpriced} if unpriced else {}),
        "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows, "notes": t.notes} for t in tables],
    }
    results["warnings"] = [*results.get("warnings", []), *extra_warnings]
    results["warnings"] += [
        f"{name}: {cut['scores']} texts were cut to the model's {cut['read']} tokens (the longest has {cut['longest']})"
        for name, cut in results["cut"].items()
    ]
    results["warnings"] += [
        f"{name}: {count['skipped']:,} of {count['asked']:,} questions about the scored images have no answer: the scores are "
        f"made of the others ({count['images']:,} images)"
        for name, count in results["questions"].items()
        if count["skipped"]
    ]
    results["warnings"] += [
        f"{name} applies to no image: none has {' and '.join(metrics[name].needs)}"
        for name, ids in excluded.items()
        if items and ids.issuperset(item.id for item in items)
    ]
    if results["reference"] == "construction":
        results["warnings"].append(CONSTRUCTED)
    return results, tables


def _in_order(scores: Iterable[Score], items: Sequence[Item], metrics: Mapping[str, Metric]) -> list[Score]:
    """Sort the scores of these items and metrics by item, as no interval may depend on the order of the answers."""
    place = {item.id: position for position, item in enumerate(items)}
    kept = [score for score in scores if score.item_id in place and base_metric(score.metric) in metrics]
    kept.sort(key=lambda score: place[score.item_id])
    return kept


def not_applicable(
    images: Sequence[Item | InvalidItem], scores: Sequence[Score], metrics: Mapping[str, Metric]
) -> dict[str, frozenset[str]]:
    """List the ids of the images to which a metric does not apply, by metric; a score that they lack is not missing.

    To an invalid image a metric applies where it applies to another image of the prompt.
    """
    excluded = {}
    for name, metric in metrics.items():
        if metric.applies is everywhere:
            continue
        prompts = {image.prompt_id for image in images if isinstance(image, Item) and metric.applies(image)}
        judged = {image.id for image in images if image.prompt_id in prompts}
        judged -= {image.id for image in images if isinstance(image, Item) and not metric.applies(image)}
        scored = {score.item_id for score in scores if base_metric(score.metric) == name}
        ids = {image.id for image in images} - judged - scored
        if ids:
            excluded[name] = frozenset(ids)
    return excluded


_STEADINESS = {
    "disagreement": "mean disagreement of the panel",
    "spread": "mean spread of repeats",
    "order_effect": "decided by the order",
    "first_advantage": "advantage of the first",
}


def _steadiness(scores: Sequence[Score]) -> list[Table]:
    """Tabulate how steady the judges are over panels, repeats and orders; no table where no score tells."""
    rows = []
    for name in sorted({score.metric for score in scores}):
        measures = [steadiness(score.parts) for score in scores if score.metric == name]
        means = [mean(measure.get(key) for measure in measures) for key in _STEADINESS]
        if any(value is not None for value in means):
            rows.append((name, *means))
    if not rows:
        return []
    notes = (
        "disagreement: highest minus lowest judge; spread: standard deviation over repeats; decided by the order: share of "
        "comparisons in which exchanging the sides exchanged the answer; all averaged over images",
    )
    return [Table("Steadiness of the judges", ("metric", *_STEADINESS.values()), tuple(rows), notes)]


def _question_counts(scores: Sequence[Score]) -> dict[str, dict[str, int]]:
    """Count for each metric the questions behind its scores, those without an answer, and the images that have such."""
    counts: dict[str, dict[str, int]] = {}
    for score in scores:
        asked, skipped = question_counts(score.parts) if score.value is not None else (0, 0)
        if asked:
            entry = counts.setdefault(score.metric, {"asked": 0, "skipped": 0, "images": 0})
            entry["asked"] += asked
            entry["skipped"] += skipped
            entry["images"] += skipped > 0
    return counts


def _cut(scores: Sequence[Score]) -> dict[str, dict[str, int]]:
    """Count for each metric the texts that were cut to the model's limit, with the longest one, in tokens."""
    cut: dict[str, dict[str, int]] = {}
    for score in scores:
        for text in texts_cut(score.parts):
            entry = cut.setdefault(score.metric, {"scores": 0, "read": text.used, "longest": 0})
            entry["scores"] += 1
            entry["longest"] = max(entry["longest"], text.total)
    return cut
