"""Leaderboards: generators by mean rank over prompts, for a metric or for people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from titjudge.stats.bootstrap import Floats, Interval, codes, number
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.ranking.rankdata import rankdata
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt, pooled

UNEVEN = "ranked under different coverage"
FEWEST_FOR_SRCC = 3


@dataclass(frozen=True, slots=True)
class Place:
    """One generator on a leaderboard; what is undefined without a score is None.

    Attributes:
        mean: Mean score over prompts, in the metric's own unit.
        mean_rank: Mean of the ranks among the generators with a score on the same prompt (1 is best, ties share the average
            rank), over the `prompts` on which at least two generators have one.
        rank: Rank of the mean rank, from 1; ties share the smaller number.
        spread: Standard deviation of the images of one prompt, pooled over prompts; None where no prompt has two.
        first_places: Prompts on which no generator has a better rank; only of a leaderboard by given ranks.
    """

    generator: str
    mean: float | None
    interval: Interval | None
    mean_rank: float | None
    mean_rank_interval: Interval | None
    rank: int | None
    images: int
    scored: int
    prompts: int
    spread: float | None = None
    first_places: int | None = None

    @property
    def coverage(self) -> float | None:
        """Share of its images that have a score."""
        return self.scored / self.images if self.images else None


def unplaced(generator: str) -> Place:
    """Make the place of a generator when the metric applies to none of its images."""
    return Place(generator, None, None, None, None, None, images=0, scored=0, prompts=0)


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All generators under one metric, best first, with warnings."""

    places: tuple[Place, ...]
    warnings: tuple[str, ...] = ()

    def mean_ranks(self) -> dict[str, float | None]:
        """Return the mean rank of each generator."""
        return {place.generator: place.mean_rank for place in self.places}


def leaderboard(
    images: Sequence[tuple[str, str, str]],
    values: Values,
    *,
    higher_is_better: bool = True,
    bounds: Interval | None = None,
    intervals: bool = True,
    name: str = "the metric",
    per_prompt: PerPrompt = MEAN,
) -> Leaderboard:
    """Rank generators by mean rank over prompts (TIT paper, Table 3 and A.5), with mean scores and intervals over prompts.

    Args:
        images: (image id, generator, prompt) of every image that should have a score.
        values: Score by image id; None, NaN or absent is missing.
        higher_is_better: Whether the highest score has rank 1.
        bounds: Ends of the metric's scale, where it has them.
        intervals: Whether to compute intervals of the means.
        name: Name of the metric in warnings.
        per_prompt: How several images of one generator for one prompt become one score.
    """
    if not images:
        return Leaderboard(())
    generator, generators = codes(image[1] for image in images)
    prompt, prompts = codes(image[2] for image in images)
    shape = (len(prompts), len(generators))
    cell = prompt * shape[1] + generator
    value = np.array([values.get(image[0]) for image in images], dtype=np.float64)
    scored = np.isfinite(value)
    count: Floats = np.bincount(cell, weights=scored, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    rule = per_prompt.of_metric(bounds, higher_is_better, name)
    mean = rule.combine(cell, value, shape[0] * shape[1]).reshape(shape)
    if rule.counts:
        bounds, higher_is_better = (0.0, 1.0), True
    _, variance, _ = pooled(codes(cell[scored].tolist())[0], value[scored], generator[scored], shape[1])
    present = np.isfinite(mean)
    ranks = prompt_ranks(mean if higher_is_better else -mean)
    ranks[present.sum(axis=1) < 2] = np.nan
    ranked = np.isfinite(ranks)
    spans: list[list[Interval | None]] = [[None] * shape[1]] * 2
    if intervals:
        ends = (1.0, float(shape[1]))
        spans = [
            rule.intervals(mean, bounds),
            mean_intervals(np.where(ranked, ranks, 0.0), ranked * 1.0, ends),
        ]
    with np.errstate(invalid="ignore"):
        means = np.where(present, mean, 0.0).sum(axis=0) / present.sum(axis=0)
        mean_ranks = np.where(ranked, ranks, 0.0).sum(axis=0) / ranked.sum(axis=0)
    order = rankdata(with_ties(mean_ranks), method="min")
    images_of = np.bincount(generator, minlength=shape[1])
    places = [
        Place(
            generator=generators[k],
            mean=number(means[k]),
            interval=spans[0][k],
            mean_rank=number(mean_ranks[k]),
            mean_rank_interval=spans[1][k],
            rank=int(order[k]) if np.isfinite(order[k]) else None,
            images=int(images_of[k]),
            scored=int(count[:, k].sum()),
            prompts=int(ranked[:, k].sum()),
            spread=None if (v := variance[k]) is None else math.sqrt(v),
        )
        for k in range(shape[1])
    ]
    places.sort(key=lambda place: (place.rank is None, place.rank, place.generator))
    uneven = rule.warnings(np.bincount(cell, minlength=shape[0] * shape[1]), name)
    return Leaderboard(tuple(places), (*_coverage_warnings(places, present, name), *uneven))


def leaderboard_by_ranks(images: Sequence[tuple[str, str, str]], ranks: Mapping[str, float], name: str) -> Leaderboard:
    """Rank generators by the mean of ranks given to their images (TIT paper, Fig. 2 and Table 3), with counts of first places.

    The ranks count as they are: who numbers ties 1, 1, 3 has other means than who numbers them 1, 1, 2.

    Args:
        images: (image id, generator, prompt) of every image.
        ranks: Rank by image id, 1 is best.
        name: Whose ranks they are, in warnings.
    """
    board = leaderboard(images, ranks, higher_is_better=False, intervals=False, name=name)
    best: dict[str, float] = {}
    for image, _, prompt in images:
        if image in ranks:
            best[prompt] = min(ranks[image], best.get(prompt, math.inf))
    firsts = Counter(generator for image, generator, prompt in images if ranks.get(image) == best.get(prompt, math.nan))
    means = np.array([math.nan if place.mean_rank is None else place.mean for place in board.places], dtype=np.float64)
    order = rankdata(with_ties(means), method="min")
    places = [
        replace(place, mean_rank=place.mean, rank=int(rank), first_places=firsts[place.generator])
        if np.isfinite(rank)
        else place
        for place, rank in zip(board.places, order.tolist(), strict=True)
    ]
    places.sort(key=lambda place: (place.rank is None, place.rank, place.generator))
    return Leaderboard(tuple(places), board.warnings)


def prompt_ranks(scores: Floats) -> Floats:
    """Rank within each row, 1 for the highest, ties share the average rank; NaN stays NaN; shape unchanged."""
    return rankdata(-with_ties(scores))


def _coverage_warnings(places: Sequence[Place], present: NDArray[np.bool_], name: str) -> list[str]:
    """Warn of unequal coverage; `present` says which generator has a score on which prompt, shape (prompts, generators)."""
    if len(places) < 2:
        return []
    warnings = []
    coverage = [place.coverage or 0.0 for place in places]
    if max(coverage) > min(coverage):
        warnings.append(f"{name}: generators are {UNEVEN}; a failure is never a score, so compare them with care")
    elif (present.any(axis=1) & ~present.all(axis=1)).any():
        warnings.append(f"{name}: generators are {UNEVEN}: not every prompt has all of them")
    if alone := int((present.sum(axis=1) == 1).sum()):
        prompts = "1 prompt has" if alone == 1 else f"{alone} prompts have"
        warnings.append(f"{name}: {prompts} a score of one generator only: without competition there is no rank")
    return warnings


def rank_correlation(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> float | None:
    """Compute the SRCC of two leaderboards over the generators both have; None below three, or without variation.

    Give both in the same direction: mean ranks with mean ranks. Published: TIT paper, Table 3.
    """
    from scipy.stats import spearmanr

    both = [(x, y) for name, x in first.items() if x is not None and (y := second.get(name)) is not None]
    if len(both) < FEWEST_FOR_SRCC:
        return None
    columns = [with_ties(np.array(column)) for column in zip(*both, strict=True)]
    return float(spearmanr(*columns).statistic) if all(np.ptp(column) > 0 for column in columns) else None
