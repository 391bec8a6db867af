"""Official files of edits: the layout that the authors' statistics scripts read."""

import csv
import json
import pickle
from pathlib import Path

import pytest

from titjudge.core.config import RunConfig
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Item, Score, Status
from titjudge.suites.loading import open_suite
from titjudge.suites.question_suite import write_files


def gedit(name: str, generator: str = "bagel") -> Item:
    meta = {"task_type": "color_alter", "instruction_language": "cn", "intersection": "True"}
    return Item(name, "改", Path(f"{name}.png"), generator, name, meta, sources=(Path(f"{name}_SRCIMG.png"),))


def test_gedit_has_a_table_for_every_type_and_one_of_all(tmp_path: Path) -> None:
    scores = [
        Score("a", "viescore-edit", 6, parts={"SC": 4, "PQ": 9}),
        Score("b", "viescore-edit", None, Status.REFUSED),
    ]
    assert write_files("gedit", [gedit("a"), gedit("b")], scores, tmp_path) == 12
    place = tmp_path / "bagel/gpt4o/eval_results_new"
    with (place / "bagel_color_alter_gpt_score.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "source_image": "a_SRCIMG.png", "edited_image": "a.png", "instruction": "改", "sementics_score": "4",
        "quality_score": "9", "intersection_exist": "True", "instruction_language": "zh",
    }  # fmt: skip
    assert (place / "bagel_subject-add_gpt_score.csv").read_text().count("\n") == 1


def test_imgedit_has_the_reply_or_the_lines_of_its_ratings(tmp_path: Path) -> None:
    items = [
        Item(name, "p", Path(name), "bagel", name, {"edit_type": "style"}, sources=(Path("s"),)) for name in "abc"
    ]  # fmt: skip
    ratings = {"Style Fidelity": 4, "Content Preservation": 3, "Rendering Quality": 2}
    scores = [
        Score("a", "imgedit", 3, parts=ratings), Score("b", "imgedit", 4, parts={"output": "as written"}),
        Score("c", "imgedit", None, Status.UNPARSED),
    ]  # fmt: skip
    assert write_files("imgedit", items, scores, tmp_path) == 1
    assert json.loads((tmp_path / "bagel/result.json").read_text()) == {
        "a": "Style Fidelity: 4\nContent Preservation: 3\nRendering Quality: 2", "b": "as written",
    }  # fmt: skip


def test_kris_has_the_ratings_of_each_category_by_the_number_of_the_edit(tmp_path: Path) -> None:
    item = Item("a", "p", Path("a"), "bagel", "physics/7", {"category": "physics", "explanation": "e"})
    score = Score("a", "kris", 50, parts={"ratings": {"quality_score": 3}})
    assert write_files("kris", [item], [score], tmp_path) == 1
    assert json.loads((tmp_path / "bagel/physics/metrics.json").read_text()) == {
        "7": {"instruction": "p", "explain": "e", "quality_score": 3}
    }


def test_rise_has_a_reply_to_each_question(tmp_path: Path) -> None:
    items = [
        Item(name, "p", Path(name), "bagel", name, {"category": f"{name}_reasoning"}) for name in ("causal", "logical")
    ]
    ratings = [{"Reasoning": 5, "VisualPlausibility": 4}, {"ApprConsistency": 1, "Reasoning": 5}]
    scores = [Score(item.id, "rise", 1, parts={"ratings": each}) for item, each in zip(items, ratings, strict=True)]
    assert write_files("rise", items, scores, tmp_path) == 1
    assert pickle.loads((tmp_path / "bagel/bagel.pkl").read_bytes()) == {  # noqa: S301  we wrote it
        "causal": {"judge1": None, "judge2": "**Final Score:** **5**", "judge3": "**Final Score:** **4**"},
        "logical": {"judge1": "**Final Score:** **0**", "judge2": "**Final Score:** **1**"},
    }


def test_a_generator_that_would_lead_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    score = Score("a", "viescore-edit", 6, parts={"SC": 4, "PQ": 9})
    with pytest.raises(DataError, match="the generator must be one file name"):
        write_files("gedit", [gedit("a", "..")], [score], tmp_path)


def test_a_suite_says_whether_it_writes_official_files(tmp_path: Path) -> None:
    assert open_suite(RunConfig(suite="imgedit-bench")).writes_official
    wise = open_suite(RunConfig(suite="wise"))
    assert not wise.writes_official
    with pytest.raises(ConfigError):
        wise.write_official([], [], tmp_path)
