"""The table of how far generators are behind the best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import PROMPT, score, write_run

from titjudge.core.types import Item
from titjudge.report.generator_gaps import FEWEST, generator_gaps
from titjudge.report.generator_slices import categories
from titjudge.report.model import load
from titjudge.report.summary import summary
from titjudge.runs.generator_scores import run_scores
from titjudge.stats.generator_differences import generator_differences
from titjudge.stats.slices import first_places


def judged(folder: Path, prompts: int) -> Path:
    rng = np.random.default_rng(1)
    items = [
        Item(f"{name}{p}.png", PROMPT, None, name, f"p{p}") for p in range(prompts) for name in ("low", "<b>top", "mid")
    ]
    level = {"low": 30.0, "<b>top": 60.0, "mid": 50.0}
    write_run(folder, items, [score(item, "tit-llm", float(level[item.generator] + rng.normal())) for item in items])
    return folder


def test_the_report_says_what_the_command_says(tmp_path: Path) -> None:
    from titjudge.runs.run_folder import RunFolder

    folder = judged(tmp_path / "run", 12)
    (table,) = generator_gaps(load([RunFolder(folder)]))
    assert [row[0] for row in table["rows"]] == ["mid", "low"]
    wanted = generator_differences(run_scores([folder]), baseline="<b>top")
    by_name = {each.a: each for each in wanted}
    for name, difference, counts, p, shown, prompts in table["rows"]:
        each = by_name[name]
        assert difference["v"] == each.difference
        assert counts == f"{each.wins} / {each.same} / {each.losses}"
        assert (p["v"], shown["v"], prompts["v"]) == (each.p_adjusted, each.detectable, 12)
    assert table in summary(load([RunFolder(folder)]))["overview"]


def test_too_few_prompts_have_no_table(tmp_path: Path) -> None:
    from titjudge.runs.run_folder import RunFolder

    assert generator_gaps(load([RunFolder(judged(tmp_path / "few", FEWEST - 1))])) == []


def by_place(folder: Path, *, higher: bool = True) -> list[dict[str, Any]]:
    """Tables of 24 prompts, half of them at sea, where `low` is level with `top`; they are told apart on land."""
    rng = np.random.default_rng(2)
    items = [
        Item(f"{name}{p}.png", PROMPT, None, name, f"p{p}", {"place": "sea" if p % 2 else "land"})
        for p in range(24)
        for name in ("low", "top")
    ]
    level = {("low", "land"): 30.0, ("top", "land"): 60.0, ("low", "sea"): 50.0, ("top", "sea"): 50.0}
    scores = [score(item, "own", float(level[item.generator, item.meta["place"]] + rng.normal())) for item in items]
    record = {"own": {"version": "1", "range": [0, 100], "higher_is_better": higher}}
    return generator_gaps(load([write_run(folder, items, scores, metrics=record)]))


def test_categories_have_means_gaps_and_first_places(tmp_path: Path) -> None:
    _, table, apart = by_place(tmp_path / "run")
    assert table["title"] == "Generators and place"
    assert [row[:2] for row in table["rows"]] == [["land", "top"], ["land", "low"], ["sea", "top"], ["sea", "low"]]
    land_top, land_low, sea_top, sea_low = table["rows"]
    assert land_low[3]["v"] == pytest.approx(land_low[2]["v"] - land_top[2]["v"])
    assert land_low[3]["v"] == pytest.approx(-30, abs=1.5)
    low, high = map(float, land_low[3]["s"].split(" – "))
    assert low < land_low[3]["v"] < high < -25
    assert (land_top[4]["v"], land_low[4]["v"]) == (12, 0)
    assert sea_top[4]["v"] + sea_low[4]["v"] == 12
    assert [row[5]["v"] for row in table["rows"]] == [12] * 4
    assert [row[1] for row in apart["rows"]] == ["land", "sea"]
    assert apart["rows"][0][2]["v"] == pytest.approx((land_top[2]["v"] - land_low[2]["v"]) ** 2 / 2)


def test_where_less_is_better_scores_stay_and_gaps_turn(tmp_path: Path) -> None:
    _, table, _ = by_place(tmp_path / "run", higher=False)
    land_first, land_second = table["rows"][:2]
    assert [land_first[1], land_second[1]] == ["low", "top"]
    assert (land_first[2]["v"], land_second[2]["v"]) == (pytest.approx(30, abs=1), pytest.approx(60, abs=1))
    assert land_second[3]["v"] == pytest.approx(-30, abs=1.5)
    low, high = map(float, land_second[2]["s"].split(" – "))
    assert low < land_second[2]["v"] < high


def test_only_categories_of_prompts_with_enough_of_them_are_cut_by() -> None:
    def items(values: Sequence[object]) -> list[Item]:
        return [Item(f"{k}", PROMPT, None, "g", f"p{k}", {"kind": value}) for k, value in enumerate(values)]

    assert set(categories(items(["a"] * 6 + ["b"] * 6))) == {"kind"}
    assert categories(items(["a"] * 6 + ["b"] * 5)) == {}  # too few prompts
    assert categories(items(["a"] * 12)) == {}
    assert categories(items([str(k % 13) for k in range(13 * 6)])) == {}  # too many values
    assert categories(items([0.5, 1.5] * 6)) == {}
    twice = [Item(f"{k}", PROMPT, None, f"g{k % 2}", f"p{k // 2}", {"kind": "ab"[k % 2]}) for k in range(24)]
    assert categories(twice) == {}  # of the image, not of the prompt


def test_first_places_are_shared_and_need_competition() -> None:
    nan = np.nan
    assert first_places(np.array([[1.0, 2.0, nan], [3.0, 3.0 + 1e-13, 1.0], [nan, nan, 9.0]])).tolist() == [1, 2, 0]
    assert first_places(np.array([[nan, 1.0]])).tolist() == [0, 0]


def test_short_and_long_wordings_are_paired(tmp_path: Path) -> None:
    items = [
        Item(f"{name}/{p}/{length}", PROMPT, None, name, f"t/{length}/{p}", {"type": "t", "index": p, "length": length})
        for p in range(10)
        for length in ("short", "long")
        for name in ("low", "top")
    ]
    gain = {("low", "long"): -5.0, ("top", "long"): 3.0}
    scores = [
        score(item, "own", 50.0 + 4 * item.meta["index"] + (item.generator == "top") + item.meta["index"] % 2
              + gain.get((item.generator, item.meta["length"]), 0.0) * (1 + item.meta["index"] % 2))
        for item in items
    ]  # fmt: skip
    record = {"own": {"version": "1", "range": [0, 100], "higher_is_better": True}}
    found = generator_gaps(load([write_run(tmp_path / "run", items, scores, metrics=record)]))
    (table,) = [each for each in found if each["title"].endswith("short and long prompts")]
    rows = {row[0]: row for row in table["rows"]}
    assert rows["top"][3]["v"] == pytest.approx(4.5)
    assert rows["low"][3]["v"] == pytest.approx(-7.5)
    low, high = map(float, rows["low"][3]["s"].split(" – "))
    assert low < -7.5 < high < 0  # scores spread by 4 a prompt: only their pairing tells this with ten prompts
    assert rows["low"][2]["v"] - rows["low"][1]["v"] == pytest.approx(-7.5)
    assert [row[4]["v"] for row in table["rows"]] == [10, 10]
