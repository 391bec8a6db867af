"""Carrying a board over from one judge to another."""

import numpy as np
import pytest

from benchmarks import verdicts
from benchmarks.unkind import board
from titjudge.core.errors import DataError
from titjudge.stats.ppi.bridging import BridgeLine, bridge, bridge_table
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table

LEVELS = {f"g{k:02}": 0.3 + 0.05 * k for k in range(12)}


def judged(names: list[str], slope: float, shift: float, seed: int, prompts: int = 300) -> ScoreTable:
    rng = np.random.default_rng(seed)
    entries = [
        Entry(f"p{k}", name, "", float(shift + slope * LEVELS[name] + 0.2 * rng.normal()))
        for name in names
        for k in range(prompts)
    ]
    return score_table(entries, metric="score", source=f"judge{seed}.csv")


def test_generators_of_the_old_judge_stand_on_the_new_board() -> None:
    names = list(LEVELS)
    found = bridge(judged(names, 1, 0, 1), judged(names[2:], 0.7, 0.2, 2))
    assert found.anchors == tuple(names[2:])
    assert found.line.slope == pytest.approx(0.7, abs=0.07)
    carried = {each.generator: each for each in found.standings if each.carried}
    assert set(carried) == {"g00", "g01"}
    for name, each in carried.items():
        assert each.interval is not None
        assert each.interval[0] < 0.2 + 0.7 * LEVELS[name] < each.interval[1]
        assert each.outside
    assert [each.score for each in found.standings] == sorted((each.score for each in found.standings), reverse=True)
    assert "beyond the anchors, where the line is a guess: g01, g00" in bridge_table(found).notes
    assert found.to_json()["map"]["intercept"] == pytest.approx(0.2, abs=0.05)


def test_the_interval_is_that_of_least_squares() -> None:
    x, y = np.array([0.1, 0.2, 0.4, 0.5, 0.9]), np.array([0.2, 0.25, 0.35, 0.5, 0.8])
    value, (low, high) = BridgeLine(x, y).predict(0.6)
    design = np.c_[np.ones(5), x]
    weights, (rest,) = np.linalg.lstsq(design, y, rcond=None)[:2]
    at = np.array([1, 0.6])
    half = 3.182446 * (rest / 3 * (1 + at @ np.linalg.inv(design.T @ design) @ at)) ** 0.5
    assert (value, low, high) == pytest.approx((at @ weights, at @ weights - half, at @ weights + half), rel=1e-6)


def test_intervals_hold_for_generators_left_out() -> None:
    rng = np.random.default_rng(3)
    held = []
    for seed in range(40):
        old = rng.normal(0.5, 0.1, 25)
        held.append(verdicts.carried_over(old, 0.1 + 0.8 * old + 0.01 * rng.normal(size=25), 10, 25, seed)[0])
    assert np.mean(held) == pytest.approx(0.95, abs=0.025)


def test_what_cannot_be_bridged() -> None:
    names = list(LEVELS)
    old = judged(names[:6], 1, 0, 1)
    with pytest.raises(
        DataError, match=r"judge2\.csv: 3 anchors \(g03, g04, g05\) are too few for a score mapping. Score 4"
    ):
        bridge(old, judged(names[3:9], 1, 0, 2))
    with pytest.raises(DataError, match="order the anchors in opposite ways"):
        bridge(old, judged(names[:6], -1, 1, 2))
    same = score_table(
        [Entry(f"p{k}", name, "", 0.0) for k in range(2) for name in names[:6]], metric="score", source="same.csv"
    )
    with pytest.raises(DataError, match=r"same\.csv: all anchors have the same score"):
        bridge(old, same)
    other = score_table([Entry("elsewhere", "g00", "", 1.0)], metric="score", source="other.csv")
    with pytest.raises(DataError, match=r"other\.csv: only 0 prompts are common with judge1\.csv"):
        bridge(old, other)


@pytest.mark.parametrize("last", [1.0, 1.6])
def test_anchors_that_the_old_judge_does_not_tell_apart(last: float) -> None:
    names = ["g00", "g01", "g02", "g03"]
    old = [Entry(f"p{k}", name, "", last if name == "g03" else 1.0) for k in range(20) for name in names]
    with pytest.raises(DataError, match=r"old\.csv: at most one of the 4 anchors has a different score"):
        bridge(score_table(old, metric="score", source="old.csv"), judged(names, 1, 0, 2))


def test_a_generator_with_few_of_the_prompts_is_left_out_by_name() -> None:
    names = list(LEVELS)
    few = judged(["g11"], 1, 0, 1, prompts=100)
    old = judged(names[:6], 1, 0, 1)
    entries = [
        Entry(prompt, name, "", float(table.means[row, k]))
        for table in (old, few)
        for row, prompt in enumerate(table.prompts)
        for k, name in enumerate(table.generators)
    ]
    found = bridge(score_table(entries, metric="score", source="old.csv"), judged(names[:6], 1, 0.1, 2))
    assert found.left_out == ("g11",)


@pytest.mark.slow
def test_a_generator_with_half_of_the_prompts_brings_its_own_noise() -> None:
    """25 anchors leave less noise than half of 100 prompts: 91% held without it. 120 boards of six generators that share prompts."""
    rng = np.random.default_rng(1)
    names = [f"g{k:02}" for k in range(31)]
    held = []
    for _ in range(120):
        quality = rng.normal(60, 12, 31)
        prompt = rng.normal(0, 20, (100, 1))
        old = quality + prompt + rng.normal(0, 20, (100, 31))
        new = quality + rng.normal(0, 3, 31) + 0.8 * prompt + rng.normal(0, 20, (100, 31))
        for k in range(25, 31):
            old[rng.choice(100, 50, replace=False), k] = np.nan
        boards = [
            score_table(
                [
                    Entry(f"p{p}", name, "", None if np.isnan(scores[p, k]) else float(scores[p, k]))
                    for k, name in enumerate(names[:last])
                    for p in range(100)
                ],
                metric="score",
                source="board",
            )
            for scores, last in ((old, 31), (new, 25))
        ]
        truth = dict(zip(names, new.mean(axis=0), strict=True))
        for each in bridge(*boards).standings:
            if each.carried and each.interval is not None:
                held.append(each.interval[0] <= truth[each.generator] <= each.interval[1])
    assert len(held) == 720
    assert np.mean(held) >= 0.93  # 95%, and nearly two standard errors


def test_where_all_prompts_are_there_the_interval_is_that_of_the_line() -> None:
    names = list(LEVELS)
    old, new = judged(names, 1, 0, 1), judged(names[2:], 0.7, 0.2, 2)
    (found,) = [each for each in bridge(old, new).standings if each.generator == "g00"]
    assert found.interval == bridge(old, new).line.predict(float(old.means[:, old.column("g00")].mean()))[1]


def test_a_generator_with_easy_prompts_only_is_not_carried_to_the_top() -> None:
    rng = np.random.default_rng(4)
    level, hard = 50 + rng.normal(0, 3, 60), np.arange(60) >= 30
    quality = {f"g{k}": 3.0 * k for k in range(6)} | {"X": 7.0}
    rows = {name: level + q - 20 * hard + rng.normal(0, 2, 60) for name, q in quality.items()}
    old, new = (
        score_table(
            [
                Entry(f"p{n}", name, "", float(scores[n]) * slope)
                for name, scores in rows.items()
                for n in range(60)
                if (name != "X") or (slope == 1 and n < 32)
            ],
            metric="score",
            source="judge",
        )
        for slope in (1.0, 0.8)
    )
    found = bridge(old, new)
    (carried,) = [each for each in found.standings if each.carried]
    assert carried.score == pytest.approx(0.8 * rows["X"].mean(), abs=2)
    assert [each.generator for each in found.standings].index("X") == 3
    assert (carried.prompts, found.to_json()["lacking"]) == (32, {"X": 28})


def test_how_hard_prompts_are_does_not_widen_a_carried_interval() -> None:
    rng = np.random.default_rng(41)
    old, hard = rng.normal(60, 10, (40, 7)), 30 * rng.standard_normal((40, 1))
    new = (old + rng.normal(0, 3, old.shape))[:, :6]
    old[20:, 6] = np.nan
    widths = []
    for shift in (0, hard):
        (carried,) = (each for each in bridge(board(old + shift), board(new + shift)).standings if each.carried)
        assert carried.interval is not None
        widths.append(carried.interval[1] - carried.interval[0])
    assert widths[0] == pytest.approx(widths[1])
