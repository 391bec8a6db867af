"""`label export` of marks: the majority value of each element, the agreement, and the file for `compare elements`.

marks.jsonl, marks.csv   every mark that was not taken back: image, element, value, annotator
experts.csv              every mark of an expert
elements.csv             decided elements: image, element, value (for `compare elements RUN --human`)
open.csv                 elements without a majority, or that most cannot tell, and why
ratings.csv              mode rating: the mean rating of each pillar by image, instead of the two files above
labels.json              agreement by kind, annotators, counts
"""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from titjudge.apps.label.collected import (
    RATING,
    Collected,
    ElementKey,
    ElementMark,
    decide_elements,
    early_marks,
    marks_of,
    tally,
)
from titjudge.apps.label.reliability import Reliability, at_most
from titjudge.apps.label.store import current_submissions, is_expert
from titjudge.core.errors import UserError
from titjudge.core.files import csv_text, jsonl_text
from titjudge.core.numbers import mean
from titjudge.core.types import Table
from titjudge.stats.people.votes import PANEL, krippendorff_alpha

_MARK = ("image", "element", "value", "annotator", "kind", "note")
_COLUMNS = ("image", "element", "value", "kind", "rule", "votes", "of")


def export_marks(
    collected: Collected, annotators: int | None = None
) -> tuple[dict[str, Any], list[Table], dict[str, str]]:
    """Make the results, tables and files of a store of marks; `annotators` is how many each image should have."""
    mode = collected.plan
    marks = marks_of(collected.submissions)
    counted = [mark for mark in marks if collected.counts(mark.annotator)]
    if not counted:
        raise UserError("; ".join((f"{collected.path}: no marks that count", *collected.left_out)))
    votes = tally(counted)
    agreement = _agreement(tally(early_marks(collected, counted)), mode, collected.images)
    people, table = _annotators(collected, [mark for mark in marks if not is_expert(mark.annotator)], votes)
    expected = annotators or collected.enough or PANEL
    result: dict[str, Any] = {"mode": mode, "marks": len(counted), "annotators_expected": expected, "alpha": agreement}
    columns = ("kind", "alpha", "95% low", "95% high", "elements", "note")
    shown = [
        (kind, a["alpha"], *(a["interval"] or (None, None)), a["elements"], a["reason"])
        for kind, a in agreement.items()
    ]
    note = "Krippendorff's alpha, " + ("interval" if mode == RATING else "nominal")
    tables = [
        Table("Agreement", columns, tuple(shown), (note, *(() if mode == RATING else collected.early_note))),
        table,
    ]
    files = {
        "marks.jsonl": jsonl_text(map(_record, counted)),
        "marks.csv": _marks_csv(counted),
    }
    if mode == RATING:
        files["ratings.csv"] = _ratings(votes)
    else:
        outcomes = decide_elements(collected, annotators)
        rows = {
            decided: [[getattr(o, name) for name in _COLUMNS] for o in outcomes if o.decided is decided]
            for decided in (True, False)
        }
        files |= {"elements.csv": csv_text(_COLUMNS, rows[True]), "open.csv": csv_text(_COLUMNS, rows[False])}
        files["experts.csv"] = _marks_csv(mark for mark in marks if is_expert(mark.annotator))
        result["rules"] = dict(Counter(outcome.rule for outcome in outcomes))
        counts = (("elements", len(votes)), *result["rules"].items())
        tables.insert(0, Table("Elements", ("what", "number"), counts, (f"majority of at least {expected}",)))
    result |= {"annotator_details": people, "left_out": collected.left_out}
    files["labels.json"] = json.dumps(result, indent=2, ensure_ascii=False)
    return result, tables, files


def _record(mark: ElementMark) -> dict[str, str]:
    return {name: getattr(mark, name) for name in _MARK}


def _marks_csv(marks: Iterable[ElementMark]) -> str:
    return csv_text(_MARK, (tuple(_record(mark).values()) for mark in marks))


def _agreement(
    votes: Mapping[ElementKey, Counter[str]], mode: str, images: Mapping[str, tuple[str, str]]
) -> dict[str, dict[str, Any]]:
    """Compute Krippendorff's alpha over all elements, and over those of each kind; `images` has their prompts."""
    kinds = dict.fromkeys(kind for _, _, kind in votes)
    by_kind = {}
    for chosen in ("all", *kinds):
        keys = [key for key in votes if chosen in ("all", key[2])]
        counts = [votes[key] for key in keys]
        values = (
            list(map(str, range(1, 11))) if mode == RATING else sorted({value for count in counts for value in count})
        )
        alpha = krippendorff_alpha(
            [[count[value] for value in values] for count in counts],
            groups=[images[image][0] if image in images else image for image, _, _ in keys],
            interval_scale=mode == RATING,
        )
        reason = alpha.reason.replace("pairs", "elements").replace("pair", "element").replace("vote", "mark")
        by_kind[chosen] = {
            "alpha": alpha.alpha,
            "interval": list(alpha.interval) if alpha.interval else None,
            "elements": alpha.pairs,
            "reason": reason,
        }
    return by_kind


def _ratings(votes: Mapping[ElementKey, Counter[str]]) -> str:
    """Write the mean rating of each pillar by image as CSV, and their mean as `score`."""
    pillars = tuple(dict.fromkeys(element for _, element, _ in votes))
    means: dict[str, dict[str, float]] = defaultdict(dict)
    people: Counter[str] = Counter()
    for (image, element, _), count in votes.items():
        means[image][element] = sum(int(value) * number for value, number in count.items()) / count.total()
        people[image] = count.total()
    rows = (
        (image, *(of[pillar] for pillar in pillars), mean(of.values()), people[image]) for image, of in means.items()
    )
    return csv_text(("image", *pillars, "score", "annotators"), rows)


def _annotators(
    collected: Collected, marks: Sequence[ElementMark], votes: Mapping[ElementKey, Counter[str]]
) -> tuple[list[dict[str, Any]], Table]:
    """Summarize each annotator: images, undos, seconds, share of marks as most others, and right attention checks."""
    alike: dict[str, list[bool]] = defaultdict(list)
    for mark in marks:
        others = votes.get((mark.image, mark.element, mark.kind), Counter())
        others = others - Counter([mark.value] if collected.counts(mark.annotator) else [])
        if others and 2 * max(others.values()) > others.total():
            alike[mark.annotator].append(2 * others[mark.value] > others.total())
    records = []
    for name in sorted({row.annotator for row in collected.submissions if not is_expert(row.annotator)}):
        own = [row for row in collected.submissions if row.annotator == name]
        current = current_submissions(own)
        seconds = [row.duration_ms / 1000 for row in current if row.duration_ms is not None]
        records.append(
            {
                "annotator": name,
                "images": len(current),
                "taken_back": sum(row.marks is None for row in own),
                "median_seconds": statistics.median(seconds) if seconds else None,
                "as_most_others": mean(alike[name]),
                **collected.people.get(name, Reliability(0, 0, 0)).to_json(),
            }
        )
    columns = (
        "annotator", "images", "taken back", "median seconds", "as most others", "checks", "checks right", "at most",
    )  # fmt: skip
    note = "as most others: share of marks that are what more than half of the others say"
    rows = tuple(tuple(record.values())[: len(columns)] for record in records)
    return records, Table("Annotators", columns, rows, (note, *at_most(collected.people), *collected.left_out))
