"""The three steps of A.11, and agreement between annotators."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from random import Random

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.serialization import json_value
from titjudge.stats.bootstrap import multiplicities
from titjudge.stats.people.votes import (
    BOTH_BAD,
    Rule,
    Vote,
    _alphas,
    aggregate_votes,
    decide,
    human_ceiling,
    krippendorff_alpha,
)


def ballot(a: int, b: int, tie: int, pair: tuple[str, str] = ("x", "y"), who: str = "n") -> list[Vote]:
    choices = ["a"] * a + ["b"] * b + ["tie"] * tie
    return [Vote("p", *pair, f"{who}{k}", choice) for k, choice in enumerate(choices)]


@pytest.mark.parametrize(
    ("votes", "rule", "preference"),
    [
        ((10, 5, 0), Rule.CONSENSUS, "a"),
        ((0, 10, 5), Rule.CONSENSUS, "b"),
        ((2, 3, 10), Rule.CONSENSUS, "tie"),
        ((6, 2, 7), Rule.ADVANTAGE, "a"),  # 8 preferences, exactly 75%
        ((2, 6, 7), Rule.ADVANTAGE, "b"),
        ((9, 3, 3), Rule.ADVANTAGE, "a"),
        ((9, 4, 2), Rule.NEEDS_EXPERTS, None),  # 69%
        ((7, 0, 8), Rule.NEEDS_EXPERTS, None),  # 7 preferences are too few, though all on one side
        ((7, 6, 2), Rule.NEEDS_EXPERTS, None),  # the paper's two examples
        ((5, 5, 5), Rule.NEEDS_EXPERTS, None),
        ((9, 0, 0), Rule.INCOMPLETE, None),
        ((10, 0, 0), Rule.CONSENSUS, "a"),  # five votes to come cannot undo it
    ],
)
def test_the_first_two_steps(votes: tuple[int, int, int], rule: Rule, preference: str | None) -> None:
    outcome = aggregate_votes(ballot(*votes)).outcomes[0]
    assert (outcome.rule, outcome.preference) == (rule, preference)


@pytest.mark.parametrize(
    ("experts", "rule", "preference"),
    [
        ((2, 1, 0), Rule.EXPERTS, "a"),
        ((0, 2, 0), Rule.EXPERTS, "b"),  # the third expert cannot change it
        ((0, 1, 2), Rule.EXPERTS, "tie"),
        ((1, 1, 1), Rule.EXPERT_TIE, "tie"),
        ((1, 1, 0), Rule.NEEDS_EXPERTS, None),
        ((1, 0, 0), Rule.NEEDS_EXPERTS, None),
        ((0, 0, 0), Rule.NEEDS_EXPERTS, None),
    ],
)
def test_the_third_step(experts: tuple[int, int, int], rule: Rule, preference: str | None) -> None:
    outcome = aggregate_votes(ballot(7, 6, 2), ballot(*experts, who="e")).outcomes[0]
    assert (outcome.rule, outcome.preference) == (rule, preference)


def slow_decide(a: int, b: int, tie: int, experts: tuple[int, int, int]) -> str:
    """A.11 word for word, for 15 votes and 3 experts."""
    if a >= 10:
        return "a"
    if b >= 10:
        return "b"
    if tie >= 10:
        return "tie"
    if a + b >= 8 and a / (a + b) >= 0.75:
        return "a"
    if a + b >= 8 and b / (a + b) >= 0.75:
        return "b"
    for choice, count in zip(("a", "b", "tie"), experts, strict=True):
        if count >= 2:
            return choice
    return "tie"


def test_every_possible_ballot_of_fifteen_and_three() -> None:
    panels = [(i, j, 3 - i - j) for i in range(4) for j in range(4 - i)]
    for a in range(16):
        for b in range(16 - a):
            for panel in panels:
                votes = Counter({"a": a, "b": b, "tie": 15 - a - b})
                _, found = decide(votes, Counter(dict(zip(("a", "b", "tie"), panel, strict=True))))
                assert found == slow_decide(a, b, 15 - a - b, panel), (a, b, panel)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(1, 20))
def test_swapping_the_images_mirrors_the_outcome(a: int, b: int, tie: int, annotators: int) -> None:
    rule, found = decide(Counter({"a": a, "b": b, "tie": tie}), Counter(), annotators)
    other_rule, other = decide(Counter({"a": b, "b": a, "tie": tie}), Counter(), annotators)
    if not (a == b and 3 * a >= 2 * max(annotators, a + b + tie)):
        assert (rule, {"a": "b", "b": "a"}.get(str(found), found)) == (other_rule, other)


def test_a_pair_may_be_shown_either_way_round() -> None:
    votes = [Vote("p", "x", "y", f"n{k}", "a") for k in range(8)] + [
        Vote("p", "y", "x", f"m{k}", "b") for k in range(7)
    ]
    found = aggregate_votes(votes)
    outcome = found.outcomes[0]
    assert (outcome.a, outcome.votes_a, outcome.votes_b) == ("x", 15, 0)
    assert [(pair.a, pair.b, pair.preference) for pair in found.pairs] == [("x", "y", "a")]


def test_the_summary_counts_every_rule_and_names_the_open_pairs() -> None:
    votes = ballot(15, 0, 0) + ballot(7, 6, 2, ("x", "z")) + ballot(3, 0, 0, ("y", "z"))
    found = aggregate_votes(votes, resamples=200)
    assert found.rules["consensus"] == found.rules["needs experts"] == found.rules["incomplete"] == 1
    assert [(o.a, o.b) for o in found.needs_experts] == [("x", "z")]
    as_json = json.loads(json.dumps(found, allow_nan=False, default=json_value))
    assert as_json["needs_experts"] == [{"prompt_id": "p", "image_a": "x", "image_b": "z"}]
    assert (as_json["pairs"], as_json["decided"], as_json["annotators"]) == (3, 1, 15)
    assert dict(found.table().rows)["needs experts"] == 1


@pytest.mark.parametrize(
    "bad",
    [
        [Vote("p", "x", "y", "n0", "left")],
        [Vote("p", "x", "x", "n0", "a")],
        [Vote("p", "x", "y", "n0", "a"), Vote("p", "y", "x", "n0", "a")],
    ],
)
def test_bad_votes_are_errors(bad: list[Vote]) -> None:
    with pytest.raises(DataError):
        aggregate_votes(bad)


def evalicas(table: np.ndarray, distance: str = "nominal") -> float:
    """The same from another implementation, which wants a row for each annotator and NaN for no vote."""
    ballots = [np.repeat(np.arange(len(row)), row.astype(int)) for row in table]
    most = max(map(len, ballots))
    rows = [np.pad(ballot.astype(float), (0, most - len(ballot)), constant_values=np.nan) for ballot in ballots]
    return float(evalica.alpha(pd.DataFrame(np.array(rows).T), distance=distance).alpha)


def test_alpha_is_evalicas_and_its_resamples_are_too() -> None:
    rng = np.random.default_rng(4)
    table = np.array([rng.multinomial(int(rng.integers(2, 16)), rng.dirichlet([1, 1, 1])) for _ in range(25)])
    found = krippendorff_alpha(table.tolist(), resamples=40)
    assert found.alpha == pytest.approx(evalicas(table))
    by_distance = krippendorff_alpha(table.tolist(), resamples=0, interval_scale=True)
    assert by_distance.alpha == pytest.approx(evalicas(table, "interval"))
    assert found.interval is not None
    weights = np.concatenate(list(multiplicities(25, 40)))
    draws = _alphas(table.astype(float), weights, 1 - np.eye(table.shape[1]))
    for draw, drawn in zip(draws, weights, strict=True):
        assert draw == pytest.approx(evalicas(np.repeat(table, drawn.astype(int), axis=0)))


def test_the_interval_of_alpha_is_over_prompts_whose_pairs_are_as_hard_as_each_other() -> None:
    """Six pairs a prompt, two prompts in five hard: intervals over pairs hold in three quarters of samples."""
    rng = np.random.default_rng(10)

    def votes(prompts: int) -> tuple[list[list[int]], list[str]]:
        right = np.repeat(np.where(rng.random(prompts) < 0.4, 0.5, 0.97), 6)
        agreed = rng.binomial(3, right)
        first = np.where(rng.random(len(agreed)) < 0.5, agreed, 3 - agreed)
        return np.stack([first, 3 - first], axis=1).tolist(), [f"p{k // 6}" for k in range(len(agreed))]

    truth = krippendorff_alpha(votes(20_000)[0], resamples=0).alpha or 0.0
    held = 0
    for _ in range(120):
        counts, prompts = votes(30)
        low, high = krippendorff_alpha(counts, groups=prompts, resamples=300).interval or (0.0, 0.0)
        held += low <= truth <= high
    assert held / 120 >= 0.95 - 3 * (0.05 * 0.95 / 120) ** 0.5


def test_alpha_of_krippendorffs_own_example() -> None:
    """Four observers, twelve units, five categories, values missing (Krippendorff 2011, section C): 0.743."""
    units = ["11.1", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", ".555", "..11", ".3.."]
    counts = [[unit.count(str(value)) for value in range(1, 6)] for unit in units]
    found = krippendorff_alpha(counts, resamples=0)
    assert found.alpha == pytest.approx(0.743, abs=5e-4)
    assert found.pairs == 11  # the last unit has one value


@given(
    st.lists(st.sampled_from(["a", "b", "tie", "both_bad"]), min_size=8, max_size=40), st.randoms(use_true_random=False)
)
@settings(max_examples=40, deadline=None)
def test_alpha_does_not_depend_on_which_image_a_file_writes_first(choices: list[str], random: Random) -> None:
    votes = [Vote(f"p{k // 8}", f"{k // 4}x", f"{k // 4}y", f"n{k % 4}", choice) for k, choice in enumerate(choices)]
    turned = {pair for pair in {(vote.a, vote.b) for vote in votes} if random.random() < 0.5}
    mirror = {"a": "b", "b": "a"}
    other = [
        replace(v, a=v.b, b=v.a, choice=mirror.get(v.choice, v.choice)) if (v.a, v.b) in turned else v for v in votes
    ]
    one, two = (aggregate_votes(each, resamples=50).agreement for each in (votes, other))
    assert two == one


def test_people_who_agree_that_the_first_image_is_better_agree() -> None:
    """Each prefers x in four of five pairs: with x always first, most of that would be chance agreement."""
    found = aggregate_votes([Vote(f"p{k}", "x", "y", who, "a") for k in range(9) for who in "mn"], resamples=0)
    assert found.agreement.alpha == pytest.approx(1.0)


def test_alpha_where_it_is_undefined() -> None:
    assert krippendorff_alpha([]).alpha is None
    assert krippendorff_alpha([(1, 0, 0), (0, 1, 0)]).reason == "no pair has two votes"
    same = krippendorff_alpha([(15, 0, 0), (15, 0, 0)])
    assert same.alpha is None
    assert "every vote is the same" in same.reason
    single = krippendorff_alpha([(8, 7, 0)])
    assert single.alpha is not None
    assert single.interval is None
    assert aggregate_votes([]).to_json()["alpha"] is None


def test_alpha_of_full_agreement_is_one() -> None:
    assert krippendorff_alpha([(15, 0, 0), (0, 15, 0), (0, 0, 15)]).alpha == pytest.approx(1.0)


@pytest.mark.parametrize("panel", [{}, {"a": 2, "b": 1}, {"tie": 1, "a": 1, "b": 1}, {"tie": 3}])
def test_both_bad_is_a_tie_for_the_rules_of_the_paper_which_has_three_answers(panel: dict[str, int]) -> None:
    for a, b in (pair for pair in itertools.product(range(16), repeat=2) if sum(pair) <= 15):
        tie = 15 - a - b
        expected = decide(Counter(a=a, b=b, tie=tie), Counter(panel))
        for bad in range(tie + 1):
            rule, choice = decide(Counter(a=a, b=b, tie=tie - bad, both_bad=bad), Counter(panel))
            assert (rule, "tie" if choice == BOTH_BAD else choice) == expected
            assert (choice == BOTH_BAD) == (3 * bad >= 30)
    verdicts = Counter(both_bad=1, tie=1, a=1)
    assert decide(Counter(a=7, b=6, tie=2), verdicts) == (Rule.EXPERTS, "tie")
    assert decide(Counter(a=7, b=6, tie=2), Counter(both_bad=2, a=1)) == (Rule.EXPERTS, BOTH_BAD)


def test_the_ceiling_is_leave_one_out_by_brute_force() -> None:
    rng = np.random.default_rng(1)
    votes = [
        Vote(f"p{k // 6}", *(("x", "y") if rng.random() < 0.5 else ("y", "x")), f"n{who}", str(rng.choice(["a", "b", "tie"])))
        for k in range(60)
        for who in range(5)
    ]  # fmt: skip
    votes = [
        Vote(f"{vote.prompt_id}-{at // 5}", vote.a, vote.b, vote.annotator, vote.choice)
        for at, vote in enumerate(votes)
    ]
    turned = {"a": "b", "b": "a", "tie": "tie"}
    hits = trials = 0
    for vote in votes:
        same = [one for one in votes if one.prompt_id == vote.prompt_id and one.annotator != vote.annotator]
        others = Counter(one.choice if one.a == vote.a else turned[one.choice] for one in same)
        if others["a"] != others["b"]:
            trials += 1
            hits += vote.choice == ("a" if others["a"] > others["b"] else "b")
    found = human_ceiling(votes)
    assert (found.accuracy, found.votes, found.annotators) == (pytest.approx(hits / trials), trials, 5)
    summary = aggregate_votes(votes, annotators=5)
    assert summary.to_json()["human_ceiling"]["accuracy"] == found.accuracy
    assert "human ceiling: one person prefers" in summary.table().notes[0]


def test_one_person_alone_has_no_ceiling() -> None:
    found = human_ceiling([Vote("p", "x", "y", "n1", "a")])
    assert (found.accuracy, found.line()) == (None, "")
