"""Generators against each other, by prompt: differences, tests, adjustments and gates."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import verdicts
from tests.commands import cli
from titjudge.core.errors import DataError
from titjudge.runs.study.score_files import read_scores
from titjudge.stats.generators.generator_differences import (
    CANNOT_TELL,
    NOT_WORSE,
    WORSE,
    compared_pairs,
    gate,
    generator_differences,
    verdict_tables,
)
from titjudge.stats.generators.paired_differences import prompt_differences
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table
from titjudge.stats.significance import holm, sign_flip_p


def made(scores: dict[str, list[float | None]], **categories: list[str]) -> ScoreTable:
    entries = [Entry(f"p{k}", name, "", value) for name, values in scores.items() for k, value in enumerate(values)]
    told = {column: {f"p{k}": value for k, value in enumerate(values)} for column, values in categories.items()}
    return score_table(entries, metric="score", source="scores.csv", categories=told)


def test_a_difference_has_one_p_for_runs_and_for_generators() -> None:
    """As `judges agreement` and `compare generators` ask for it: 40 prompts, three images each, scores that are no round numbers."""
    rng = np.random.default_rng(3)
    scores = {name: rng.normal(level, 1.0, (40, 3)) / 7 for name, level in (("a", 0.4), ("b", 0.0), ("c", -0.2))}
    entries = [
        Entry(f"p{k}", name, f"{name}{k}{seed}", float(values[k, seed]))
        for name, values in scores.items()
        for k in rng.permutation(40).tolist()
        for seed in range(3)
    ]
    table = score_table(entries, metric="score", source="")
    of_runs = {(one.first, one.second): one for one in prompt_differences(table, compared_pairs(table))}
    for one in generator_differences(table):
        other = of_runs[one.a, one.b]
        assert one.p == other.p_value
        assert one.interval == pytest.approx(other.interval)


def test_a_difference_in_all_its_numbers() -> None:
    (found,) = generator_differences(made({"a": [1, 1, 0, 1, 1], "b": [0, 1, 1, 0, None]}))
    assert (found.a, found.b, found.prompts) == ("a", "b", 4)
    assert (found.wins, found.same, found.losses) == (2, 1, 1)
    assert found.difference == pytest.approx(0.25)
    d = np.array([1, 0, -1, 1])
    error = d.std(ddof=1) / 2
    assert found.interval is not None
    assert found.interval[0] <= 0.25 - 3.18 * error
    (within,) = generator_differences(replace(made({"a": [1, 1, 0, 1, 1], "b": [0, 1, 1, 0, None]}), bounds=(0.0, 1.0)))
    assert within.interval == pytest.approx((-1, 1))  # what differences of scores from 0 to 1 cannot leave
    assert found.detectable == pytest.approx((3.182446 + 0.978472) * error, rel=1e-5)
    assert found.p == found.p_adjusted == 1.0


def test_scores_that_differ_by_rounding_are_the_same() -> None:
    (found,) = generator_differences(made({"a": [0.1 + 0.2, 1, 0], "b": [0.3, 0, 0]}))
    assert (found.wins, found.same, found.losses) == (1, 2, 0)


def test_p_is_exact_for_few_prompts_and_close_for_many() -> None:
    rng = np.random.default_rng(0)
    few = rng.normal(0.4, 1, 9)
    brute = np.mean([abs(np.dot(s, few)) >= abs(few.sum()) - 1e-12 for s in product((-1, 1), repeat=9)])
    many = (rng.random(400) < 0.3) * rng.choice([-1, 1, 1], 400).astype(float)
    padded = np.full((400, 2), np.nan)
    padded[:9, 0], padded[:, 1] = few, many
    found = sign_flip_p(padded)
    assert found[0] == pytest.approx(brute)
    error = (many**2).sum() ** 0.5
    from scipy.stats import norm

    assert found[1] == pytest.approx(2 * norm.sf((abs(many.sum()) - 1) / error), abs=0.01)


@pytest.mark.parametrize("prompts", [9, 16, 17, 60])
def test_p_depends_neither_on_the_order_of_prompts_nor_on_others(prompts: int) -> None:
    rng = np.random.default_rng(prompts)
    column = np.round(rng.normal(0.3, 1, prompts), 1)
    (alone,) = sign_flip_p(column[:, None])
    beside = rng.normal(0, 1, (prompts + 40, 3))
    beside[:, 1] = rng.permutation(np.concatenate((column, np.zeros(20), np.full(20, np.nan))))
    assert sign_flip_p(beside)[1] == sign_flip_p(-3 * column[::-1, None])[0] == alone


def test_random_flips_come_close_to_all_of_them() -> None:
    """38 whole differences: all 2^38 signs by convolution; 99,999 flips have a standard error of .0004 at .016."""
    d = np.round(np.random.default_rng(3).normal(3.0, 6.8, 38))
    chance = np.ones(1)
    for step in np.abs(d).astype(int):
        chance = np.convolve(chance, np.r_[0.5, np.zeros(2 * step - 1), 0.5] if step else [1.0])
    sums = np.arange(len(chance)) - len(chance) // 2
    assert sign_flip_p(d[:, None])[0] == pytest.approx(chance[np.abs(sums) >= abs(d.sum())].sum(), abs=0.0012)


def test_a_p_below_one_in_ten_thousand_is_a_bound_on_all_exchanges() -> None:
    d = np.ones((40, 1))
    assert 2 * 0.5**40 < sign_flip_p(d)[0] <= 2 * np.exp(-20) * 1.001
    few = np.ones((14, 1))
    assert sign_flip_p(few)[0] >= 2 * 0.5**14


def test_holm_is_what_its_paper_says() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_pairs_are_adjusted_together_and_slices_within_a_pair() -> None:
    rng = np.random.default_rng(1)
    scores: dict[str, list[float | None]] = {
        name: list(rng.normal(level, 1, 60)) for name, level in (("a", 0), ("b", 0.2), ("c", 0.9))
    }
    found = generator_differences(made(scores, theme=["x", "y", "z"] * 20))
    assert [each.p_adjusted for each in found] == pytest.approx(holm([each.p or 0 for each in found]))
    assert set(found[0].by["theme"]) == {"x", "y", "z"}
    assert sum(each.prompts for each in found[0].by["theme"].values()) == 60
    assert all((one.p_adjusted or 0) >= (one.p or 0) for one in found[2].by["theme"].values())
    against = generator_differences(made(scores), baseline="b")
    assert [(each.a, each.b) for each in against] == [("c", "b"), ("a", "b")]
    titles = [table.title for table in verdict_tables(made(scores, theme=["x", "y", "z"] * 20), found, {})]
    assert titles == ["Generators by score", "Differences between generators", "Differences by theme"]


def test_a_generator_that_is_set_aside_changes_no_adjusted_p() -> None:
    rng = np.random.default_rng(1)
    scores: dict[str, list[float | None]] = {
        name: list(rng.normal(level, 1, 20)) for name, level in (("a", 0), ("b", 0.4), ("c", 0.9))
    }
    scores["c"][0] = None  # shares 5 prompts with `late`, the others 6
    late = [*rng.normal(3, 1, 6), *[None] * 14]
    alone = {each.pair: each.p_adjusted for each in generator_differences(made(scores))}
    found = {each.pair: each for each in generator_differences(made(scores | {"late": late}))}
    assert {pair: each.p_adjusted for pair, each in found.items() if "late" not in pair} == alone
    assert [(each.p is None, each.p_adjusted) for pair, each in found.items() if "late" in pair] == [(False, None)] * 3
    couples = [(each.a, each.b) for each in found.values()]
    by_metric = prompt_differences(made(scores | {"late": late}), couples, every=True)
    before = prompt_differences(made(scores), [couple for couple in couples if "late" not in couple], every=True)
    assert [each.p_adjusted for each in by_metric if "late" not in (each.first, each.second)] == [
        each.p_adjusted for each in before
    ]
    assert {each.p_adjusted for each in by_metric if "late" in (each.first, each.second)} == {None}


def test_too_little_to_compare_is_one_line_with_the_file() -> None:
    with pytest.raises(DataError, match=r"scores\.csv: 'a' and 'b' have 1 prompt with a score in common"):
        generator_differences(made({"a": [1, None], "b": [0, 2]}))
    with pytest.raises(DataError, match=r"scores\.csv: only the generator 'a'"):
        generator_differences(made({"a": [1, 2]}))
    with pytest.raises(DataError, match=r"unknown generator 'bas'\. Did you mean 'base'\?"):
        generator_differences(made({"a": [1, 2], "base": [1, 2]}), baseline="bas")


def test_a_gate_has_three_outcomes() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(300)
    scores = {"base": base, "bad": base - 0.2 + 0.1 * rng.random(300), "same": base + 0.05 * rng.normal(size=300),
              "loose": base + rng.normal(size=300)}  # fmt: skip
    table = made({name: list(values) for name, values in scores.items()})
    found = generator_differences(table, baseline="base")
    decided = gate(found, 0.05, table)
    assert decided.verdicts == {"bad": WORSE, "same": NOT_WORSE, "loose": CANNOT_TELL}
    assert decided.failed
    assert decided.open
    assert not gate([each for each in found if each.a == "same"], 0.05, table).open


@pytest.mark.parametrize("shared", [0, 3])
def test_a_candidate_with_too_few_common_prompts_changes_no_gate(shared: int) -> None:
    noise, outcomes = np.random.default_rng(3).normal(0, 0.3, 30), set()
    for shift in np.linspace(-0.3, 0, 40):
        one: dict[str, list[float | None]] = {"a": [*(noise + shift)], "base": [0.0] * 30}
        both = {name: [*values, *[None] * 8] for name, values in one.items()}
        both["other"] = [None] * (30 - shared) + [0.0] * (8 + shared)
        tables = [made(scores) for scores in (one, both)]
        alone, beside = (gate(generator_differences(each, baseline="base"), 0.05, each).verdicts for each in tables)
        assert alone["a"] == beside["a"]
        outcomes.add(alone["a"])
    assert WORSE in outcomes


@pytest.mark.parametrize("size", [1, 2])
def test_prompts_of_an_unrelated_generator_change_no_p(size: int) -> None:
    """Also of skewed differences in families of this size, whose p may be the p of their interval."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        skewed = np.repeat(1.5 - 9 * rng.exponential(0.15, 40), size)
        scores: dict[str, list[float | None]] = {"a": [*skewed], "b": [0.0] * 40 * size}
        more = {name: [*values, *[None] * 20] for name, values in scores.items()}
        more["c"] = [None] * 40 * size + [1.0] * 20
        alone, beside = (
            {(each.a, each.b): each.p for each in generator_differences(replace(table, unit=np.arange(rows) // size))}
            for rows, table in ((40 * size, made(scores)), (40 * size + 20, made(more)))
        )
        ((pair, p),) = alone.items()
        assert beside[pair] == p


def test_one_candidate_fails_exactly_where_its_interval_does() -> None:
    rng = np.random.default_rng(3)
    for shift in np.linspace(-0.2, 0, 40):
        table = made({"a": list(rng.normal(shift, 0.3, 30)), "base": [0.0] * 30})
        (found,) = generator_differences(table, baseline="base")
        assert found.interval is not None
        assert (gate([found], 0.05, table).verdicts["a"] == WORSE) == (found.interval[1] < -0.05)


def test_equal_generators_cannot_be_told_to_be_better_than_few_prompts_show() -> None:
    values: list[float | None] = [1.0, 0.0] * 20
    table = made({"a": values, "base": values})
    (found,) = generator_differences(table, baseline="base")
    assert found.interval is not None
    assert found.interval[1] == pytest.approx(1 - 0.025 ** (1 / 40))
    assert gate([found], 0.01, table).verdicts["a"] == CANNOT_TELL
    assert gate([found], 0.1, table).verdicts["a"] == NOT_WORSE
    all_worse: list[float | None] = [0.0] * 40
    table = made({"a": all_worse, "base": [1.0] * 40})
    (found,) = generator_differences(table, baseline="base")
    assert gate([found], 0.01, table).verdicts["a"] == WORSE


def test_intervals_and_gates_on_peoples_marks(shared: Path) -> None:
    """Small draws of what `python -m benchmarks.verdicts` prints."""
    table = read_scores(shared / "human" / "lmm4lmm_12_generators.csv.gz", "yes_no")
    scores = table.means
    assert scores.shape == (2100, 12)
    assert 0.93 <= verdicts.interval_coverage(scores, 40)[0] <= 0.975
    one, several = verdicts.gate_errors(scores, 8, 0.0)
    assert one <= 0.05
    assert several <= 0.06


def test_shares_of_claims_lie_between_0_and_1_whatever_the_scale_of_the_score() -> None:
    generators, prompts = ("a", "b"), [f"p{k}" for k in range(6)]
    entries = [Entry(p, g, f"{g}/{p}", 40.0 + k) for k, p in enumerate(prompts) for g in generators]
    parts = {"element": [(p, g, "entity", 1.0 if g == "a" else 0.5) for p in prompts for g in generators],
             "pillar": [(p, g, "quality", 60.0 if g == "a" else 50.0) for p in prompts for g in generators]}  # fmt: skip

    def ends(column: str, value: str, **told: Any) -> tuple[float, float]:
        table = score_table(entries, metric="m", source="s", bounds=(0.0, 100.0), parts=parts, **told)
        (found,) = generator_differences(table)
        return found.by[column][value].interval or (math.nan, math.nan)

    rest = 1 - 0.025 ** (1 / 6)  # of prompts may show something else than these six
    low, high = ends("element", "entity")
    assert (low, high) == pytest.approx((0.5 - rest * 1.5, 0.5 + rest * 0.5))  # differences of shares: -1 to 1
    points = (10 - rest * 110, 10 + rest * 90)
    assert ends("pillar", "quality") == pytest.approx(points)
    assert ends("pillar", "quality", per_prompt=PerPrompt("any", 50.0)) == pytest.approx(
        points
    )  # points, though the score is 0 or 1


def test_rare_collapses_do_not_make_equal_means_differ_and_unseen_ones_are_named(tmp_path: Path) -> None:
    """97 and one image in 33 blank, against a generator that always has this mean: p by exchange alone errs in 20%."""
    rng, runs = np.random.default_rng(2), 150
    kept = 97 + rng.normal(size=(100, runs))
    scores = np.where(rng.random(kept.shape) < 0.03, 0.0, kept) - 0.97 * 97
    ps = sign_flip_p(scores)
    assert np.mean(np.array(ps) < 0.05) <= 0.09
    rows = [f"p{p},{g},{95 - 3 * k + p % (2 + k)}" for p in range(40) for k, g in enumerate("AB")]
    (tmp_path / "scores.csv").write_text("\n".join(["prompt_id,generator,score", *rows]))
    command = "compare", "generators", "scores.csv", "--baseline", "A", "--json", "out.json"
    printed = cli(tmp_path, *command, "--range", "0,100", "--fail-if-worse", "1", code=1)
    found = json.loads((tmp_path / "out.json").read_text())
    assert printed.count("level not reliable") == 3  # both tables, and the gate
    assert [pair.get("doubt") for pair in found["pairs"]] == ["one_score"]
    cli(tmp_path, *command)
    assert "doubt" not in json.loads((tmp_path / "out.json").read_text())["pairs"][0]


@pytest.mark.parametrize("more", [{}, {"c": [10 + k % 5 for k in range(12)]}])
def test_a_constant_difference_is_not_reliable_if_its_interval_contains_0(more: dict[str, list[float]]) -> None:
    low = [50.0 + 3 * k % 17 for k in range(12)]
    table = made({"a": [score + 2 for score in low], "b": low, **more})
    found = generator_differences(table, baseline="a", chosen=bool(more))[0]
    assert found.p is not None
    assert found.interval is not None
    assert found.p < 0.001
    assert found.interval[0] < 0 < found.interval[1]
    assert found.doubt == "disagree"


@pytest.mark.parametrize(
    ("a", "b", "doubt"),
    [
        ([100.0 * (k % 10 > 0) for k in range(20)], [50.0 + 10 * (k % 2) for k in range(20)], "coarse"),
        ([100.0 * (k % 10 > 0) for k in range(20)], [100.0 * (k % 7 > 0) for k in range(20)], "coarse"),
        ([70 + 7.3 * k % 11 - 60 * (k < 4) for k in range(20)], [68 + 3.7 * k % 9 for k in range(20)], "coarse"),
        ([70 + 7.3 * k % 11 for k in range(20)], [68 + 3.7 * k % 9 for k in range(20)], ""),
        ([100.0 * (k % 10 > 0) for k in range(40)], [50.0 + 10 * (k % 2) for k in range(40)], ""),  # enough prompts
    ],
)
def test_few_different_scores_or_a_few_far_from_the_others_are_noted(
    a: list[float], b: list[float], doubt: str
) -> None:
    (found,) = generator_differences(made({"a": a, "b": b}))
    assert found.doubt == doubt
