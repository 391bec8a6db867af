"""Leaderboards: generators by mean score for a metric, by mean rank for people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from titjudge.core.declarations import ESTIMATED, Declaration, Population, Unit
from titjudge.core.run_records import PlaceRecord
from titjudge.core.types import Note
from titjudge.stats.bootstrap import Floats, Interval, Ints, number, table_sums
from titjudge.stats.equality import rankdata, with_ties
from titjudge.stats.generators.slices import averages, in_order, rank_ranges
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import Values
from titjudge.stats.scores.families import ALONE, Families
from titjudge.stats.scores.per_prompt import MEAN, PerPrompt
from titjudge.stats.scores.population import adjusted_scores, compared, scores_of_all
from titjudge.stats.scores.scores_table import Entry, score_table

LEADERBOARD = Declaration(
    "leaderboard",
    "mean score and mean rank of each generator",
    Population.SAME_PROMPTS,
    Unit.PROMPT,
    ESTIMATED,
    "mean of the first metric, best first",
    by_column={"mean_rank": Population.COMMON_OF_ALL},
)
FEWEST_FOR_SRCC = 3


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """All generators under one metric, with warnings.

    Attributes:
        places: The place of each generator, best first; values that are undefined without a score are None.
        warnings: About the order, in words.
        declared: Its population and unit.
    """

    places: Mapping[str, PlaceRecord]
    warnings: tuple[Note, ...] = ()
    declared: Declaration = LEADERBOARD

    def mean_ranks(self) -> dict[str, float | None]:
        """Return the mean rank of each generator."""
        return {generator: place.mean_rank for generator, place in self.places.items()}

    def means(self) -> dict[str, float]:
        """Return the mean of each generator that has a mean rank; negated, as less is better of ranks."""
        means = {generator: place.mean for generator, place in self.places.items() if place.mean_rank is not None}
        return {generator: -mean for generator, mean in means.items() if mean is not None}


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
    common: bool = True,
    families: Families = ALONE,
    tested: bool = False,
) -> Leaderboard:
    """Order generators by mean score, with mean ranks over prompts (TIT paper, Table 3 and A.5) and intervals over prompts.

    If scores are missing, means are over the same prompts for all generators (`population.adjusted_scores`).

    Args:
        images: (image id, generator, prompt) of every image that should have a score.
        values: Score by image id; None, NaN or absent is missing.
        higher_is_better: Whether the highest score has rank 1.
        bounds: Ends of the metric's scale, if it has them.
        intervals: Whether to compute intervals of the means.
        name: Name of the metric in warnings.
        per_prompt: How several images of one generator for one prompt become one score.
        common: Whether only prompts count for ranks on which all compared generators have a score (`population.comparable`).
            Otherwise every prompt with two scores counts, ranks among unlike competitors are averaged, and the order is theirs.
        families: Prompt -> its family, the unit of intervals.
        tested: Whether to compute the ranks that the tests of `rank_ranges` leave open.
    """
    if not images:
        return Leaderboard({})
    entries = [Entry(prompt, generator, image, values.get(image)) for image, generator, prompt in images]
    table = score_table(
        entries,
        metric=name,
        source="",
        bounds=bounds,
        higher_is_better=higher_is_better,
        per_prompt=per_prompt,
        families=families,
    )
    among = compared(table.means, table.unit) if common else np.ones(len(table.generators), dtype=bool)
    ranks = _competing_ranks(np.where(among, table.means, np.nan), all_of=common)
    adjusted = scores_of_all(table.means, table.unit) if common else adjusted_scores(table.means)
    adjusted = np.where(np.isfinite(adjusted).any(axis=0), adjusted, table.means)
    means, mean_ranks = table.sign * averages(adjusted), averages(ranks)
    place_numbers = rankdata(with_ties(mean_ranks), method="min")
    rank_ends = _rank_intervals(ranks, table.unit) if intervals else [None] * len(mean_ranks)
    scored, all_images = (counts.sum(axis=0).tolist() for counts in (table.images, table.images + table.lost))
    places, doubts, ranges = {}, {}, rank_ranges(table) if tested else {}
    for k in in_order(table):
        generator = table.generators[k]
        _, interval, doubts[generator] = table.measured(adjusted[:, k]) if intervals else (None, None, "")
        place = PlaceRecord(
            mean=number(means[k]),
            interval=interval,
            mean_rank=number(mean_ranks[k]),
            mean_rank_interval=rank_ends[k],
            rank=int(place_numbers[k]) if np.isfinite(place_numbers[k]) else None,
            coverage=scored[k] / all_images[k],
            images=all_images[k],
            scored=scored[k],
            prompts=table.prompts_of[k],
        )
        place, variance = place.ranked(ranges.get(k)), table.seed_variance[k]
        places[generator] = place if variance is None else place.with_(spread=math.sqrt(variance))
    notes = table.notes if common else ()
    return Leaderboard(places if common else _best_first(places), notes, table.over(LEADERBOARD, doubts=doubts))


def _competing_ranks(scores: Floats, *, all_of: bool) -> Floats:
    """Rank the generators of each prompt, shape (prompts, generators); NaN on prompts where fewer than two have a score.

    With `all_of` also NaN on prompts on which some generator has none.
    """
    scored = np.isfinite(scores)
    ranks = prompt_ranks(scores)
    ranks[scored.sum(axis=1) < max(2, int(scored.any(axis=0).sum()) if all_of else 0)] = np.nan
    return ranks


def _rank_intervals(ranks: Floats, unit: Ints | None) -> list[Interval | None]:
    ranked = np.isfinite(ranks)
    sums, counts = (table_sums(table, unit) for table in (np.where(ranked, ranks, 0.0), ranked * 1.0))
    return mean_intervals(sums, counts, (1.0, float(ranks.shape[1])))


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
    board = leaderboard(images, ranks, higher_is_better=False, intervals=False, name=name, common=False)
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
