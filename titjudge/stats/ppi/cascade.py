"""Judge cascades: ask a cheap judge first, and a further one only where the one before is unsure.

A rule is a chain of judges. Each compares the two images of a pair; a judge whose margin (the absolute difference of its
two scores, in its own unit) is below its threshold, or that has no answer, passes the pair on to the next; the last one
decides. A pair costs the price of every judge that was asked; what several of them share (a description) is paid once. A
tie, or no answer, of the last judge is wrong.

Thresholds are chosen on the same pairs as their accuracy is measured on, which is optimistic: the accuracy to report is the
cross-validated one, over folds of prompts, in which rule and thresholds are chosen without the held-out prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from titjudge.core.errors import ConfigError
from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, group_sums
from titjudge.stats.equality import reaches, with_ties
from titjudge.stats.intervals import choice_interval, share_intervals
from titjudge.stats.pairwise_accuracy import PairIndex, Values, pair_index, pairwise_accuracy
from titjudge.stats.people.agreement import GUESSING
from titjudge.stats.ppi.cascade_rules import CascadeOutcome, CascadeRule, Recommendation

GRID = 17  # thresholds tried for the first of three judges; for the last but one, all that make a difference are
FOLDS = 5
TOLERANCE = 0.01
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Table:
    """Judges on the pairs with a human preference.

    Attributes:
        price: USD a pair, shape (judges,).
        right: Whether each judge agrees with people, shape (judges, pairs).
        margin: Absolute difference of its two scores, -1 for no answer; same shape.
        together: USD a pair of several judges that share answers.
    """

    names: tuple[str, ...]
    price: Floats
    right: Mask
    margin: Floats
    together: Mapping[frozenset[str], float] = field(default_factory=dict)

    def only(self, keep: Mask) -> _Table:
        return replace(self, right=self.right[:, keep], margin=self.margin[:, keep])

    def chain(self, rule: CascadeRule) -> tuple[int, ...]:
        return tuple(self.names.index(name) for name in rule.judges)

    def steps(self, chain: tuple[int, ...]) -> list[float]:
        """USD a pair that each judge of a chain adds to those before it."""
        return [after - before for before, after in pairwise(self._total(chain[:k]) for k in range(len(chain) + 1))]

    def _total(self, judges: tuple[int, ...]) -> float:
        shared = self.together.get(frozenset(self.names[k] for k in judges)) if len(judges) > 1 else None
        return float(self.price[list(judges)].sum()) if shared is None else shared


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Rules of one chain: `thresholds` (rules, judges - 1), correct pairs `right` and total `cost`, both (rules,)."""

    chain: tuple[int, ...]
    thresholds: Floats
    right: Floats
    cost: Floats


def apply(
    rule: CascadeRule, index: PairIndex | Sequence[Pair], values: Mapping[str, Values], prices: Mapping[str, float]
) -> CascadeOutcome:
    """Evaluate a rule on human pairs.

    Args:
        rule: Judges in order, and the thresholds between them.
        index: Human pairs.
        values: Judge -> score by image id, higher is better.
        prices: Judge -> USD a pair.

    Raises:
        ConfigError: A judge of the rule has no values or no price, or there is no pair with a human preference.
    """
    table, _ = _read(pair_index(index), {name: values.get(name) for name in rule.judges}, prices)
    outcome, _ = _run(table, tuple(range(len(rule.judges))), rule.thresholds)
    return outcome


def guessing_judges(index: PairIndex | Sequence[Pair], values: Mapping[str, Values]) -> dict[str, float]:
    """Return the judges that agree with people no more often than guessing, with their p-values, as a run reports them."""
    pairs = pair_index(index)
    p_values = {name: pairwise_accuracy(pairs, scores).p_value for name, scores in values.items()}
    return {name: p for name, p in p_values.items() if p is not None and p >= GUESSING}


def recommend(
    index: PairIndex | Sequence[Pair],
    values: Mapping[str, Values],
    prices: Mapping[str, float],
    *,
    max_price: float | None = None,
    together: Mapping[frozenset[str], float] | None = None,
    tolerance: float = TOLERANCE,
    longest: int = 2,
    folds: int = FOLDS,
    seed: int = 0,
) -> Recommendation:
    """Find the cheapest rule that is nearly as accurate as the best single judge, or the most accurate one within a price.

    Args:
        index: Human pairs.
        values: Judge -> score by image id, higher is better; None or absent is no answer.
        prices: Judge -> USD a pair (two images); 0 for a local one.
        max_price: USD a pair; with it the most accurate rule that costs no more is recommended.
        together: USD a pair of several judges that share answers; for other combinations prices add up.
        tolerance: How much less accurate than the best single judge a rule may be, in [0, 1].
        longest: Largest number of judges in a chain, 1 to 3.
        folds: Folds of prompts for cross-validation.
        seed: Of the assignment of prompts to folds.

    Raises:
        ConfigError: No judges, no price for one, nothing within `max_price`, or no pair with a human preference.
    """
    if not 1 <= longest <= 3:
        raise ConfigError(f"a cascade has 1 to 3 judges, not {longest}")
    pairs = pair_index(index)
    table, group = _read(pairs, dict(values), prices)
    table = replace(table, together=together or {})
    rules = _frontier(table, longest)
    single = [_run(table, (k,), ())[0] for k in range(len(table.names))]
    outcomes = _with_intervals(table, group, [*rules, *single])
    rules, singles = outcomes[: len(rules)], tuple(outcomes[len(rules) :])
    chosen = _choose(table, rules, max_price, tolerance)
    best = max(singles, key=lambda outcome: (outcome.accuracy, -outcome.price))
    right, cost, every, warnings = _cross_validate(table, group, longest, max_price, tolerance, folds, seed)
    prompts = len(np.unique(group))
    accuracy, interval, price = None, None, None
    if right is not None and cost is not None:
        accuracy, price = float(right.mean()), float(cost.mean())
        named, *others = (_right(table, rule) for rule in (chosen.rule, *every))
        prompt = np.unique(group, return_inverse=True)[1]
        interval = choice_interval(prompt, right, named, others, np.ones(len(group)))
        if chosen.accuracy - accuracy > 0.02:
            warnings.append(
                f"the choice flatters itself by {100 * (chosen.accuracy - accuracy):.1f} points on the pairs that chose it"
            )
    return Recommendation(
        chosen, accuracy, interval, price, singles, best, tuple(rules), len(group), prompts, tuple(warnings)
    )


def _with_intervals(
    table: _Table, group: NDArray[np.int64], outcomes: Sequence[CascadeOutcome]
) -> list[CascadeOutcome]:
    """Add to each outcome the interval of its accuracy over prompts."""
    prompt = np.unique(group, return_inverse=True)[1]
    right = [_right(table, outcome.rule) for outcome in outcomes]
    sums = group_sums(prompt, int(prompt.max()) + 1, *right, np.ones(len(group)))
    intervals = share_intervals(sums[:, :-1], np.repeat(sums[:, -1:], len(outcomes), axis=1))
    return [replace(outcome, interval=interval) for outcome, interval in zip(outcomes, intervals, strict=True)]


def _read(
    index: PairIndex, values: Mapping[str, Values | None], prices: Mapping[str, float]
) -> tuple[_Table, NDArray[np.int64]]:
    """Arrange the judges' scores of the pairs with a human preference; also return the prompt of each of these pairs."""
    if not values:
        raise ConfigError("a cascade needs judges: none was given")
    for name, scores in values.items():
        if scores is None:
            raise ConfigError(f"there are no scores of the judge {name}")
        if name not in prices:
            raise ConfigError(f"the price of {name} is unknown: give it (0 for a local judge)")
    keep = index.preference != 0
    if not keep.any():
        raise ConfigError("there is no pair with a human preference")
    right, margin = [], []
    for scores in values.values():
        a, b = index.values(scores or {})
        gap = (a - b)[keep]
        right.append(np.sign(np.nan_to_num(gap)) == index.preference[keep])
        margin.append(with_ties(np.where(np.isnan(gap), -1.0, np.abs(gap))))
    price = np.array([float(prices[name]) for name in values])
    return _Table(tuple(values), price, np.array(right), np.array(margin)), index.group[keep]


def _run(
    table: _Table, chain: tuple[int, ...], thresholds: Sequence[float]
) -> tuple[CascadeOutcome, tuple[Mask, Floats]]:
    """Evaluate a rule: its outcome, and whether each pair is right and what it costs."""
    size = table.right.shape[1]
    open_, right, cost, shares_asked = np.ones(size, bool), np.zeros(size, bool), np.zeros(size), []
    prices = table.steps(chain)
    for step, judge in enumerate(chain):
        shares_asked.append(float(open_.mean()))
        cost[open_] += prices[step]
        decides = open_ & reaches(table.margin[judge], thresholds[step]) if step < len(thresholds) else open_.copy()
        right[decides] = table.right[judge][decides]
        open_ &= ~decides
    rule = CascadeRule(tuple(table.names[k] for k in chain), tuple(float(t) for t in thresholds))
    return CascadeOutcome(rule, float(right.mean()), float(cost.mean()), tuple(shares_asked)), (right, cost)


def _right(table: _Table, rule: CascadeRule) -> Floats:
    """Return 1 for each pair that a rule gets right, else 0; shape (pairs,)."""
    return _run(table, table.chain(rule), rule.thresholds)[1][0].astype(np.float64)


def _candidates(table: _Table, longest: int) -> Iterator[_Candidates]:
    """Yield the rules of every chain of up to `longest` judges."""
    size = table.right.shape[1]
    for k, price in enumerate(table.price):
        yield _Candidates((k,), np.zeros((1, 0)), np.array([float(table.right[k].sum())]), np.array([price * size]))
    if longest > 1:
        for chain in permutations(range(len(table.names)), 2):
            thresholds, right, cost = _two(table, *chain, table.steps(chain))
            yield _Candidates(chain, thresholds[:, None], right, cost)
    if longest > 2:
        for three in permutations(range(len(table.names)), 3):
            yield from _three(table, three)


def _two(table: _Table, first: int, second: int, prices: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Evaluate every threshold of `first` that makes a difference: (threshold, correct pairs, total cost), each (thresholds,).

    `prices` are those of the first judge, and what the second adds to it.
    """
    margin = table.margin[first]
    order = np.argsort(-margin, kind="stable")
    decided_right = np.concatenate(([0], np.cumsum(table.right[first][order])))
    passed = np.concatenate((np.cumsum(table.right[second][order][::-1])[::-1], [0]))
    levels = np.unique(margin[margin >= 0])
    levels = np.append(levels, np.nextafter(levels[-1], np.inf) if len(levels) else 0.0)
    decided = np.searchsorted(-margin[order], -levels, side="right")
    cost: Floats = prices[0] * len(margin) + prices[1] * (len(margin) - decided).astype(np.float64)
    return levels, (decided_right[decided] + passed[decided]).astype(float), cost


def _three(table: _Table, chain: tuple[int, int, int]) -> Iterator[_Candidates]:
    """Yield the rules of a chain of three: for each threshold of the first judge, every one of the second."""
    margin = table.margin[chain[0]]
    answered = margin[margin >= 0]
    prices = table.steps(chain)
    for level in np.unique(np.quantile(answered, np.linspace(0, 1, GRID))) if len(answered) else ():
        decides = margin >= level
        rest = table.only(~decides)
        if not rest.right.shape[1]:
            continue
        thresholds, right, cost = _two(rest, chain[1], chain[2], prices[1:])
        both = np.column_stack([np.full(len(thresholds), level), thresholds])
        decided_right = table.right[chain[0]][decides].sum()
        yield _Candidates(chain, both, right + decided_right, cost + prices[0] * len(margin))


def _frontier(table: _Table, longest: int) -> list[CascadeOutcome]:
    """Find the Pareto frontier of accuracy and price, cheapest first; of equal rules the one with the shortest chain."""
    best: list[tuple[float, float, int, tuple[int, ...], Floats]] = []
    for candidates in _candidates(table, longest):
        chain = candidates.chain
        for k in _undominated(candidates.cost, candidates.right):
            cost, right = float(candidates.cost[k]), float(candidates.right[k])
            best.append((cost, -right, len(chain), chain, candidates.thresholds[k]))
    best.sort(key=lambda candidate: candidate[:4])
    rules, top = [], -1.0
    for _, wrong, _, chain, thresholds in best:
        if -wrong > top:
            top = -wrong
            rules.append(_run(table, chain, thresholds.tolist())[0])
    return rules


def _undominated(cost: Floats, right: Floats) -> list[int]:
    order = np.lexsort((-right, cost))
    top = np.maximum.accumulate(np.concatenate(([-np.inf], right[order][:-1])))
    return [int(k) for k in order[right[order] > top]]


def _choose(
    table: _Table, rules: Sequence[CascadeOutcome], max_price: float | None, tolerance: float
) -> CascadeOutcome:
    """Choose a rule of the frontier, as `recommend` says."""
    if max_price is not None:
        within = [rule for rule in rules if rule.price <= max_price + 1e-12]
        if not within:
            raise ConfigError(f"no judge costs {max_price} USD a pair or less; the cheapest costs {rules[0].price:g}")
        return within[-1]
    enough = float(table.right.mean(axis=1).max()) - tolerance
    return next(rule for rule in rules if rule.accuracy >= enough - 1e-12)


def _cross_validate(
    table: _Table,
    group: NDArray[np.int64],
    longest: int,
    max_price: float | None,
    tolerance: float,
    folds: int,
    seed: int,
) -> tuple[Floats | None, Floats | None, list[CascadeRule], list[str]]:
    """Evaluate on each pair a rule chosen without its prompt.

    Returns: whether it is right, and its cost, both (pairs,); the rules of the folds; and warnings.
    """
    prompts = np.unique(group)
    if len(prompts) < 2:
        return None, None, [], ["all pairs are of one prompt: nothing to hold out, the accuracy is flattered"]
    fold_of = np.random.default_rng(seed).permutation(len(prompts)) % min(folds, len(prompts))
    fold = fold_of[np.searchsorted(prompts, group)]
    right, cost, rules = np.zeros(len(group)), np.zeros(len(group)), list[CascadeRule]()
    for k in range(fold.max() + 1):
        out = fold == k
        training = table.only(~out)
        try:
            rule = _choose(training, _frontier(training, longest), max_price, tolerance).rule
        except ConfigError:
            return None, None, [], ["in some fold no rule is cheap enough: no accuracy across folds"]
        rules.append(rule)
        _, (right[out], cost[out]) = _run(table.only(out), table.chain(rule), rule.thresholds)
    few = [f"only {len(prompts)} prompts: the choice is little tested"] if len(prompts) < 30 else []
    return right, cost, rules, few
