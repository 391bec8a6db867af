"""`label export` of marks: what most annotators say of each element, their agreement, and the file for `compare elements`.

marks.jsonl, marks.csv   every mark that stands: image, element, value, annotator
elements.csv             what the majority says: image, element, value (for `compare elements RUN --human`)
open.csv                 elements without a majority, or that most cannot tell, and why
ratings.csv              the mean rating of each pillar by image, in place of the two before
labels.json              agreement by kind, annotators, counts
"""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import csv_text, read_table
from titjudge.core.numbers import mean
from titjudge.core.types import Table
from titjudge.stats.votes import Rule, krippendorff_alpha
from titjudge.web.label.element_service import standing
from titjudge.web.label.elements import CANNOT_TELL
from titjudge.web.label.store import Submission

PANEL = 3
MAJORITY = "majority"
RATING = "rating"
_COLUMNS = ("image", "element", "value", "kind", "rule", "votes", "of")


@dataclass(frozen=True, slots=True)
class ElementMark:
    """What one annotator says of one element."""

    image: str
    element: str
    kind: str
    value: str
    annotator: str
    note: str


def decide(votes: Counter[str], annotators: int = PANEL) -> tuple[str, str | None]:
    """Take the value that more than half of the annotators say, `annotators` being how many there should be at least.

    Returns:
        The rule, and the value; None while annotators are missing and can still change it, or where there is no majority.
    """
    expected = max(annotators, votes.total())
    value, most = max(votes.items(), key=lambda item: item[1])
    if 2 * most > expected:
        return MAJORITY, value
    return (Rule.INCOMPLETE.value if votes.total() < expected else Rule.NEEDS_EXPERTS.value), None


def standing_marks(rows: Iterable[Submission]) -> list[ElementMark]:
    """List the marks that stand, in the order in which they were made."""
    by_annotator: dict[str, list[Submission]] = defaultdict(list)
    for row in rows:
        by_annotator[row.annotator].append(row)
    kept = [row for of in by_annotator.values() for row in standing(of).values()]
    return [
        ElementMark(row.image, element, kind, value, row.annotator, row.note)
        for row in sorted(kept, key=lambda row: row.id)
        for element, kind, value in row.marks or ()
    ]


def read_gold(file: Path) -> dict[tuple[str, str], str]:
    """Read elements whose value is known: rows of image, element, value.

    Raises:
        DataError: a column is missing, or an element is there twice; names file and row.
    """
    found: dict[tuple[str, str], str] = {}
    for number, record in read_table(file, ("image", "element", "value")):
        key = (str(record["image"]), str(record["element"]).strip().casefold())
        if key in found:
            raise DataError(f"'{record['element']}' of '{record['image']}' is there twice", file, number)
        found[key] = str(record["value"]).strip().casefold()
    return found


def export_marks(
    rows: Sequence[Submission], mode: str, annotators: int, gold: Path | None = None
) -> tuple[dict[str, Any], list[Table], dict[str, str]]:
    """Make the results, tables and files of a labelling of elements; `annotators` is how many an image should have.

    Raises:
        DataError: the gold file is malformed, or knows no element that somebody has marked.
    """
    marks = standing_marks(rows)
    known = {} if gold is None else read_gold(gold)
    if gold is not None and not any((mark.image, mark.element.strip().casefold()) in known for mark in marks):
        raise DataError("nobody has marked an element of it", gold)
    votes: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for mark in marks:
        votes[mark.image, mark.element, mark.kind][mark.value] += 1
    agreement = _agreement(votes, mode)
    people, table = _annotators(rows, marks, votes, known)
    result: dict[str, Any] = {"mode": mode, "marks": len(marks), "annotators_expected": annotators, "alpha": agreement}
    columns = ("kind", "alpha", "95% low", "95% high", "elements", "note")
    shown = [
        (kind, a["alpha"], *(a["interval"] or (None, None)), a["elements"], a["reason"])
        for kind, a in agreement.items()
    ]
    note = "Krippendorff's alpha, " + ("interval" if mode == RATING else "nominal")
    tables = [Table("Agreement", columns, tuple(shown), (note,)), table]
    listed = [
        {
            "image": m.image,
            "element": m.element,
            "value": m.value,
            "annotator": m.annotator,
            "kind": m.kind,
            "note": m.note,
        }
        for m in marks
    ]
    files = {
        "marks.jsonl": "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in listed),
        "marks.csv": csv_text(tuple(listed[0]), (tuple(record.values()) for record in listed)),
    }
    if mode == RATING:
        files["ratings.csv"] = _ratings(votes)
    else:
        decided, left, rules = _majorities(votes, annotators)
        files |= {"elements.csv": csv_text(_COLUMNS, decided), "open.csv": csv_text(_COLUMNS, left)}
        result["rules"] = rules
        counts = (("elements", len(votes)), *rules.items())
        tables.insert(0, Table("Elements", ("what", "number"), counts, (f"majority of at least {annotators}",)))
    result["annotator_details"] = people
    files["labels.json"] = json.dumps(result, indent=2, ensure_ascii=False)
    return result, tables, files


def _agreement(votes: Mapping[tuple[str, str, str], Counter[str]], mode: str) -> dict[str, dict[str, Any]]:
    kinds = dict.fromkeys(kind for _, _, kind in votes)
    found = {}
    for chosen in ("all", *kinds):
        counts = [count for (_, _, kind), count in votes.items() if chosen in ("all", kind)]
        values = (
            list(map(str, range(1, 11))) if mode == RATING else sorted({value for count in counts for value in count})
        )
        alpha = krippendorff_alpha(
            [[count[value] for value in values] for count in counts], interval_scale=mode == RATING
        )
        reason = alpha.reason.replace("pairs", "elements").replace("pair", "element").replace("vote", "mark")
        found[chosen] = {
            "alpha": alpha.alpha,
            "interval": list(alpha.interval) if alpha.interval else None,
            "elements": alpha.pairs,
            "reason": reason,
        }
    return found


def _majorities(
    votes: Mapping[tuple[str, str, str], Counter[str]], annotators: int
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], dict[str, int]]:
    decided: list[tuple[Any, ...]] = []
    left: list[tuple[Any, ...]] = []
    rules: Counter[str] = Counter()
    for (image, element, kind), count in votes.items():
        rule, value = decide(count, annotators)
        rule = CANNOT_TELL if value == CANNOT_TELL else rule
        rules[rule] += 1
        row = (image, element, value, kind, rule, count[value] if value else None, count.total())
        (decided if rule == MAJORITY else left).append(row)
    return decided, left, dict(rules)


def _ratings(votes: Mapping[tuple[str, str, str], Counter[str]]) -> str:
    """Write the mean rating of each pillar by image, and their mean as `score`."""
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
    rows: Sequence[Submission],
    marks: Sequence[ElementMark],
    votes: Mapping[tuple[str, str, str], Counter[str]],
    gold: Mapping[tuple[str, str], str],
) -> tuple[list[dict[str, Any]], Table]:
    """Tell how each annotator marked: images, taken back, seconds, how often as most of the others, and as is known."""
    checks: dict[str, list[bool]] = defaultdict(list)
    alike: dict[str, list[bool]] = defaultdict(list)
    for mark in marks:
        if (truth := gold.get((mark.image, mark.element.strip().casefold()))) is not None:
            checks[mark.annotator].append(mark.value == truth)
        others = votes[mark.image, mark.element, mark.kind] - Counter([mark.value])
        if others and 2 * max(others.values()) > others.total():
            alike[mark.annotator].append(2 * others[mark.value] > others.total())
    records = []
    for name in sorted({row.annotator for row in rows}):
        mine = [row for row in rows if row.annotator == name]
        seconds = [row.duration_ms / 1000 for row in standing(mine).values() if row.duration_ms is not None]
        records.append(
            {
                "annotator": name,
                "images": len(standing(mine)),
                "taken_back": sum(row.marks is None for row in mine),
                "median_seconds": statistics.median(seconds) if seconds else None,
                "as_most_others": mean(alike[name]),
                "gold": len(checks[name]),
                "gold_accuracy": mean(checks[name]),
            }
        )
    columns = ("annotator", "images", "taken back", "median seconds", "as most others", "checks", "checks right")
    note = "as most others: share of marks that are what more than half of the others say"
    return records, Table("Annotators", columns, tuple(tuple(record.values()) for record in records), (note,))
