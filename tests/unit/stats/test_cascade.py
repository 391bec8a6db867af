from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from titjudge.core.errors import ConfigError
from titjudge.core.types import Pair
from titjudge.stats.pairwise_accuracy import PairIndex
from titjudge.stats.ppi.cascade import apply, recommend
from titjudge.stats.ppi.cascade_rules import CascadeOutcome, CascadeRule

PRICES = {"local": 0.0, "small": 0.001, "large": 0.02}
Judges = dict[str, dict[str, float | None]]


def synthetic(seed: int, prompts: int, each: int = 3) -> tuple[list[Pair], Judges]:
    """Judges see the true difference through noise of 1.5, 1 and 0.3 (accuracies of about 69%, 75% and 91%)."""
    rng = np.random.default_rng(seed)
    pairs: list[Pair] = []
    values: Judges = {name: {} for name in PRICES}
    for p, k in product(range(prompts), range(each)):
        a, b = f"{p}/{k}/a", f"{p}/{k}/b"
        truth = rng.normal()
        pairs.append(Pair(str(p), a, b, "a" if truth > 0 else "b"))
        for name, noise in zip(PRICES, (1.5, 1.0, 0.3), strict=True):
            values[name] |= {a: round(float(truth + noise * rng.normal()), 3), b: 0.0}
    return pairs, values


def brute(pairs: list[Pair], values: Judges, longest: int) -> list[tuple[float, float]]:
    """(price, accuracy) of every rule there is, one at a time."""
    found = []
    for length in range(1, longest + 1):
        for chain in permutations(values, length):
            margins = [sorted({abs(values[n][p.a] - values[n][p.b]) for p in pairs} | {1e9}) for n in chain[:-1]]  # type: ignore[operator]
            for thresholds in product(*margins):
                right = cost = 0.0
                for pair in pairs:
                    for k, name in enumerate(chain):
                        cost += PRICES[name]
                        gap = values[name][pair.a] - values[name][pair.b]  # type: ignore[operator]
                        if k == len(chain) - 1 or abs(gap) >= thresholds[k]:
                            right += (gap > 0) == (pair.preference == "a") and gap != 0
                            break
                found.append((cost / len(pairs), right / len(pairs)))
    return found


def beaten(outcome: CascadeOutcome, others: list[tuple[float, float]]) -> bool:
    price, accuracy = outcome.price, outcome.accuracy
    return any(
        p <= price + 1e-12 and a >= accuracy - 1e-12 and (p < price - 1e-12 or a > accuracy + 1e-12) for p, a in others
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [{}, {"max_price": 0.008}, {"tolerance": 0.08}])
def test_the_recommendation_lies_on_the_brute_forced_frontier(seed: int, options: dict[str, float]) -> None:
    pairs, values = synthetic(seed, 15)
    found = recommend(pairs, values, PRICES, folds=3, **options)  # type: ignore[arg-type]
    everything = brute(pairs, values, 2)
    assert not beaten(found.outcome, everything)
    assert not any(beaten(each, everything) for each in found.frontier)
    undominated = {
        (round(p, 9), round(a, 9))
        for p, a in everything
        if not beaten(CascadeOutcome(CascadeRule(("x",)), a, p, ()), everything)
    }
    assert {(round(each.price, 9), round(each.accuracy, 9)) for each in found.frontier} == undominated


def test_a_cascade_does_the_work_of_the_large_judge_for_less_and_holds_on_new_pairs() -> None:
    pairs, values = synthetic(0, 400)
    found = recommend(pairs, values, PRICES, tolerance=0.02)
    assert found.best_single.rule.judges == ("large",)
    assert found.outcome.price < 0.9 * PRICES["large"]
    assert found.outcome.rule.judges[-1] == "large"
    assert found.accuracy is not None
    assert found.accuracy == pytest.approx(found.outcome.accuracy, abs=0.02)
    new_pairs, new_values = synthetic(1, 1000)
    fresh = apply(found.outcome.rule, new_pairs, new_values, PRICES)
    assert fresh.accuracy == pytest.approx(found.accuracy, abs=0.035)
    assert fresh.price == pytest.approx(found.outcome.price, rel=0.1)


def test_what_two_judges_share_is_paid_once() -> None:
    pairs, values = synthetic(0, 100)
    prices = {"small": 0.01, "large": 0.02}
    own = {name: values[name] for name in prices}
    shared = recommend(pairs, own, prices, together={frozenset(prices): 0.021}, tolerance=0.02)
    apart = recommend(pairs, own, prices, tolerance=0.02)
    assert shared.outcome.rule.judges == apart.outcome.rule.judges == ("small", "large")
    rule = shared.outcome
    assert rule.price == pytest.approx(0.01 + 0.011 * rule.asked[1])
    assert apart.outcome.price == pytest.approx(0.01 + 0.02 * apart.outcome.asked[1])
    assert rule.price < apart.outcome.price


def test_the_frontier_has_intervals_and_its_table_stays_short() -> None:
    pairs, values = synthetic(0, 100)
    found = recommend(pairs, values, PRICES)
    assert len(found.frontier) > 12
    for each in found.frontier:
        assert each.interval is not None
        assert each.interval[0] <= each.accuracy <= each.interval[1]
    table = found.frontier_table()
    assert len(table.rows) <= 13
    assert [row[-1] for row in table.rows].count("recommended") == 1
    prices = [row[3] for row in table.rows]
    assert prices == sorted(prices)
    assert "rules are shown" in table.notes[-1]


def test_three_judges_are_no_worse_than_two() -> None:
    pairs, values = synthetic(3, 60)
    two, three = (recommend(pairs, values, PRICES, max_price=0.01, longest=n) for n in (2, 3))
    assert three.outcome.accuracy >= two.outcome.accuracy
    assert not any(beaten(each, [(o.price, o.accuracy) for o in three.frontier]) for each in three.frontier)


def test_judges_that_guess_look_good_on_the_pairs_that_chose_them_and_not_across_folds() -> None:
    rng = np.random.default_rng(0)
    pairs, values = synthetic(0, 40, 1)
    noise: Judges = {name: {image: float(rng.normal()) for image in values["local"]} for name in PRICES}
    found = recommend(pairs, noise, PRICES, max_price=1.0)
    assert found.outcome.accuracy > 0.6
    assert found.accuracy is not None
    assert found.accuracy < found.outcome.accuracy - 0.05
    assert any("flatters" in warning for warning in found.warnings)
    assert found.interval is not None


def test_no_answer_is_passed_on_and_is_never_right() -> None:
    pairs = [Pair("p", "a", "b", "a"), Pair("q", "c", "d", "b")]
    values: Judges = {
        "local": {"a": None, "b": 1.0, "c": 0.0, "d": 5.0},
        "large": {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0},
    }
    rule = CascadeRule(("local", "large"), (0.0,))
    found = apply(rule, pairs, values, PRICES)
    assert found.accuracy == 1.0
    assert found.price == pytest.approx(0.01)
    assert found.asked == (1.0, 0.5)
    assert apply(CascadeRule(("local",)), pairs, values, PRICES).accuracy == 0.5
    assert apply(CascadeRule(("large",)), pairs, values, PRICES).accuracy == 0.5  # its tie is not right
    assert str(rule) == "local if its margin is at least 0, else large"


def test_what_a_person_can_mend_is_said() -> None:
    pairs, values = synthetic(0, 5)
    with pytest.raises(ConfigError, match="price of small"):
        recommend(pairs, values, {"local": 0.0, "large": 1.0})
    with pytest.raises(ConfigError, match="none was given"):
        recommend(pairs, {}, PRICES)
    with pytest.raises(ConfigError, match="human preference"):
        recommend([Pair("p", "a", "b", "tie")], values, PRICES)
    with pytest.raises(ConfigError, match="cheapest costs"):
        recommend(pairs, {"large": values["large"]}, PRICES, max_price=0.001)
    with pytest.raises(ConfigError, match="no scores"):
        apply(CascadeRule(("medium",)), pairs, values, PRICES)


def test_one_prompt_cannot_be_held_out_and_the_table_says_what_to_believe() -> None:
    pairs, values = synthetic(0, 1, 12)
    found = recommend(PairIndex.from_pairs(pairs), values, PRICES)
    assert found.accuracy is None
    assert any("one prompt" in warning for warning in found.warnings)
    assert found.table().rows[0][1] is None
    assert found.to_json()["pairs"] == 12
