"""What a run's items and scores say, as results.json holds it: pure, so that `verify` can say it again and compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from titjudge.core.numbers import mean
from titjudge.core.registry import base_metric
from titjudge.core.run_records import SCHEMA_VERSION
from titjudge.core.score_parts import steadiness, texts_cut
from titjudge.core.types import InvalidItem, Item, Pair, Score, Table
from titjudge.metrics import Metric, everywhere
from titjudge.stats.duels import duel_tables
from titjudge.stats.intervals import WAY
from titjudge.stats.per_prompt import MEAN, PerPrompt
from titjudge.stats.tables import agreement_tables

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
    """Make what results.json holds, and its tables, from items and scores; writes nothing.

    Scores of other items or metrics are left out; of `money` only `spent` and `list_cost` (USD) are read.
    """
    from titjudge.stats.agreement import agreement

    items = [item for item in listed if isinstance(item, Item)]
    bad = [item for item in listed if isinstance(item, InvalidItem)]
    scores = _in_order(scores, items, metrics)
    lower = {s.metric for s in scores if not metrics[base_metric(s.metric)].higher_is_better}
    marks = {s.metric for s in scores if base_metric(s.metric) in suite.MARKS_JUDGE}
    shown = [item for item in listed if isinstance(item, Item) or item.is_image]
    ranges = {s.metric: metrics[base_metric(s.metric)].range for s in scores}
    apart = not_applicable(shown, scores, metrics)
    found = agreement(
        shown, scores, pairs, negate=lower, marks_judge=marks, ranges=ranges, apart=apart, per_prompt=per_prompt
    )
    steadiness = _steadiness(scores)
    tables = [*agreement_tables(found), *([steadiness] if steadiness else []), *duel_tables(items, scores)]
    tables += suite.aggregate(items, scores)
    failures = [(b.id, "bad_input", b.reason) for b in bad]
    failures += [(s.item_id, str(s.status), s.reason) for s in scores if s.value is None]
    results = (
        {"schema_version": SCHEMA_VERSION}
        | found.to_json()
        | {
            "status": status,
            "spent": round(money["spent"], 6),
            "list_cost": round(money["list_cost"], 6),
            "items": len(items),
            "bad_items": [{"id": b.id, "reason": b.reason} for b in bad],
            "failures": [{"item": item, "status": state, "reason": reason} for item, state, reason in failures],
            "pairs": [
                {"group": p.prompt_id, "a": p.a, "b": p.b, "preference": p.preference}
                | ({"both_bad": True} if p.both_bad else {})
                for p in pairs
            ],
            "reference": "construction" if pairs and all(p.source == "construction" for p in pairs) else "people",
            "cut": _cut(scores),
            "intervals": WAY,
            "per_prompt": str(per_prompt),
            "not_applicable": {name: len(ids) for name, ids in apart.items()},
            "tables": [{"title": t.title, "columns": t.columns, "rows": t.rows, "notes": t.notes} for t in tables],
        }
    )
    results["warnings"] = [*results.get("warnings", []), *extra_warnings, *_cut_warnings(results["cut"])]
    results["warnings"] += [
        f"{name} applies to no image: none has {' and '.join(metrics[name].needs)}"
        for name, ids in apart.items()
        if items and ids.issuperset(item.id for item in items)
    ]
    if results["reference"] == "construction":
        results["warnings"].append(CONSTRUCTED)
    return results, tables


def _in_order(scores: Iterable[Score], items: Sequence[Item], metrics: Mapping[str, Metric]) -> list[Score]:
    """Sort the scores of these items and metrics by item: answers come in any order, which no interval may depend on."""
    place = {item.id: at for at, item in enumerate(items)}
    kept = [score for score in scores if score.item_id in place and base_metric(score.metric) in metrics]
    kept.sort(key=lambda score: place[score.item_id])
    return kept


def not_applicable(
    shown: Sequence[Item | InvalidItem], scores: Sequence[Score], metrics: Mapping[str, Metric]
) -> dict[str, frozenset[str]]:
    """List, for each metric that does not apply everywhere, the inputs to which it does not: no score is lacking there.

    To an input that cannot be used it applies where it does to another image of its prompt.
    """
    found = {}
    for name, metric in metrics.items():
        if metric.applies is everywhere:
            continue
        groups = {each.prompt_id for each in shown if isinstance(each, Item) and metric.applies(each)}
        out = {e.id for e in shown if (not metric.applies(e) if isinstance(e, Item) else e.prompt_id not in groups)}
        out -= {score.item_id for score in scores if base_metric(score.metric) == name}
        if out:
            found[name] = frozenset(out)
    return found


_STEADY = {
    "disagreement": "mean disagreement of the panel",
    "spread": "mean spread of repeats",
    "order_effect": "decided by the order",
    "first_advantage": "advantage of the first",
}


def _steadiness(scores: Sequence[Score]) -> Table | None:
    """Tabulate how steady the judges are: panels, repeats and orders, averaged over the scores that tell."""
    rows = []
    for name in sorted({score.metric for score in scores}):
        measures = [steadiness(score.parts) for score in scores if score.metric == name]
        means = [mean(each.get(key) for each in measures) for key in _STEADY]
        if any(value is not None for value in means):
            rows.append((name, *means))
    if not rows:
        return None
    notes = (
        "disagreement: highest minus lowest judge; spread: standard deviation over repeats; decided by the order: share of "
        "comparisons in which exchanging the sides exchanged the answer; all averaged over images",
    )
    return Table("Steadiness of the judges", ("metric", *_STEADY.values()), tuple(rows), notes)


def _cut(scores: Sequence[Score]) -> dict[str, dict[str, int]]:
    """Count for each metric the scores in which a text was cut, and the longest text there was, in tokens."""
    found: dict[str, dict[str, int]] = {}
    for score in scores:
        for text in texts_cut(score.parts):
            entry = found.setdefault(score.metric, {"scores": 0, "read": text.used, "longest": 0})
            entry["scores"] += 1
            entry["longest"] = max(entry["longest"], text.total)
    return found


def _cut_warnings(cut: dict[str, dict[str, int]]) -> list[str]:
    return [
        f"{name}: {entry['scores']} texts were cut to the model's {entry['read']} tokens (the longest has {entry['longest']})"
        for name, entry in cut.items()
    ]
