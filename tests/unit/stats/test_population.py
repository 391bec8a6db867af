"""Uneven data: generators with scores on other prompts than the rest change no order, no "best" and no test of the others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.declarations import Population
from titjudge.core.run_records import Manifest, Results
from titjudge.core.types import Item, Score
from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.comparison_tables import CATEGORIES, compared_with_best
from titjudge.stats.generators.generator_differences import (
    CANNOT_TELL,
    GENERATORS,
    NOT_WORSE,
    gate,
    generator_differences,
    is_best,
)
from titjudge.stats.generators.slices import best_first
from titjudge.stats.intervals import mean_interval
from titjudge.stats.people.agreement import agreement
from titjudge.stats.scores.population import adjusted_scores, comparable
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table
from titjudge.stats.significance import range_p
from titjudge.stats.verdict.better_generator import better_generator
from titjudge.stats.verdict.judged_runs import JudgedRun, RunScores

NAN = np.nan
UNEVEN = st.integers(0, 10_000).map(lambda seed: uneven(np.random.default_rng(seed)))


def uneven(rng: np.random.Generator) -> Floats:
    """Scores of 2 to 5 generators on 4 to 30 prompts of unlike difficulty, about a third of them missing."""
    shape = int(rng.integers(4, 31)), int(rng.integers(2, 6))
    scores = rng.normal(size=shape) + 5 * rng.normal(size=(shape[0], 1))
    scores[rng.random(shape) < 0.3] = NAN
    return scores


def table(means: Floats, names: str = "ABCDE") -> ScoreTable:
    entries = [
        Entry(f"p{row}", names[column], f"{row}/{column}", float(value))
        for (row, column), value in np.ndenumerate(means)
        if np.isfinite(value)
    ]
    return score_table(entries, metric="m", source="test", bounds=(0.0, 100.0))


def easy_part() -> Floats:
    """B is 4 better than A on each prompt; A has only the 24 easy ones of 40."""
    rng = np.random.default_rng(0)
    b = np.where(np.arange(40) < 24, 80.0, 30.0) + rng.normal(0, 3, 40)
    a = np.where(np.arange(40) < 24, b - 4 + rng.normal(0, 1, 40), NAN)
    return np.stack([a, b], axis=1)


def run_of(means: Floats) -> JudgedRun:
    scores = table(means)
    items = {
        f"{g}/{p}": Item(f"{g}/{p}", f"a thing {p}", None, g, p)
        for column, g in enumerate(scores.generators)
        for p, value in zip(scores.prompts, scores.means[:, column], strict=True)
        if np.isfinite(value)
    }

    kept = RunScores()
    for item in items.values():
        value = scores.means[scores.prompts.index(item.prompt_id), scores.column(item.generator)]
        kept[item.id, "m"] = Score(item.id, "m", float(value), generator=item.generator, prompt_id=item.prompt_id)
    manifest = Manifest.model_validate({"metrics": {"m": {"version": "1", "range": (0, 100)}}, "protocol": "strict"})
    return JudgedRun("run", manifest, Results.model_validate({"metrics": {"m": {}}}), list(items.values()), kept)


def test_complete_scores_stay_as_they_are() -> None:
    scores = np.random.default_rng(1).normal(size=(9, 3))
    assert adjusted_scores(scores) is scores
    assert comparable(scores) == [0, 1, 2]


@given(UNEVEN)
def test_a_generator_with_every_prompt_keeps_its_mean(scores: Floats) -> None:
    scores[:, 0] = np.where(np.isfinite(scores[:, 0]), scores[:, 0], 1.0)
    np.testing.assert_array_equal(adjusted_scores(scores)[:, 0], scores[:, 0])


@given(UNEVEN)
def test_two_generators_differ_by_their_mean_difference_on_common_prompts(scores: Floats) -> None:
    two = scores[:, :2]
    both = two[np.isfinite(two).all(axis=1)]
    if len(both):
        adjusted = np.nanmean(adjusted_scores(two), axis=0)
        assert adjusted[0] - adjusted[1] == pytest.approx((both[:, 0] - both[:, 1]).mean())


@given(UNEVEN, st.integers(0, 1000))
def test_neither_rows_nor_columns_have_an_order(scores: Floats, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(scores.shape[0]), rng.permutation(scores.shape[1])
    turned = adjusted_scores(scores[np.ix_(rows, columns)])
    expected = adjusted_scores(scores)[np.ix_(rows, columns)]
    if np.isfinite(turned).any(axis=0).sum() == np.isfinite(scores).any(axis=0).sum():  # all are connected
        np.testing.assert_allclose(turned, expected, atol=1e-9)


def test_easy_prompts_make_no_winner() -> None:
    scores = easy_part()
    assert best_first(scores) == [1, 0]
    record = better_generator([run_of(scores)], "m")
    assert record is not None
    assert (record.first, record.better, record.wins, record.losses, record.prompts) == ("B", True, 24, 0, 24)
    assert [ranked.generator for ranked in record.ranking] == ["B", "A"]
    assert (record.difference or 0) > 0 < (record.ranking[0].mean or 0) - (record.ranking[1].mean or 0)


@pytest.mark.parametrize(
    ("rows", "level"), [(range(5), 20.0), (range(30, 42), 75.0), (range(30, 80), 75.0)], ids=["few", "own", "more"]
)
def test_a_generator_with_other_prompts_changes_no_verdict(rows: range, level: float) -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(60, 8, 30)
    two = np.stack([a, a - 6 + rng.normal(0, 2, 30)], axis=1)
    three = np.full((max(30, rows.stop), 3), NAN)
    three[:30, :2] = two
    three[rows, 2] = level + rng.normal(0, 3, len(rows))
    alone, joined = (better_generator([run_of(scores)], "m") for scores in (two, three))
    assert alone is not None
    assert joined is not None
    assert (joined.first, joined.second, joined.better) == ("A", "B", True)
    assert (joined.p, joined.prompts) == (pytest.approx(alone.p), 30)
    assert joined.interval == pytest.approx(alone.interval)
    assert joined.set_aside == {"C": len(set(rows) & set(range(30)))}
    assert not is_best(table(three), "C")
    assert range_p(three[:, [0, 2]]) is None or len(rows) == 5


def test_a_column_that_shares_no_prompt_gives_no_p() -> None:
    rng = np.random.default_rng(3)
    scores = np.full((30, 3), NAN)
    scores[:20, :2] = rng.normal(size=(20, 2))
    scores[20:, 2] = rng.normal(size=10)
    assert range_p(scores) is None
    assert (range_p(scores[:, [0, 2, 1]]) or 0) > 0.05


@pytest.mark.parametrize("prompts", [12, 40])
def test_equal_generators_with_missing_scores_are_seldom_told_apart(prompts: int) -> None:
    rng = np.random.default_rng(4)
    false, tries = 0, 120
    for _ in range(tries):
        scores = rng.normal(size=(prompts, 4)) + 3 * rng.normal(size=(prompts, 1))
        scores[rng.random(scores.shape) < [0.0, 0.1, 0.3, 0.5]] = NAN
        order = best_first(scores)
        p = range_p(scores[:, order])
        false += p is not None and p < 0.05
    assert false <= 0.05 * tries + 3 * (0.05 * 0.95 * tries) ** 0.5


def test_a_constant_gap_has_no_detectable_difference() -> None:
    b = np.random.default_rng(5).normal(60, 8, 21).round(1)
    (difference,) = generator_differences(table(np.stack([b, b - 4], axis=1)), baseline="B")
    assert (difference.difference, difference.detectable, difference.wins) == (pytest.approx(4.0), None, 21)


def test_the_interval_of_an_estimated_mean_covers_the_mean_of_complete_data() -> None:
    rng, covered = np.random.default_rng(6), 0
    for _ in range(200):
        scores = rng.normal(size=(40, 2)) + 3 * np.sort(rng.normal(size=(40, 1)), axis=0)
        scores[24:, 0] = NAN  # the hard prompts
        low, high = mean_interval(adjusted_scores(scores)[:, 0]) or (0.0, 0.0)
        covered += low <= 0 <= high
    assert covered >= 180


def test_prompts_without_an_image_keep_the_gate_open() -> None:
    rng = np.random.default_rng(7)
    base = rng.normal(60, 3, 200)
    scores = np.stack([base, base - 0.5 + rng.normal(0, 1, 200)], axis=1)
    scores[100:, 1] = NAN
    for means, verdict in ((scores[:100], NOT_WORSE), (scores, CANNOT_TELL)):
        shown = table(means)
        assert gate(generator_differences(shown, baseline="A"), 25.0, shown).verdicts == {"B": verdict}


def test_who_is_not_compared_is_named() -> None:
    scores = np.full((40, 3), NAN)
    scores[:, :2] = easy_part()
    scores[:3, 2] = 99.0
    comparison = compared_with_best(table(scores))
    assert comparison is not None
    assert (comparison.against, comparison.aside, comparison.tier_names) == (("B",), ("C",), [["B"], ["A"]])


def test_a_generator_that_is_not_compared_comes_last_with_its_own_mean() -> None:
    means = np.full((40, 3), NAN)
    means[:, 1:] = easy_part()
    means[:3, 0] = 99.0
    names = ("few", "part", "all")
    items = [
        Item(f"{name}/{row}", f"a thing {row}", None, name, f"p{row}")
        for column, name in enumerate(names)
        for row in range(40)
        if np.isfinite(means[row, column])
    ]
    value = {f"{name}/{row}": float(means[row, column]) for column, name in enumerate(names) for row in range(40)}
    found = agreement(items, [Score(item.id, "m", value[item.id]) for item in items])
    assert [row.generator for row in found.leaderboard] == ["all", "part", "few"]
    places = {row.generator: row.metrics["m"] for row in found.leaderboard}
    assert (places["few"].mean, places["few"].rank) == (99.0, None)
    assert (places["all"].mean_rank, places["part"].mean_rank) == (1.0, 2.0)


def test_equal_scores_of_all_images_are_noted() -> None:
    assert any("same score (70)" in note for note in table(np.full((4, 2), 70.0)).notes)
    assert not table(np.full((2, 2), 70.0)).notes  # too few to tell
    assert not table(np.arange(8.0).reshape(4, 2)).notes


def test_a_table_of_categories_has_their_sizes() -> None:
    scores = table(easy_part())
    parts = {"easy": np.arange(40)[:, None] < 24, "hard": np.arange(40)[:, None] >= 24}
    sliced = replace(scores, slices={"type": {name: np.where(rows, scores.means, NAN) for name, rows in parts.items()}})
    over = sliced.over(CATEGORIES, sized=False)
    assert (over.sizes[Population.SAME_PROMPTS], over.sizes[Population.COMMON_OF_ALL]) == ([16, 24], [0, 24])
    assert sliced.over(GENERATORS).sizes == {Population.SAME_PROMPTS: [40]}
    assert sliced.over(GENERATORS).excluded == {"no_score_estimated": {"A": [f"p{k}" for k in range(24, 40)]}}
