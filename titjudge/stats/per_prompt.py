"""Several images of one prompt by one generator become one score of the prompt, before any statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from titjudge.core.errors import ConfigError
from titjudge.stats.bootstrap import Floats, Interval, Ints
from titjudge.stats.equality import reaches
from titjudge.stats.intervals import mean_intervals, share_intervals

KINDS = ("mean", "best", "any", "all")


@dataclass(frozen=True, slots=True)
class PerPrompt:
    """How the scores of several images become one.

    Attributes:
        kind: `mean`; `best`, the score of the best image; `any` and `all`, 1 where any (all) of the images are right, else 0.
        right: The score from which on an image is right; None for the best end of the metric's range.
        higher_is_better: Whether the best image is the one with the highest score.
    """

    kind: str = "mean"
    right: float | None = None
    higher_is_better: bool = True

    @classmethod
    def parse(cls, text: str) -> PerPrompt:
        """Read `mean`, `best`, `any`, `all`, `any:0.8` or `all:0.8`.

        Raises:
            ConfigError: It is none of these.
        """
        kind, colon, number = text.strip().partition(":")
        try:
            right = float(number) if colon else None
        except ValueError:
            right = math.nan
        if kind not in KINDS or (right is not None and (kind in ("mean", "best") or not math.isfinite(right))):
            raise ConfigError(f"--per-prompt is mean, best, any, all, any:SCORE or all:SCORE, not '{text}'")
        return cls(kind, right)

    def __str__(self) -> str:
        return self.kind if self.right is None else f"{self.kind}:{self.right:g}"

    def of_metric(self, bounds: Interval | None, higher_is_better: bool, name: str) -> PerPrompt:
        """Fit the rule to a metric: which end is good, and from where on an image is right.

        Raises:
            ConfigError: Nothing says when an image is right.
        """
        right = self.right
        if self.kind in ("any", "all") and right is None:
            right = bounds[higher_is_better] if bounds else math.inf
            if not math.isfinite(right):
                raise ConfigError(
                    f"{name} has no best score: say from which score on an image is right, --per-prompt {self.kind}:SCORE"
                )
        return replace(self, right=right, higher_is_better=higher_is_better)

    def negated(self) -> PerPrompt:
        """Give the rule for negated scores."""
        return replace(
            self, right=None if self.right is None else -self.right, higher_is_better=not self.higher_is_better
        )

    @property
    def about(self) -> str:
        """What becomes of the images of a prompt, in words."""
        if self.kind == "mean":
            return "several images of a prompt are averaged first"
        if self.kind == "best":
            return "the best image of each prompt counts"
        right = "" if self.right is None else f" (score {self.right:g} or better)"
        return f"a prompt counts 1 where {self.kind} of its images {'is' if self.kind == 'any' else 'are'} right{right}, else 0"

    @property
    def counts(self) -> bool:
        """Whether the score of a prompt is 0 or 1, and 1 is good whatever the metric."""
        return self.kind in ("any", "all")

    def combine(self, cell: Ints, value: Floats, cells: int) -> Floats:
        """Compute the score of each cell (a prompt and generator), NaN where there is none.

        A failure is never a score: where one of the images has none, the mean is that of the others, and the other kinds
        say only what is certain without it.

        Args:
            cell: Number of the cell of each image.
            value: Score of each image; NaN is missing.
            cells: How many there are.
        """
        scored = np.isfinite(value)
        images = np.bincount(cell, minlength=cells)
        count = np.bincount(cell, weights=scored, minlength=cells)
        whole = (count == images) & (images > 0)
        if self.kind == "mean":
            total = np.bincount(cell, weights=np.where(scored, value, 0.0), minlength=cells)
            mean: Floats = np.divide(total, count, out=np.full(cells, np.nan), where=count > 0)
            return mean
        sign = 1.0 if self.higher_is_better else -1.0
        if self.kind == "best":
            found = np.full(cells, -np.inf)
            np.maximum.at(found, cell[scored], sign * value[scored])
            return np.where(whole, sign * found, np.nan)
        assert self.right is not None, "of_metric comes first"
        right = reaches(sign * np.where(scored, value, -sign * np.inf), sign * self.right)
        hits = np.bincount(cell, weights=right, minlength=cells)
        known = np.where(whole, 1.0 * (hits > 0 if self.kind == "any" else hits == images), np.nan)
        certain = hits > 0 if self.kind == "any" else hits < count
        found = np.where(certain, 1.0 if self.kind == "any" else 0.0, known)
        return np.where(images > 0, found, np.nan)

    def warnings(self, images: Ints, name: str) -> list[str]:
        """Say that scores are not comparable where prompts have unequal numbers of images, by cell; 0 is none."""
        found = np.unique(images[images > 0])
        if self.kind == "mean" or len(found) < 2:
            return []
        return [
            f"{name}: prompts have {found[0]} to {found[-1]} images, and --per-prompt {self} depends on their number"
        ]

    def intervals(self, scores: Floats, bounds: Interval | None) -> list[Interval | None]:
        """Compute the intervals of the mean of each column of scores of prompts, NaN left out; shape (prompts, statistics)."""
        there = np.isfinite(scores)
        sums, counts = np.where(there, scores, 0.0), there * 1.0
        return share_intervals(sums, counts) if self.counts else mean_intervals(sums, counts, bounds)


MEAN = PerPrompt()


def pooled(
    unit: Ints, value: Floats, generator: Ints, generators: int
) -> tuple[Floats, tuple[float | None, ...], float]:
    """Compute the mean of each unit, the pooled variance within units by generator, and values a unit on average."""
    units = int(unit.max()) + 1 if len(unit) else 0
    count = np.bincount(unit, minlength=units)
    mean: Floats = np.bincount(unit, weights=value, minlength=units) / np.maximum(count, 1)
    squares = np.bincount(generator, weights=(value - mean[unit]) ** 2, minlength=generators)
    spare = np.bincount(generator, weights=1 - 1 / count[unit], minlength=generators)
    found = tuple(float(s / n) if n > 0.5 else None for s, n in zip(squares, spare, strict=True))
    return mean, found, len(value) / units if units else 0.0
