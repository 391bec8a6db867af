"""How often a metric prefers the image that people prefer, and which pairs it does not decide."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from titjudge.core.errors import DataError, must_be
from titjudge.core.run_records import PairAgreement, TieAgreement
from titjudge.core.score_parts import bounds_of
from titjudge.core.types import PREFERENCES, Pair, Score
from titjudge.stats.bootstrap import FEW_PROMPTS, Floats, Interval, Ints, codes, group_sums
from titjudge.stats.chance_level import Guessing, guessing, paper_threshold
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import FEW_ANNOTATORS, moments, share_intervals

Values = Mapping[str, float | None]


def values_by_metric(scores: Iterable[Score], negate: Collection[str] = ()) -> dict[str, dict[str, float | None]]:
    """Group scores as metric -> item id -> value, metrics in order of appearance.

    Args:
        scores: Of several scores of one item under one metric the last counts.
        negate: Metrics for which less is better; their values change sign, so that more is better everywhere.
    """
    values: dict[str, dict[str, float | None]] = {}
    for score in scores:
        value = score.value if score.value is not None and math.isfinite(score.value) else None
        values.setdefault(score.metric, {})[score.item_id] = value
    return {name: negated(by_image) if name in negate else by_image for name, by_image in values.items()}


def negated(values: Values) -> dict[str, float | None]:
    """Change the sign of values; None stays None."""
    return {id: None if value is None else -value for id, value in values.items()}


def sign_of(pair: Pair) -> int:
    """Return the preference as a number: 1 for `a`, 0 for a tie, -1 for `b`.

    Raises:
        DataError: It is another text.
    """
    if pair.preference not in PREFERENCES:
        raise DataError(must_be(f"the preference of {pair.a} / {pair.b}", "a, b or tie", pair.preference))
    return PREFERENCES[pair.preference]


@dataclass(frozen=True, slots=True)
class PairIndex:
    """Human pairs as arrays, built once and shared by every metric.

    Attributes:
        ids: Images in order of appearance.
        a, b: Index of the first and second image of each pair in `ids`, shape (pairs,).
        preference: 1 (a), 0 (tie) or -1 (b), shape (pairs,).
        group: Index of the prompt of each pair in `groups`, shape (pairs,).
        groups: Prompt ids.
        units: Index of the unit of each of `groups`, its family or itself, the unit of intervals and tests; shape (prompts,).
        annotator: Index of the only person who made the choice of each pair; None if some are not known.
    """

    ids: tuple[str, ...]
    a: Ints
    b: Ints
    preference: Ints
    group: Ints
    groups: tuple[str, ...]
    units: Ints
    annotator: Ints | None = None

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair]) -> PairIndex:
        """Index pairs.

        Raises:
            DataError: A preference that is not a, b or tie, or an image paired with itself.
        """
        for pair in pairs:
            if pair.a == pair.b:
                raise DataError(f"prompt {pair.prompt_id}: {pair.a} is paired with itself. Give two different images")
        both, ids = codes([pair.a for pair in pairs] + [pair.b for pair in pairs])
        group, groups = codes(pair.prompt_id for pair in pairs)
        sign = np.fromiter(map(sign_of, pairs), dtype=np.int64, count=len(pairs))
        a, b = both[: len(pairs)], both[len(pairs) :]
        family = {pair.prompt_id: pair.unit for pair in pairs}
        units, _ = codes(family[name] for name in groups)
        annotator, people = codes(pair.annotator for pair in pairs)
        return cls(tuple(ids), a, b, sign, group, tuple(groups), units, None if "" in people else annotator)

    def __len__(self) -> int:
        return len(self.a)

    @property
    def unit(self) -> Ints:
        """Index of the unit of each pair, shape (pairs,)."""
        return self.units[self.group]

    @property
    def in_families(self) -> bool:
        """Whether some prompts are of one family, so that families are the unit."""
        return int(self.units.max(initial=-1)) + 1 < len(self.groups)

    @property
    def annotators(self) -> int:
        """Number of annotators who made the choices alone, if they are few (`FEW_ANNOTATORS`); otherwise 0."""
        count = 0 if self.annotator is None else int(self.annotator.max(initial=-1)) + 1
        return count if count < FEW_ANNOTATORS else 0

    def names(self, marked: NDArray[np.bool_]) -> list[str]:
        """List the marked pairs as `image / image`."""
        couples = (sorted((self.ids[self.a[k]], self.ids[self.b[k]])) for k in np.flatnonzero(marked).tolist())
        return sorted(map(" / ".join, couples))

    def sums(self, *columns: Floats) -> Floats:
        """Sum columns of pairs within units: shape (units, columns)."""
        return group_sums(self.unit, int(self.units.max(initial=-1)) + 1, *columns)

    def scores(self, values: Values) -> Floats:
        """Look up the score of each of `ids`, NaN if there is none; scores equal up to rounding are made equal."""
        scores = np.array([values.get(id) for id in self.ids], dtype=np.float64)
        return with_ties(np.where(np.isfinite(scores), scores, np.nan))

    def values(self, values: Values) -> tuple[Floats, Floats]:
        """Look up the scores of `a` and of `b`, each of shape (pairs,)."""
        scores = self.scores(values)
        return scores[self.a], scores[self.b]

    def predictions(self, values: Values) -> Floats:
        """Return 1 if the metric prefers a, -1 for b, 0 for equal scores, NaN for a missing score; shape (pairs,)."""
        a, b = self.values(values)
        predicted = (a > b).astype(np.float64) - (a < b)
        predicted[np.isnan(a) | np.isnan(b)] = np.nan
        return predicted


def pair_index(pairs: Sequence[Pair] | PairIndex) -> PairIndex:
    """Index pairs, unless they are already indexed."""
    return pairs if isinstance(pairs, PairIndex) else PairIndex.from_pairs(pairs)


def pairwise_accuracy(pairs: Sequence[Pair] | PairIndex, values: Values, *, intervals: bool = True) -> PairAgreement:
    """Compute the accuracy of a metric over the pairs with a human preference (TIT paper, section 5.1 and A.2).

    An equal score is wrong (the rule of the paper, implied by its Table 4), and half right in the half-credit accuracy.

    Args:
        pairs: Human pairs; ties of people are left out and counted.
        values: Score by image id, higher is better; None, NaN or absent is missing: the pair is counted, not scored.
        intervals: Whether to compute intervals, thresholds and the p-value.
    """
    index = pair_index(pairs)
    predicted = index.predictions(values)
    decided = index.preference != 0
    scored = decided & ~np.isnan(predicted)
    right = (scored & (predicted == index.preference)).astype(np.float64)
    tied = (scored & (predicted == 0)).astype(np.float64)
    correct, ties, total, decided_pairs = (int(column.sum()) for column in (right, tied, scored, decided))
    (interval, half_credit), reason = (None, None), ""
    if intervals:
        (interval, half_credit), reason = _intervals(index, right, tied, scored.astype(np.float64))
    chance = _guessing(index, right, scored, values) if intervals and total else None
    if not total:
        reason = "no pair with a human preference" if not decided_pairs else "no pair has both scores"
    return PairAgreement(
        accuracy=correct / total if total else None,
        accuracy_interval=interval,
        tie_rate=ties / total if total else None,
        half_credit_accuracy=(correct + ties / 2) / total if total else None,
        half_credit_interval=half_credit,
        pairs=decided_pairs,
        pairs_scored=total,
        pair_coverage=total / decided_pairs if decided_pairs else None,
        human_ties=len(index) - decided_pairs,
        correct=correct,
        wrong=total - correct - ties,
        ties=ties,
        threshold_05=chance.threshold(0.05) if chance else None,
        threshold_001=chance.threshold(0.001) if chance else None,
        p_value=chance.p_value(correct) if chance else None,
        paper_threshold_05=paper_threshold(total, 0.05),
        paper_threshold_001=paper_threshold(total, 0.001),
        reasons={"accuracy": reason} if reason else {},
    )


def _guessing(index: PairIndex, right: Floats, scored: NDArray[np.bool_], values: Values) -> Guessing | None:
    """Compute the distribution of right pairs by chance; of families of prompts a normal one, as wide as they make it.

    None if there is one family, which does not show it.
    """
    from titjudge.stats.special import ndtri, stdtrit

    group, a, b, preference = (column[scored] for column in (index.group, index.a, index.b, index.preference))
    chance = guessing(group, a, b, preference, index.scores(values))
    if not index.in_families:
        return chance
    (families, _, wide, _), (_, _, narrow, _) = (
        moments(*group_sums(unit, len(index.groups), right, scored.astype(np.float64)).T)[0]
        for unit in (index.unit, index.group)
    )
    if families < 2:
        return None
    times = max(1.0, wide / narrow if narrow else 1.0) * float(stdtrit(families - 1, 0.95) / ndtri(0.95))
    return replace(chance, tail=None, deviation=chance.deviation * times)


def _intervals(index: PairIndex, right: Floats, tied: Floats, scored: Floats) -> tuple[list[Interval | None], str]:
    """Compute the intervals of the accuracy and of the half-credit accuracy, and return why they are missing."""
    if not len(index):
        return [None, None], FEW_PROMPTS
    columns = right, right + tied / 2, scored
    sums, people = index.sums(*columns), None
    if index.annotators and index.annotator is not None:
        by_person = group_sums(index.annotator, index.annotators, *columns)
        people = by_person[:, :2], by_person[:, [2, 2]]
    intervals = share_intervals(sums[:, :2], sums[:, [2, 2]], people)
    return intervals, FEW_PROMPTS if intervals[0] is None else ""


def tie_optimised_accuracy(pairs: Sequence[Pair] | PairIndex, values: Values) -> TieAgreement:
    """Compute pairwise accuracy with an optimised tie threshold (Deutsch, Foster and Freitag 2023, "Ties Matter").

    Score differences up to the threshold (`tie_epsilon`) are read as ties. The accuracy is over all scored pairs, human ties
    included: correct means the same one of a / b / tie. The threshold is chosen on the same pairs (the smallest of the best),
    so the number is optimistic, but comparable between metrics.
    All thresholds that make a difference, 0 and each observed gap, are evaluated after one sort (n log n).
    """
    index = pair_index(pairs)
    a, b = index.values(values)
    scored = ~(np.isnan(a) | np.isnan(b))
    total = int(scored.sum())
    if not total:
        reason = "no pair has both scores"
        return TieAgreement(tie_optimised_accuracy=None, tie_epsilon=None, reasons={"tie_optimised_accuracy": reason})
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
    return TieAgreement(tie_optimised_accuracy=int(right[best]) / total, tie_epsilon=float(candidates[best]))


@dataclass(frozen=True, slots=True)
class Undecided:
    """How many pairs a metric does not decide, of the scored ones.

    Attributes:
        undecided: Pairs whose bounds overlap.
        scored: Pairs with two scores.
    """

    undecided: int
    scored: int


def undecided(pairs: Sequence[Pair], scores: Iterable[Score]) -> dict[str, Undecided]:
    """Count for each metric the pairs that it does not decide; metrics whose scores have no bounds are left out.

    The bounds of a score are `lower` and `upper` of its parts: the lowest and highest value that open claims, or tokens
    that a provider did not list, could give it. A score without them has no width.
    """
    bounds: dict[str, dict[str, tuple[float, float]]] = {}
    open_in = set()
    for score in scores:
        if score.value is None:
            continue
        of_metric = bounds.setdefault(score.metric, {})
        stated = bounds_of(score.parts)
        of_metric[score.item_id] = stated or (score.value, score.value)
        if stated:
            open_in.add(score.metric)
    return {metric: _count(pairs, bounds[metric]) for metric in bounds if metric in open_in}


def _count(pairs: Sequence[Pair], bounds: dict[str, tuple[float, float]]) -> Undecided:
    both = [(bounds[pair.a], bounds[pair.b]) for pair in pairs if pair.a in bounds and pair.b in bounds]
    overlap = sum(a != b and a[0] < b[1] and b[0] < a[1] for a, b in both)
    return Undecided(overlap, len(both))
