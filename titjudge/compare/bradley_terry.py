"""Strengths of generators from pairwise preferences with ties: Bradley-Terry in Davidson's form, fitted by evalica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.compare.resample import Floats, Interval, codes, multiplicities, percentile_interval
from titjudge.types import Pair

TOLERANCE = 1e-9
ITERATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Strength:
    """`strength` is a natural logarithm, with mean 0 over generators: a lead of d means e^d wins for each loss."""

    generator: str
    strength: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """The fit on all pairs, strongest first, with 95% intervals by resampling prompts.

    `tie` is the weight t of ties (0: none occur; None: only ties): P(tie) = 2t sqrt(pq) / (p + q + 2t sqrt(pq))
    for strengths p, q on the exponential scale. A resample without a finite fit (some generators never lose to the
    rest, say) is left out and counted in `degenerate`. Without a finite fit on all pairs `strengths` is empty and
    `reason` says why.
    """

    strengths: tuple[Strength, ...]
    tie: float | None
    pairs: int
    same_generator: int
    resamples: int
    degenerate: int
    reason: str = ""


def bradley_terry(
    pairs: Sequence[Pair], generator_of: Mapping[str, str], *, resamples: int = 2000, seed: int = 0
) -> BradleyTerry:
    """Bradley-Terry strengths with ties (Davidson's model, fitted by evalica).

    Args:
        pairs: preferences of people (or of a metric: `ranks.predicted_pairs`).
        generator_of: generator of each image id; pairs of unknown images and of one generator with itself are left out.
    """
    named = [(generator_of[p.a], generator_of[p.b], p) for p in pairs if p.a in generator_of and p.b in generator_of]
    used = [(x, y, p) for x, y, p in named if x != y]
    same = len(named) - len(used)
    if not used:
        return BradleyTerry((), None, 0, same, 0, 0, "no pair compares two generators")
    cells, generators = _cells(used)
    model = _Model(len(generators), cells.keys)
    point = model.fit(cells.counts.sum(axis=0))
    if point is None:
        reason = "no finite fit: too few pairs, or some generators never lose (or never win) against the others"
        return BradleyTerry((), None, len(used), same, 0, 0, reason)
    draws, degenerate = _draws(model, cells.counts, resamples if cells.counts.shape[0] > 1 else 0, seed)
    strengths = [
        Strength(
            name, float(point[0][k]), percentile_interval(draws[:, k], cells.counts.shape[0]) if len(draws) else None
        )
        for k, name in enumerate(generators)
    ]
    strengths.sort(key=lambda each: -each.strength)
    return BradleyTerry(tuple(strengths), point[1], len(used), same, len(draws), degenerate)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Distinct (winner, loser, tied) outcomes and how often each occurs in each prompt: shape (prompts, outcomes)."""

    keys: list[tuple[int, int, bool]]
    counts: Any  # scipy.sparse.csr_array


def _cells(used: Sequence[tuple[str, str, Pair]]) -> tuple[_Cells, list[str]]:
    from scipy.sparse import coo_array

    both, generators = codes([x for x, _, _ in used] + [y for _, y, _ in used])
    first, second = both[: len(used)].tolist(), both[len(used) :].tolist()
    prompt, prompts = codes(pair.group for _, _, pair in used)
    outcomes = [
        (min(x, y), max(x, y), True)
        if p.preference == "tie"
        else (x, y, False)
        if p.preference == "a"
        else (y, x, False)
        for x, y, (_, _, p) in zip(first, second, used, strict=True)
    ]
    outcome, keys = codes(outcomes)
    shape = (len(prompts), len(keys))
    counts = coo_array((np.ones(len(used)), (prompt, outcome)), shape=shape).tocsr()
    return _Cells(keys, counts), generators


class _Model:
    """One fit for any weights of the outcomes."""

    def __init__(self, generators: int, keys: Sequence[tuple[int, int, bool]]) -> None:
        import evalica
        import pandas as pd

        self.generators = generators
        self.first = np.array([key[0] for key in keys])
        self.second = np.array([key[1] for key in keys])
        self.tied = np.array([key[2] for key in keys])
        self._winners = [evalica.Winner.Draw if tied else evalica.Winner.X for tied in self.tied]
        self._index = pd.RangeIndex(generators)
        self._with_ties, self._without_ties = evalica.newman, evalica.bradley_terry

    def finite(self, weights: Floats) -> bool:
        """Whether the likelihood has a finite maximum.

        Every generator must reach every other one by wins and ties; and where ties occur, some round trip must
        hold more wins than ties (edges of -1 and +1: a negative cycle), or wins and ties could be explained ever better by moving
        all strengths apart and raising the weight of ties.
        """
        from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

        seen = weights > 0
        won, tied = seen & ~self.tied, seen & self.tied
        graph = np.zeros((self.generators, self.generators))
        graph[self.first[tied], self.second[tied]] = graph[self.second[tied], self.first[tied]] = 1
        graph[self.first[won], self.second[won]] = -1
        if connected_components(graph, directed=True, connection="strong", return_labels=False) > 1:
            return False
        if not tied.any() or not won.any():
            return True
        try:
            bellman_ford(graph, indices=0)
        except NegativeCycleError:
            return True
        return False

    def fit(self, weights: Floats) -> tuple[Floats, float | None] | None:
        """(log strengths with mean 0, tie weight or None for nothing but ties).

        None where no finite fit exists or the iteration does not settle.
        """
        weights = np.asarray(weights, dtype=np.float64).ravel()
        if not self.finite(weights):
            return None
        if not weights[~self.tied].sum():
            return np.zeros(self.generators), None
        # Without ties Newman's iteration can swing for ever; the classical one has the same maximum.
        tied = bool(weights[self.tied].sum())
        found = (self._with_ties if tied else self._without_ties)(
            self.first.tolist(),
            self.second.tolist(),
            self._winners,
            index=self._index,
            weights=weights.tolist(),
            tolerance=TOLERANCE,
            limit=ITERATIONS,
        )
        scores = found.scores.reindex(self._index).to_numpy()
        if found.iterations >= ITERATIONS or not np.all(np.isfinite(scores)) or not np.all(scores > 0):
            return None
        strengths: Floats = np.log(scores)
        return strengths - strengths.mean(), float(found.v) if tied else 0.0


def _draws(model: _Model, counts: Any, resamples: int, seed: int) -> tuple[Floats, int]:
    found: list[Floats] = []
    degenerate = 0
    if resamples:
        for block in multiplicities(counts.shape[0], resamples, seed):
            for weights in (counts.T @ block.T).T:
                fit = model.fit(weights)
                if fit is None:
                    degenerate += 1
                else:
                    found.append(fit[0])
    return np.array(found).reshape(len(found), model.generators), degenerate
