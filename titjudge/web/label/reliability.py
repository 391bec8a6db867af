"""Is an annotator right where the answer is known, and when to stop asking one who is not.

A check is an item whose answer is known: a gold pair, or an image with known elements, of which the share that is right
counts. After every check the most that the annotator's accuracy can be is told at 95 %, by a bound that holds at all
checks at once; once that is below what is asked for, the annotator is asked no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import read_table
from titjudge.core.types import Pair
from titjudge.stats.sequential import share_at_most
from titjudge.web.label.elements import Element
from titjudge.web.label.store import Submission, Vote

LEAST = 0.7
Known = Mapping[str, Mapping[str, str]]
"""Image id to element (casefold) to value (casefold)."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """How often an annotator was right: `right` of `checks` (a sum of shares), and how often they should be at least."""

    right: float
    checks: int
    least: float

    @property
    def accuracy(self) -> float | None:
        return self.right / self.checks if self.checks else None

    @property
    def at_most(self) -> float | None:
        """The most that the accuracy can be, at 95 %, however often one looks; None without a check."""
        return share_at_most(self.right, self.checks) if self.checks else None

    @property
    def stopped(self) -> bool:
        """Whether the accuracy is too low for certain."""
        return self.at_most is not None and self.at_most < self.least

    def line(self, annotator: str, what: str) -> str:
        """Say in a line why an annotator is left out; `what` of theirs is."""
        return (
            f"left out: {what} of {annotator}, who is right in {self.right:g} of {self.checks} checks "
            f"(at most {100 * (self.at_most or 0):.0f} %, at 95 %; asked for: {100 * self.least:g} %)"
        )

    def to_json(self) -> dict[str, Any]:
        """Write the numbers as JSON has them."""
        return {
            "gold": self.checks,
            "gold_accuracy": self.accuracy,
            "gold_at_most": self.at_most,
            "left_out": self.stopped,
        }


def at_most(people: Mapping[str, Reliability]) -> tuple[str, ...]:
    """Say what the column of that name tells, where somebody has had a check."""
    told = "at most: the bound on the share of checks that are right, at 95 %, however often one looks"
    return (told,) if any(one.checks for one in people.values()) else ()


def of_votes(votes: Iterable[Vote], gold: Iterable[Pair], least: float) -> dict[str, Reliability]:
    """Count the gold pairs of every annotator that voted; votes taken back are not in `votes`."""
    truth = {(pair.prompt_id, *sorted((pair.a, pair.b))): pair for pair in gold}
    checks: dict[str, list[float]] = defaultdict(list)
    for vote in votes:
        mine = checks[vote.annotator]
        pair = truth.get((vote.prompt_id, *sorted((vote.left, vote.right)))) if vote.kind == "gold" else None
        if pair is not None:
            better = {"a": pair.a, "b": pair.b}.get(pair.preference)
            mine.append(vote.outcome == (0 if better is None else 1 if vote.left == better else -1))
    return _counted(checks, least)


def of_marks(rows: Iterable[Submission], known: Known, least: float) -> dict[str, Reliability]:
    """Count the images with known elements of every annotator; `rows` are the submissions that stand."""
    checks: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        mine, truth = checks[row.annotator], known.get(row.image, {})
        said = {name.strip().casefold(): value for name, _, value in row.marks or ()}
        right = [said[name] in allowed(value) for name, value in truth.items() if name in said]
        if right:
            mine.append(sum(right) / len(right))
    return _counted(checks, least)


def allowed(known: str) -> set[str]:
    """List the values that are right: the known one, or for ratings each of a range such as 7-9."""
    low, dash, high = (part.strip() for part in known.partition("-"))
    if dash and low.isdecimal() and high.isdecimal() and len(high) < 4:
        return {str(value) for value in range(int(low), int(high) + 1)}
    return {known}


def _counted(checks: Mapping[str, Sequence[float]], least: float) -> dict[str, Reliability]:
    return {name: Reliability(float(sum(mine)), len(mine), least) for name, mine in checks.items()}


def read_known(file: Path, elements: Mapping[str, Sequence[Element]] | None = None) -> dict[str, dict[str, str]]:
    """Read elements whose value is known: rows of image, element, value (or a range, of ratings).

    Args:
        file: CSV or JSON lines.
        elements: What there is to mark of each image, where that is known; every row must be one of them.

    Raises:
        DataError: A column is missing, an element is there twice, or is none of the data's; names file and row.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for number, record in read_table(file, ("image", "element", "value")):
        image, name, value = (str(record[key]) for key in ("image", "element", "value"))
        key, value = name.strip().casefold(), value.strip().casefold()
        if key in found[image]:
            raise DataError(f"'{name}' of '{image}' is there twice", file, number)
        if elements is not None:
            if image not in elements:
                raise DataError(f"no image '{image}' in the data that has something to mark", file, number)
            values = next((each.values for each in elements[image] if each.name.strip().casefold() == key), None)
            if values is None:
                raise DataError(f"'{image}' has no element '{name}'", file, number)
            if not (right := allowed(value)) or not right <= set(values):
                raise DataError(f"'{name}' is one of {', '.join(values)}, not '{record['value']}'", file, number)
        found[image][key] = value
    if not found:
        raise DataError("no known element in it", file)
    return dict(found)
