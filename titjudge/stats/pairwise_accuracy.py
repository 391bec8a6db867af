"""How often a metric prefers the image that people prefer."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titjudge.core.errors import DataError
from titjudge.core.types import Pair, Score
from titjudge.stats.bootstrap import FEW_PROMPTS, Floats, Interval, Ints, codes, group_sums
from titjudge.stats.chance_level import Guessing, guessing, paper_threshold
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import share_intervals

Values = Mapping[str, float | None]
_SIGN = {"a": 1, "tie": 0, "b": -1}


def values_by_metric(scores: Iterable[Score], negate: Collection[str] = ()) -> dict[str, dict[str, float | None]]:
    """Sort scores into metric -> item id -> value, metrics in order of appearance.

    Args:
        scores: Of several scores of one item under one metric the last counts.
        negate: Metrics where less is better; their values change sign, so that more is better everywhere.
    """
    found: dict[str, dict[str, float | None]] = {}
    for score in scores:
        value = score.value if score.value is not None and math.isfinite(score.value) else None
        flipped = value is not None and score.metric in negate
        found.setdefault(score.metric, {})[score.item_id] = -value if flipped and value is not None else value
    return found


@dataclass(frozen=True, slots=True)
class PairIndex:
    """Human pairs as columns, built once and shared by every metric.

    `ids` are the images in order of appearance; `a`, `b` index them, `preference` is 1 (a), 0 (tie) or -1 (b),
    `group` indexes `groups`; all four columns have shape (pairs,).
    """

    ids: tuple[str, ...]
    a: Ints
    b: Ints
    preference: Ints
    group: Ints
    groups: tuple[str, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> PairIndex:
        """Index pairs.

        Raises:
            DataError: A preference that is not a, b or tie, or an image paired with itself.
        """
        for pair in pairs:
            if pair.preference not in _SIGN:
                raise DataError(f"pair {pair.a} / {pair.b}: preference '{pair.preference}' is not 'a', 'b' or 'tie'")
            if pair.a == pair.b:
                raise DataError(f"prompt {pair.prompt_id}: {pair.a} is paired with itself")
        both, ids = codes([pair.a for pair in pairs] + [pair.b for pair in pairs])
        group, groups = codes(pair.prompt_id for pair in pairs)
        sign = np.fromiter((_SIGN[pair.preference] for pair in pairs), dtype=np.int64, count=len(pairs))
        a, b = both[: len(pairs)], both[len(pairs) :]
        return cls(tuple(ids), a, b, sign, group, tuple(groups))

    def __len__(self) -> int:
        return len(self.a)

    def scores(self, values: Values) -> Floats:
        """Look up the score of each of `ids`, NaN where there is none; equal scores are exactly equal."""
        return with_ties(
            np.fromiter((_float(values.get(id)) for id in self.ids), dtype=np.float64, count=len(self.ids))
        )

    def values(self, values: Values) -> tuple[Floats, Floats]:
        """Look up the scores of `a` and of `b`, each of shape (pairs,)."""
        each = self.scores(values)
        return each[self.a], each[self.b]

    def predictions(self, values: Values) -> Floats:
        """1 where the metric prefers a, -1 for b, 0 for equal scores, NaN where a score is missing; shape (pairs,)."""
        a, b = self.values(values)
        predicted = (a > b).astype(np.float64) - (a < b)
        predicted[np.isnan(a) | np.isnan(b)] = np.nan
        return predicted


def _float(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else np.nan


def pair_index(pairs: Sequence[Pair] | PairIndex) -> PairIndex:
    """`pairs` as columns, unless they are already."""
    return pairs if isinstance(pairs, PairIndex) else PairIndex.of(pairs)


@dataclass(frozen=True, slots=True)
class PairwiseAccuracy:
    """Agreement on the pairs where people have a preference.

    `accuracy` counts an equal score as wrong (the rule of the TIT paper, implied by its Table 4);
    `half_credit_accuracy` counts it as half right. Both are over `pairs_scored`; pairs that lost a score are in
    `pairs` only. Rates are fractions of 1, intervals 95%, with the prompt as the unit. `threshold_05` / `threshold_001` are
    the fewest correct pairs that guessing reaches with probability below .05 / .001, and `p_value` is that of `correct`:
    one-sided, for this metric's scores exchanged within prompts (see `guessing`). `paper_threshold_05` / `_001` are the
    TIT paper's (A.2), for independent pairs, which pairs of one prompt are not.
    """

    pairs: int
    pairs_scored: int
    human_ties: int
    prompts: int
    correct: int
    wrong: int
    ties: int
    accuracy: float | None
    accuracy_interval: Interval | None
    half_credit_accuracy: float | None
    half_credit_interval: Interval | None
    tie_rate: float | None
    pair_coverage: float | None
    threshold_05: int | None
    threshold_001: int | None
    p_value: float | None
    paper_threshold_05: int | None
    paper_threshold_001: int | None
    reason: str = ""


def pairwise_accuracy(
    pairs: Sequence[Pair] | PairIndex, values: Values, *, intervals: bool = True, seed: int = 0
) -> PairwiseAccuracy:
    """Compute the accuracy of a metric over the pairs with a human preference (TIT paper, section 5.1 and A.2).

    Args:
        pairs: Human pairs; ties of people are left out and counted.
        values: Score by image id, higher is better; None, NaN or absent is missing: the pair is counted, not scored.
        intervals: Whether to add intervals and what guessing would reach.
        seed: Of what is drawn to find out what guessing would reach.
    """
    index = pair_index(pairs)
    predicted = index.predictions(values)
    decided = index.preference != 0
    scored = decided & ~np.isnan(predicted)
    right = (scored & (predicted == index.preference)).astype(np.float64)
    tied = (scored & (predicted == 0)).astype(np.float64)
    correct, ties, total, asked = (int(column.sum()) for column in (right, tied, scored, decided))
    both, reason = _intervals(index, right, tied, scored.astype(np.float64)) if intervals else ([None, None], "")
    chance = _guessing(index, values, scored, seed) if intervals and total else None
    if not total:
        reason = "no pair with a human preference" if not asked else "no pair has both scores"
    return PairwiseAccuracy(
        pairs=asked,
        pairs_scored=total,
        human_ties=len(index) - asked,
        prompts=len(np.unique(index.group[scored])),
        correct=correct,
        wrong=total - correct - ties,
        ties=ties,
        accuracy=correct / total if total else None,
        accuracy_interval=both[0],
        half_credit_accuracy=(correct + ties / 2) / total if total else None,
        half_credit_interval=both[1],
        tie_rate=ties / total if total else None,
        pair_coverage=total / asked if asked else None,
        threshold_05=chance.threshold(0.05) if chance else None,
        threshold_001=chance.threshold(0.001) if chance else None,
        p_value=chance.p_value(correct) if chance else None,
        paper_threshold_05=paper_threshold(total, 0.05),
        paper_threshold_001=paper_threshold(total, 0.001),
        reason=reason,
    )


def _intervals(index: PairIndex, right: Floats, tied: Floats, scored: Floats) -> tuple[list[Interval | None], str]:
    if not len(index):
        return [None, None], FEW_PROMPTS
    sums = group_sums(index.group, len(index.groups), right, right + tied / 2, scored)
    found = share_intervals(sums[:, :2], sums[:, [2, 2]])
    return found, FEW_PROMPTS if found[0] is None else ""


def _guessing(index: PairIndex, values: Values, scored: NDArray[np.bool_], seed: int) -> Guessing:
    each = index.scores(values)
    return guessing(index.group[scored], index.a[scored], index.b[scored], index.preference[scored], each, seed)


@dataclass(frozen=True, slots=True)
class TieOptimised:
    """The best that a metric reaches when score gaps up to `epsilon` are read as ties.

    `accuracy` is over all scored pairs, human ties included: right means the same one of a / b / tie. `epsilon` is
    chosen on these very pairs (the smallest of the best), so the number is optimistic, and comparable between metrics.
    """

    accuracy: float | None
    epsilon: float | None
    pairs_scored: int
    reason: str = ""


def tie_optimised_accuracy(pairs: Sequence[Pair] | PairIndex, values: Values) -> TieOptimised:
    """Pairwise accuracy with an optimised tie threshold (Deutsch, Foster and Freitag 2023, "Ties Matter").

    Every threshold that can matter is tried at once: 0 and each observed gap, after one sort (n log n).
    """
    index = pair_index(pairs)
    a, b = index.values(values)
    scored = ~(np.isnan(a) | np.isnan(b))
    total = int(scored.sum())
    if not total:
        return TieOptimised(None, None, 0, "no pair has both scores")
    with np.errstate(over="ignore"):
        gap = with_ties(np.abs(a - b)[scored])
    order = np.argsort(gap, kind="stable")
    gap = gap[order]
    human = index.preference[scored][order]
    agree = (np.sign((a > b).astype(int) - (a < b))[scored][order] == human) & (human != 0)
    ties_within = np.concatenate(([0], np.cumsum(human == 0)))
    agree_beyond = np.concatenate(([0], np.cumsum(agree)))
    candidates = np.unique(np.concatenate(([0.0], gap)))
    within = np.searchsorted(gap, candidates, side="right")
    right = ties_within[within] + agree_beyond[-1] - agree_beyond[within]
    best = int(np.argmax(right))
    return TieOptimised(int(right[best]) / total, float(candidates[best]), total)
