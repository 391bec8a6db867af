"""Measure whether annotators answer attention checks right, and when to stop one who does not.

A check is an item with a known answer: a gold pair, or an image with known elements, which counts by the share of them that
is right. After every check an upper bound of the annotator's accuracy is computed, at 95 % and valid at all checks together;
once it is below the required accuracy, the annotator is asked no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from titjudge.stats.generators.sequential import share_at_most

LEAST = 0.7


@dataclass(frozen=True, slots=True)
class Reliability:
    """How an annotator answers attention checks.

    Attributes:
        right: Sum of the shares of checks that are right.
        checks: Number of checks.
        least: The required accuracy.
    """

    right: float = 0
    checks: int = 0
    least: float = 0

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


def at_most_note(people: Mapping[str, Reliability]) -> tuple[str, ...]:
    """Make the note that explains the column of this name, if anybody has had a check."""
    note = "at most: the bound on the share of checks that are right, at 95 %, however often one looks"
    return (note,) if any(person.checks for person in people.values()) else ()
