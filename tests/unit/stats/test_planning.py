"""Plans from a pilot: the variance with other numbers of images and answers, prompts, power and ranges."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import nct, t

from benchmarks import unkind, verdicts
from titjudge.core.errors import DataError
from titjudge.runs.study.score_files import read_scores
from titjudge.stats.generators.planning import (
    Pilot,
    cheapest,
    outlook,
    plan_table,
    plans,
    power_of,
    prompts_needed,
    usable_pilot,
)
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table

PROMPT, SEED, JUDGE = 0.3, 0.5, 0.4  # standard deviations of what makes a difference


def pilot_table(prompts: int, seeds: int, samples: int) -> ScoreTable:
    rng = np.random.default_rng(4)
    entries = []
    for p in range(prompts):
        common = rng.normal()
        for name in ("a", "b"):
            level = common + PROMPT * rng.normal() / 2**0.5
            for k in range(seeds):
                image = level + SEED * rng.normal()
                entries += [Entry(f"p{p}", name, f"{k}", float(image + JUDGE * rng.normal())) for _ in range(samples)]
    return score_table(entries, metric="score", source="pilot.csv")


def true_variance(seeds: int, samples: int) -> float:
    return PROMPT**2 + 2 * SEED**2 / seeds + 2 * JUDGE**2 / (seeds * samples)


def test_the_variance_with_other_numbers_is_what_it_will_be() -> None:
    pilot = Pilot.from_scores(pilot_table(4000, 2, 2), "a", "b")
    assert pilot.variance == pytest.approx(true_variance(2, 2), rel=0.07)
    for seeds, samples in ((1, 1), (1, 3), (4, 1), (8, 5)):
        assert pilot.variance_with(seeds, samples) == pytest.approx(true_variance(seeds, samples), rel=0.1)


def test_a_pilot_of_single_images_cannot_tell_of_more() -> None:
    pilot = Pilot.from_scores(pilot_table(50, 1, 1), "a", "b")
    assert pilot.seeds is None
    assert pilot.variance_with(2, 1) is None
    (plan,) = plans(pilot, 0.1, 0.8, seeds=(1, 2), samples=(1,), cost=None)
    assert plan.dollars is None
    assert plan.judgements == 2 * plan.prompts


@pytest.mark.parametrize(("a", "b", "spread"), [(2, 4, (1, 1)), (4, 2, (1, 3)), (2, 8, (3, 1)), (3, 6, (0.5, 2))])
def test_unequal_numbers_of_images_are_those_of_each_generator(a: int, b: int, spread: tuple[float, float]) -> None:
    rng, entries = np.random.default_rng(4), []
    for p in range(4000):
        common = rng.normal()
        for name, images, sd in (("a", a, spread[0]), ("b", b, spread[1])):
            level = common + PROMPT * rng.normal() / 2**0.5
            entries += [Entry(f"p{p}", name, f"{k}", float(level + sd * SEED * rng.normal())) for k in range(images)]
    pilot = Pilot.from_scores(score_table(entries, metric="score", source="pilot.csv"), "a", "b")
    for seeds in (1, 2, 4):
        true = PROMPT**2 + SEED**2 * (spread[0] ** 2 + spread[1] ** 2) / seeds
        assert pilot.variance_with(seeds, 1) == pytest.approx(true, rel=0.1)


@pytest.mark.parametrize(("images", "kind"), [((1, 4), "mean"), ((1, 3), "mean"), ((3, 6), "best")])
def test_a_pilot_with_one_image_of_a_generator_cannot_tell_of_more(images: tuple[int, int], kind: str) -> None:
    rng = np.random.default_rng(4)
    entries = [
        Entry(f"p{p}", name, f"{k}", float(rng.normal()))
        for p in range(50) for name, number in zip("ab", images, strict=True) for k in range(number)
    ]  # fmt: skip
    table = score_table(entries, metric="score", source="pilot.csv", per_prompt=PerPrompt(kind))
    pilot = Pilot.from_scores(table, "a", "b")
    assert [pilot.variance_with(seeds, 1) for seeds in (1, 2, 3, 4)] == [None] * 4
    assert usable_pilot(table, "a", "b") is None


def exact_power(n: int, effect: float) -> float:
    """Of a two-sided paired t-test at 5%, by the noncentral t distribution."""
    bound, shift = t.ppf(0.975, n - 1), effect * n**0.5
    return float(nct.sf(bound, n - 1, shift) + nct.cdf(-bound, n - 1, shift))


def test_prompts_and_power_are_those_of_the_paired_t_test() -> None:
    for effect in (0.1, 0.25, 0.5):
        wanted = next(n for n in range(10, 2000) if exact_power(n, effect) >= 0.8)
        assert prompts_needed(1.0, effect, 0.8) == pytest.approx(wanted, abs=2)
        assert power_of(np.array([60.0]), 1.0, effect)[0] == pytest.approx(exact_power(60, effect), abs=0.015)


def test_dollars_count_images_and_answers_of_both() -> None:
    pilot = Pilot.from_scores(pilot_table(200, 2, 2), "a", "b")
    found = plans(pilot, 0.1, 0.8, seeds=(1, 4), samples=(1, 3), cost=0.01)
    assert len(found) == 4
    for plan in found:
        assert plan.range[0] < plan.prompts < plan.range[1]
        each = 0.01 / 2 * 2 * plan.seeds * plan.samples  # the pilot's images had two answers for that price
        assert plan.dollars == pytest.approx(tuple(each * n for n in (plan.range[0], plan.prompts, plan.range[1])))
    assert cheapest(found).dollars == min((plan.dollars or (0.0, 0.0, 0.0) for plan in found), key=lambda of: of[1])


def planned(differences: np.ndarray, bounds: tuple[float, float] | None = None) -> str:
    """The notes below a plan for a difference of a fifth of the spread."""
    table = replace(unkind.board(np.column_stack([differences, np.zeros(len(differences))])), bounds=bounds)
    pilot = Pilot.from_scores(table, "g00", "g01")
    wanted = float(differences.std()) / 5
    made = plans(pilot, wanted, 0.8, seeds=[1], samples=[1], cost=None)
    return " ".join(plan_table(made, [pilot], 0.8).notes)


def test_a_plan_says_what_its_pilot_cannot_know() -> None:
    rng = np.random.default_rng(1)
    usual = rng.normal(0, 10, 40)
    assert "tails" not in planned(usual)
    assert "trust the range" not in planned(usual[:12])
    assert "the range is wrong too" in planned(usual[:12])
    assert "one prompt of 40 makes up" in planned(np.append(usual[:39], 60.0))
    assert "if 1 prompt in 40 differs by the whole scale" in planned(usual, (0.0, 100.0))
    assert "whole scale" not in planned(20 * usual, (0.0, 100.0))


def test_differences_are_shares_of_the_scale_that_prompts_are_scored_on() -> None:
    """By `any` a prompt counts 0 or 1, whatever the scale of an image's score is."""
    rng = np.random.default_rng(3)
    entries = [Entry(f"p{k}", name, "", float(rng.uniform(0, 100))) for k in range(60) for name in ("a", "b")]
    table = score_table(entries, metric="m", source="s", bounds=(0.0, 100.0), per_prompt=PerPrompt.parse("any:50"))
    planned = outlook(table, "a", "b", 3)
    assert planned is not None
    assert [row[2].text for row in planned.table.rows] == ["0.010", "0.020", "0.050"]


def test_nothing_to_plan_from() -> None:
    same = [Entry(f"p{k}", name, "", 1.0) for k in range(5) for name in ("a", "b")]
    with pytest.raises(DataError, match=r"pilot\.csv: all prompts have the same difference of 'a' and 'b'"):
        Pilot.from_scores(score_table(same, metric="score", source="pilot.csv"), "a", "b")
    with pytest.raises(DataError, match="a pilot needs two"):
        Pilot.from_scores(score_table(same[:2], metric="score", source="pilot.csv"), "a", "b")


def test_power_and_range_on_peoples_marks(shared: Path) -> None:
    """Small draws of what `python -m benchmarks.verdicts` prints."""
    table = read_scores(shared / "human" / "lmm4lmm_12_generators.csv.gz", "yes_no")
    pairs, power, held, _ = verdicts.planned(table.means, 50, 2)
    assert pairs > 20
    assert 0.75 <= power <= 0.83
    assert held >= 0.8


def test_a_plan_lists_the_prompts_of_the_pilot_that_do_not_count() -> None:
    entries = [Entry(f"p{p}", g, f"{g}{p}", float(p % 7 + (g == "a") * (p % 3))) for p in range(14) for g in "abc"]
    entries = [entry for entry in entries if entry.image not in ("a3", "b5", "b6")]
    table = score_table(entries, metric="m", source="file")
    pilot = Pilot.from_scores(table, "a", "b")
    declared = plan_table(plans(pilot, 1.0, 0.8, seeds=[1], samples=[1], cost=None), [pilot], 0.8).declared
    assert declared.excluded == {"no_score": {"a": ["p3"], "b": ["p5", "p6"]}}
    assert declared.sizes == {"common_of_two": [11]}
