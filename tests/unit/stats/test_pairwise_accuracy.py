"""Pairwise accuracy, thresholds, tie-optimised accuracy: known cases, and slow obvious implementations."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.types import Pair, Score, Status
from titjudge.stats.pairwise_accuracy import PairIndex, pairwise_accuracy, tie_optimised_accuracy, values_by_metric

IDS = [f"i{k}" for k in range(8)]
scores_of = st.dictionaries(
    st.sampled_from(IDS), st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, -3.0]))
)
pairs_of = st.lists(
    st.builds(
        lambda ids, preference, group: Pair(group, ids[0], ids[1], preference),
        st.lists(st.sampled_from(IDS), min_size=2, max_size=2, unique=True),
        st.sampled_from(["a", "b", "tie"]),
        st.sampled_from(["p1", "p2", "p3"]),
    ),
    max_size=25,
)


def verdict(values: dict[str, float | None], pair: Pair, epsilon: float = 0.0) -> str | None:
    a, b = values.get(pair.a), values.get(pair.b)
    if a is None or b is None:
        return None
    return "tie" if abs(a - b) <= epsilon else "a" if a > b else "b"


@settings(deadline=None, max_examples=150)
@given(pairs_of, scores_of)
def test_accuracy_is_what_a_loop_counts(pairs: list[Pair], values: dict[str, float | None]) -> None:
    correct = ties = scored = asked = 0
    for pair in pairs:
        if pair.preference == "tie":
            continue
        asked += 1
        seen = verdict(values, pair)
        if seen is None:
            continue
        scored += 1
        ties += seen == "tie"
        correct += seen == pair.preference
    found = pairwise_accuracy(pairs, values, intervals=False)
    assert (found.pairs, found.pairs_scored, found.correct, found.ties) == (asked, scored, correct, ties)
    assert found.human_ties == len(pairs) - asked
    assert found.wrong == scored - correct - ties
    if scored:
        assert found.accuracy == pytest.approx(correct / scored)
        assert found.half_credit_accuracy == pytest.approx((correct + ties / 2) / scored)
        assert found.tie_rate == pytest.approx(ties / scored)
    else:
        assert (found.accuracy, found.half_credit_accuracy, found.tie_rate, found.p_value) == (None, None, None, None)
        assert found.reasons["accuracy"]


@settings(deadline=None, max_examples=150)
@given(pairs_of, scores_of)
def test_tie_optimised_accuracy_is_the_best_of_all_thresholds(
    pairs: list[Pair], values: dict[str, float | None]
) -> None:
    scored = [pair for pair in pairs if verdict(values, pair) is not None]
    found = tie_optimised_accuracy(pairs, values)
    if not scored:
        assert found.tie_optimised_accuracy is None
        assert found.reasons["tie_optimised_accuracy"]
        return
    gaps = {0.0, *(abs(float(values[p.a] or 0) - float(values[p.b] or 0)) for p in scored)}
    tried = {eps: sum(verdict(values, p, eps) == p.preference for p in scored) / len(scored) for eps in gaps}
    assert found.tie_optimised_accuracy == pytest.approx(max(tried.values()))
    assert found.tie_epsilon == min(eps for eps, value in tried.items() if value == max(tried.values()))


def test_a_predicted_tie_is_wrong_and_half_right_beside_it() -> None:
    pairs = [Pair("p", "x", "y", "a"), Pair("p", "x", "z", "a")]
    found = pairwise_accuracy(pairs, {"x": 0.5, "y": 0.5, "z": 0.1})
    assert (found.accuracy, found.half_credit_accuracy, found.tie_rate) == (0.5, 0.75, 0.5)


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_a_missing_score_loses_the_pair_and_decides_nothing(missing: float | None) -> None:
    pairs = [Pair("p", "x", "y", "a"), Pair("p", "x", "z", "b"), Pair("p", "z", "y", "a")]
    found = pairwise_accuracy(pairs, {"x": 1.0, "y": 0.0, "z": missing})
    assert (found.pairs, found.pairs_scored, found.accuracy) == (3, 1, 1.0)
    assert found.pair_coverage == pytest.approx(1 / 3)


def test_the_largest_floats_do_not_overflow() -> None:
    pairs = [Pair("p", "x", "y", "a"), Pair("q", "x", "y", "b")]
    assert pairwise_accuracy(pairs, {"x": 1.7e308, "y": -1.7e308}).accuracy == 0.5
    assert tie_optimised_accuracy(pairs, {"x": 1.7e308, "y": -1.7e308}).tie_optimised_accuracy == 0.5


def test_one_prompt_has_no_interval_and_says_so() -> None:
    found = pairwise_accuracy([Pair("p", "x", "y", "a"), Pair("p", "x", "z", "a")], {"x": 1, "y": 0, "z": 2})
    assert found.accuracy == 0.5
    assert found.accuracy_interval is None
    assert "two prompts" in found.reasons["accuracy"]


def test_nothing_at_all() -> None:
    found = pairwise_accuracy([], {})
    assert (found.accuracy, found.accuracy_interval, found.threshold_05, found.p_value) == (None, None, None, None)
    assert found.reasons["accuracy"] == "no pair with a human preference"
    assert pairwise_accuracy([Pair("p", "x", "y", "a")], {}).reasons["accuracy"] == "no pair has both scores"


def test_neither_names_nor_the_order_of_pairs_decide_what_is_drawn() -> None:
    """With nine images of a prompt and no whole ranking, the exchanges are drawn."""
    rng = np.random.default_rng(2)
    drawn = [(p, *map(int, rng.choice(9, 2, replace=False)), rng.random() < 0.7) for p in range(6) for _ in range(15)]

    def result(order: list[int], image: Callable[[int, int], str]) -> object:
        pairs = [
            Pair(f"p{p}", image(p, i), image(p, j), "a" if first else "b")
            for p, i, j, first in map(drawn.__getitem__, order)
        ]
        found = pairwise_accuracy(pairs, {image(p, i): (5.0 * p + i * i) % 7 for p in range(6) for i in range(9)})
        assert found.accuracy_interval is not None
        return found

    first = result(list(range(90)), lambda p, i: f"{p} {i}")
    assert result(rng.permutation(90).tolist(), lambda p, i: f"{p} {i}") == first
    assert result(list(range(90)), lambda p, i: f"{p} {4 * i % 9}") == first


@pytest.mark.parametrize("bad", [Pair("p", "x", "y", "left"), Pair("p", "x", "y", ""), Pair("p", "x", "x", "a")])
def test_bad_pairs_are_errors(bad: Pair) -> None:
    with pytest.raises(DataError):
        PairIndex.from_pairs([Pair("p", "x", "y", "a"), bad])


def test_values_by_metric_keeps_the_last_and_negates() -> None:
    scores = [
        Score("i", "error", 0.4),
        Score("i", "tit", 0.1),
        Score("i", "tit", 0.7),
        Score("j", "tit", None, Status.REFUSED),
        Score("k", "tit", math.nan),
    ]
    found = values_by_metric(scores, negate={"error"})
    assert found == {"error": {"i": -0.4}, "tit": {"i": 0.7, "j": None, "k": None}}
    assert list(found) == ["error", "tit"]


def test_index_of_many_pairs_has_the_right_columns() -> None:
    index = PairIndex.from_pairs([Pair("q", "x", "y", "b"), Pair("p", "z", "x", "tie")])
    assert (index.ids, index.groups) == (("x", "z", "y"), ("q", "p"))
    assert index.preference.tolist() == [-1, 0]
    np.testing.assert_array_equal(index.predictions({"x": 1.0, "y": 2.0, "z": 1.0}), [-1.0, 0.0])


def test_an_equal_score_is_half_right_in_the_half_credit_interval() -> None:
    """Six prompts with one pair right and one tie each: 75% in all of them, so the bound is exact (see `exact_bound`)."""
    pairs = [Pair(f"p{n}", f"p{n}a", f"p{n}{other}", "a") for n in range(6) for other in "bc"]
    values = {f"p{n}{image}": value for n in range(6) for image, value in zip("abc", (1.0, 0.0, 1.0), strict=True)}
    found = pairwise_accuracy(pairs, values)
    reach = 1 - 0.025 ** (1 / 6)  # 0.4593
    assert (found.accuracy, found.half_credit_accuracy) == (0.5, 0.75)
    assert found.accuracy_interval == pytest.approx((0.5 - reach * 0.5, 0.5 + reach * 0.5))
    assert found.half_credit_interval == pytest.approx((0.75 - reach * 0.75, 0.75 + reach * 0.25))
