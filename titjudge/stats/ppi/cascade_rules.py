"""Rules of a judge cascade, their outcomes, and the tables of a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.tables import Table, percent
from titjudge.stats.bootstrap import Interval

SHOWN = 12  # rules of a frontier in a table; `to_json` has all


@dataclass(frozen=True, slots=True)
class CascadeRule:
    """Judges in the order in which they are asked; `judges[k]` decides if its margin is at least `thresholds[k]`, the last always."""

    judges: tuple[str, ...]
    thresholds: tuple[float, ...] = ()

    def __str__(self) -> str:
        steps = [
            f"{name} if its margin is at least {t:g}" for name, t in zip(self.judges, self.thresholds, strict=False)
        ]
        return ", else ".join([*steps, self.judges[-1]])


@dataclass(frozen=True, slots=True)
class CascadeOutcome:
    """A rule on some pairs: `accuracy` in [0, 1], `price` in USD a pair, `asked` the share of pairs each judge sees.

    `interval` is that of the accuracy, 95% over prompts; it does not allow for the rule being chosen on the same pairs.
    """

    rule: CascadeRule
    accuracy: float
    price: float
    asked: tuple[float, ...]
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommended rule with its cross-validated accuracy.

    Attributes:
        outcome: The rule on the pairs that it was chosen on.
        accuracy, interval, price: Cross-validated over folds of prompts; the interval is 95% over prompts, and allows for
            the rules that the folds choose being others than this one.
        singles: Each judge alone.
        best_single: The most accurate judge alone.
        frontier: The rules that no other beats in both accuracy and price, cheapest first, on the pairs that chose them.
    """

    outcome: CascadeOutcome
    accuracy: float | None
    interval: Interval | None
    price: float | None
    singles: tuple[CascadeOutcome, ...]
    best_single: CascadeOutcome
    frontier: tuple[CascadeOutcome, ...]
    pairs: int
    prompts: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return everything but `best_single`."""
        return {
            "rule": str(self.outcome.rule),
            "recommended": _record(self.outcome),
            "cross_validated": {"accuracy": self.accuracy, "interval": self.interval, "price": self.price},
            "singles": [_record(outcome) for outcome in self.singles],
            "frontier": [_record(outcome) for outcome in self.frontier],
            "pairs": self.pairs,
            "prompts": self.prompts,
            "warnings": list(self.warnings),
        }

    def table(self) -> Table:
        """Tabulate the recommended rule and each judge alone."""
        best = self.outcome
        rows = [
            ("recommended, across folds", percent(self.accuracy, self.interval), _per_thousand(self.price), None),
            (
                "recommended, same pairs",
                percent(best.accuracy, best.interval),
                _per_thousand(best.price),
                str(best.rule),
            ),
        ]
        rows += [
            ("one judge", percent(s.accuracy, s.interval), _per_thousand(s.price), s.rule.judges[0])
            for s in self.singles
        ]
        notes = (f"{self.pairs} pairs of {self.prompts} prompts; believe the row across folds", *self.warnings)
        return Table("Cascade", ("", "accuracy", "USD per 1,000 pairs", "rule"), tuple(rows), notes)

    def frontier_table(self) -> Table:
        """Tabulate at most `SHOWN` rules of the frontier."""
        outcomes = _spaced(self.frontier, self.outcome)
        rows = tuple(
            (
                " > ".join(outcome.rule.judges),
                ", ".join(f"{threshold:.4g}" for threshold in outcome.rule.thresholds) or None,
                percent(outcome.accuracy, outcome.interval),
                _per_thousand(outcome.price),
                ", ".join(f"{100 * share:.1f}%" for share in outcome.asked[1:]) or None,
                "recommended" if outcome is self.outcome else None,
            )
            for outcome in outcomes
        )
        columns = ("judges", "least margin", "accuracy", "USD per 1,000 pairs", "escalated", "")
        notes = ["a pair goes on to the next judge when the margin is below the least one, in that judge's own unit"]
        notes.append("chosen and marked on the same pairs: what is close together is not told apart here")
        if len(outcomes) < len(self.frontier):
            notes.append(f"{len(outcomes)} of {len(self.frontier)} rules are shown; all are in --json")
        return Table("Frontier of accuracy and price", columns, rows, tuple(notes))


def _spaced(frontier: Sequence[CascadeOutcome], chosen: CascadeOutcome) -> list[CascadeOutcome]:
    """Pick rules of a frontier: its ends, the chosen one, and others at evenly spaced accuracies."""
    if len(frontier) <= SHOWN:
        return list(frontier)
    low, high = frontier[0].accuracy, frontier[-1].accuracy
    marks = np.linspace(low, high, SHOWN - 1)
    picked = {min(range(len(frontier)), key=lambda k: abs(frontier[k].accuracy - mark)) for mark in marks}
    return [outcome for k, outcome in enumerate(frontier) if k in picked or outcome is chosen]


def _record(outcome: CascadeOutcome) -> dict[str, Any]:
    """Return an outcome for `--json`."""
    rule = outcome.rule
    return {
        "judges": list(rule.judges), "thresholds": list(rule.thresholds), "accuracy": outcome.accuracy,
        "interval": outcome.interval, "price": outcome.price, "asked": list(outcome.asked),
    }  # fmt: skip


def _per_thousand(price: float | None) -> float | None:
    return None if price is None else 1000 * price
