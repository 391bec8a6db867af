"""The plan: the right order, in fewer comparisons than all pairs, from the answers alone."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.apps.label.queues import SortState, all_pairs, implied, merge_sort, plan_of, shuffled
from titjudge.core.errors import UserError


def answer_all(
    images: list[str], quality: dict[str, int], plan=merge_sort
) -> tuple[SortState, dict[tuple[str, str], int]]:
    """Ask until nothing is left, with a person who sees `quality` without fail."""
    outcomes: dict[tuple[str, str], int] = {}
    bound = plan(images, outcomes).at_most
    while (state := plan(images, outcomes)).question:
        assert state.at_most <= bound
        bound = state.at_most - 1
        x, y = state.question
        assert (x, y) not in outcomes
        outcome = (quality[x] > quality[y]) - (quality[x] < quality[y])
        outcomes |= {(x, y): outcome, (y, x): -outcome}
    assert bound >= 0 or not outcomes
    return state, outcomes


@given(st.lists(st.integers(0, 5), min_size=0, max_size=13))
def test_consistent_answers_give_the_right_order_with_ties(qualities: list[int]) -> None:
    quality = {f"i{n}": value for n, value in enumerate(qualities)}
    state, outcomes = answer_all(list(quality), quality)
    expected = [sorted(k for k in quality if quality[k] == value) for value in sorted(set(qualities), reverse=True)]
    assert [sorted(tier) for tier in state.tiers] == expected
    n = len(qualities)
    log = math.ceil(math.log2(n)) if n > 1 else 0
    assert len(outcomes) // 2 <= n * log - 2**log + 1


def test_thirteen_images_need_far_fewer_than_all_pairs() -> None:
    quality = {f"i{n}": n for n in range(13)}
    _, sorted_ = answer_all(shuffled(quality, "x"), quality)
    _, every = answer_all(list(quality), quality, all_pairs)
    assert len(every) // 2 == 78
    assert len(sorted_) // 2 <= 37


def test_ties_save_comparisons() -> None:
    _, outcomes = answer_all([f"i{n}" for n in range(8)], dict.fromkeys((f"i{n}" for n in range(8)), 0))
    assert len(outcomes) // 2 == 7


@given(st.permutations(range(6)))
def test_taking_an_answer_away_returns_its_question(order: list[int]) -> None:
    quality = {f"i{n}": value for n, value in enumerate(order)}
    images, outcomes = list(quality), {}
    while (state := merge_sort(images, outcomes)).question:
        x, y = state.question
        outcome = 1 if quality[x] > quality[y] else -1
        with_answer = outcomes | {(x, y): outcome, (y, x): -outcome}
        without = {pair: value for pair, value in with_answer.items() if pair not in ((x, y), (y, x))}
        assert merge_sort(images, without).question == (x, y)
        outcomes = with_answer


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9))
def test_a_finished_sort_implies_every_pair(qualities: list[int]) -> None:
    quality = {f"i{n}": value for n, value in enumerate(qualities)}
    _, outcomes = answer_all(list(quality), quality)
    found = implied(outcomes, list(quality))
    assert found == {
        (x, y): (quality[x] > quality[y]) - (quality[x] < quality[y]) for x, y in itertools.combinations(quality, 2)
    }


def test_contradictions_imply_nothing() -> None:
    circle = {("a", "b"): 1, ("b", "a"): -1, ("b", "c"): 1, ("c", "b"): -1, ("c", "a"): 1, ("a", "c"): -1}
    assert implied(circle, ["a", "b", "c"]) is None
    tie_and_win = {("a", "b"): 0, ("b", "a"): 0, ("b", "c"): 0, ("c", "b"): 0, ("a", "c"): 1, ("c", "a"): -1}
    assert implied(tie_and_win, ["a", "b", "c"]) is None


def test_an_unfinished_sort_implies_only_what_follows() -> None:
    outcomes = {("a", "b"): 1, ("b", "a"): -1, ("b", "c"): 1, ("c", "b"): -1}
    assert implied(outcomes, ["a", "b", "c", "d"]) == {("a", "b"): 1, ("a", "c"): 1, ("b", "c"): 1}


def test_shuffling_depends_on_the_key_alone() -> None:
    values = [f"i{n}" for n in range(20)]
    assert shuffled(values, 1, "x") == shuffled(reversed(values), 1, "x")
    assert shuffled(values, 1, "x") != shuffled(values, 2, "x")
    shorter = [value for value in shuffled(values, 1, "x") if value != "i7"]
    assert shuffled([value for value in values if value != "i7"], 1, "x") == shorter


def test_an_unknown_plan_is_refused() -> None:
    with pytest.raises(UserError, match="merge"):
        plan_of("swiss")
