"""Measure whether annotators answer checks right, and when to stop asking one who does not.

A check is an item with a known answer: a gold pair, or an image with known elements, which counts by the share of them that
is right. After every check an upper bound of the annotator's accuracy is computed, at 95 % and valid at all checks together;
once it is below the required accuracy, the annotator is asked no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.apps.label.elements import Element
from titjudge.apps.label.store import Submission, Vote
from titjudge.core.errors import DataError
from titjudge.core.types import Pair
from titjudge.data.tables import read_table
from titjudge.stats.generators.sequential import share_at_most

LEAST = 0.7
Known = Mapping[str, Mapping[str, str]]
"""Image id -> element (casefolded) -> value (casefolded)."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Checks that an annotator answered right (`right`, a sum of shares, of `checks`), and the required accuracy (`least`)."""

    right: float
    checks: int
    least: float

    @property
    def accuracy(self) -> float | None:
        return self.right / self.checks if self.checks else None

    @property
    def at_most(self) -> float | None:
        """Upper 95 % bound of the accuracy, valid at all checks together; None without a check."""
        return share_at_most(self.right, self.checks) if self.checks else None

    @property
    def stopped(self) -> bool:
        """Whether the accuracy is certainly too low."""
        return self.at_most is not None and self.at_most < self.least

    def line(self, annotator: str, what: str) -> str:
        """Explain in a line why `what` (such as 12 votes) of an annotator is left out."""
        return (
            f"left out: {what} of {annotator}, who is right in {self.right:g} of {self.checks} checks "
            f"(at most {100 * (self.at_most or 0):.0f} %, at 95 %; asked for: {100 * self.least:g} %)"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {
            "gold": self.checks,
            "gold_accuracy": self.accuracy,
            "gold_at_most": self.at_most,
            "left_out": self.stopped,
        }


def at_most(people: Mapping[str, Reliability]) -> tuple[str, ...]:
    """Make the note that explains the column of this name, if anybody has had a check."""
    note = "at most: the bound on the share of checks that are right, at 95 %, however often one looks"
    return (note,) if any(one.checks for one in people.values()) else ()


def of_votes(votes: Iterable[Vote], gold: Iterable[Pair], least: float) -> dict[str, Reliability]:
    """Score the gold pairs of every annotator; `votes` must not contain votes that were taken back."""
    truth = {(pair.prompt_id, *sorted((pair.a, pair.b))): pair for pair in gold}
    checks: dict[str, list[float]] = defaultdict(list)
    for vote in votes:
        scores = checks[vote.annotator]
        pair = truth.get((vote.prompt_id, *sorted((vote.left, vote.right)))) if vote.kind == "gold" else None
        if pair is not None:
            better = {"a": pair.a, "b": pair.b}.get(pair.preference)
            scores.append(vote.outcome == (0 if better is None else 1 if vote.left == better else -1))
    return _counted(checks, least)


def of_marks(rows: Iterable[Submission], known: Known, least: float) -> dict[str, Reliability]:
    """Score the images with known elements of every annotator; `rows` are the current submissions."""
    checks: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        scores, truth = checks[row.annotator], known.get(row.image, {})
        marked = {name.strip().casefold(): value for name, _, value in row.marks or ()}
        right = [marked[name] in allowed(value) for name, value in truth.items() if name in marked]
        if right:
            scores.append(sum(right) / len(right))
    return _counted(checks, least)


def allowed(known: str) -> set[str]:
    """List the right values: the known one or, for ratings, each of a range such as 7-9."""
    low, dash, high = (part.strip() for part in known.partition("-"))
    if dash and low.isdecimal() and high.isdecimal() and len(high) < 4:
        return {str(value) for value in range(int(low), int(high) + 1)}
    return {known}


def _counted(checks: Mapping[str, Sequence[float]], least: float) -> dict[str, Reliability]:
    return {name: Reliability(float(sum(scores)), len(scores), least) for name, scores in checks.items()}


def read_known(file: Path, elements: Mapping[str, Sequence[Element]] | None = None) -> dict[str, dict[str, str]]:
    """Read elements with a known value: rows of image, element, value (for ratings also a range).

    Args:
        file: CSV or JSON lines.
        elements: The elements of each image; if given, every row must name one of them.

    Raises:
        DataError: A column is missing, or an element is listed twice or is not in the data; names file and row.
    """
    by_image: dict[str, dict[str, str]] = defaultdict(dict)
    for number, record in read_table(file, ("image", "element", "value")):
        image, name, value = (str(record[key]) for key in ("image", "element", "value"))
        key, value = name.strip().casefold(), value.strip().casefold()
        if key in by_image[image]:
            raise DataError(f"'{name}' of '{image}' is there twice", file, number)
        if elements is not None:
            if image not in elements:
                raise DataError(f"no image '{image}' in the data that has something to mark", file, number)
            values = next(
                (element.values for element in elements[image] if element.name.strip().casefold() == key), None
            )
            if values is None:
                raise DataError(f"'{image}' has no element '{name}'", file, number)
            if not (right := allowed(value)) or not right <= set(values):
                raise DataError(f"'{name}' is one of {', '.join(values)}, not '{record['value']}'", file, number)
        by_image[image][key] = value
    if not by_image:
        raise DataError("no known element in it", file)
    return dict(by_image)
