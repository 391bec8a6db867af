"""What guessing would reach: a metric's scores exchanged among the images of each prompt, people's preferences as they are.

Pairs of one prompt share images, so they are right or wrong together: the number of right pairs of n images varies by
n(n-1)(2n+5)/72 and not by n(n-1)/8. Each prompt has a distribution of right pairs over all exchanges of its scores, and the
prompts' distributions are convolved. It is exact where people rank the images of a prompt and one side has no ties (counted
as inversions of a multiset), exact by enumeration up to `ENUMERATED` images, and else from 2 x `DRAWS` exchanges a prompt.

`paper_threshold` is the TIT paper's own (A.2), which takes pairs as independent.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from titjudge.stats.bootstrap import Floats, Ints

ENUMERATED = 6
DRAWS = 1000  # and their reverses, so that means are exact where the scores have no ties
EXACT_PAIRS = 200_000  # with more pairs the sum over prompts is as normal as it can be
PAPER_Z = {0.05: 1.645, 0.001: 3.09}


def paper_threshold(pairs: int, alpha: float) -> int | None:
    """Compute the paper's threshold (A.2): the least whole number from mu + z sigma on, z 1.645 at .05 and 3.09 at .001.

    6,510 (50.73%) and 6,592 (51.37%) of 12,832. None when even all correct would not do.
    """
    if pairs < 1:
        return None
    k = math.ceil(pairs / 2 + PAPER_Z[alpha] * math.sqrt(pairs) / 2)
    return k if k <= pairs else None


@dataclass(frozen=True, slots=True)
class Guessing:
    """The distribution of right pairs under guessing: `tail[k]` is the probability of at least k; None means normal."""

    pairs: int
    mean: float
    deviation: float
    tail: Floats | None

    def p_value(self, correct: int) -> float:
        """Compute the probability of at least so many right pairs."""
        if self.tail is not None:
            return float(self.tail[correct]) if correct < len(self.tail) else 0.0
        from scipy.special import ndtr

        return (
            float(ndtr((self.mean + 0.5 - correct) / self.deviation)) if self.deviation else float(correct <= self.mean)
        )

    def threshold(self, alpha: float) -> int | None:
        """Find the fewest right pairs that guessing reaches with probability below `alpha`; None when not even all would do."""
        low, high = 0, self.pairs + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.p_value(middle) < alpha else (middle + 1, high)
        return low if low <= self.pairs else None


def guessing(group: Ints, a: Ints, b: Ints, preference: Ints, values: Floats, seed: int = 0) -> Guessing:
    """Compute the distribution of the number of right pairs when the scores of each prompt are exchanged among its images.

    Args:
        group: Prompt of each pair that has both scores and a human preference, shape (pairs,).
        a: First image of each of these pairs, as an index into `values`.
        b: Second image of each.
        preference: What people prefer in each: 1 is a, -1 is b.
        values: Score by image; equal scores are exactly equal.
        seed: Of the draws for prompts that are too large to count through.
    """
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    shapes: Counter[_Prompt] = Counter()
    for rows in np.split(order, starts[1:]) if len(order) else ():
        shapes[_shape(a[rows], b[rows], preference[rows], values)] += 1
    parts = [(_distribution(shape, seed + k), count) for k, (shape, count) in enumerate(shapes.items())]
    moments = [(*_moments(part), count) for part, count in parts]
    mean = sum(m * count for m, _, count in moments)
    deviation = math.sqrt(sum(v * count for _, v, count in moments))
    if len(a) > EXACT_PAIRS:
        return Guessing(len(a), mean, deviation, None)
    whole = _convolved(part for part, count in parts for part in [part] * count)
    tail = np.clip(np.cumsum(whole[::-1])[::-1], 0.0, 1.0)
    return Guessing(len(a), mean, deviation, tail)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """What the distribution of a prompt hangs on: pairs (winner, loser) of images 0..n-1, and how many images share a score.

    `ranked` are the sizes of people's ties, where the pairs are all those of a ranking; the pairs are then left out.
    """

    pairs: tuple[tuple[int, int], ...]
    tied: tuple[int, ...]
    ranked: tuple[int, ...]


def _shape(a: Ints, b: Ints, preference: Ints, values: Floats) -> _Prompt:
    winner, loser = np.where(preference > 0, a, b), np.where(preference > 0, b, a)
    images, number = np.unique(np.concatenate([winner, loser]), return_inverse=True)
    pairs = sorted(zip(number[: len(a)].tolist(), number[len(a) :].tolist(), strict=True))
    tied = tuple(sorted(np.unique(values[images], return_counts=True)[1].tolist()))
    ranked = _ranking(pairs, len(images))
    if ranked is not None and (max(ranked) == 1 or max(tied) == 1):
        return _Prompt((), tied, ranked)
    return _Prompt(tuple(pairs), tied, ())


def _ranking(pairs: Sequence[tuple[int, int]], images: int) -> tuple[int, ...] | None:
    """Sizes of the ties of the ranking whose pairs these are, each once; None where they are no ranking's."""
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
    """Probability of 0, 1, ... right pairs."""
    if shape.ranked:
        return _inversions(shape.ranked if max(shape.ranked) > 1 else shape.tied)
    score = np.repeat(np.arange(len(shape.tied)), shape.tied)
    images = len(score)
    each = score.astype(np.int16)[_orders(images)]
    if (
        images > ENUMERATED
    ):  # the same orders serve all prompts, under labels of their own: else their errors would add up
        each = each[np.random.default_rng(seed).permutation(images)]
    winner, loser = np.array(shape.pairs).T
    right = (each[winner] > each[loser]).sum(axis=0)
    found: Floats = np.bincount(right, minlength=len(shape.pairs) + 1) / each.shape[1]
    return found


@functools.cache
def _orders(images: int) -> Ints:
    """Orders of so many images, one a column: all of them, or `DRAWS` and their reverses."""
    if images <= ENUMERATED:
        return np.array(list(permutations(range(images)))).T
    drawn = np.random.default_rng(images).permuted(np.tile(np.arange(images), (DRAWS, 1)), axis=1).T
    return np.concatenate([drawn, images - 1 - drawn], axis=1)


@functools.cache
def _inversions(classes: tuple[int, ...]) -> Floats:
    """Inversions of a random order of a multiset: the q-multinomial coefficient, as probabilities (MacMahon 1916)."""
    found = np.ones(1)
    placed = 0
    for size in classes:
        for k in range(1, size + 1):
            # times (1 - q^(placed + k)) / (1 - q^k)
            grown = np.concatenate([found, np.zeros(placed)])
            grown[placed + k :] -= found[: len(grown) - placed - k]
            for step in range(k):
                grown[step::k] = np.cumsum(grown[step::k])
            found = np.clip(grown, 0.0, None) / grown.sum()
        placed += size
    return found


def _moments(part: Floats) -> tuple[float, float]:
    count = np.arange(len(part))
    mean = float(part @ count)
    return mean, float(part @ (count - mean) ** 2)


def _convolved(parts: Iterable[Floats]) -> Floats:
    """Convolve distributions to that of their sum, shortest first."""
    import heapq

    heap = [(len(part), k, part) for k, part in enumerate(parts)]
    heapq.heapify(heap)
    next_ = len(heap)
    while len(heap) > 1:
        (_, _, one), (_, _, other) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (len(one) + len(other) - 1, next_, _both(one, other)))
        next_ += 1
    return heap[0][2] if heap else np.ones(1)


def _both(one: Floats, other: Floats) -> Floats:
    if min(len(one), len(other)) < 256:
        return np.convolve(one, other)
    size = len(one) + len(other) - 1
    return np.clip(np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size), 0.0, None)
