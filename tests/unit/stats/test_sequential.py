"""Settling a question prompt by prompt: what the interval is, that it may be looked at, and what it costs."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import verdicts
from titjudge.core.errors import DataError
from titjudge.runs.study.score_files import read_scores
from titjudge.stats.generators.sequential import (
    ASYMPTOTIC,
    BETTING,
    EQUIVALENT,
    FEWEST,
    OPEN,
    Race,
    Settled,
    radius,
    replay_pairs,
    replay_race,
    settle,
)
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table

NAMES = ("a", "b")


def test_the_radius_is_that_of_the_paper() -> None:
    """Theorem 2.2 written out: sigma sqrt(2 (t rho^2 + 1) / (t^2 rho^2) log(sqrt(t rho^2 + 1) / alpha))."""
    t, sigma, alpha = 250, 0.7, 0.05
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / 100
    wanted = sigma * math.sqrt(2 * (t * rho2 + 1) / (t**2 * rho2) * math.log(math.sqrt(t * rho2 + 1) / alpha))
    assert radius(t, t * sigma**2) == pytest.approx(wanted)


def against_zero(differences: Any, width: float | None, margin: float | None = None) -> Settled:
    """Settle a score against 0 on each prompt."""
    return settle(NAMES, np.stack([differences, np.zeros(len(differences))], axis=1), width=width, margin=margin)


def race_against_zero(differences: Any, width: float | None, margin: float | None = None) -> Race:
    """The same without the interval, which takes longer than the verdict."""
    race = Race(NAMES, width, margin)
    race.add(np.stack([differences, np.zeros(len(differences))], axis=1))
    return race


def test_normal_data_without_a_difference_are_seldom_told_apart() -> None:
    """600 paths of 1,000 prompts on a scale without ends: at most 5% and three standard errors."""
    rng = np.random.default_rng(0)
    false = [race_against_zero(rng.normal(0, 1, 1000), None).verdict != OPEN for _ in range(600)]
    assert np.mean(false) <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


@pytest.mark.parametrize("kind", ["yes and no", "rare", "heavy tails"])
def test_exchanged_data_are_seldom_told_apart(kind: str) -> None:
    rng = np.random.default_rng(1)
    draw = {
        "yes and no": lambda: (rng.random(700) < 0.4).astype(float),
        "rare": lambda: (rng.random(700) < 0.03).astype(float),
        "heavy tails": lambda: np.clip(rng.standard_t(2, 700), -30, 30),
    }[kind]
    width = {"yes and no": 1, "rare": 1, "heavy tails": 60}[kind]
    false = [race_against_zero(draw() * rng.choice([-1, 1], 700), width).verdict != OPEN for _ in range(400)]
    assert np.mean(false) <= 0.05


COLLAPSES = {
    "better by 1.96, 2% blank": lambda rng, n: np.where(rng.random(n) < 0.02, -96.04, 1.96),
    "better by about 3, 3% blank": lambda rng, n: 3 + rng.normal(0, 1, n) - 100 * (rng.random(n) < 0.03),
    "shares of 20, 5% blank": lambda rng, n: np.where(rng.random(n) < 0.05, -95.0, 5.0),
    "better by .1, one blank in a thousand": lambda rng, n: np.where(rng.random(n) < 0.001, -99.9, 0.1),
}


@pytest.mark.parametrize("kind", COLLAPSES)
def test_rare_collapses_do_not_name_a_winner_between_equals(kind: str) -> None:
    """300 paths of 2,000 prompts; at most 5% and two standard errors, both ways round."""
    rng = np.random.default_rng(4)
    verdicts = [race_against_zero(COLLAPSES[kind](rng, 2000), 100.0).verdict for _ in range(300)]
    assert np.mean([verdict != OPEN for verdict in verdicts]) <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5
    seen = [Race(NAMES, 100.0) for _ in range(300)]
    for race in seen:
        race.add(np.stack([np.zeros(277), COLLAPSES[kind](rng, 277)], axis=1))
    assert np.mean([race.over for race in seen]) <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


def test_a_margin_is_not_met_by_rare_collapses_at_the_margin() -> None:
    """A mean difference of -2, the margin, by one blank in 50: "equivalent" is false, whatever most prompts show."""
    rng = np.random.default_rng(5)
    false = [
        race_against_zero(-100.0 * (rng.random(1500) < 0.02), 100.0, 2.0).verdict == EQUIVALENT for _ in range(300)
    ]
    assert np.mean(false) <= 0.025 + 2 * (0.025 * 0.975 / 300) ** 0.5


def test_equal_generators_race_without_a_winner() -> None:
    rng = np.random.default_rng(6)
    won = []
    for _ in range(100):
        race = Race(list("abcd"), 100.0)
        race.add(np.where(rng.random((800, 4)) < 0.03, 0.0, 90 + rng.normal(0, 1, (800, 4))))
        won.append(race.over)
    assert np.mean(won) <= 0.05


def test_what_the_ends_of_the_scale_cost() -> None:
    """Medians over 40 orders: little where scores use the scale; where they do not, what any valid test must see."""
    rng = np.random.default_rng(7)
    saturated = [settle(NAMES, 95 + rng.normal(0, 2, (1000, 2)) + [1, 0], width=100).used for _ in range(40)]
    wide = [settle(NAMES, 60 + rng.normal(0, 18, (1000, 2)) + [10, 0], width=100).used for _ in range(40)]
    assert 371 <= np.median(saturated) <= 560  # (100 / 101)^371 < .025: as many prompts with nothing but +1
    assert np.median(wide) <= 90


differences = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 1.0]), min_size=1, max_size=200)
widths = st.sampled_from([None, 1.0, 2.0])


@given(differences, st.sampled_from([None, 0.3]), widths)
def test_exchanging_the_names_exchanges_the_verdict(
    values: list[float], margin: float | None, width: float | None
) -> None:
    d = np.array(values)
    one = settle(("a", "b"), np.stack([d, 0 * d], axis=1), width=width, margin=margin)
    other = settle(("b", "a"), np.stack([0 * d, d], axis=1), width=width, margin=margin)
    assert (one.verdict, one.used) == (other.verdict, other.used)
    assert one.interval is not None
    assert other.interval == pytest.approx([-end for end in one.interval[::-1]])


@given(differences, st.sampled_from([None, 0.3]), widths)
def test_prompt_by_prompt_is_the_same_as_all_at_once(
    values: list[float], margin: float | None, width: float | None
) -> None:
    race = Race(NAMES, width, margin)
    for value in values:
        race.add([value, 0.0])
        if race.over:
            break
    found = against_zero(np.array(values), width, margin)
    assert (race.verdict, race.prompts) == (found.verdict, found.used)
    assert race.interval() == pytest.approx(found.interval)


@given(st.integers(0, 1000))
def test_a_race_prompt_by_prompt_is_the_same_as_all_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = np.clip(rng.normal((0.5, 0.6, 0.7, 0.7), 0.3, (400, 4)), 0, 1)
    whole, single = Race(list("abcd"), 1.0, 0.1), Race(list("abcd"), 1.0, 0.1)
    whole.add(scores)
    for row in scores:
        if not single.over:
            single.add(row)
    assert (whole.verdict, whole.prompts, whole.judged, whole.unbeaten) == (
        single.verdict, single.prompts, single.judged, single.unbeaten
    )  # fmt: skip


@given(differences, widths)
def test_the_scale_of_the_scores_does_not_matter(values: list[float], width: float | None) -> None:
    d = np.array(values)
    one, other = against_zero(d, width), against_zero(64 * d, None if width is None else 64 * width)
    assert (one.verdict, one.used) == (other.verdict, other.used)


def test_prompts_that_agree_so_far_settle_nothing_soon() -> None:
    assert against_zero(np.zeros(FEWEST), 1, 0.05).verdict == OPEN
    assert against_zero(np.zeros(5000), 1, 0.05).verdict == EQUIVALENT
    assert against_zero(np.ones(FEWEST - 1), None).verdict == OPEN
    assert against_zero(np.ones(3), 1).verdict == OPEN
    assert against_zero(np.ones(20), 1).verdict == "a"
    assert against_zero(np.zeros(0), 1).interval is None
    assert (Race(NAMES, 1.0).method, Race(NAMES, None).method) == (BETTING, ASYMPTOTIC)


@given(differences)
def test_the_interval_leaves_zero_exactly_with_the_verdict(values: list[float]) -> None:
    found = against_zero(np.array(values), 1.5)
    assert found.interval is not None
    low, high = found.interval
    assert -1.5 <= low <= np.mean(values[: found.used]) <= high <= 1.5
    assert (low > 0, high < 0) == (found.verdict == "a", found.verdict == "b")


def made(**levels: float) -> ScoreTable:
    rng = np.random.default_rng(2)
    entries = [
        Entry(f"p{k}", name, "", float(level + 0.1 * rng.normal()))
        for k in range(400)
        for name, level in levels.items()
    ]
    return score_table(entries, metric="score", source="scores.csv", bounds=(0.0, 1.0))


def test_a_replay_has_one_entry_a_pair_and_order() -> None:
    table = made(low=0.4, high=0.6, other=0.405)
    found = replay_pairs(table, [("low", "high"), ("low", "other")], margin=0.05, repeat=3)
    assert [each.verdict for each in found] == ["high"] * 3 + [EQUIVALENT] * 3
    assert all(each.used < each.of == 400 for each in found)
    assert found == replay_pairs(table, [("low", "high"), ("low", "other")], margin=0.05, repeat=3)
    (race,) = replay_race(table, ["low", "high", "other"])
    assert race.verdict == "high"
    assert race.used < race.of == 1200
    with pytest.raises(DataError, match="unknown generator 'hihg'"):
        replay_pairs(table, [("low", "hihg")])


def test_a_race_that_cannot_end_names_who_is_left() -> None:
    (race,) = replay_race(made(low=0.2, one=0.5, two=0.5), ["low", "one", "two"])
    assert race.verdict == OPEN
    assert set(race.left) == {"one", "two"}
    (race,) = replay_race(made(one=0.5, two=0.5, three=0.5), ["one", "two", "three"], margin=0.06)
    assert race.verdict == EQUIVALENT


def test_a_replayed_order_is_random_and_of_the_scores_alone() -> None:
    """One permutation of all sorted scores told 9% of equal generators apart."""
    entries = [Entry(f"p{k}", name, "", 0.0) for k in range(2000) for name in NAMES]
    empty, rng, told = score_table(entries, metric="m", source="", bounds=(0, 100)), np.random.default_rng(99), 0
    for _ in range(150):
        table = replace(empty, means=np.clip(5 * np.round(rng.normal(12, 9, (2000, 2))), 0, 100))
        told += replay_pairs(table, [NAMES])[0].verdict != OPEN
    assert told <= 12
    turned = replace(table, generators=("z", "c"), means=table.means[::-1])
    found = replay_pairs(table, [NAMES], repeat=2)
    for each, same in zip(found, replay_pairs(turned, [("c", "z")], repeat=2), strict=True):
        assert each.used == same.used
        assert (each.interval or ())[::-1] == pytest.approx([-end for end in same.interval or ()])


def test_what_settling_costs_on_peoples_marks(shared: Path) -> None:
    """Small draws of what `python -m benchmarks.verdicts` prints."""
    table = read_scores(shared / "human" / "lmm4lmm_12_generators.csv.gz", "yes_no")
    pairs = [(a, b) for k, a in enumerate(table.generators) for b in table.generators[k + 1 :]]
    found = replay_pairs(table, pairs, repeat=2)
    mean = dict(zip(table.generators, table.means.mean(axis=0), strict=True))
    assert np.mean([each.used / each.of for each in found]) <= 0.2
    assert np.mean([each.verdict == min(each.a, each.b, key=lambda name: mean[name]) for each in found]) <= 0.01
    settled, peeked = verdicts.false_verdicts(table.means, 4, 1.0)
    assert settled <= 0.05
    assert peeked > 0.35
