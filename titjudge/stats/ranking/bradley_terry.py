"""Strengths of generators from pairwise preferences with ties: Bradley-Terry in Davidson's form, by Newton's method.

`duel_tables` has the strengths over comparisons with opponents drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.grouping import group_means
from titjudge.core.run_records import BradleyTerryRecord, GeneratorStrength
from titjudge.core.score_parts import against
from titjudge.core.types import Item, Note, Pair, Score, Table
from titjudge.stats.bootstrap import Floats, by_content, codes, multiplicities, number, percentile_interval
from titjudge.stats.equality import with_ties
from titjudge.stats.scores.families import ALONE, Families, in_families

TOLERANCE = 1e-10  # of the gradient, for each pair
ITERATIONS = 200
FARTHEST = 2.0  # a step of Newton's method goes no farther
_TOGETHER = 256  # draws fitted at once


def bradley_terry(
    pairs: Sequence[Pair], generator_of: Mapping[str, str], *, resamples: int = 2000
) -> BradleyTerryRecord:
    """Fit Bradley-Terry strengths with ties (Davidson's model), with 95% intervals by resampling prompts.

    Args:
        pairs: Preferences of people (or of a metric: `rank_agreement.predicted_pairs`).
        generator_of: Generator of each image id; pairs of unknown images and of one generator with itself are left out.
        resamples: Bootstrap draws of prompts for the intervals; 0 for none.
    """
    named = [(generator_of[p.a], generator_of[p.b], p) for p in pairs if p.a in generator_of and p.b in generator_of]
    used = [(x, y, p) for x, y, p in named if x != y]
    if not used:
        return _without_fit(0, "no pair compares two generators")
    outcomes, counts, generators = _counted(used)
    model = _Likelihood(len(generators), outcomes)
    (point,), (tie,) = model.fit(np.asarray(counts.sum(axis=0), dtype=np.float64).reshape(1, -1))
    if np.isnan(point).any():
        reason = "no finite fit: too few pairs, or some generators never lose (or never win) against the others"
        return _without_fit(len(used), reason)
    prompts = counts.shape[0]
    counts = _by_strength(counts, outcomes, point)
    draws, degenerate = _draws(model, counts, resamples if prompts > 1 else 0, point)
    point = with_ties(point)
    strengths = [
        GeneratorStrength(generator=name, strength=float(point[k]), interval=_interval(draws[:, k], prompts))
        for k, name in enumerate(generators)
    ]
    return BradleyTerryRecord(
        generators=sorted(strengths, key=lambda strength: (-strength.strength, strength.generator)),
        tie=number(tie),
        pairs=len(used),
        resamples=len(draws) - degenerate,
        degenerate=degenerate,
        reason="",
    )


def opponents(couples: Iterable[tuple[str, str]]) -> list[tuple[list[str], bool]]:
    """Group generators that met each other, directly or through others; largest group first.

    Args:
        couples: The two generators of each comparison.

    Returns:
        The names of each group in ascending order, and whether every two of them met. Only then win rates and mean ranks
        compare generators with the same opponents.
    """
    met: dict[str, set[str]] = {}
    for first, second in couples:
        if first != second:
            met.setdefault(first, set()).add(second)
            met.setdefault(second, set()).add(first)
    groups: list[list[str]] = []
    for name in sorted(met):
        if any(name in group for group in groups):
            continue
        group = {name}
        while further := set().union(*(met[each] for each in group)) - group:
            group |= further
        groups.append(sorted(group))
    groups.sort(key=lambda group: (-len(group), group))
    return [(group, all(len(met[name]) == len(group) - 1 for name in group)) for group in groups]


def _without_fit(pairs: int, reason: str) -> BradleyTerryRecord:
    return BradleyTerryRecord(generators=[], tie=None, pairs=pairs, resamples=0, degenerate=0, reason=reason)


def _interval(draws: Floats, prompts: int) -> tuple[float | None, float | None] | None:
    """Compute the interval of a strength, None for an infinite end; None without draws."""
    ends = percentile_interval(draws, prompts)
    return ends and (number(ends[0]), number(ends[1]))


def _counted(used: Sequence[tuple[str, str, Pair]]) -> tuple[list[tuple[int, int, bool]], Any, list[str]]:
    """Count the distinct (winner, loser, tied) outcomes in each prompt.

    Returns:
        The outcomes, a sparse array of their counts of shape (prompts, outcomes), and the names of the generators.
    """
    from scipy.sparse import coo_array

    generators = sorted({name for x, y, _ in used for name in (x, y)})
    number = {name: k for k, name in enumerate(generators)}
    first, second = [number[x] for x, _, _ in used], [number[y] for _, y, _ in used]
    prompt, prompts = codes(pair.unit for _, _, pair in used)
    outcomes = [
        (min(x, y), max(x, y), True)
        if p.preference == "tie"
        else (x, y, False)
        if p.preference == "a"
        else (y, x, False)
        for x, y, (_, _, p) in zip(first, second, used, strict=True)
    ]
    keys = sorted(set(outcomes))
    place = {key: k for k, key in enumerate(keys)}
    outcome = [place[each] for each in outcomes]
    shape = (len(prompts), len(keys))
    counts = coo_array((np.ones(len(used)), (prompt, outcome)), shape=shape).tocsr()
    return keys, counts, generators


def _by_strength(counts: Any, outcomes: Sequence[tuple[int, int, bool]], strengths: Floats) -> Any:
    """Sort prompts by their content, with strengths instead of names, so that no name and no order of rows decides draws."""
    cells, order = counts.tocoo(), np.zeros(counts.shape[0], dtype=np.int64)
    of = with_ties(strengths).tolist()
    content = [(tied, *(sorted((of[a], of[b])) if tied else (of[a], of[b]))) for a, b, tied in outcomes]
    rows = ((content[k], count) for k, count in zip(cells.col.tolist(), cells.data.tolist(), strict=True))
    order[by_content(cells.row, rows)] = cells.row
    return counts[order]


class _Draws(NamedTuple):
    """The data of draws that are fitted together, for the likelihood.

    Attributes:
        compared: Weight of all outcomes of each pair of generators, shape (draws, pairs).
        observed: Sum of the features of the outcomes, shape (draws, generators + 1).
        weight: Weight of all outcomes, shape (draws,).
        tied: Whether a tie occurs, same shape.
        offset: Added to the logits of "first wins", "second wins" and "tie", shape (draws, 1, 3).
        fixed: Added to the curvature, which is singular in the directions that the data do not determine.
    """

    compared: Floats
    observed: Floats
    weight: Floats
    tied: NDArray[np.bool_]
    offset: Floats
    fixed: Floats

    def only(self, draws: NDArray[Any]) -> _Draws:
        """Return some of the draws, by a mask or by their numbers."""
        return _Draws(*(array[draws] for array in self))


class _Likelihood:
    """The likelihood of the outcomes, maximised for any weights of them."""

    def __init__(self, generators: int, keys: Sequence[tuple[int, int, bool]]) -> None:
        self.generators = generators
        self.first = np.array([key[0] for key in keys])
        self.second = np.array([key[1] for key in keys])
        self.tied = np.array([key[2] for key in keys])
        self._couple, couples = codes((min(i, j), max(i, j)) for i, j, _ in keys)
        # The model is log-linear: features of "first wins", "second wins" and "tie" of each pair; the last one is for the
        # tie weight.
        self._features = np.zeros((len(couples), 3, generators + 1))
        for k, (i, j) in enumerate(couples):
            self._features[k, 0, i] = self._features[k, 1, j] = self._features[k, 2, -1] = 1
            self._features[k, 2, [i, j]] = 0.5
        place = np.where(self.tied, 2, (self.first > self.second).astype(np.int64))
        self._of_outcome = self._features[self._couple, place]
        self._finite: dict[bytes, bool] = {}
        self._rows = self._features.reshape(-1, generators + 1)  # one row for each outcome of each pair
        self._squares = (self._rows[:, :, None] * self._rows[:, None, :]).reshape(len(self._rows), -1)
        self._couple_of_outcome = np.zeros((len(keys), len(couples)))
        self._couple_of_outcome[np.arange(len(keys)), self._couple] = 1

    def finite(self, occurring: NDArray[np.bool_]) -> bool:
        """Whether the likelihood has a finite maximum; depends only on which outcomes occur.

        Every generator must reach every other one by wins and ties; and if ties occur, some cycle must have more wins
        than ties (edges of -1 and +1: a negative cycle), or the likelihood would grow without end as all strengths move
        apart and the weight of ties rises.
        """
        key = occurring.tobytes()  # the same outcomes occur in most resamples
        if key not in self._finite:
            self._finite[key] = self._has_maximum(occurring)
        return self._finite[key]

    def _has_maximum(self, occurring: NDArray[np.bool_]) -> bool:
        """Look for the two conditions of `finite` in the graph of wins."""
        from scipy.sparse.csgraph import NegativeCycleError, bellman_ford, connected_components

        won, tied = occurring & ~self.tied, occurring & self.tied
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

    def fit(self, weights: Floats, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Fit many draws at once by Newton's method.

        Args:
            weights: Of the outcomes, shape (draws, outcomes).
            start: Log strengths to begin from.

        Returns:
            Log strengths with mean 0, shape (draws, generators), NaN if no finite fit exists or the iteration does not
            converge; and the weights of ties, shape (draws,), NaN if only ties occur.
        """
        occurring = weights > 0
        finite = np.fromiter((self.finite(outcomes) for outcomes in occurring), dtype=bool, count=len(weights))
        strengths, tie = np.full((len(weights), self.generators), np.nan), np.full(len(weights), np.nan)
        only_ties = finite & ~occurring[:, ~self.tied].any(axis=1)
        strengths[only_ties] = 0.0
        todo = np.flatnonzero(finite & ~only_ties)
        for first in range(0, len(todo), _TOGETHER):
            block = todo[first : first + _TOGETHER]
            maxima = self._maxima(weights[block], start)
            strengths[block] = maxima[:, :-1] - maxima[:, :-1].mean(axis=1, keepdims=True)
            tie[block] = np.where(occurring[block][:, self.tied].any(axis=1), np.exp(maxima[:, -1]), 0.0)
        return strengths, tie

    def _maxima(self, weights: Floats, start: Floats | None) -> Floats:
        """Maximise the likelihood: log strengths and log weight of ties, shape (draws, generators + 1), NaN without convergence.

        Newton's method, for all draws at once; a step that would lower a likelihood is halved until it does not.
        """
        draws = self._weighted(weights)
        point = np.zeros((len(weights), self.generators + 1))
        if start is not None:
            point[:, :-1] = start
        maxima, number = np.full_like(point, np.nan), np.arange(len(point))
        value, share = self._log_likelihood(point, draws)
        for _ in range(ITERATIONS):
            expected = (draws.compared[:, :, None] * share).reshape(len(point), -1)
            gradient = draws.observed - expected @ self._rows
            gradient[:, -1] *= draws.tied
            going = np.abs(gradient).max(axis=1) > TOLERANCE * draws.weight
            step = self._newton_step(draws, share, expected, gradient)
            maxima[number[~going]] = (point + step)[~going]  # one step more, so that rounding decides nothing
            number, point, value, draws = number[going], point[going], value[going], draws.only(going)
            if not len(number):
                break
            step = step[going]
            further, share = self._log_likelihood(point + step, draws)
            while len(worse := np.flatnonzero((further < value) & (np.abs(step).max(axis=1) >= 1e-12))):
                step[worse] /= 2
                further[worse], share[worse] = self._log_likelihood(point[worse] + step[worse], draws.only(worse))
            point, value = point + step, further
        return maxima

    def _weighted(self, weights: Floats) -> _Draws:
        """Sum the weights of the outcomes, shape (draws, outcomes), as the likelihood needs them."""
        tied = np.asarray(weights[:, self.tied].any(axis=1))
        weight = weights.sum(axis=1)
        offset = np.zeros((len(weights), 1, 3))
        offset[:, 0, 2] = np.where(tied, np.log(2), -np.inf)
        size = self.generators + 1
        fixed = np.ones((len(weights), size, size))
        fixed[:, -1], fixed[:, :, -1] = 0.0, 0.0  # strengths are identified up to a constant, which this fixes
        fixed[:, -1, -1] = ~tied
        fixed += 1e-12 * weight[:, None, None] * np.eye(size)  # keeps it regular
        return _Draws(weights @ self._couple_of_outcome, weights @ self._of_outcome, weight, tied, offset, fixed)

    def _log_likelihood(self, point: Floats, draws: _Draws) -> tuple[Floats, Floats]:
        """Compute the log likelihood of each draw, and the probabilities of the outcomes of each pair: (draws, pairs, 3)."""
        logits = (point @ self._rows.T).reshape(len(point), -1, 3) + draws.offset
        top = logits.max(axis=2, keepdims=True)
        share = np.exp(logits - top)
        norm = share.sum(axis=2, keepdims=True)
        value = (draws.observed * point).sum(axis=1) - (draws.compared * (top + np.log(norm))[:, :, 0]).sum(axis=1)
        return value, share / norm

    def _newton_step(self, draws: _Draws, share: Floats, expected: Floats, gradient: Floats) -> Floats:
        """Solve for the step, with the covariance of the features as the curvature; no step is longer than `FARTHEST`."""
        mean = np.einsum("dco,cof->dcf", share, self._features)
        curvature = (expected @ self._squares).reshape(draws.fixed.shape) + draws.fixed
        curvature -= np.swapaxes(draws.compared[:, :, None] * mean, 1, 2) @ mean
        step = np.asarray(np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0], dtype=np.float64)
        step *= np.minimum(1.0, FARTHEST / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        return step

    def unbounded(self, weights: Floats) -> Floats:
        """Strengths without a finite fit: inf if a generator never loses to the rest, -inf if it never wins, otherwise NaN."""
        from scipy.sparse.csgraph import connected_components

        occurring = np.asarray(weights, dtype=np.float64).ravel() > 0
        beats = np.zeros((self.generators, self.generators), dtype=bool)
        beats[self.first[occurring], self.second[occurring]] = True
        tied = occurring & self.tied
        beats[self.second[tied], self.first[tied]] = True
        count, part = connected_components(beats, directed=True, connection="strong")
        strengths = np.full(self.generators, np.nan)
        if count < 2 or connected_components(beats, directed=False, return_labels=False) > 1:
            return strengths
        for k in range(count):
            inside = part == k
            lost, won = beats[~inside][:, inside].any(), beats[inside][:, ~inside].any()
            strengths[inside] = np.nan if lost and won else np.inf if won else -np.inf
        return strengths


def _draws(model: _Likelihood, counts: Any, resamples: int, start: Floats) -> tuple[Floats, int]:
    """Fit resamples of the prompts, starting from `start`; returns the strengths, and how many have no finite fit."""
    blocks = [(counts.T @ block.T).T for block in multiplicities(counts.shape[0], resamples)]
    weights = np.concatenate(blocks) if blocks else np.zeros((0, counts.shape[1]))
    strengths, _ = model.fit(weights, start)
    degenerate = np.flatnonzero(np.isnan(strengths).all(axis=1))
    for row in degenerate:
        strengths[row] = model.unbounded(weights[row])
    return strengths, len(degenerate)


DUELS = Declaration(
    "duels", "strengths over drawn comparisons", Population.SCORED_IMAGES, Unit.PROMPT, order="strength"
)

POINTS = {"a": 1.0, "tie": 0.5, "b": 0.0}


def drawn_pairs(scores: Sequence[Score]) -> list[Pair]:
    """Read the comparisons of one metric, each once, as pairs with the judge's preference."""
    pairs: dict[tuple[str, str], Pair] = {}
    for score in scores:
        for other, points in against(score.parts).items():
            preference = "tie" if points == 0.5 else "a" if points > 0.5 else "b"
            if (other, score.item_id) not in pairs:
                pairs[score.item_id, other] = Pair(score.prompt_id, score.item_id, other, preference, "metric")
    return list(pairs.values())


def duel_tables(items: Sequence[Item], scores: Sequence[Score], declared: Families = ALONE) -> list[Table]:
    """Tabulate strengths for each metric that drew comparisons; `declared` are the families of the prompts."""
    generator_of = {item.id: item.generator for item in items if item.generator}
    tables = []
    for name in sorted({score.metric for score in scores if score.parts.get("against")}):
        pairs = in_families(drawn_pairs([score for score in scores if score.metric == name]), declared)
        fit = bradley_terry(pairs, generator_of)
        rows = _rows(pairs, generator_of, fit)
        drawn = (
            f"{fit.pairs:,} comparisons were drawn. A lead of d means e^d wins for each loss. "
            "Rank by this and not by mean scores, which depend on whom an image happened to meet."
        )
        notes = Note("comparisons_drawn", drawn), Note("no_strengths_of_drawn", fit.reason)
        columns = ("rank", "generator", "strength", "from", "to", "points", "comparisons")
        images = sum(score.metric == name and score.value is not None for score in scores)
        title = f"Strengths over drawn comparisons (Bradley-Terry): {name}"
        tables.append(
            Table(
                title, columns, rows, tuple(filter(None, notes)), declared=DUELS.over(images, families=bool(declared))
            )
        )
    return tables


def _ends(interval: tuple[float | None, float | None] | None) -> tuple[float | None, float | None]:
    """Return the ends of an interval as the table shows them: infinite if the record, which is JSON, has None."""
    if interval is None:
        return None, None
    low, high = interval
    return -math.inf if low is None else low, math.inf if high is None else high


def _rows(
    pairs: Sequence[Pair], generator_of: Mapping[str, str], fit: BradleyTerryRecord
) -> tuple[tuple[Any, ...], ...]:
    """Return the rows, strongest first; without a finite fit by the share of points, and without strengths."""
    points: dict[str, list[float]] = {}
    for pair in pairs:
        first, second = generator_of.get(pair.a), generator_of.get(pair.b)
        if first is not None and second is not None and first != second:
            won = POINTS[pair.preference]
            points.setdefault(first, []).append(won)
            points.setdefault(second, []).append(1 - won)
    share = group_means(points)
    fitted = {row.generator: (row.strength, *_ends(row.interval)) for row in fit.generators}
    names = list(fitted or share)
    strengths = with_ties(np.array([fitted[name][0] if fitted else share[name] for name in names]))
    value = dict(zip(names, strengths.tolist(), strict=True))
    return tuple(
        (
            1 + sum(other > value[name] for other in value.values()),
            name,
            *fitted.get(name, (None, None, None)),
            share[name],
            len(points[name]),
        )
        for name in sorted(value, key=lambda name: (-value[name], name))
    )
