"""Accuracy of the metrics of a report by properties of the pairs (length, category, score gap): the data of its charts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from titjudge.core.words import count_words
from titjudge.report.model import Entry, Judge, Report
from titjudge.stats.bootstrap import codes
from titjudge.stats.equality import same
from titjudge.stats.intervals import share_interval

_FIFTHS = ("closest", "2nd", "middle", "4th", "farthest")
_CATEGORY_KEYS = ("category", "type", "dimension", "theme", "class")


@dataclass(frozen=True, slots=True)
class Bin:
    """Accuracy over the pairs of a bin: `value` in [0, 1] (an equal score is wrong), with its 95% interval over prompts."""

    label: str
    value: float | None
    pairs: int
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Point:
    """One generator: the share of comparisons that its images win with people, and its mean score."""

    label: str
    human: float
    score: float
    interval: tuple[float, float] | None


Cut = dict[int, list[Bin]]  # judge number -> accuracy in each bin


def value(entry: Entry, judge: int, judges: Sequence[Judge]) -> float | None:
    """Return the score of an entry, negated where less is better; None where there is none."""
    score = entry.scores.get(judge)
    if score is None or score.value is None or not math.isfinite(score.value):
        return None
    return score.value if judges[judge].higher else -score.value


def verdicts(report: Report, judge: int) -> list[tuple[int, float]]:
    """List (pair number, gap) of the pairs with a human preference and both scores; gap > 0 where metric and people agree."""
    gaps = []
    for number, (a, b, sign) in enumerate(report.pairs):
        left, right = (value(report.entries[entry], judge, report.judges) for entry in (a, b))
        if sign and left is not None and right is not None:
            gaps.append((number, 0.0 if same(left, right) else (left - right) * sign))
    return gaps


def by(report: Report, label: Callable[[int], str | None], order: Sequence[str]) -> Cut:
    """Compute the accuracy by a label of the pair; pairs without a label are left out."""
    cut: Cut = {}
    for judge in range(len(report.judges)):
        by_label: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, gap in verdicts(report, judge):
            if (name := label(number)) is not None:
                by_label[name].append((number, gap > 0))
        if by_label:
            cut[judge] = [_bin(report, name, by_label[name]) for name in order]
    return cut


def _bin(report: Report, label: str, pairs: Sequence[tuple[int, bool]]) -> Bin:
    """Compute the accuracy over (pair number, whether the metric is right)."""
    if not pairs:
        return Bin(label, None, 0, None)
    prompt, _ = codes(report.entries[report.pairs[number][0]].prompt_id for number, _ in pairs)
    right = np.array([right for _, right in pairs], dtype=np.float64)
    return Bin(label, float(right.mean()), len(pairs), share_interval(prompt, right))


def by_length(report: Report) -> Cut:
    """Compute the accuracy by the number of words in the prompt."""
    return _by_number(report, [count_words(report.entries[a].prompt) for a, _, _ in report.pairs], 4)


def _by_number(report: Report, numbers: Sequence[int], bins: int) -> Cut:
    """Compute the accuracy by a number of each pair, in bins with about the same number of pairs; {} with one bin only."""
    edges = _edges(numbers, bins)
    names = [f"{low}–{high}" if low != high else str(low) for low, high in edges]
    label_of = {
        number: name
        for name, (low, high) in zip(names, edges, strict=True)
        for number in set(numbers)
        if low <= number <= high
    }
    return by(report, lambda pair: label_of.get(numbers[pair]), names) if len(edges) > 1 else {}


def _edges(values: Sequence[int], bins: int) -> list[tuple[int, int]]:
    """Find the (lowest, highest) values of bins of about the same size; equal values share a bin."""
    ordered = sorted(values)
    starts = sorted({ordered[len(ordered) * step // bins] for step in range(bins)}) if ordered else []
    return [
        (start, max(one for one in ordered if start <= one < end))
        for start, end in zip(starts, [*starts[1:], math.inf], strict=True)
    ]


def human_shares(report: Report) -> dict[int, float]:
    """Compute the share of its comparisons that each image wins; a tie counts half."""
    won: dict[int, float] = defaultdict(float)
    met: dict[int, int] = defaultdict(int)
    for a, b, sign in report.pairs:
        won[a] += (1 + sign) / 2
        won[b] += (1 - sign) / 2
        met[a] += 1
        met[b] += 1
    return {entry: won[entry] / met[entry] for entry in met}


def by_rank_gap(report: Report) -> Cut:
    """Compute the accuracy by the difference of the two images' ranks in people's ranking of the prompt."""
    ranks = human_ranks(report)
    gaps = [abs(ranks[a] - ranks[b]) for a, b, _ in report.pairs]
    largest, rounded = max(gaps, default=0.0), [max(1, round(gap)) for gap in gaps]
    if largest > 6:
        return _by_number(report, rounded, 6)
    names = [str(gap) for gap in range(1, round(largest) + 1)]
    return by(report, lambda pair: str(rounded[pair]), names) if len(names) > 1 else {}


def human_ranks(report: Report) -> dict[int, float]:
    """Rank each image within its prompt by the share of comparisons won (1 is best, ties share the average rank)."""
    groups: dict[str, list[int]] = defaultdict(list)
    shares = human_shares(report)
    for entry in shares:
        groups[report.entries[entry].prompt_id].append(entry)
    ranks: dict[int, float] = {}
    for members in groups.values():
        for one in members:
            above = sum(shares[other] > shares[one] for other in members)
            same = sum(shares[other] == shares[one] for other in members)
            ranks[one] = above + (same + 1) / 2
    return ranks


def by_category(report: Report) -> tuple[str, Cut]:
    """Compute the accuracy by the first category field that the items have; ("", {}) where there is none."""
    for key in _CATEGORY_KEYS:
        named = [report.entries[a].meta.get(key) for a, _, _ in report.pairs]
        labels = [name if isinstance(name, str) else None for name in named]
        kinds = sorted({name for name in labels if name})
        if 2 <= len(kinds) <= 12:
            return key, by(report, lambda number, labels=labels: labels[number], kinds)  # type: ignore[misc]
    return "", {}


def calibration(report: Report) -> Cut:
    """Compute the accuracy by the difference of the metric's two scores, in fifths of its own differences, smallest first."""
    cut: Cut = {}
    bins = len(_FIFTHS)
    for judge in range(len(report.judges)):
        gaps = sorted((abs(gap), number, gap > 0) for number, gap in verdicts(report, judge))
        if len(gaps) < 4 * bins:
            continue
        parts = [gaps[len(gaps) * step // bins : len(gaps) * (step + 1) // bins] for step in range(bins)]
        cut[judge] = [
            _bin(report, name, [(number, right) for _, number, right in part])
            for name, part in zip(_FIFTHS, parts, strict=True)
        ]
    return cut


def generators(report: Report, judge: int) -> list[Point]:
    """Return each generator's share of comparisons won, with its mean score and interval of results.json."""
    shares: dict[str, list[float]] = defaultdict(list)
    for entry, share in human_shares(report).items():
        shares[report.entries[entry].generator].append(share)
    means = _means(report, judge)
    return [
        Point(name, sum(won) / len(won), means[name][0], means[name][1])
        for name, won in sorted(shares.items())
        if name in means
    ]


def images(report: Report, judge: int, most: int) -> list[tuple[float, float]]:
    """List (share of comparisons won, score) of the images that have both, every n-th where there are too many."""
    points = []
    for entry, share in sorted(human_shares(report).items()):
        score = report.entries[entry].scores.get(judge)
        if score is not None and score.value is not None and math.isfinite(score.value):
            points.append((share, score.value))
    return points[:: max(1, -(-len(points) // most))]


def _means(report: Report, judge: int) -> dict[str, tuple[float, tuple[float, float] | None]]:
    about = report.judges[judge]
    means: dict[str, tuple[float, tuple[float, float] | None]] = {}
    for row in report.runs[about.run].results.leaderboard:
        place = row.metrics.get(about.metric)
        if place is not None and place.mean is not None:
            means[row.generator] = (place.mean, place.interval)
    if not means:
        scores: Mapping[str, list[float]] = defaultdict(list)
        for entry in report.entries:
            score = entry.scores.get(judge)
            if score is not None and score.value is not None:
                scores[entry.generator].append(score.value)
        means = {name: (sum(values) / len(values), None) for name, values in scores.items()}
    return means
