"""Strengths of generators from pairwise preferences with ties: Bradley-Terry in Davidson's form, by Newton's method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, Interval, codes, multiplicities, percentile_interval

TOLERANCE = 1e-10  # of the gradient, for each pair
ITERATIONS = 200
FARTHEST = 2.0  # a step of Newton's method goes no farther


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
    for strengths p, q on the exponential scale. `degenerate` counts the resamples without a finite fit: who never loses to
    the rest there counts as infinitely strong, who never wins as infinitely weak, and the ends of intervals may be
    infinite. Without a finite fit on all pairs `strengths` is empty and `reason` says why.
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
    """Fit Bradley-Terry strengths with ties (Davidson's model).

    Args:
        pairs: Preferences of people (or of a metric: `rank_agreement.predicted_pairs`).
        generator_of: Generator of each image id; pairs of unknown images and of one generator with itself are left out.
        resamples: Bootstrap draws of prompts for the intervals; 0 for none.
        seed: Of the draws.
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
    draws, degenerate = _draws(model, cells.counts, resamples if cells.counts.shape[0] > 1 else 0, seed, point[0])
    strengths = [
        Strength(
            name, float(point[0][k]), percentile_interval(draws[:, k], cells.counts.shape[0]) if len(draws) else None
        )
        for k, name in enumerate(generators)
    ]
    strengths.sort(key=lambda each: -each.strength)
    return BradleyTerry(tuple(strengths), point[1], len(used), same, len(draws) - degenerate, degenerate)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Distinct (winner, loser, tied) outcomes and how often each occurs in each prompt: shape (prompts, outcomes)."""

    keys: list[tuple[int, int, bool]]
    counts: Any  # scipy.sparse.csr_array


def _cells(used: Sequence[tuple[str, str, Pair]]) -> tuple[_Cells, list[str]]:
    from scipy.sparse import coo_array

    both, generators = codes([x for x, _, _ in used] + [y for _, y, _ in used])
    first, second = both[: len(used)].tolist(), both[len(used) :].tolist()
    prompt, prompts = codes(pair.prompt_id for _, _, pair in used)
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
        self.generators = generators
        self.first = np.array([key[0] for key in keys])
        self.second = np.array([key[1] for key in keys])
        self.tied = np.array([key[2] for key in keys])
        self._couple, couples = codes((min(i, j), max(i, j)) for i, j, _ in keys)
        # The model is log-linear: the features of "first", "second" and "tie" of each couple, the last is the tie weight's.
        self._features = np.zeros((len(couples), 3, generators + 1))
        for k, (i, j) in enumerate(couples):
            self._features[k, 0, i] = self._features[k, 1, j] = self._features[k, 2, -1] = 1
            self._features[k, 2, [i, j]] = 0.5
        place = np.where(self.tied, 2, (self.first > self.second).astype(np.int64))
        self._seen = self._features[self._couple, place]
        self._finite: dict[bytes, bool] = {}
        self._rows = self._features.reshape(-1, generators + 1)  # one row for each outcome of each couple

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

    def fit(self, weights: Floats, start: Floats | None = None) -> tuple[Floats, float | None] | None:
        """(log strengths with mean 0, tie weight or None for nothing but ties).

        None where no finite fit exists or the iteration does not settle. `start` are log strengths to begin from.
        """
        weights = np.asarray(weights, dtype=np.float64).ravel()
        occurring = (weights > 0).tobytes()  # all that decides it, and the same in most resamples
        if occurring not in self._finite:
            self._finite[occurring] = self.finite(weights)
        if not self._finite[occurring]:
            return None
        if not weights[~self.tied].sum():
            return np.zeros(self.generators), None
        tied = bool(weights[self.tied].sum())
        found = self._maximum(weights, tied, start)
        if found is None:
            return None
        strengths = found[:-1]
        return strengths - strengths.mean(), float(np.exp(found[-1])) if tied else 0.0

    def _maximum(self, weights: Floats, tied: bool, start: Floats | None) -> Floats | None:
        """Log strengths and the log weight of ties, shape (generators + 1,); None where the iteration does not settle."""
        total = np.bincount(self._couple, weights=weights, minlength=len(self._features))
        offset = np.array([0.0, 0.0, np.log(2) if tied else -np.inf])
        wanted = weights @ self._seen
        free = np.ones((self.generators + 1, self.generators + 1))  # strengths are free up to a constant, held by this
        free[-1], free[:, -1] = 0.0, 0.0
        free[-1, -1] = 0.0 if tied else 1.0

        def likelihood(at: Floats) -> tuple[float, Floats]:
            """Compute the log likelihood, and the share of each outcome of each couple."""
            logits = (self._rows @ at).reshape(-1, 3) + offset
            top = logits.max(axis=1)
            share = np.exp(logits - top[:, None])
            norm = share.sum(axis=1)
            return float(wanted @ at - total @ (top + np.log(norm))), share / norm[:, None]

        at = np.zeros(self.generators + 1)
        if start is not None:
            at[:-1] = start
        value, share = likelihood(at)
        for _ in range(ITERATIONS):
            expected = (total[:, None] * share).ravel()
            gradient = wanted - expected @ self._rows
            gradient[-1] *= tied
            if np.abs(gradient).max() <= TOLERANCE * weights.sum():
                return at
            mean = (share.reshape(-1, 1) * self._rows).reshape(self._features.shape).sum(axis=1)
            curve = (expected[:, None] * self._rows).T @ self._rows - (total[:, None] * mean).T @ mean + free
            step = np.linalg.lstsq(curve, gradient)[0]
            step *= min(1.0, FARTHEST / np.abs(step).max())
            while True:
                further = likelihood(at + step)
                if further[0] >= value or np.abs(step).max() < 1e-12:
                    break
                step /= 2
            at = at + step
            value, share = further
        return None

    def unbounded(self, weights: Floats) -> Floats:
        """Without a finite fit: inf for who never loses to the rest, -inf for who never wins, NaN for the others."""
        from scipy.sparse.csgraph import connected_components

        seen = np.asarray(weights, dtype=np.float64).ravel() > 0
        beats = np.zeros((self.generators, self.generators), dtype=bool)
        beats[self.first[seen], self.second[seen]] = True
        drawn = seen & self.tied
        beats[self.second[drawn], self.first[drawn]] = True
        count, part = connected_components(beats, directed=True, connection="strong")
        found = np.full(self.generators, np.nan)
        if count < 2 or connected_components(beats, directed=False, return_labels=False) > 1:
            return found
        for k in range(count):
            inside = part == k
            lost, won = beats[~inside][:, inside].any(), beats[inside][:, ~inside].any()
            found[inside] = np.nan if lost and won else np.inf if won else -np.inf
        return found


def _draws(model: _Model, counts: Any, resamples: int, seed: int, start: Floats) -> tuple[Floats, int]:
    """Strengths on resampled prompts, each fit begun from those on all of them."""
    found: list[Floats] = []
    degenerate = 0
    if resamples:
        for block in multiplicities(counts.shape[0], resamples, seed):
            for weights in (counts.T @ block.T).T:
                fit = model.fit(weights, start)
                degenerate += fit is None
                found.append(model.unbounded(weights) if fit is None else fit[0])
    return np.array(found).reshape(len(found), model.generators), degenerate
