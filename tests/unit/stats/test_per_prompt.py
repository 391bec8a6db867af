"""Several images of a prompt become one score: mean, best, any and all, and what is certain where one has no score."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import ConfigError
from titjudge.core.types import Item, Score, Status
from titjudge.stats.generators.generator_differences import generator_differences, generator_records
from titjudge.stats.intervals import share_interval
from titjudge.stats.people.agreement import agreement
from titjudge.stats.people.agreement_tables import agreement_tables
from titjudge.stats.ranking.leaderboard import leaderboard
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.scores_table import Entry, score_table

MARK = st.sampled_from([0.0, 0.5, 1.0, None])
NONE = math.nan


def by_hand(kind: str, marks: list[float | None], higher: bool) -> float:
    """What can be said whatever the missing marks are; the mean is that of the others."""
    known = [mark for mark in marks if mark is not None]
    if kind == "mean":
        return sum(known) / len(known) if known else NONE
    if kind == "best":
        return NONE if len(known) < len(marks) else max(known) if higher else min(known)
    right = [mark == (1.0 if higher else 0.0) for mark in known]
    outcomes = {
        (any if kind == "any" else all)([*right, guess] if len(known) < len(marks) else right) for guess in (0, 1)
    }
    return float(outcomes.pop()) if len(outcomes) == 1 else NONE


@given(st.lists(st.lists(MARK, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_kinds_are_what_they_are_called(prompts: list[list[float | None]], higher: bool) -> None:
    cell = np.array([at for at, marks in enumerate(prompts) for _ in marks])
    value = np.array([NONE if mark is None else mark for marks in prompts for mark in marks])
    for kind in ("mean", "best", "any", "all"):
        rule = PerPrompt.parse(kind).of_metric((0.0, 1.0), higher, "m")
        wanted = [by_hand(kind, marks, higher) for marks in prompts]
        np.testing.assert_allclose(rule.combine(cell, value, len(prompts)), wanted)
        if kind in ("any", "all"):
            np.testing.assert_allclose(rule.negated().combine(cell, -value, len(prompts)), wanted)


@pytest.mark.parametrize("text", ["", "median", "any:", "any:x", "any:nan", "best:1", "mean:0", "all:inf"])
def test_unknown_rules_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--per-prompt must be mean, best, any, all"):
        PerPrompt.parse(text)


def test_any_needs_to_know_what_is_right() -> None:
    with pytest.raises(ConfigError, match=r"tit has no best score\. Give the lowest score"):
        PerPrompt.parse("any").of_metric((-math.inf, math.inf), True, "tit")
    rule = PerPrompt.parse("all:0.3").of_metric((-1, 1), True, "tit")
    assert rule.combine(np.array([0, 0]), np.array([0.1 + 0.2, 0.4]), 1).tolist() == [1.0]  # 0.30000000000000004
    assert str(rule) == "all:0.3"


def test_a_prompt_counts_once_however_many_images_it_has() -> None:
    images = [
        ("x1", "x", "p"),
        ("x2", "x", "p"),
        ("x3", "x", "p"),
        ("x4", "x", "q"),
        ("y1", "y", "p"),
        ("y2", "y", "q"),
    ]
    values = {"x1": 1.0, "x2": 0.0, "x3": 0.5, "x4": 0.0, "y1": 0.4, "y2": 0.4}
    places = leaderboard(images, values, bounds=(0, 1)).places
    assert places["x"].mean == 0.25  # and not 1.5 / 4
    assert places["x"].spread == pytest.approx(0.5)
    assert (places["y"].mean, places["y"].spread) == (0.4, None)
    best = leaderboard(images, values, bounds=(0, 1), per_prompt=PerPrompt("best")).places
    assert (best["x"].mean, best["x"].mean_rank) == (0.25, 1.5)  # as if x had one image of p, like y
    (told,) = leaderboard(images, values, bounds=(0, 1), per_prompt=PerPrompt("best"), name="m").warnings
    assert "1 to 3 images" in told
    assert leaderboard(images, values, bounds=(0, 1)).warnings == ()
    found = leaderboard(images, values, bounds=(0, 1), per_prompt=PerPrompt("any")).places
    assert (found["x"].mean, found["y"].mean) == (pytest.approx(1 / 6), 0.0)


def test_the_leaderboard_shows_the_spread_where_there_is_one() -> None:
    items = [Item(f"{g}{k}", "a cat", None, g, "p", sample=k) for g in "xy" for k in range(3)]
    scores = [Score(i.id, "m", i.sample / 2, generator=i.generator, prompt_id="p") for i in items]
    scores[0] = Score("x0", "m", None, Status.REFUSED, "no", generator="x", prompt_id="p")
    _, board = agreement_tables(agreement(items, scores))
    assert board.columns[-1] == "m: spread"
    assert {row[0]: row[-1] for row in board.plain_rows} == {"x": "0.3536", "y": "0.5000"}
    one = agreement_tables(agreement(items[:1], scores[:1]))[-1]
    assert "m: spread" not in one.columns


@pytest.mark.parametrize("prompts_of_b", [40, 30])
def test_one_share_has_one_interval(prompts_of_b: int) -> None:
    """Also if scores of another generator are estimated, and for the mean of scores of 0 and 1."""
    rng = np.random.default_rng(2)
    images = [(f"{g}{p}", g, f"p{p}") for g, count in (("a", 40), ("b", prompts_of_b)) for p in range(count)]
    values = {image: float(rng.random() < 0.8) for image, *_ in images}
    ends = []
    for kind in ("mean", "any"):
        rule = PerPrompt.parse(kind)
        board = leaderboard(images, values, bounds=(0.0, 1.0), per_prompt=rule, name="m")
        entries = [Entry(prompt, generator, image, values[image]) for image, generator, prompt in images]
        scores = score_table(entries, metric="m", source="s", bounds=(0.0, 1.0), per_prompt=rule)
        for row in generator_records(scores, {}):
            assert board.places[row["generator"]].interval == (row["low"], row["high"])
        ends.append(board.places["a"].interval)
    right = np.array([values[f"a{p}"] for p in range(40)])
    assert ends == [pytest.approx(share_interval(np.arange(40), right))] * 2


def test_a_missing_score_is_not_left_out_of_the_best() -> None:
    entries = [
        Entry("p", "x", "0", 1.0),
        Entry("p", "x", "1", None),
        Entry("p", "y", "0", 0.0),
        Entry("p", "y", "1", 0.0),
        Entry("q", "x", "0", 0.5),
    ]
    means = [
        score_table(
            entries, metric="m", source="here", per_prompt=PerPrompt.parse(kind).of_metric((0, 1), True, "m")
        ).means
        for kind in ("mean", "best", "any", "all")
    ]
    assert [m[0, 0] for m in means[:3:2]] == [1.0, 1.0]
    assert math.isnan(means[1][0, 0])
    assert math.isnan(means[3][0, 0])


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=1, max_size=5), min_size=2, max_size=3),
    st.sampled_from(["best", "any", "all"]),
    st.booleans(),
)
def test_unequal_numbers_count_as_the_expected_value_of_the_smallest(
    images: list[list[float]], kind: str, higher: bool
) -> None:
    rule = PerPrompt(kind).of_metric((0.0, 1.0), higher, "m")
    cell = np.repeat(np.arange(len(images)), [len(values) for values in images])
    found = rule.combine(cell, np.concatenate(images), len(images), len(images))
    smallest, right = min(map(len, images)), 1.0 if higher else 0.0
    of = {
        "best": max if higher else min,
        "any": lambda drawn: float(right in drawn),
        "all": lambda drawn: float(set(drawn) == {right}),
    }[kind]
    expected = [float(np.mean([of(drawn) for drawn in combinations(values, smallest)])) for values in images]
    assert found.tolist() == pytest.approx(expected)
    if len({*map(len, images)}) == 1:
        assert found.tolist() == [of(values) for values in images]  # to the last digit


def test_the_best_of_two_and_of_four_equal_images_do_not_differ() -> None:
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(40):
        entries = [
            Entry(f"p{p}", name, str(k), float(rng.normal()))
            for p in range(40) for name, number in (("a", 2), ("b", 4)) for k in range(number)
        ]  # fmt: skip
        table = score_table(entries, metric="m", source="s", per_prompt=PerPrompt("best"))
        (found,) = generator_differences(table)
        rejected += found.p is not None and found.p < 0.05
    assert rejected <= 6
