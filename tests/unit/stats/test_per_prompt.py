"""Several images of a prompt become one score: mean, best, any and all, and what is certain where one has no score."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import ConfigError
from titjudge.core.types import Item, Score, Status
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
    with pytest.raises(ConfigError, match="--per-prompt is mean, best, any, all"):
        PerPrompt.parse(text)


def test_any_needs_to_know_what_is_right() -> None:
    with pytest.raises(ConfigError, match="tit has no best score: say from which score"):
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
    assert (best["x"].mean, best["x"].mean_rank) == (0.5, 1.5)
    (told,) = leaderboard(images, values, bounds=(0, 1), per_prompt=PerPrompt("best"), name="m").warnings
    assert told == "m: prompts have 1 to 3 images, and --per-prompt best depends on their number"
    assert leaderboard(images, values, bounds=(0, 1)).warnings == ()
    found = leaderboard(images, values, bounds=(0, 1), per_prompt=PerPrompt("any")).places
    assert (found["x"].mean, found["y"].mean) == (0.5, 0.0)


def test_the_leaderboard_shows_the_spread_where_there_is_one() -> None:
    items = [Item(f"{g}{k}", "a cat", None, g, "p", sample=k) for g in "xy" for k in range(3)]
    scores = [Score(i.id, "m", i.sample / 2, generator=i.generator, prompt_id="p") for i in items]
    scores[0] = Score("x0", "m", None, Status.REFUSED, "no", generator="x", prompt_id="p")
    _, board = agreement_tables(agreement(items, scores))
    assert board.columns[-1] == "m: spread"
    assert {row[0]: row[-1] for row in board.plain_rows} == {"x": "0.3536", "y": "0.5000"}
    one = agreement_tables(agreement(items[:1], scores[:1]))[-1]
    assert "m: spread" not in one.columns


def test_a_missing_score_is_not_left_out_of_the_best() -> None:
    entries = [
        Entry("p", "x", "0", 1.0),
        Entry("p", "x", "1", None),
        Entry("p", "y", "0", 0.0),
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
