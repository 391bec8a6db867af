"""Carry a leaderboard over from one judge to another, by the generators that both have judged.

The map is a straight line through the anchors' mean scores, rising, so that it keeps the order; what it makes of a further
generator has a 95% prediction interval (Student's t with two degrees of freedom spent). `python -m benchmarks.verdicts
--answers OLD NEW` measures how often it holds for a generator that was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.types import Table
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import TAIL, mean_interval
from titjudge.stats.scores_table import ScoreTable

FEWEST = 4  # anchors
_SHARE = 0.5  # of the common prompts that a generator must have to stand on the board


@dataclass(frozen=True, slots=True)
class Line:
    """The map, and what it knows of its own error."""

    x: Floats
    y: Floats

    @property
    def slope(self) -> float:
        """How much the new judge's score changes with the old one's."""
        x = self.x - self.x.mean()
        return float(x @ self.y / (x @ x)) if x @ x > 0 else 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of the anchors about the line."""
        rest = self.y - self.y.mean() - self.slope * (self.x - self.x.mean())
        return float(np.sqrt(rest @ rest / (len(self.x) - 2)))

    def predict(self, at: float) -> tuple[float, Interval]:
        """Predict what a generator with the score `at` would have had from the other judge, with a 95% interval."""
        from scipy.special import stdtrit

        n, off = len(self.x), at - float(self.x.mean())
        squares = float(((self.x - self.x.mean()) ** 2).sum())
        value = float(self.y.mean()) + self.slope * off
        half = -float(stdtrit(n - 2, TAIL)) * self.spread * (1 + 1 / n + off**2 / squares) ** 0.5
        return value, (value - half, value + half)


@dataclass(frozen=True, slots=True)
class Standing:
    """A generator on the new board: measured there, or carried over with its prediction interval."""

    generator: str
    carried: bool
    score: float
    interval: Interval | None
    prompts: int
    outside: bool = False

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Bridge:
    """The new judge's board with the old judge's generators on it, and how well the map does on anchors left out."""

    anchors: tuple[str, ...]
    line: Line
    standings: tuple[Standing, ...]
    held: int
    half_width: float
    unbridged: float
    prompts: int
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "anchors": list(self.anchors), "prompts": self.prompts,
            "map": {"slope": self.line.slope, "spread": self.line.spread,
                    "intercept": float(self.line.y.mean() - self.line.slope * self.line.x.mean())},
            "leave_one_out": {"held": self.held, "of": len(self.anchors), "half_width": self.half_width,
                              "error_without_bridge": self.unbridged},
            "generators": [each.to_json() for each in self.standings], "left_out": list(self.left_out),
        }  # fmt: skip


def bridge(old: ScoreTable, new: ScoreTable) -> Bridge:
    """Put the generators that only the old judge has judged onto the new judge's board.

    Means are over the prompts that both judges have; a generator with fewer than half of them is left out.

    Raises:
        DataError: fewer than two common prompts or four common generators, anchors that the old judge does not tell apart, or
            judges that order them oppositely.
    """
    prompts = sorted(set(old.prompts) & set(new.prompts))
    if len(prompts) < 2:
        raise DataError(f"only {len(prompts)} prompts in common with {old.source}: a bridge needs two", new.source)
    boards = [_means(table, prompts) for table in (old, new)]
    anchors = tuple(sorted(set(boards[0]) & set(boards[1])))
    if len(anchors) < FEWEST:
        raise DataError(
            f"{len(anchors)} generators are judged by both ({', '.join(anchors) or 'none'}): a bridge needs {FEWEST}",
            new.source,
        )
    pairs = np.array([_paired(old, new, name, prompts) for name in anchors])
    pairs[:, 0] = with_ties(pairs[:, 0])
    left = [np.delete(pairs, k, axis=0) for k in range(len(anchors))]
    if not all(np.ptp(rest[:, 0]) for rest in left):
        raise DataError(
            f"at most one of the {len(anchors)} anchors has another score than the rest: no line leads through them",
            old.source,
        )
    line = Line(pairs[:, 0], pairs[:, 1])
    if not line.slope > 0:
        raise DataError(
            "the two judges order the anchors in opposite ways: no map between them keeps the order", new.source
        )
    tried = [Line(*rest.T).predict(at)[1] for rest, at in zip(left, pairs[:, 0], strict=True)]
    found = []
    for name, (mean, interval, count) in boards[1].items():
        found.append(Standing(name, False, mean, interval, count))
    for name, (mean, _, count) in boards[0].items():
        if name not in boards[1]:
            value, ends = line.predict(mean)
            outside = not line.x.min() <= mean <= line.x.max()
            found.append(Standing(name, True, value, ends, count, outside))
    found.sort(key=lambda each: (-each.score, each.generator))
    return Bridge(
        anchors, line, tuple(found), sum(low <= y <= high for (low, high), y in zip(tried, pairs[:, 1], strict=True)),
        float(np.median([(high - low) / 2 for low, high in tried])), float(np.abs(pairs[:, 0] - pairs[:, 1]).max()),
        len(prompts), tuple(sorted({*old.generators, *new.generators} - {each.generator for each in found})),
    )  # fmt: skip


def _rows(table: ScoreTable, prompts: Sequence[str]) -> Floats:
    place = {prompt: at for at, prompt in enumerate(table.prompts)}
    return table.means[[place[prompt] for prompt in prompts]]


def _means(table: ScoreTable, prompts: Sequence[str]) -> dict[str, tuple[float, Interval | None, int]]:
    """Mean, interval and prompts of each generator with at least half of these prompts."""
    means = _rows(table, prompts)
    found = {}
    for k, name in enumerate(table.generators):
        known = means[np.isfinite(means[:, k]), k]
        if len(known) >= max(2, _SHARE * len(prompts)):
            found[name] = float(known.mean()), mean_interval(known, table.bounds), len(known)
    return found


def _paired(old: ScoreTable, new: ScoreTable, name: str, prompts: Sequence[str]) -> tuple[float, float]:
    """Average an anchor's scores by each judge, over the prompts on which it has both."""
    x, y = _rows(old, prompts)[:, old.column(name)], _rows(new, prompts)[:, new.column(name)]
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 2:
        raise DataError(f"'{name}' has no two prompts that both judges have scored", new.source)
    return float(x[both].mean()), float(y[both].mean())


def bridge_table(found: Bridge) -> Table:
    """Show the board in rows."""
    rows = tuple(
        (each.generator, "carried over" if each.carried else "measured", each.score, *(each.interval or (None, None)),
         each.prompts)
        for each in found.standings
    )  # fmt: skip
    notes = [
        "on the new judge's scale; measured: mean with 95% interval over prompts; carried over: 95% prediction interval",
        f"map through {len(found.anchors)} anchors over {found.prompts:,} prompts: slope {found.line.slope:.3f}, spread "
        f"{found.line.spread:.4g}; of anchors left out one by one {found.held} of {len(found.anchors)} lie within their "
        f"interval, half-width {found.half_width:.4g} (without a bridge scores differ by up to {found.unbridged:.4g})",
    ]
    if outside := [each.generator for each in found.standings if each.outside]:
        notes.append(f"beyond the anchors, where the line is a guess: {', '.join(outside)}")
    if found.left_out:
        notes.append(f"left out, with fewer than half of the common prompts: {', '.join(found.left_out)}")
    return Table(
        "The old board on the new judge's scale",
        ("generator", "", "score", "low", "high", "prompts"),
        rows,
        tuple(notes),
    )
