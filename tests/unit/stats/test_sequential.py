"""Settling a question prompt by prompt: what the interval is, that it may be looked at, and what it costs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import verdicts
from titjudge.core.errors import DataError
from titjudge.stats.replay_settling import replay_pairs, replay_race
from titjudge.stats.scores_table import Entry, ScoreTable, read_scores, score_table
from titjudge.stats.sequential import EQUIVALENT, FEWEST, OPEN, Race, radius, settle

NAMES = ("a", "b")


def test_the_radius_is_that_of_the_paper() -> None:
    """Theorem 2.2 written out: sigma sqrt(2 (t rho^2 + 1) / (t^2 rho^2) log(sqrt(t rho^2 + 1) / alpha))."""
    t, sigma, alpha = 250, 0.7, 0.05
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / 100
    wanted = sigma * math.sqrt(2 * (t * rho2 + 1) / (t**2 * rho2) * math.log(math.sqrt(t * rho2 + 1) / alpha))
    assert radius(t, t * sigma**2) == pytest.approx(wanted)


def test_normal_data_without_a_difference_are_seldom_told_apart() -> None:
    """600 paths of 1,000 prompts: at most 5% and three standard errors."""
    rng = np.random.default_rng(0)
    false = [settle(NAMES, rng.normal(0, 1, 1000), span=6).verdict != OPEN for _ in range(600)]
    assert np.mean(false) <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


@pytest.mark.parametrize("kind", ["yes and no", "rare", "heavy tails"])
def test_exchanged_data_are_seldom_told_apart(kind: str) -> None:
    rng = np.random.default_rng(1)
    draw = {
        "yes and no": lambda: (rng.random(700) < 0.4).astype(float),
        "rare": lambda: (rng.random(700) < 0.03).astype(float),
        "heavy tails": lambda: np.clip(rng.standard_t(2, 700), -30, 30),
    }[kind]
    span = {"yes and no": 1, "rare": 1, "heavy tails": 60}[kind]
    false = [settle(NAMES, draw() * rng.choice([-1, 1], 700), span=span).verdict != OPEN for _ in range(400)]
    assert np.mean(false) <= 0.05


differences = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 1.0]), min_size=1, max_size=200)


@given(differences, st.sampled_from([None, 0.3]))
def test_exchanging_the_names_exchanges_the_verdict(values: list[float], margin: float | None) -> None:
    d = np.array(values)
    one = settle(("a", "b"), d, span=1, margin=margin)
    other = settle(("b", "a"), -d, span=1, margin=margin)
    assert (one.verdict, one.used) == (other.verdict, other.used)


@given(differences, st.sampled_from([None, 0.3]))
def test_prompt_by_prompt_is_the_same_as_all_at_once(values: list[float], margin: float | None) -> None:
    race = Race(NAMES, 1.0, margin)
    for value in values:
        race.add([value, 0.0])
        if race.over:
            break
    found = settle(NAMES, np.array(values), span=1, margin=margin)
    assert (race.verdict, race.prompts) == (found.verdict, found.used)
    assert race.interval() == pytest.approx(found.interval)


@given(differences)
def test_the_scale_of_the_scores_does_not_matter(values: list[float]) -> None:
    d = np.array(values)
    one, other = settle(NAMES, d, span=1), settle(NAMES, 64 * d, span=64)
    assert (one.verdict, one.used) == (other.verdict, other.used)


def test_prompts_that_agree_so_far_settle_nothing_soon() -> None:
    assert settle(NAMES, np.zeros(FEWEST), span=1, margin=0.05).verdict == OPEN
    assert settle(NAMES, np.zeros(5000), span=1, margin=0.05).verdict == EQUIVALENT
    assert settle(NAMES, np.ones(FEWEST - 1), span=1).verdict == OPEN
    assert settle(NAMES, np.zeros(0), span=1).interval is None


def made(**levels: float) -> ScoreTable:
    rng = np.random.default_rng(2)
    entries = [
        Entry(f"p{k}", name, "", float(level + 0.1 * rng.normal()))
        for k in range(400)
        for name, level in levels.items()
    ]
    return score_table(entries, metric="score", source="scores.csv")


def test_a_replay_has_one_entry_a_pair_and_order() -> None:
    table = made(low=0.4, high=0.6, other=0.405)
    found = replay_pairs(table, [("low", "high"), ("low", "other")], margin=0.05, repeat=3)
    assert [each.verdict for each in found] == ["high"] * 3 + [EQUIVALENT] * 3
    assert all(each.used < each.of == 400 for each in found)
    assert found == replay_pairs(table, [("low", "high"), ("low", "other")], margin=0.05, repeat=3)
    (race,) = replay_race(table, ["low", "high", "other"])
    assert race["verdict"] == "high"
    assert race["used"] < race["of"] == 1200
    with pytest.raises(DataError, match="no generator 'hihg'"):
        replay_pairs(table, [("low", "hihg")])


def test_a_race_that_cannot_end_names_who_is_left() -> None:
    (race,) = replay_race(made(low=0.2, one=0.5, two=0.5), ["low", "one", "two"])
    assert race["verdict"] == OPEN
    assert set(race["left"]) == {"one", "two"}
    (race,) = replay_race(made(one=0.5, two=0.5, three=0.5), ["one", "two", "three"], margin=0.06)
    assert race["verdict"] == EQUIVALENT


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
