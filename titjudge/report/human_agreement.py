"""A metric against people, cut several ways: numbers for the charts, from the pairs and scores of a report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from titjudge.report.model import Entry, Judge, Report
from titjudge.stats.bootstrap import codes
from titjudge.stats.equality import same
from titjudge.stats.intervals import share_interval

_CATEGORY_KEYS = ("category", "type", "dimension", "theme", "class")


@dataclass(frozen=True, slots=True)
class Bin:
    """Accuracy over some pairs: `value` is a fraction of 1 (an equal score is wrong), `interval` 95%, by prompts."""

    label: str
    value: float | None
    pairs: int
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Point:
    """One generator: how often people prefer its images (fraction of 1), and its mean score."""

    label: str
    human: float
    score: float
    interval: tuple[float, float] | None


Cut = dict[int, list[Bin]]  # by judge number


def value(entry: Entry, judge: int, judges: Sequence[Judge]) -> float | None:
    """Give the score with its sign turned so that higher is better."""
    score = entry.scores.get(judge)
    if score is None or score.value is None or not math.isfinite(score.value):
        return None
    return score.value if judges[judge].higher else -score.value


def verdicts(report: Report, judge: int) -> list[tuple[int, float]]:
    """List (pair number, gap) of the pairs that people decided and the metric scored; gap > 0 where the two agree."""
    found = []
    for number, (a, b, sign) in enumerate(report.pairs):
        left, right = value(report.entries[a], judge, report.judges), value(report.entries[b], judge, report.judges)
        if sign and left is not None and right is not None:
            found.append((number, 0.0 if same(left, right) else (left - right) * sign))
    return found


def by(report: Report, label: Callable[[int], str | None], order: Sequence[str]) -> Cut:
    """Cut the accuracy by a label of the pair; pairs without a label are left out."""
    cut: Cut = {}
    for judge in range(len(report.judges)):
        told: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, gap in verdicts(report, judge):
            name = label(number)
            if name is not None:
                told[name].append((number, gap > 0))
        if told:
            cut[judge] = [_bin(report, name, told[name]) for name in order]
    return cut


def _bin(report: Report, label: str, told: Sequence[tuple[int, bool]]) -> Bin:
    """Compute accuracy from (pair number, right); pairs of one prompt hang together, so the interval is over prompts."""
    prompt, _ = codes(report.entries[report.pairs[number][0]].prompt_id for number, _ in told)
    right = np.array([right for _, right in told], dtype=np.float64)
    if not told:
        return Bin(label, None, 0, None)
    return Bin(label, float(right.mean()), len(told), share_interval(prompt, right))


def by_length(report: Report, bins: int = 4) -> Cut:
    """Cut the accuracy by the number of words in the prompt, in bins with about the same number of pairs."""
    words = [len(report.entries[a].prompt.split()) for a, _, _ in report.pairs]
    edges = _edges(words, bins)
    names = [f"{low}–{high}" if low != high else str(low) for low, high in edges]

    def label(number: int) -> str | None:
        return next(
            (name for name, (low, high) in zip(names, edges, strict=True) if low <= words[number] <= high), None
        )

    return by(report, label, names) if len(edges) > 1 else {}


def _edges(values: Sequence[int], bins: int) -> list[tuple[int, int]]:
    """Find bins (lowest, highest) of about the same size that no value straddles."""
    ordered = sorted(values)
    if not ordered:
        return []
    starts = sorted({ordered[len(ordered) * step // bins] for step in range(bins)})
    distinct = sorted(set(ordered))
    found = []
    for place, start in enumerate(starts):
        nxt = starts[place + 1] if place + 1 < len(starts) else math.inf
        found.append((start, max(one for one in distinct if start <= one < nxt)))
    return found


def human_shares(report: Report) -> dict[int, float]:
    """Compute the share of its comparisons that each image won, a tie counting half."""
    won: dict[int, float] = defaultdict(float)
    met: dict[int, int] = defaultdict(int)
    for a, b, sign in report.pairs:
        won[a] += (1 + sign) / 2
        won[b] += (1 - sign) / 2
        met[a] += 1
        met[b] += 1
    return {entry: won[entry] / met[entry] for entry in met}


def by_rank_gap(report: Report) -> Cut:
    """Cut the accuracy by how many places people's ranking of a prompt's images puts the two apart."""
    ranks = human_ranks(report)
    gaps = [abs(ranks[a] - ranks[b]) for a, b, _ in report.pairs]
    largest = max(gaps, default=0.0)
    if largest <= 6:
        names = [str(gap) for gap in range(1, round(largest) + 1)]
        return by(report, lambda number: str(max(1, round(gaps[number]))), names) if len(names) > 1 else {}
    edges = _edges([max(1, round(gap)) for gap in gaps], 6)
    names = [f"{low}–{high}" if low != high else str(low) for low, high in edges]

    def label(number: int) -> str | None:
        gap = max(1, round(gaps[number]))
        return next((name for name, (low, high) in zip(names, edges, strict=True) if low <= gap <= high), None)

    return by(report, label, names)


def human_ranks(report: Report) -> dict[int, float]:
    """Rank each image within its prompt by the share of comparisons won (1 is best, equal shares share the mean)."""
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
    """Cut the accuracy by the first of the usual category fields that the items carry; ("", {}) where there is none."""
    for key in _CATEGORY_KEYS:
        named = [report.entries[a].meta.get(key) for a, _, _ in report.pairs]
        labels = [name if isinstance(name, str) else None for name in named]
        kinds = sorted({name for name in labels if name})
        if 2 <= len(kinds) <= 12:
            return key, by(report, lambda number, labels=labels: labels[number], kinds)  # type: ignore[misc]
    return "", {}


def calibration(report: Report, bins: int = 5) -> Cut:
    """Cut the accuracy by how far apart the metric's two scores are: fifths of its own gaps, smallest first."""
    cut: Cut = {}
    for judge in range(len(report.judges)):
        found = sorted((abs(gap), number, gap > 0) for number, gap in verdicts(report, judge))
        if len(found) < 4 * bins:
            continue
        parts = [found[len(found) * step // bins : len(found) * (step + 1) // bins] for step in range(bins)]
        cut[judge] = [
            _bin(report, _fifth(step), [(number, right) for _, number, right in part])
            for step, part in enumerate(parts)
        ]
    return cut


def _fifth(step: int) -> str:
    return ("closest", "2nd", "middle", "4th", "farthest")[step]


def generators(report: Report, judge: int) -> list[Point]:
    """Pair each generator's share of comparisons won with its mean score and the interval of results.json."""
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
    found = []
    for entry, share in sorted(human_shares(report).items()):
        score = report.entries[entry].scores.get(judge)
        if score is not None and score.value is not None and math.isfinite(score.value):
            found.append((share, score.value))
    return found[:: max(1, -(-len(found) // most))]


def _means(report: Report, judge: int) -> dict[str, tuple[float, tuple[float, float] | None]]:
    about = report.judges[judge]
    found: dict[str, tuple[float, tuple[float, float] | None]] = {}
    for row in report.runs[about.run].results.leaderboard:
        place = row.metrics.get(about.metric)
        if place is not None and place.mean is not None:
            found[row.generator] = (place.mean, place.interval)
    if not found:
        scores: Mapping[str, list[float]] = defaultdict(list)
        for entry in report.entries:
            score = entry.scores.get(judge)
            if score is not None and score.value is not None:
                scores[entry.generator].append(score.value)
        found = {name: (sum(values) / len(values), None) for name, values in scores.items()}
    return found
