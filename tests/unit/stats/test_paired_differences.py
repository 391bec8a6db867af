"""Paired differences between metrics and between runs."""

import json

import numpy as np
import pytest
from scipy import stats

from titjudge.core.serialization import fields_of
from titjudge.core.types import Item, Pair, Score
from titjudge.stats.generators.paired_differences import (
    below_the_best,
    common_accuracy,
    differences_table,
    mean_differences,
    paired_differences,
    run_differences,
)
from titjudge.stats.pairwise_accuracy import PairIndex

Values = dict[str, float | None]


def simulated(prompts: int, accuracy: dict[str, float], seed: int) -> tuple[list[Pair], dict[str, Values]]:
    """Ten pairs a prompt; each metric is right on a pair with its own probability."""
    rng = np.random.default_rng(seed)
    pairs: list[Pair] = []
    values: dict[str, Values] = {name: {} for name in accuracy}
    for p in range(prompts):
        for k in range(10):
            pairs.append(Pair(f"p{p}", f"a{p}-{k}", f"b{p}-{k}", "a"))
            for name, chance in accuracy.items():
                values[name] |= {f"a{p}-{k}": float(rng.random() < chance), f"b{p}-{k}": 0.5}
    return pairs, values


def test_the_difference_counts_what_only_one_gets_right() -> None:
    pairs, values = simulated(30, {"good": 0.8, "poor": 0.6}, seed=1)
    right = {n: np.array([float(v[p.a] or 0) > 0.5 for p in pairs]) for n, v in values.items()}
    only_good = int((right["good"] & ~right["poor"]).sum())
    only_poor = int((right["poor"] & ~right["good"]).sum())
    (found,) = paired_differences(pairs, values)
    assert (found.first, found.second, found.n, found.prompts) == ("good", "poor", 300, 30)
    assert (found.only_first, found.only_second) == (only_good, only_poor)
    assert found.difference == pytest.approx((only_good - only_poor) / 300)
    assert found.mcnemar_p == pytest.approx(stats.binomtest(only_good, only_good + only_poor).pvalue)
    assert found.interval is not None
    assert 0 < found.interval[0] < found.difference < found.interval[1]
    assert found.p_value is not None
    assert found.p_value < 0.01


def test_equal_metrics_do_not_differ() -> None:
    pairs, values = simulated(8, {"one": 0.7}, seed=2)
    (found,) = paired_differences(pairs, {"one": values["one"], "same": values["one"]})
    assert (found.difference, found.p_value, found.mcnemar_p) == (0.0, 1.0, None)
    assert found.interval == pytest.approx((-(1 - 0.025 ** (1 / found.prompts)), 1 - 0.025 ** (1 / found.prompts)))


def test_few_prompts_give_the_exact_permutation_p() -> None:
    pairs = [Pair(f"p{k}", f"a{k}", f"b{k}", "a") for k in range(4)]
    good: Values = {f"{s}{k}": float(s == "a") for s in "ab" for k in range(4)}
    bad: Values = {f"{s}{k}": float(s == "b") for s in "ab" for k in range(4)}
    (found,) = paired_differences(pairs, {"good": good, "bad": bad})
    assert found.p_value == pytest.approx(2 / 2**4)


def test_pairs_that_one_of_them_lacks_are_left_out_for_both() -> None:
    pairs, values = simulated(10, {"one": 0.7, "two": 0.7}, seed=3)
    values["two"] |= {f"a0-{k}": None for k in range(10)}
    (found,) = paired_differences(pairs, values)
    assert (found.n, found.prompts) == (90, 9)
    assert paired_differences(pairs, {"one": values["one"], "none": {}})[0].reason == "no pair is scored by both"


@pytest.mark.slow
def test_p_of_clustered_noise_is_not_too_small_too_often() -> None:
    """Two metrics equal on average whose errors come by whole prompts: p < .05 in 5% of 120 runs (4 sd: under 13%)."""
    rng = np.random.default_rng(7)
    false = naive = 0
    for _ in range(120):
        pairs = [Pair(f"p{p}", f"a{p}-{k}", f"b{p}-{k}", "a") for p in range(25) for k in range(10)]
        values: dict[str, Values] = {}
        for name in ("one", "two"):
            level = rng.beta(0.6, 0.6, 25)
            values[name] = {f"a{p}-{k}": float(rng.random() < level[p]) for p in range(25) for k in range(10)}
            values[name] |= {pair.b: 0.5 for pair in pairs}
        (found,) = paired_differences(pairs, values)
        false += (found.p_value or 0) < 0.05
        naive += (found.mcnemar_p or 0) < 0.05
    assert false / 120 < 0.13
    assert naive / 120 > 0.2  # McNemar takes the pairs as independent


def test_one_against_all_adjustment_and_table() -> None:
    pairs, values = simulated(20, {"x": 0.9, "y": 0.6, "z": 0.6}, seed=4)
    assert [(d.first, d.second) for d in paired_differences(pairs, values)] == [("x", "y"), ("x", "z"), ("y", "z")]
    found = paired_differences(pairs, values, with_first=True)
    assert [(d.first, d.second) for d in found] == [("y", "x"), ("z", "x")]
    raw = [d.p_value for d in found if d.p_value is not None]
    assert [d.p_adjusted for d in found] == pytest.approx(stats.false_discovery_control(raw).tolist())
    assert len(differences_table(found).rows) == 2
    assert len(differences_table(found).columns) == len(differences_table(found).rows[0])
    json.dumps(found, allow_nan=False, default=fields_of)


def test_means_need_no_people() -> None:
    groups = {f"i{k}": f"p{k // 2}" for k in range(20)}
    one: Values = {f"i{k}": k / 10 for k in range(20)}
    two: Values = {f"i{k}": k / 10 - 0.5 for k in range(1, 20)}
    (found,) = mean_differences(groups, {"one": one, "two": two})
    assert (found.n, found.prompts) == (19, 10)
    assert found.difference == pytest.approx(-0.5)
    assert mean_differences(groups, {"one": one, "none": {}})[0].reason == "no image is scored by both"


def test_runs_are_compared_metric_by_metric() -> None:
    items = [Item(f"i{k}", "", None, "g", f"p{k // 2}") for k in range(12)]
    first = [Score(i.id, "error", 0.1 if k % 2 == 0 else 0.9) for k, i in enumerate(items)]
    second = [Score(i.id, "error", 0.9 if k % 2 == 0 else 0.1) for k, i in enumerate(items)]
    first += [Score(i.id, "only here", 1.0) for i in items]
    (found,) = run_differences(items, {"one": first, "two": second})
    assert found.what == "mean score of error"
    assert found.difference == pytest.approx(0.0)
    assert run_differences(items, {"one": first}) == []
    assert run_differences([], {}) == []


def test_below_the_best_allows_for_the_best_being_chosen() -> None:
    """5 equal metrics over 20 prompts, 120 times: some is below the best in 5%, give or take three standard errors."""
    rng = np.random.default_rng(3)
    pairs = [Pair(f"p{p}", f"{p}a", f"{p}b", "a") for p in range(20)]
    false = 0
    for _ in range(120):
        right = rng.random((5, 20)) < 0.7
        right = right[np.argsort(-right.sum(axis=1), kind="stable")]
        rows = [{f"{p}a": float(got[p]) for p in range(20)} | {f"{p}b": 0.5 for p in range(20)} for got in right]
        false += any(p is not None and p < 0.05 for p in below_the_best(pairs, rows))
    assert false <= 120 * 0.05 + 3 * (120 * 0.05 * 0.95) ** 0.5
    worse = [
        {f"{p}{s}": float(s == "a") for p in range(20) for s in "ab"},
        {f"{p}{s}": 0.0 for p in range(20) for s in "ab"},
    ]
    assert below_the_best(pairs, worse) == [pytest.approx(1e-5)]
    assert below_the_best(pairs, [*worse, worse[-1]]) == [pytest.approx(1 / 2000)] * 2


def test_a_judge_of_easy_pairs_is_not_the_first() -> None:
    rng = np.random.default_rng(8)
    pairs = [Pair(f"p{n}", f"{n}a", f"{n}b", "a") for n in range(240)]
    right = rng.random(240) < np.where(np.arange(240) < 120, 0.97, 0.55)
    good = {f"{n}{side}": float((side == "a") == right[n]) for n in range(240) for side in "ab"}
    easy = {id: value if rng.random() < 0.9 else 0.5 for id, value in good.items() if int(id[:-1]) < 120}
    few = {id: float(id[-1] == "a") for id in good if int(id[:-1]) < 8}
    ranked = common_accuracy(PairIndex.from_pairs(pairs), [few, easy, good])
    assert (ranked.order, ranked.aside, ranked.pairs, ranked.complete) == ([2, 1], [0], 120, False)
    assert ranked.right[0] > ranked.right[1]


def test_a_mean_difference_that_one_more_score_would_move_is_in_doubt() -> None:
    groups = {f"i{k}": f"p{k}" for k in range(40)}
    scores: dict[str, dict[str, float | None]] = {
        name: {i: 90.0 + k % n for k, i in enumerate(groups)} for name, n in (("one", 2), ("two", 3))
    }
    (found,) = mean_differences(groups, scores, (0.0, 100.0))
    assert found.to_json()["doubt"] == "one_score"
    assert "one_score" in differences_table([found]).declared.doubts.values()
    assert "doubt" not in mean_differences(groups, scores)[0].to_json()


def test_the_interval_of_a_mean_difference_ends_with_the_scale() -> None:
    groups = {id: id for id in "abc"}
    scores: dict[str, Values] = {"one": {"a": 100.0, "b": 0.0, "c": 12.0}, "two": {"a": 0.0, "b": 100.0, "c": 0.0}}
    (cut,) = mean_differences(groups, scores, (0.0, 100.0))
    (found,) = mean_differences(groups, scores)
    assert found.interval is not None
    assert found.interval[0] < -100 < 100 < found.interval[1]
    assert cut.interval == (-100, 100)


def test_pairs_images_and_prompts_without_a_score_are_excluded_by_name() -> None:
    pairs = [Pair(f"p{n}", f"{n}a", f"{n}b", "tie" if n == 0 else "a") for n in range(12)]
    whole = {f"{n}{side}": float(n + (side == "a")) for n in range(12) for side in "ab"}
    part = {id: value for id, value in whole.items() if int(id[:-1]) not in (0, 3)}
    for found in (
        paired_differences(pairs, {"whole": whole, "part": part}),
        mean_differences({id: id[:-1] for id in whole}, {"part": part, "whole": whole}),
    ):
        excluded = differences_table(found).declared.excluded["no_score"]
        assert excluded.keys() == {"part"}
        assert {id.strip("ab /")[0] for id in excluded["part"]} == ({"3"} if found[0].of_accuracy else {"0", "3"})
        assert "excluded" not in found[0].to_json()
    assert differences_table(paired_differences(pairs, {"a": whole, "b": whole})).declared.excluded == {}
