"""Combine the scores of several images of one prompt by one generator into one score, before any statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from titjudge.core.errors import ConfigError, must_be
from titjudge.core.types import Note
from titjudge.stats.bootstrap import Floats, Interval, Ints
from titjudge.stats.equality import reaches
from titjudge.stats.scores.population import compared

KINDS = ("mean", "best", "any", "all")


@dataclass(frozen=True, slots=True)
class PerPrompt:
    """A rule that combines the scores of several images.

    Attributes:
        kind: `mean`; `best`, the score of the best image; `any` and `all`, 1 if any (all) of the images are right, otherwise 0.
        right: The minimum score of an image that is right; None for the best end of the metric's scale.
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
            raise ConfigError(must_be("--per-prompt", "mean, best, any, all, any:SCORE or all:SCORE", text))
        return cls(kind, right)

    def __str__(self) -> str:
        return self.kind if self.right is None else f"{self.kind}:{self.right:g}"

    def of_metric(self, bounds: Interval | None, higher_is_better: bool, name: str) -> PerPrompt:
        """Fill in the direction of a metric, and the score from which on an image is right.

        Raises:
            ConfigError: The rule needs such a score, and neither it nor the metric's scale gives one.
        """
        right = self.right
        if self.kind in ("any", "all") and right is None:
            right = bounds[higher_is_better] if bounds else math.inf
            if not math.isfinite(right):
                raise ConfigError(
                    f"{name} has no best score. Give the lowest score of a right image: --per-prompt {self.kind}:SCORE"
                )
        return replace(self, right=right, higher_is_better=higher_is_better)

    def negated(self) -> PerPrompt:
        """Return the rule for negated scores."""
        return replace(
            self, right=None if self.right is None else -self.right, higher_is_better=not self.higher_is_better
        )

    @property
    def about(self) -> str:
        """The rule in words."""
        if self.kind == "mean":
            return "several images of a prompt count as their mean"
        if self.kind == "best":
            return "the best image of each prompt counts"
        right = "" if self.right is None else f" (score {self.right:g} or better)"
        return f"a prompt counts 1 where {self.kind} of its images {'is' if self.kind == 'any' else 'are'} right{right}, else 0"

    @property
    def counts(self) -> bool:
        """Whether the score of a prompt is 0 or 1 (1 is good)."""
        return self.kind in ("any", "all")

    def combine(self, cell: Ints, value: Floats, cells: int, generators: int = 1) -> Floats:
        """Compute the score of each cell (a prompt and generator), NaN if it is undefined.

        The best of more images is better by chance alone. So if generators have unequal numbers of images of a prompt,
        `best`, `any` and `all` are the expected values for the smallest of these numbers, drawn without replacement.

        A failure is never a score: if an image has none, the mean is over the others, and the other kinds are
        undefined unless the missing score cannot change them.

        Args:
            cell: Number of the cell of each image.
            value: Score of each image; NaN is missing.
            cells: Number of cells.
            generators: Number of cells of a prompt, which are adjacent.
        """
        scored = np.isfinite(value)
        images = np.bincount(cell, minlength=cells)
        count = np.bincount(cell, weights=scored, minlength=cells)
        complete = (count == images) & (images > 0)
        if self.kind == "mean":
            total = np.bincount(cell, weights=np.where(scored, value, 0.0), minlength=cells)
            mean: Floats = np.divide(total, count, out=np.full(cells, np.nan), where=count > 0)
            return mean
        sign = 1.0 if self.higher_is_better else -1.0
        table = np.where(complete, 0.0, np.nan).reshape(-1, generators)
        drawn = _smallest(images.reshape(-1, generators), compared(table)).ravel()
        if self.kind == "best":
            best = _expected_best(cell[scored], sign * value[scored], images, drawn)
            return np.where(complete, sign * best, np.nan)
        assert self.right is not None, "of_metric comes first"
        right = reaches(sign * np.where(scored, value, -sign * np.inf), sign * self.right)
        hits = np.bincount(cell, weights=right, minlength=cells)
        marked = hits if self.kind == "any" else count - hits
        least, most = _none_drawn(images, marked + images - count, drawn), _none_drawn(images, marked, drawn)
        share = 1.0 - most if self.kind == "any" else most
        return np.where((images > 0) & (least == most), share, np.nan)

    def warnings(self, images: Ints, name: str) -> list[Note]:
        """Warn if cells have unequal numbers of images on which the rule depends; `images` counts them, 0 is not a cell."""
        counts = images[images > 0].tolist()
        if self.kind == "mean" or len({*counts}) < 2:
            return []
        line = (
            f"{name}: prompts have {min(counts)} to {max(counts)} images, and --per-prompt {self} depends on their number: of each prompt "
            "the expected value for the smallest number of any generator counts"
        )
        return [Note("unequal_images", line)]


def _smallest(images: Ints, among: NDArray[np.bool_]) -> Ints:
    """Return for each cell the smallest number of images of its prompt, shape (prompts, generators); 0 is not a cell.

    Only generators that are compared (`among`) count.
    """
    fewest = np.where((images > 0) & among, images, np.iinfo(images.dtype).max).min(axis=1, keepdims=True)
    smallest: Ints = np.minimum(images, fewest)
    return smallest


def _none_drawn(images: Ints, marked: Ints | Floats, drawn: Ints) -> Floats:
    """Compute the probability that none of `drawn` of the images is one of the `marked`."""
    left: Floats = np.maximum(images - np.asarray(marked, dtype=np.float64), 0.0)
    share: Floats = np.ones(len(images))
    for k in range(int(drawn.max(initial=0))):
        going = k < drawn
        share[going] *= np.maximum(left[going] - k, 0.0) / (images[going] - k)
    return share


def _expected_best(cell: Ints, value: Floats, images: Ints, drawn: Ints) -> Floats:
    """Compute the expected largest of `drawn` of the values of each cell, -inf without any."""
    order = np.lexsort((-value, cell))
    cell, value = cell[order], value[order]
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    before = np.arange(len(cell)) - np.repeat(
        starts, np.diff(np.append(starts, len(cell)))
    )  # larger values of the cell
    none, one = (_none_drawn(images[cell], before + more, drawn[cell]) for more in (0, 1))
    chance = none - one
    best = np.full(len(images), -np.inf)
    best[cell[starts]] = np.add.reduceat(np.where(chance > 0, chance * value, 0.0), starts) if len(starts) else []
    return best


MEAN = PerPrompt()


def pooled(
    unit: Ints, value: Floats, generator: Ints, generators: int
) -> tuple[Floats, tuple[float | None, ...], float]:
    """Compute the mean of each unit, the pooled variance within units by generator, and the average number of values of a unit.

    Args:
        unit: Number of the unit of each value, from 0 and without gaps.
        value: The values.
        generator: Number of the generator of each value.
        generators: Number of generators.
    """
    units = int(unit.max(initial=-1)) + 1
    count = np.bincount(unit, minlength=units)
    mean: Floats = np.bincount(unit, weights=value, minlength=units) / np.maximum(count, 1)
    squares = np.bincount(generator, weights=(value - mean[unit]) ** 2, minlength=generators)
    freedom = np.bincount(generator, weights=1 - 1 / count[unit], minlength=generators)
    variances = tuple(float(s / n) if n > 0.5 else None for s, n in zip(squares, freedom, strict=True))
    return mean, variances, len(value) / units if units else 0.0
