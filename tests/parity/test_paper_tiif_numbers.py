"""TIIF-Bench paper: Table A10 from the overall columns of Table 2 (GPT-4o) and Table A9 (Qwen2.5-VL-72B).

The diffusion and the closed group reproduce; the paper's values for AR and all models do not follow from its own tables.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from titjudge.apps.prompt_sets.recipes.seeds import TIIF_TYPES
from titjudge.core.prompts import PromptLibrary
from titjudge.metrics.yes_no_detector import read_question
from titjudge.stats.generators.published_tables import published
from titjudge.stats.people.element_agreement import ElementLabels, element_agreement
from titjudge.stats.ranking.leaderboard import rank_correlation
from titjudge.suites.tiif.suite import Tiif


@pytest.mark.parametrize("length", ["short", "long"])
@pytest.mark.parametrize("group", ["diffusion", "closed"])
def test_table_a10(group: str, length: str) -> None:
    first, second = (
        published(name).column(f"Overall {length}", group=group) for name in ("tiif-bench", "tiif-bench-qwen")
    )
    assert second.keys() <= first.keys()
    found = rank_correlation({name: first[name] for name in second}, second)
    assert found is not None
    assert round(found, 3) == published("tiif-bench-judges").column(length)[group]


def test_the_counts_of_table_1_are_those_of_the_published_files(shared: Path) -> None:
    files = sorted((shared / "tiif" / "data" / "test_prompts").glob("*_prompts.jsonl"))
    if not files:
        pytest.skip("the prompts of TIIF-Bench are not there")
    counted = {file.name.removesuffix("_prompts.jsonl"): len(file.read_text("utf-8").splitlines()) for file in files}
    table = published("tiif-bench-prompts").column("prompts")
    assert {**counted, "text": 150, "style": 150} == table  # the files have 300 of these two
    assert (counted["text"], counted["style"], sum(table.values())) == (300, 300, 2238)


def test_the_recipe_has_the_ten_dimensions_of_table_a1() -> None:
    cells: dict[str, Any] = dict(published("tiif-bench-dimensions").cells)
    assert len(cells) == 10
    assert Counter(category for category, _ in cells.values()) == {"Attributes": 3, "Relations": 3, "Reasoning": 4}
    pools = {pool for pools in TIIF_TYPES.values() for pool in pools}
    named = {name.casefold().replace("2d spatial", "2d").replace("3d perspective", "3d") for name in cells}
    assert named <= {pool.casefold() for pool in pools}


def test_the_settings_of_table_a11_are_read(shared: Path) -> None:
    paper = shared / "papers" / "tiif-bench.txt"
    if not paper.is_file():
        pytest.skip("the paper's text is not there")
    printed = paper.read_text(encoding="utf-8").partition("Table A11: Model settings")[2]
    rows = {
        row[0]: row[1:] for line in printed.splitlines() if len(row := [cell.strip() for cell in line.split("\t")]) == 6
    }
    assert rows.pop("Model")
    found = dict(published("tiif-bench-settings").cells)
    assert found.keys() == {name for name in rows if name[0] != "E"}
    for name, (size, resolution, *numbers) in found.items():
        assert [size, str(resolution).replace("x", "×")] == rows[name][:2]
        assert numbers == [float(cell) if cell.strip("_") else None for cell in rows[name][2:]], name


def test_the_prompt_that_makes_prompts_longer_is_the_papers(shared: Path) -> None:
    """A3.1, quoted exactly; its first line is where the prompt stands."""
    paper = shared / "papers" / "tiif-bench.txt"
    if not paper.is_file():
        pytest.skip("the paper's text is not there")
    quoted = paper.read_text(encoding="utf-8").partition("###RAW CAP###\n")[2].partition("\n```")[0]
    (asked,) = PromptLibrary().get("recipes/tiif_long").messages({"prompt": "###RAW CAP###"}, [])
    assert asked.parts == ("###RAW CAP###\n" + quoted,)


@pytest.mark.parametrize(
    ("judge", "accuracy", "recall"), [("GPT-4o (2D spatial)", 0.975, 1.0), ("UniDet (2D spatial)", 0.625, 0.25)]
)
def test_accuracy_and_recall_of_the_paper_follow_from_its_confusion_matrices(
    judge: str, accuracy: float, recall: float
) -> None:
    counts = {name: int(published("tiif-bench-confusion").column(name)[judge]) for name in ("TP", "FP", "FN", "TN")}
    labels = {"TP": ("yes", "yes"), "FP": ("yes", "no"), "FN": ("no", "yes"), "TN": ("no", "no")}
    marks = [ElementLabels("p", "2d", *labels[name]) for name, count in counts.items() for _ in range(count)]
    found = element_agreement(marks)["all"]
    assert (found.accuracy, found.recall) == pytest.approx((accuracy, recall))


@pytest.mark.parametrize(
    ("group", "length", "follows"),
    [("autoregressive", "long", 0.829), (None, "short", 0.977), (None, "long", 0.975)],
)
def test_the_remark_on_table_a10_says_what_the_boards_give(group: str | None, length: str, follows: float) -> None:
    where = {"group": group} if group else {}
    first, second = (published(name).column(f"Overall {length}", **where) for name in ("tiif-bench", "tiif-bench-qwen"))
    found = rank_correlation({name: first[name] for name in second}, second)
    assert found is not None
    assert round(found, 3) == follows
    assert f"{follows:.3f}".removeprefix("0") in published("tiif-bench-judges").remarks[0]


def test_the_questions_that_a_detector_can_read_are_as_many_as_the_suite_says(shared: Path) -> None:
    """A4.3: existence, number and side of objects."""
    files = sorted((shared / "tiif" / "data" / "test_eval_prompts").glob("*.jsonl"))
    if not files:
        pytest.skip("the questions of TIIF-Bench are not there")
    lines = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    questions = [question for line in lines for question in line["yn_question_list"]]
    read = [found for question in questions if (found := read_question(question))]
    assert (len(read), len(questions)) == (4_558, 12_160)
    assert sum(found.number is not None for found in read) == 777
    (told,) = (line for line in Tiif.DEVIATIONS if "yes-no-detector" in line)
    assert f"{len(read):,} of {len(questions):,}" in told
