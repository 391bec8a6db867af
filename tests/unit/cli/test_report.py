"""`report`: where the page goes, and what it says of images that the page does not list."""

from pathlib import Path

import pytest
from commands import cli
from report_runs import small_run


def test_a_folder_lies_in_the_run_or_where_it_is_asked_for(tmp_path: Path) -> None:
    small_run(tmp_path / "run")
    assert "run/report/index.html" in cli(tmp_path, "report", "run", "--format", "folder")
    assert (tmp_path / "run" / "report" / "files" / "0000.js").is_file()
    cli(tmp_path, "report", "run", "--format", "folder", "--out", "elsewhere")
    assert (tmp_path / "elsewhere" / "index.html").is_file()


def test_a_file_that_lists_a_part_of_the_images_names_the_way_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("titjudge.report.html.LISTED", 4)
    small_run(tmp_path / "run")
    told = cli(tmp_path, "report", "run")
    assert "of 5 images: `--format folder` writes a folder that lists more" in told
    assert "the page lists" not in cli(tmp_path, "report", "run", "--format", "folder")
