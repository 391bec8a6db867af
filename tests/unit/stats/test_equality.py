"""Scores that are equal but for rounding are ties, wherever scores are compared."""

import math

import numpy as np
import pytest

from titjudge.core.types import Pair
from titjudge.stats.equality import reaches, same, with_ties
from titjudge.stats.generators.paired_differences import mean_differences, prompt_differences
from titjudge.stats.generators.sequential import OPEN, replay_race
from titjudge.stats.pairwise_accuracy import pairwise_accuracy, tie_optimised_accuracy
from titjudge.stats.ranking.bradley_terry import bradley_terry
from titjudge.stats.ranking.correlation import correlation
from titjudge.stats.ranking.leaderboard import leaderboard
from titjudge.stats.ranking.rank_agreement import prompt_statistics
from titjudge.stats.scores.scores_table import Entry, score_table

ONE, OTHER = 70.47619047619047, 70.47619047619048  # one mean of three checklist scores, added up in two orders


def test_equal_but_for_rounding() -> None:
    assert ONE != OTHER
    assert same(ONE, OTHER)
    assert same(0.1 + 0.2, 0.3)
    assert same(1e-16, 0.0)
    assert not same(0.3, 0.3000001)
    assert not same(2e-9, 3e-9)
    assert not same(0.0, 1e-12)


def test_ties_become_exact_and_nothing_else_moves() -> None:
    values = np.array([[OTHER, 0.3, math.nan], [ONE, 0.1 + 0.2, math.inf]])
    tied = with_ties(values)
    assert tied[0, 0] == tied[1, 0] == ONE
    assert tied[0, 1] == tied[1, 1] == 0.3
    assert math.isnan(tied[0, 2])
    assert tied[1, 2] == math.inf
    apart = np.array([2e-9, 1e-9, 0.0, -math.inf, 5.0])
    assert with_ties(apart) is apart


def test_ties_join_neighbours_in_order_so_that_equality_is_transitive() -> None:
    chain = 1 + np.arange(5) * 0.8e-9
    assert len(set(with_ties(chain).tolist())) == 1


def test_a_threshold_is_reached_by_its_own_value_in_another_rounding() -> None:
    assert reaches(np.array([0.3, 0.1 + 0.2, 0.2999]), 0.1 + 0.2).tolist() == [True, True, False]
    assert reaches(np.array([1.0]), math.inf).tolist() == [False]


@pytest.mark.parametrize("values", [{"x": ONE, "y": OTHER}, {"x": OTHER, "y": ONE}])
def test_no_statistic_hangs_on_the_last_digit(values: dict[str, float]) -> None:
    pair = [Pair("p", "x", "y", "a")]
    found = pairwise_accuracy(pair, values, intervals=False)
    assert (found.correct, found.ties) == (0, 1)
    assert tie_optimised_accuracy([Pair("p", "x", "y", "tie")], values).tie_epsilon == 0.0
    places = leaderboard([("x", "g", "p"), ("y", "h", "p")], values, intervals=False).places
    assert [place.mean_rank for place in places.values()] == [1.5, 1.5]
    assert [place.rank for place in places.values()] == [1, 1]
    ranks = prompt_statistics({"p": {"x": 1.0, "y": 0.0}}, values, intervals=False)
    assert ranks.srcc is None
    assert ranks.ndcg == pytest.approx((1 + 1 / math.log2(3)) / 2)
    assert correlation([*values.values(), 1.0], [1.0, 2.0, 3.0], resamples=0).srcc == pytest.approx(-(0.75**0.5))


def test_runs_that_differ_by_rounding_alone_do_not_differ() -> None:
    values = np.random.default_rng(0).random(40)
    one = {f"i{k}": float(value) for k, value in enumerate(values)}
    other = {name: math.nextafter(value, 2) for name, value in one.items()}  # rounded up throughout
    (found,) = mean_differences({f"i{k}": f"p{k // 4}" for k in range(40)}, {"one": one, "other": other})
    assert (found.difference, found.p_value) == (0.0, 1.0)
    entries = [
        Entry(image, name, image, value) for name, run in (("a", one), ("b", other)) for image, value in run.items()
    ]
    (found,) = prompt_differences(score_table(entries, metric="m", source="s"), [("a", "b")])
    assert (found.difference, found.p_value) == (0.0, 1.0)


def test_no_race_is_won_by_rounding() -> None:
    scores = {"a": OTHER, "b": ONE}
    table = score_table(
        [Entry(f"p{k}", name, f"{name}{k}", each) for k in range(400) for name, each in scores.items()],
        metric="m",
        source="s",
    )
    (race,) = replay_race(table, ("a", "b"))
    assert race.verdict == OPEN
    (race,) = replay_race(table, ("a", "b"), margin=1e-6)
    assert race.verdict == OPEN  # one unseen prompt may differ by a whole point


@pytest.mark.parametrize("seed", range(4))
def test_generators_of_the_same_record_have_the_same_strength(seed: int) -> None:
    """Whatever one does the other does as well, so that only rounding could put one of them first."""
    rng = np.random.default_rng(seed)
    pairs = []
    for one, other in [("g0", "g1"), ("g0", "g2"), ("g0", "g3"), ("g2", "g3")]:
        for preference in rng.choice(["a", "b", "tie"], 7):
            for swap in ({}, {"g0": "g1", "g1": "g0"}):
                pairs.append(Pair(f"p{len(pairs)}", swap.get(one, one), swap.get(other, other), str(preference)))
    fit = bradley_terry(pairs, {f"g{k}": f"g{k}" for k in range(4)}, resamples=0)
    found = {each.generator: each.strength for each in fit.generators}
    assert found["g0"] == found["g1"] != found["g2"]
    order = [each.generator for each in fit.generators]
    assert order.index("g0") < order.index("g1")
