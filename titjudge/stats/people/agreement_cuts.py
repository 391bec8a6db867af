"""Agreement of metrics with people by properties of the pairs: length of the prompt, category, gap of the scores or of the ranks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from titjudge.core.grouping import group_means
from titjudge.stats.bootstrap import Interval, codes
from titjudge.stats.equality import same
from titjudge.stats.intervals import share_interval

_FIFTHS = ("closest", "2nd", "middle", "4th", "farthest")
_LENGTHS, _RANKS = 4, 6  # bins


@dataclass(frozen=True, slots=True)
class JudgedPairs:
    """Pairs of images that people have compared, with the scores of several metrics.

    Attributes:
        pairs: Numbers of the two images, and the preference of people: 1 the first, 0 neither, -1 the second.
        prompts: The prompt's id of each image.
        scores: Of each metric the scores of all images, higher is better; None if there is none.
        units: The family of the prompt of each image, or the prompt.
    """

    pairs: Sequence[tuple[int, int, int]]
    prompts: Sequence[str]
    scores: Sequence[Sequence[float | None]]
    units: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bin:
    """Accuracy over the pairs of a bin: `value` in [0, 1] (an equal score is wrong), with its 95% interval over prompts."""

    label: str
    value: float | None
    pairs: int
    interval: Interval | None


Cut = dict[int, list[Bin]]  # number of a metric -> accuracy in each bin


def score_gaps(judged: JudgedPairs, metric: int) -> list[tuple[int, float]]:
    """List (pair number, gap) of the pairs with a human preference and both scores; gap > 0 if metric and people agree."""
    gaps, scores = [], judged.scores[metric]
    for number, (a, b, sign) in enumerate(judged.pairs):
        score_a, score_b = scores[a], scores[b]
        if sign and score_a is not None and score_b is not None:
            gaps.append((number, 0.0 if same(score_a, score_b) else (score_a - score_b) * sign))
    return gaps


def by_label(judged: JudgedPairs, labels: Sequence[str | None], order: Sequence[str]) -> Cut:
    """Compute the accuracy by a label of each pair; pairs without a label are left out."""
    cut: Cut = {}
    for metric in range(len(judged.scores)):
        pairs: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, gap in score_gaps(judged, metric):
            if (label := labels[number]) is not None:
                pairs[label].append((number, gap > 0))
        if pairs:
            cut[metric] = [_bin(judged, name, pairs[name]) for name in order]
    return cut


def _bin(judged: JudgedPairs, label: str, pairs: Sequence[tuple[int, bool]]) -> Bin:
    """Compute the accuracy over (pair number, whether the metric is right)."""
    if not pairs:
        return Bin(label, None, 0, None)
    prompt, _ = codes(judged.units[judged.pairs[number][0]] for number, _ in pairs)
    right = np.array([right for _, right in pairs], dtype=np.float64)
    return Bin(label, float(right.mean()), len(pairs), share_interval(prompt, right))


def by_length(judged: JudgedPairs, words: Sequence[int]) -> Cut:
    """Compute the accuracy by the number of words in the prompt of each pair."""
    return _by_number(judged, words, _LENGTHS)


def _by_number(judged: JudgedPairs, numbers: Sequence[int], bins: int) -> Cut:
    """Compute the accuracy by a number of each pair, in bins with about the same number of pairs; {} with one bin only."""
    edges = _edges(numbers, bins)
    names = [f"{low}–{high}" if low != high else str(low) for low, high in edges]
    label_of = {
        number: name
        for name, (low, high) in zip(names, edges, strict=True)
        for number in set(numbers)
        if low <= number <= high
    }
    return by_label(judged, [label_of[number] for number in numbers], names) if len(edges) > 1 else {}


def _edges(values: Sequence[int], bins: int) -> list[tuple[int, int]]:
    """Find the (lowest, highest) values of bins of about the same size; equal values share a bin."""
    ordered = sorted(values)
    starts = sorted({ordered[len(ordered) * step // bins] for step in range(bins)}) if ordered else []
    return [
        (start, max(value for value in ordered if start <= value < end))
        for start, end in zip(starts, [*starts[1:], math.inf], strict=True)
    ]


def win_shares(pairs: Sequence[tuple[int, int, int]]) -> dict[int, float]:
    """Compute the share of its comparisons that each image wins; a tie counts half."""
    won: dict[int, float] = defaultdict(float)
    compared: dict[int, int] = defaultdict(int)
    for a, b, sign in pairs:
        won[a] += (1 + sign) / 2
        won[b] += (1 - sign) / 2
        compared[a] += 1
        compared[b] += 1
    return {image: won[image] / compared[image] for image in compared}


def mean_win_shares(shares: Mapping[int, float], generators: Sequence[str]) -> dict[str, float]:
    """Average the shares of the images of each generator.

    Args:
        shares: Share of its comparisons that an image wins, by its place among the images.
        generators: Name of the generator of each image.
    """
    won: dict[str, list[float]] = defaultdict(list)
    for image, share in shares.items():
        won[generators[image]].append(share)
    return dict(sorted(group_means(won).items()))


def by_rank_gap(judged: JudgedPairs) -> Cut:
    """Compute the accuracy by the difference of the two images' ranks in people's ranking of the prompt."""
    ranks = human_ranks(judged)
    gaps = [abs(ranks[a] - ranks[b]) for a, b, _ in judged.pairs]
    largest, rounded = max(gaps, default=0.0), [max(1, round(gap)) for gap in gaps]
    if largest > _RANKS:
        return _by_number(judged, rounded, _RANKS)
    names = [str(gap) for gap in range(1, round(largest) + 1)]
    return by_label(judged, list(map(str, rounded)), names) if len(names) > 1 else {}


def human_ranks(judged: JudgedPairs) -> dict[int, float]:
    """Rank each image within its prompt by the share of comparisons won (1 is best, ties share the average rank)."""
    shares = win_shares(judged.pairs)
    images: dict[str, list[int]] = defaultdict(list)
    for image in shares:
        images[judged.prompts[image]].append(image)
    ranks: dict[int, float] = {}
    for members in images.values():
        for image in members:
            above = sum(shares[other] > shares[image] for other in members)
            level = sum(shares[other] == shares[image] for other in members)
            ranks[image] = above + (level + 1) / 2
    return ranks


def by_score_gap(judged: JudgedPairs) -> Cut:
    """Compute the accuracy by the difference of the metric's two scores, in fifths of its differences, smallest first."""
    cut: Cut = {}
    bins = len(_FIFTHS)
    for metric in range(len(judged.scores)):
        gaps = sorted((abs(gap), number, gap > 0) for number, gap in score_gaps(judged, metric))
        if len(gaps) < 4 * bins:
            continue
        parts = [gaps[len(gaps) * step // bins : len(gaps) * (step + 1) // bins] for step in range(bins)]
        cut[metric] = [
            _bin(judged, name, [(number, right) for _, number, right in part])
            for name, part in zip(_FIFTHS, parts, strict=True)
        ]
    return cut
