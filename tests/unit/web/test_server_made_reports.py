"""Reports that `view` makes when somebody opens them."""

from pathlib import Path

import pytest
from report_runs import small_run

from titjudge.core.errors import DataError
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.web.view.server import MadeReports


def test_two_runs_are_shown_side_by_side_and_their_folders_are_left_as_they_are(tmp_path: Path) -> None:
    folders = [small_run(tmp_path / name).path for name in ("one", "two")]
    before = {file: file.stat().st_mtime_ns for folder in folders for file in folder.rglob("*")}
    file = MadeReports(tmp_path, RunFolder).report(folders)
    assert "one · two" in file.read_text()
    assert {file: file.stat().st_mtime_ns for folder in folders for file in folder.rglob("*")} == before


def test_a_report_is_made_again_once_a_run_has_changed(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "one").path
    made = MadeReports(tmp_path, RunFolder)
    first = made.report([folder]).stat().st_mtime_ns
    assert made.report([folder]).stat().st_mtime_ns == first
    with (folder / "scores.jsonl").open("a") as file:
        file.write("\n")
    assert made.report([folder]).stat().st_mtime_ns > first


def test_a_damaged_run_has_no_report(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "one").path
    (folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        MadeReports(tmp_path, RunFolder).report([folder])
