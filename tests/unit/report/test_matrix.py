"""The matrix of pictures: when a report has one, and what it sorts prompts by."""

from pathlib import Path
from typing import Any

from report_runs import PROMPT, score, small_run, write_run

from titjudge.core.types import Item
from titjudge.report.matrix import matrix, matrix_data
from titjudge.report.model import load
from titjudge.runs.folder.run_folder import RunFolder


def themed(folder: Path) -> RunFolder:
    items = [
        Item(f"{g}{p}.png", PROMPT, None, g, f"p{p}", {"theme": f"t{p % 3}", "note": f"only of {p}"})
        for p in range(6)
        for g in "ab"
    ]
    return write_run(folder, items, [score(item, "tit", 0.5) for item in items])


def test_there_is_a_matrix_where_two_generators_or_two_runs_stand_side_by_side(tmp_path: Path) -> None:
    assert matrix(load([small_run(tmp_path / "run")])) is not None
    assert matrix(load([write_run(tmp_path / "lone", [Item("a.png", PROMPT, None, "a")], [])])) is None
    runs = [write_run(tmp_path / name, [Item("a.png", PROMPT, None, "")], []) for name in ("one", "other")]
    assert matrix(load(runs)) is not None


def test_prompts_are_sorted_into_the_themes_of_the_data_and_not_by_what_is_different_in_each(tmp_path: Path) -> None:
    themes = matrix_data(load([themed(tmp_path / "run")]))["themes"]
    assert themes["theme"] == {f"p{p}": f"t{p % 3}" for p in range(6)}
    assert "note" not in themes


def test_marks_keep_their_name_when_a_report_is_written_again_and_have_another_in_another_run(tmp_path: Path) -> None:
    run, other = small_run(tmp_path / "run"), small_run(tmp_path / "other")
    assert matrix_data(load([run]))["marks"] == matrix_data(load([run]))["marks"]
    assert matrix_data(load([run]))["marks"] != matrix_data(load([other]))["marks"]


def test_it_opens_with_what_the_verdict_compares_by_the_metric_that_decides(tmp_path: Path) -> None:
    def first(results: dict[str, Any], baseline: str = "") -> dict[str, str]:
        items = [Item(f"{g}.png", PROMPT, None, g, "p") for g in "ab"]
        scores = [score(item, metric, 0.5) for item in items for metric in ("tit", "tit-llm")]
        report = load([write_run(tmp_path / "run", items, scores, results=results)])
        report.baseline = baseline
        opened: dict[str, str] = matrix_data(report)["first"]
        return opened

    verdict = {"verdict": {"generators": {"metric": "tit-llm", "first": "b", "second": "a"}}}
    assert first(verdict) == {"a": "a", "b": "b", "m": "tit-llm"}
    assert first({}) == {"m": "tit-llm"}
    assert first({}, "b") == {"a": "b", "m": "tit-llm"}
