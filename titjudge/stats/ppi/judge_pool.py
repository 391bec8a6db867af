"""A pool of at most three judges: the mean of their standardised scores, and its cross-validated accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from titjudge.core.tables import percent
from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import choice_interval
from titjudge.stats.pairwise_accuracy import PairIndex, Values, pair_index

MOST = 3  # judges of a pool
FOLDS = 5
_CANDIDATES = 20  # the most accurate judges are tried together; C(20, 3) pools are 1,140


@dataclass(frozen=True, slots=True)
class Pool:
    """The most accurate pool on all pairs, and the cross-validated accuracy of choosing a pool in this way.

    Attributes:
        accuracy: On held-out folds of prompts, with its 95% `interval` over prompts; the interval allows for the folds
            choosing other pools than `judges`.
        single: The most accurate judge alone; `single_accuracy` is on held-out folds, too.
        pairs: Pairs that all judges have scored and in which people have a preference.
    """

    judges: tuple[str, ...]
    accuracy: float
    interval: Interval | None
    single: str
    single_accuracy: float
    pairs: int
    prompts: int

    def line(self) -> str:
        """Summarise in one line."""
        pool = f"pool of {len(self.judges)}: {' + '.join(self.judges)}"
        what = pool if len(self.judges) > 1 else f"no pool is better than {self.judges[0]} alone"
        return (
            f"{what}: accuracy {percent(self.accuracy, self.interval)} on prompts that had no say in the choice, the best single judge "
            f"{100 * self.single_accuracy:.1f}% (mean of standardised scores, {self.pairs:,} pairs, {FOLDS} folds of prompts, equal scores are wrong)"
        )


def best_pool(pairs: Sequence[Pair] | PairIndex, values: Mapping[str, Values], *, seed: int = 0) -> Pool | None:
    """Find the pool that agrees best with people; None with a single judge, or with fewer prompts than folds.

    Args:
        pairs: Human pairs.
        values: Judge -> score by image id, higher is better.
        seed: Of the folds.
    """
    index = pair_index(pairs)
    names = list(values)
    if len(names) < 2 or not len(index):
        return None
    scores = np.array([standardised(index.scores(values[name])) for name in names])
    usable = (index.preference != 0) & np.isfinite(scores[:, index.a] + scores[:, index.b]).all(axis=0)
    prompts = np.unique(index.group[usable])
    if len(prompts) < FOLDS:
        return None
    fold_of = np.full(len(index.groups), -1)
    fold_of[prompts] = np.random.default_rng(seed).permutation(len(prompts)) % FOLDS
    fold = fold_of[index.group]
    right, alone, held_out = np.zeros(len(index)), np.zeros(len(index)), list[Floats]()
    for k in range(FOLDS):
        train, test = usable & (fold != k), usable & (fold == k)
        pool, single = _most_accurate(index, scores, train)
        held_out.append(_right(index, scores, pool))
        right[test], alone[test] = held_out[-1][test], _right(index, scores, single)[test]
    pool, single = _most_accurate(index, scores, usable)
    return Pool(
        tuple(names[k] for k in pool), float(right[usable].mean()),
        choice_interval(index.group, right, _right(index, scores, pool), held_out, usable.astype(np.float64)),
        names[single[0]], float(alone[usable].mean()), int(usable.sum()), len(prompts),
    )  # fmt: skip


def standardised(scores: Floats) -> Floats:
    """Scale scores to mean 0 and standard deviation 1; NaN stays, and constant scores become 0."""
    finite = scores[np.isfinite(scores)]
    _, size = np.frexp(np.abs(finite).max(initial=0.0))
    scores, finite = np.ldexp(scores, -size), np.ldexp(finite, -size)  # the square of 1e200 is infinite
    spread = float(finite.std()) if len(finite) else 0.0
    scaled: Floats = (scores - finite.mean()) / spread if spread > 0 else scores * 0.0
    return scaled


def _right(index: PairIndex, scores: Floats, pool: Sequence[int]) -> Floats:
    """Return 1 for each pair in which the pool prefers what people prefer, else 0; a tie is wrong."""
    mean = with_ties(scores[list(pool)].mean(axis=0))
    right: Floats = (np.sign(mean[index.a] - mean[index.b]) == index.preference).astype(np.float64)
    return right


def _most_accurate(
    index: PairIndex, scores: Floats, train: np.ndarray[Any, np.dtype[np.bool_]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Find the most accurate pool on the training pairs, the smallest of equal ones, and the most accurate judge alone."""

    def accuracy(pool: Sequence[int]) -> float:
        return float(_right(index, scores, pool)[train].mean())

    alone = np.array([accuracy((judge,)) for judge in range(len(scores))])
    candidates = np.argsort(-alone, kind="stable")[:_CANDIDATES].tolist()
    single = (candidates[0],)
    best, best_accuracy = single, float(alone[candidates[0]])
    for size in range(2, MOST + 1):
        for pool in combinations(candidates, size):
            if (pool_accuracy := accuracy(pool)) > best_accuracy + 1e-12:
                best, best_accuracy = pool, pool_accuracy
    return best, single
