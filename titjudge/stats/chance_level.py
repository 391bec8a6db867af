"""Accuracy by chance: a permutation test that exchanges a metric's scores among the images of each prompt.

Pairs of one prompt share images and are not independent: with n images the variance of the number of correct pairs is
n(n-1)(2n+5)/72 and not n(n-1)/8. Each prompt has a distribution of correct pairs over all permutations of its scores, and
the distributions of the prompts are convolved. The distribution of a prompt is exact if people rank its images and one
side has no ties (counted as inversions of a multiset), exact by enumeration up to `ENUMERATED` images, and otherwise from
2 x `DRAWS` permutations.

`paper_threshold` is the TIT paper's own (A.2), which takes pairs as independent.
"""

from __future__ import annotations

import functools
import heapq
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from titjudge.stats.bootstrap import Floats, Ints

ENUMERATED = 6
DRAWS = 1000  # and their reverses, so that means are exact where the scores have no ties
EXACT_PAIRS = 200_000  # with more pairs the normal approximation of the sum over prompts is used
_ROUNDS = 4  # in which images are distinguished by their opponents
PAPER_Z = {0.05: 1.645, 0.001: 3.09}


def paper_threshold(pairs: int, alpha: float) -> int | None:
    """Compute the paper's threshold (A.2): mu + z sigma rounded up, z 1.645 at 0.05 and 3.09 at 0.001.

    6,510 (50.73%) and 6,592 (51.37%) of 12,832. None when even all correct would not reach it.
    """
    if pairs < 1:
        return None
    k = math.ceil(pairs / 2 + PAPER_Z[alpha] * math.sqrt(pairs) / 2)
    return k if k <= pairs else None


@dataclass(frozen=True, slots=True)
class Guessing:
    """The distribution of correct pairs under guessing: `tail[k]` is the probability of at least k; None means normal."""

    pairs: int
    mean: float
    deviation: float
    tail: Floats | None

    def p_value(self, correct: int) -> float:
        """Return the one-sided p-value: the probability of `correct` or more correct pairs under random scores."""
        if self.tail is not None:
            return float(self.tail[correct]) if correct < len(self.tail) else 0.0
        from titjudge.stats.special import ndtr

        return (
            float(ndtr((self.mean + 0.5 - correct) / self.deviation)) if self.deviation else float(correct <= self.mean)
        )

    def threshold(self, alpha: float) -> int | None:
        """Find the fewest correct pairs with a p-value below `alpha`; None when not even all have one."""
        correct = bisect_left(range(self.pairs + 1), x=True, key=lambda count: self.p_value(count) < alpha)
        return correct if correct <= self.pairs else None


def guessing(group: Ints, a: Ints, b: Ints, preference: Ints, values: Floats) -> Guessing:
    """Compute the distribution of the number of correct pairs when the scores of each prompt are permuted among its images.

    Args:
        group: Prompt of each pair that has both scores and a human preference, shape (pairs,).
        a: First image of each pair, as an index into `values`.
        b: Second image of each pair.
        preference: Preference of people in each pair: 1 is a, -1 is b.
        values: Score by image; ties are exactly equal.
    """
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    shapes: Counter[_Prompt] = Counter()
    for rows in np.split(order, starts[1:]) if len(order) else ():
        shapes[_shape(a[rows], b[rows], preference[rows], values)] += 1
    parts = [(_distribution(shape, k), shapes[shape]) for k, shape in enumerate(sorted(shapes))]
    moments = [(*_moments(part), count) for part, count in parts]
    mean = sum(m * count for m, _, count in moments)
    deviation = math.sqrt(sum(v * count for _, v, count in moments))
    if len(a) > EXACT_PAIRS:
        return Guessing(len(a), mean, deviation, None)
    total = _convolved(part for part, count in parts for part in [part] * count)
    tail = np.clip(np.cumsum(total[::-1])[::-1], 0.0, 1.0)
    return Guessing(len(a), mean, deviation, tail)


@dataclass(frozen=True, slots=True, order=True)
class _Prompt:
    """All that the distribution of a prompt depends on.

    Attributes:
        pairs: (winner, loser) as people prefer, of images 0..n-1; empty if `ranked` is not.
        tied: Numbers of images that share a score of the metric.
        ranked: Numbers of images that people rank equal, if the pairs are all pairs of one ranking.
    """

    pairs: tuple[tuple[int, int], ...]
    tied: tuple[int, ...]
    ranked: tuple[int, ...]


def _shape(a: Ints, b: Ints, preference: Ints, values: Floats) -> _Prompt:
    """Reduce the pairs of a prompt to the data that decide its distribution, so that equal prompts are computed once."""
    winner, loser = np.where(preference > 0, a, b), np.where(preference > 0, b, a)
    images, number = np.unique(np.concatenate([winner, loser]), return_inverse=True)
    pairs = list(zip(number[: len(a)].tolist(), number[len(a) :].tolist(), strict=True))
    tied = tuple(sorted(np.unique(values[images], return_counts=True)[1].tolist()))
    ranked = _ranking(pairs, len(images))
    if ranked is not None and (max(ranked) == 1 or max(tied) == 1):
        return _Prompt((), tied, ranked)
    return _Prompt(_renumbered(pairs, len(images)), tied, ())


def _renumbered(pairs: Sequence[tuple[int, int]], images: int) -> tuple[tuple[int, int], ...]:
    """Rename the images by whom they beat and lose to, so that neither names nor the order of rows decides what is drawn."""
    number = [0] * images
    for _ in range(_ROUNDS):
        met = [
            (sorted(number[b] for a, b in pairs if a == k), sorted(number[a] for a, b in pairs if b == k))
            for k in range(images)
        ]
        number = [sum(other < own for other in met) for own in met]
    order = sorted(range(images), key=number.__getitem__)
    return tuple(sorted((order.index(a), order.index(b)) for a, b in pairs))


def _ranking(pairs: Sequence[tuple[int, int]], images: int) -> tuple[int, ...] | None:
    """Return the sizes of the ties of the ranking whose pairs these are; None if they are not all pairs of a ranking."""
    if len(set(pairs)) < len(pairs):
        return None
    won, lost = [0] * images, [0] * images
    for winner, loser in pairs:
        won[winner] += 1
        lost[loser] += 1
    classes = Counter(zip(lost, won, strict=True))
    above = 0
    for (lost_by, won_by), size in sorted(classes.items()):
        if (lost_by, won_by) != (above, images - above - size):
            return None
        above += size
    return tuple(sorted(classes.values()))


def _distribution(shape: _Prompt, seed: int) -> Floats:
    """Compute the probability of 0, 1, ... correct pairs."""
    if shape.ranked:
        return _inversions(shape.ranked if max(shape.ranked) > 1 else shape.tied)
    score = np.repeat(np.arange(len(shape.tied)), shape.tied)
    images = len(score)
    permuted = score.astype(np.int16)[_orders(images)]
    if images > ENUMERATED:  # all prompts share the sampled orders: relabelled, so that their errors do not add up
        permuted = permuted[np.random.default_rng(seed).permutation(images)]
    winner, loser = np.array(shape.pairs).T
    right = (permuted[winner] > permuted[loser]).sum(axis=0)
    probabilities: Floats = np.bincount(right, minlength=len(shape.pairs) + 1) / permuted.shape[1]
    return probabilities


@functools.cache
def _orders(images: int) -> Ints:
    """Return orders of `images` images, one per column: all of them, or `DRAWS` and their reverses."""
    if images <= ENUMERATED:
        return np.array(list(permutations(range(images)))).T
    drawn = np.random.default_rng(images).permuted(np.tile(np.arange(images), (DRAWS, 1)), axis=1).T
    return np.concatenate([drawn, images - 1 - drawn], axis=1)


@functools.cache
def _inversions(classes: tuple[int, ...]) -> Floats:
    """Distribution of the inversions of a random order of a multiset: the q-multinomial coefficient (MacMahon 1916)."""
    probabilities = np.ones(1)
    placed = 0
    for size in classes:
        for k in range(1, size + 1):
            # times (1 - q^(placed + k)) / (1 - q^k)
            grown = np.concatenate([probabilities, np.zeros(placed)])
            grown[placed + k :] -= probabilities[: len(grown) - placed - k]
            for step in range(k):
                grown[step::k] = np.cumsum(grown[step::k])
            probabilities = np.clip(grown, 0.0, None) / grown.sum()
        placed += size
    return probabilities


def _moments(part: Floats) -> tuple[float, float]:
    count = np.arange(len(part))
    mean = float(part @ count)
    return mean, float(part @ (count - mean) ** 2)


def _convolved(parts: Iterable[Floats]) -> Floats:
    """Convolve distributions, shortest first: the distribution of the sum."""
    heap = [(len(part), k, part) for k, part in enumerate(parts)]
    heapq.heapify(heap)
    next_ = len(heap)
    while len(heap) > 1:
        (_, _, first), (_, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (len(first) + len(second) - 1, next_, _convolve(first, second)))
        next_ += 1
    return heap[0][2] if heap else np.ones(1)


def _convolve(first: Floats, second: Floats) -> Floats:
    if min(len(first), len(second)) < 256:
        return np.convolve(first, second)
    size = len(first) + len(second) - 1
    return np.clip(np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size), 0.0, None)
