"""Generators against each other in a report: gaps, tiers, categories, charts, what the next run takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from report_runs import PROMPT, score, write_run

from titjudge.core.errors import DataError
from titjudge.core.tables import Cell, Table
from titjudge.core.types import Item, Status
from titjudge.report.drawing import Chart
from titjudge.report.generators import generators, score_table_of
from titjudge.report.html import render
from titjudge.report.model import Report, load
from titjudge.report.plots import heat_map, radar
from titjudge.report.sections import Charts, Part, Section
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.study.compared_runs import run_scores
from titjudge.stats.generators.comparison_tables import FEWEST, Scale, compared_with_best, standings_table
from titjudge.stats.generators.generator_differences import generator_differences
from titjudge.stats.generators.slices import first_places, maturity, tier_means, tiers
from titjudge.stats.scores.frame import categories
from titjudge.stats.scores.part_scores import part_scores
from titjudge.stats.scores.per_prompt import PerPrompt
from titjudge.stats.scores.scores_table import Entry, score_table


def judged(folder: Path, prompts: int) -> Path:
    rng = np.random.default_rng(1)
    items = [
        Item(f"{name}{p}.png", PROMPT, None, name, f"p{p}") for p in range(prompts) for name in ("low", "<b>top", "mid")
    ]
    level = {"low": 30.0, "<b>top": 60.0, "mid": 50.0}
    write_run(folder, items, [score(item, "tit-llm", float(level[item.generator] + rng.normal())) for item in items])
    return folder


def section_of(report: Report) -> Section:
    section = generators(report)
    assert section is not None
    return section


def tables_of(made: Section | Part) -> dict[str, Table]:
    return {block.title: block for block in made.blocks if isinstance(block, Table)}


def charts_of(part: Part) -> list[Chart]:
    return [chart for block in part.blocks if isinstance(block, Charts) for chart in block.charts]


def ends_of(cell: Any) -> tuple[float, float]:
    low, high = cell.interval
    return low, high


def test_the_report_says_what_the_command_says(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", 12)
    table = tables_of(section_of(load([RunFolder(folder)])))["Prompt by prompt"]
    assert table.columns[5] == "minus <b>top"
    assert [row[0] for row in table.rows] == ["<b>top", "mid", "low"]
    by_name = {each.a: each for each in generator_differences(run_scores([folder]), baseline="<b>top", chosen=True)}
    for name, rank, mean, tier, first, gap, counts, p, best, shown, prompts in table.rows:
        assert rank == tier
        assert prompts == 12
        assert (tier, first) == {"<b>top": (1, 12), "mid": (2, 0), "low": (3, 0)}[name]
        assert mean.interval is not None
        if name in by_name:
            each = by_name[name]
            assert (gap.value, p.value, best.value, shown.value) == (
                each.difference,
                each.p,
                each.p_adjusted,
                each.detectable,
            )
            assert counts == f"{each.wins} / {each.same} / {each.losses}"


def test_a_failed_image_leaves_its_prompt_out_where_all_images_count_as_in_the_command(tmp_path: Path) -> None:
    images = [(name, p, k) for p in range(12) for name in ("one", "two") for k in range(2)]
    items = [Item(f"{name}{p}-{k}.png", PROMPT, None, name, f"p{p}") for name, p, k in images]
    scores = [
        score(item, "tit-llm", None, Status.REFUSED)
        if item.id == "one0-0.png"
        else score(item, "tit-llm", 80.0 if item.generator == "one" or item.prompt_id < "p5" else 20.0)
        for item in items
    ]
    run = write_run(tmp_path / "run", items, scores, results={"per_prompt": "all:50"})
    report = load([run])
    shown = score_table_of(report.runs[0], next(judge for judge in report.judges if judge.metric == "tit-llm"))
    wanted = run_scores([run.path], per_prompt=PerPrompt.parse("all:50"))
    assert shown is not None
    np.testing.assert_array_equal(shown.means, wanted.means)
    assert np.isnan(shown.means[0]).tolist() == [True, False]


def test_a_baseline_stands_beside_the_best(tmp_path: Path) -> None:
    report = load([RunFolder(judged(tmp_path / "run", 12))])
    report.baseline = "mid"
    table = tables_of(section_of(report))["Prompt by prompt"]
    assert table.columns[5:7] == ("minus <b>top", "minus mid")
    top, mid, low = table.rows
    assert (top[5], mid[6]) == (None, None)
    assert top[6].value == pytest.approx(-mid[5].value)
    assert low[6].value == pytest.approx(-20, abs=1.5)
    report.baseline = "mod"
    with pytest.raises(DataError, match=r"unknown generator 'mod'.*'mid'"):
        generators(report)


def test_too_few_prompts_have_no_section(tmp_path: Path) -> None:
    assert generators(load([RunFolder(judged(tmp_path / "few", FEWEST - 1))])) is None


def by_place(folder: Path, *, higher: bool = True) -> Part:
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
    return section_of(load([write_run(folder, items, scores, metrics=record)])).parts[0]


def test_categories_have_means_gaps_and_first_places(tmp_path: Path) -> None:
    found = tables_of(by_place(tmp_path / "run"))
    table, apart = found["By place"], found["Where generators differ"]
    assert [row[:2] for row in table.rows] == [("land", "top"), ("land", "low"), ("sea", "top"), ("sea", "low")]
    land_top, land_low, sea_top, sea_low = table.rows
    assert land_low[3].value == pytest.approx(land_low[2].value - land_top[2].value)
    assert land_low[3].value == pytest.approx(-30, abs=1.5)
    low, high = ends_of(land_low[3])
    assert low < land_low[3].value < high < -25
    assert (land_top[4], land_low[4]) == (12, 0)
    assert sea_top[4] + sea_low[4] == 12
    assert [row[5] for row in table.rows] == [12] * 4
    assert [row[1] for row in apart.rows] == ["land", "sea"]
    assert apart.rows[0][2].value == pytest.approx((land_top[2].value - land_low[2].value) ** 2 / 2)
    assert [row[7] for row in apart.rows] == ["developing", "developing"]
    separated = found["What separates the tiers"].rows
    assert [row[:2] for row in separated] == [("", "all prompts"), ("place", "land"), ("place", "sea")]
    everywhere, land, sea = separated
    assert land[4].value == pytest.approx(land_top[2].value - land_low[2].value)
    assert everywhere[4].value == pytest.approx((land[4].value + sea[4].value) / 2)  # as many prompts of each


def test_where_less_is_better_scores_stay_and_gaps_turn(tmp_path: Path) -> None:
    section = by_place(tmp_path / "run", higher=False)
    table = tables_of(section)["By place"]
    land_first, land_second = table.rows[:2]
    assert [land_first[1], land_second[1]] == ["low", "top"]
    assert (land_first[2].value, land_second[2].value) == (pytest.approx(30, abs=1), pytest.approx(60, abs=1))
    assert land_second[3].value == pytest.approx(-30, abs=1.5)
    low, high = ends_of(land_second[2])
    assert low < land_second[2].value < high


def test_only_categories_of_prompts_with_enough_of_them_are_cut_by() -> None:
    def items(values: Sequence[object]) -> list[Item]:
        return [Item(f"{k}", PROMPT, None, "g", f"p{k}", {"kind": value}) for k, value in enumerate(values)]

    assert set(categories(items(["a"] * 6 + ["b"] * 6))) == {"kind"}
    assert categories(items(["a"] * 6 + ["b"] * 5)) == {}  # too few prompts
    assert categories(items(["a"] * 12)) == {}
    assert categories(items([str(k % 61) for k in range(61 * 6)])) == {}  # too many values
    assert categories(items([0.5, 1.5] * 6)) == {}
    twice = [Item(f"{k}", PROMPT, None, f"g{k % 2}", f"p{k // 2}", {"kind": "ab"[k % 2]}) for k in range(24)]
    assert categories(twice) == {}  # of the image, not of the prompt


def test_first_places_are_shared_and_need_competition() -> None:
    nan = np.nan
    scores = [[1.0, 2.0, nan], [3.0, 3.0 + 1e-13, 1.0], [1.0, 2.0, 0.0], [nan, nan, 9.0]]
    assert first_places(np.array(scores)).tolist() == [1, 2, 0]  # of the two prompts that all have
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
    found = section_of(load([write_run(tmp_path / "run", items, scores, metrics=record)]))
    table = tables_of(found)["Short and long prompts"]
    rows = {row[0]: row for row in table.rows}
    assert rows["top"][3].value == pytest.approx(4.5)
    assert rows["low"][3].value == pytest.approx(-7.5)
    low, high = ends_of(rows["low"][3])
    assert low < -7.5 < high < 0  # scores spread by 4 a prompt: only their pairing tells this with ten prompts
    assert rows["low"][2].value - rows["low"][1].value == pytest.approx(-7.5)
    assert [row[4] for row in table.rows] == [10, 10]


def test_tiers_end_before_the_first_that_is_clearly_worse() -> None:
    rng = np.random.default_rng(3)
    means = np.array([50.0, 70.0, 49.5, 69.8, 20.0]) + rng.normal(size=(60, 1)) * 9 + rng.normal(size=(60, 5)) * 2
    assert tiers(means) == [[1, 3], [0, 2], [4]]
    means[:, 2] = np.nan
    assert tiers(means) == [[1, 3], [0], [4]]
    equal = 80 + rng.normal(size=(60, 60, 1)) + rng.normal(size=(60, 60, 12))
    assert np.mean([len(tiers(each)) > 1 for each in equal]) <= 0.05 + 2 * (0.05 * 0.95 / 60) ** 0.5


def test_a_row_whose_interval_and_test_disagree_says_why() -> None:
    """Intervals hold for all pairs together, p best steps down: of many generators some interval is too wide for its test."""
    rng, seen = np.random.default_rng(0), {True: 0, False: 0}
    for gap in np.linspace(3.0, 4.5, 6):
        levels = np.array([60.0, 60 - gap, *[30.0 - k for k in range(4)]])
        means = levels + rng.normal(0, 6, (30, 6))
        entries = [Entry(f"p{p}", f"g{k}", "", float(means[p, k])) for p in range(30) for k in range(6)]
        table = score_table(entries, metric="m", source="s", bounds=(0.0, 100.0))
        comparison = compared_with_best(table)
        assert comparison is not None
        rows = {str(row[0]): row for row in standings_table(comparison, Scale((0.0, 100.0), True, 1)).rows}
        for difference in comparison.differences[0]:
            assert difference.interval is not None
            assert difference.p_adjusted is not None
            apart = not difference.interval[0] <= 0 <= difference.interval[1]
            disagree = apart != (difference.p_adjusted < 0.05)
            cell = rows[difference.a][5]
            assert isinstance(cell, Cell)
            assert bool(cell.note) == disagree
            seen[disagree] += 1
    assert all(seen.values())


def test_gaps_between_tiers() -> None:
    scores = {"a": 9.0, "b": 5.0, "c": 3.0, "d": 1.0}
    assert tier_means(scores, [["a"], ["b", "c", "unknown"], ["d"]]) == ([9.0, 4.0, 1.0], [5.0, 3.0])
    assert tier_means({"a": 1.0}, [["a"], ["b"]]) == ([1.0, None], [None])


def test_a_ceiling_is_low_for_the_best_too() -> None:
    """The examples of the Qwen-Image-Bench paper, section 4.8: five facets whose best scores are 20.9 to 43.3."""
    assert maturity([20.9, 12.0, 3.0], (0, 100)) == maturity([43.3, 30.0, 25.0], (0, 100)) == "ceiling"
    assert maturity([0.89, 0.1, 0.0], (0, 1)) == ""  # one generator can
    assert maturity([50.0, 40.0], (0, 100)) == "developing"
    assert maturity([70.0, 61.0], (0, 100)) == "mature"
    assert maturity([70.0, 61.0], None) == ""


HOSTILE = ["</svg><script>x=1</script>", "\x00\u202enul & <b>", "a\ud800b", "long " * 20]


def cells_of(rows: Sequence[str], columns: Sequence[str], values: np.ndarray, digits: int) -> Chart:
    return heat_map("cells", "title", "note", rows, columns, values, digits, Table("title", (), ()))


def test_drawings_hold_names_as_text_and_nothing_runs() -> None:
    values = np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 2.0], [0.5, 0.1, 9.0], [1, 1, 1]])
    profiles = radar("profiles", "title", "note", HOSTILE, HOSTILE[:3], values, Table("title", (), ()))
    for chart in (cells_of(HOSTILE, HOSTILE[:3], values, 2), profiles):
        root = ElementTree.fromstring(chart.svg)
        assert {each.tag for each in root.iter()} <= {"svg", "g", "defs", "clipPath", "text", "rect", "use", "path"}
        names = {name for each in root.iter() for name in each.attrib}
        assert not [name for name in names if name.startswith("on") or name == "style"]
        assert all(each.attrib["href"].startswith("#") for each in root.iter("use"))
        assert any("nul & <b>" in (each.text or "") for each in root.iter("text"))
    cells = [
        each.text for each in ElementTree.fromstring(cells_of(["g"], ["x", "y"], values[:1, :2], 2).svg).iter("text")
    ]
    assert sorted(map(str, cells)) == ["1.00", "g", "x", "y", "–"]


def test_a_heat_map_is_strongest_where_a_column_is_highest() -> None:
    drawn = cells_of(["a", "b", "c"], ["x"], np.array([[1.0], [3.0], [2.0]]), 0)
    depths = [float(each.attrib["opacity"]) for each in ElementTree.fromstring(drawn.svg).iter("path")]
    assert depths[0] == 0 < depths[2] < depths[1]


def test_claims_by_kind_and_pillars_are_categories(tmp_path: Path) -> None:
    items = [Item(f"{name}{p}", PROMPT, None, name, f"p{p}") for p in range(8) for name in ("low", "top")]
    marks = {"low": False, "top": True}
    alike = {"entity": [[["bowl"], True]]}
    scores = [
        score(item, "own", 40.0 + 20 * marks[item.generator] + k, level1={"Quality": 30.0 + k, "Aesthetics": 10.0 * marks[item.generator] + k % 3},
              alignment=alike | {"relation": [[["apples", "left of", "bowl"], marks[item.generator]]]})
        for k, item in enumerate(items)
    ]  # fmt: skip
    record = {"own": {"version": "1", "range": [0, 100], "higher_is_better": True}}
    (found,) = section_of(load([write_run(tmp_path / "run", items, scores, metrics=record)])).parts
    tables = tables_of(found)
    rates = {(row[0], row[1]): row[2].value for row in tables["By element"].rows}
    assert rates == {("entity", "top"): 1, ("entity", "low"): 1, ("relation", "top"): 1, ("relation", "low"): 0}
    points = {(row[0], row[1]): row[2].value for row in tables["By pillar"].rows}
    assert points["Quality", "low"] == pytest.approx(30 + 7)
    assert points["Aesthetics", "top"] - points["Aesthetics", "low"] == pytest.approx(10, abs=1)
    assert [chart.title for chart in charts_of(found)] == ["Generators by element", "Generators by pillar"]


def test_facets_of_one_name_are_told_apart_by_their_pillar() -> None:
    item = Item("i", PROMPT, None, "g", "p")
    tree = {
        "Aesthetics": {"Design": {"Composition": 60.0, "Colour": 100.0}},
        "Alignment": {"Space": {"Composition": 0.0, "odd": None}},
    }
    parts = {
        "level1": {"Aesthetics": 80.0, "Alignment": 0.0},
        "level2": {"Aesthetics": {"Design": 80.0}},
        "level3": tree,
    }
    assert part_scores({"i": item}, [score(item, "checklist", 40.0, **parts)]) == {
        "pillar": {"i": {"Aesthetics": 80.0, "Alignment": 0.0}},
        "sub_capability": {"i": {"Design": 80.0}},
        "facet": {"i": {"Composition (Aesthetics)": 60.0, "Colour": 100.0, "Composition (Alignment)": 0.0}},
    }
    assert part_scores({"i": item}, [score(item, "checklist", 40.0, level1=3, level3={"a": 1})]) == {}


def test_what_a_verdict_takes_stands_in_the_report(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run", 40)
    section = section_of(load([RunFolder(folder)]))
    assert [(part.title, part.folded) for part in section.parts] == [("tit-llm", False), ("Plan the next run", True)]
    found = section.parts[1]
    tables = tables_of(found)
    settled = {row[1]: row for row in tables["When each pair was settled: tit-llm"].rows}
    assert settled["low"][:3] == ("<b>top", "low", "<b>top")
    assert (round(settled["low"][3]), settled["low"][4]) == (18, 40)
    columns = tables["Plan: tit-llm"].columns
    planned = [dict(zip(columns, row, strict=True)) for row in tables["Plan: tit-llm"].rows]
    assert [plan["difference"].text for plan in planned] == ["1.0", "2.0", "5.0"]
    needed = [plan["prompts"] for plan in planned]
    assert needed == sorted(needed, reverse=True)
    assert all(plan["from"] <= plan["prompts"] <= plan["to"] for plan in planned)
    assert [chart.title for chart in charts_of(found)] == ["Power by number of prompts: tit-llm"]
    page = render(load([RunFolder(folder)])).decode()
    assert 'data-view="generators"' in page
    assert "<b>top" not in page
    shown, _, folded = page.partition('<details class="curve folded">')
    assert "When each pair was settled" in folded
    assert "When each pair was settled" not in shown


def other_judge(folder: Path, prompts: int, generators: Sequence[str], model: str, slope: float) -> RunFolder:
    rng = np.random.default_rng(4)
    level = {name: 20.0 + 10 * k for k, name in enumerate("abcdef")}
    hard = np.random.default_rng(5).normal(size=40) * 5
    items = [Item(f"{name}{p}", PROMPT, None, name, f"p{p}") for p in range(prompts) for name in generators]
    scores = [
        score(item, "tit-llm", float(slope * (level[item.generator] + hard[int(item.prompt_id[1:])]) + rng.normal()))
        for item in items
    ]
    return write_run(folder, items, scores, roles={"judge": {"model": model}})


def test_an_old_board_is_carried_over(tmp_path: Path) -> None:
    old = other_judge(tmp_path / "old", 40, "abcdef", "old/judge", 0.8)
    new = other_judge(tmp_path / "new", 40, "abcde", "new/judge", 1.0)
    carried = next(
        table for title, table in tables_of(section_of(load([old, new]))).items() if title.startswith("The old board")
    )
    rows = {row[0]: row for row in carried.rows}
    assert rows["f"][1] == "carried over"
    assert rows["f"][2] == pytest.approx(70, abs=2)
    same = other_judge(tmp_path / "same", 40, "abcde", "old/judge", 0.8)
    assert not [title for title in tables_of(section_of(load([old, same]))) if "judge" in title]
