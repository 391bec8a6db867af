"""Leaderboards: generators by mean rank over prompts, for a metric or for people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titjudge.core.run_records import PlaceRecord
from titjudge.stats.bootstrap import Floats, Interval, Ints, codes, number
from titjudge.stats.equality import with_ties
from titjudge.stats.generators.slices import averages
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.ranking.rankdata import rankdata
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt, pooled

UNEVEN = "ranked under different coverage"
FEWEST_FOR_SRCC = 3


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All generators under one metric, with warnings.

    Attributes:
        places: The place of each generator, best first; what is undefined without a score is None.
        warnings: About coverage, in words.
    """

    places: Mapping[str, PlaceRecord]
    warnings: tuple[str, ...] = ()

    def mean_ranks(self) -> dict[str, float | None]:
        """Return the mean rank of each generator."""
        return {generator: place.mean_rank for generator, place in self.places.items()}


UNPLACED = PlaceRecord(
    rank=None, mean_rank=None, mean_rank_interval=None, mean=None, interval=None, coverage=None, images=0, scored=0, prompts=0
)  # fmt: skip
"""The place of a generator when the metric applies to none of its images."""


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
        return Leaderboard({})
    generator, generators = codes(image[1] for image in images)
    prompt, prompts = codes(image[2] for image in images)
    shape = (len(prompts), len(generators))
    cell, cells = prompt * len(generators) + generator, len(prompts) * len(generators)
    value = np.array([values.get(image[0]) for image in images], dtype=np.float64)
    rule = per_prompt.of_metric(bounds, higher_is_better, name)
    scores = rule.combine(cell, value, cells).reshape(shape)
    if rule.counts:
        bounds, higher_is_better = (0.0, 1.0), True
    ranks = _competing_ranks(scores if higher_is_better else -scores)
    means, mean_ranks = averages(scores), averages(ranks)
    place_numbers = rankdata(with_ties(mean_ranks), method="min")
    no_intervals: list[Interval | None] = [None] * len(generators)
    mean_ends = rule.intervals(scores, bounds) if intervals else no_intervals
    rank_ends = _rank_intervals(ranks) if intervals else no_intervals
    of_generator = np.bincount(generator, minlength=len(generators)).tolist()
    scored = np.bincount(generator[np.isfinite(value)], minlength=len(generators)).tolist()
    spreads = _spreads(cell, value, generator, len(generators))
    places = {}
    for k, generator_name in enumerate(generators):
        place = PlaceRecord(
            mean=number(means[k]),
            interval=mean_ends[k],
            mean_rank=number(mean_ranks[k]),
            mean_rank_interval=rank_ends[k],
            rank=int(place_numbers[k]) if np.isfinite(place_numbers[k]) else None,
            coverage=scored[k] / of_generator[k],
            images=of_generator[k],
            scored=scored[k],
            prompts=int(np.isfinite(ranks[:, k]).sum()),
        )
        places[generator_name] = place if spreads[k] is None else place.with_(spread=spreads[k])
    uneven = rule.warnings(np.bincount(cell, minlength=cells), name)
    return Leaderboard(_best_first(places), (*_coverage_warnings(places.values(), np.isfinite(scores), name), *uneven))


def _spreads(cell: Ints, value: Floats, generator: Ints, generators: int) -> list[float | None]:
    """Compute the standard deviation of the images of one prompt by each generator; None where no prompt has two."""
    scored = np.isfinite(value)
    _, variances, _ = pooled(codes(cell[scored].tolist())[0], value[scored], generator[scored], generators)
    return [None if variance is None else math.sqrt(variance) for variance in variances]


def _competing_ranks(scores: Floats) -> Floats:
    """Rank the generators of each prompt, shape (prompts, generators); NaN on prompts where fewer than two have a score."""
    ranks = prompt_ranks(scores)
    ranks[np.isfinite(scores).sum(axis=1) < 2] = np.nan
    return ranks


def _rank_intervals(ranks: Floats) -> list[Interval | None]:
    ranked = np.isfinite(ranks)
    return mean_intervals(np.where(ranked, ranks, 0.0), ranked * 1.0, (1.0, float(ranks.shape[1])))


def _best_first(places: Mapping[str, PlaceRecord]) -> dict[str, PlaceRecord]:
    """Sort by rank; generators without one come last."""
    ranks = {name: math.inf if place.rank is None else place.rank for name, place in places.items()}
    return {name: places[name] for name in sorted(places, key=lambda name: (ranks[name], name))}


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
    means = [math.nan if place.mean_rank is None else place.mean for place in board.places.values()]
    order = rankdata(with_ties(np.array(means, dtype=np.float64)), method="min").tolist()
    places = {
        name: place.with_(mean_rank=place.mean, rank=int(rank), first_places=firsts[name])
        if math.isfinite(rank)
        else place
        for (name, place), rank in zip(board.places.items(), order, strict=True)
    }
    return Leaderboard(_best_first(places), board.warnings)


def prompt_ranks(scores: Floats) -> Floats:
    """Rank within each row, 1 for the highest, ties share the average rank; NaN stays NaN; shape unchanged."""
    return rankdata(-with_ties(scores))


def _coverage_warnings(places: Collection[PlaceRecord], present: NDArray[np.bool_], name: str) -> list[str]:
    """Warn of unequal coverage; `present` says which generator has a score on which prompt, shape (prompts, generators)."""
    if len(places) < 2:
        return []
    warnings = []
    coverage = [place.coverage or 0.0 for place in places]
    if max(coverage) > min(coverage):
        warnings.append(
            f"{name}: generators are {UNEVEN}: of some a larger share of images has a score than of others, so compare them with care"
        )
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
