"""One odd item, file or line is named, and everything else goes on."""

import os
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from PIL import Image

from titjudge.cli.commands import run_command
from titjudge.core.config import load_config
from titjudge.core.errors import DataError
from titjudge.core.files import csv_rows, read_jsonl, read_text
from titjudge.core.types import Status
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session


def data(folder: Path, *extra: str) -> Path:
    """A manifest with one item for each JSON text, which adds to what its line says."""
    folder.mkdir(exist_ok=True)
    lines = []
    for number, more in enumerate(extra):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
        asked = '"questions": ["Is it red?"], "gold_answers": ["yes"]'
        lines.append(f'{{"image": "{number}.png", "prompt": "a cat", {asked}{more and ", " + more}}}\n')
    (folder / "m.jsonl").write_text("".join(lines))
    return folder / "m.jsonl"


def judged(tmp_path: Path, manifest: Path, **more: Any) -> tuple[Any, dict[str, tuple[Status, str]]]:
    settings = {"metrics": ["yes-no"], "judge": "fake", "cache": str(tmp_path / "cache"), "out": str(tmp_path / "run")}
    outcome = Session(load_config(None, settings | {"data": manifest, "report": False} | more)).run()
    scores = RunFolder(tmp_path / "run").scores()
    return outcome, {item: (score.status, score.reason) for (item, _), score in scores.items()}


def test_a_template_that_is_not_there_is_the_items_fault_and_no_end_of_the_run(tmp_path: Path) -> None:
    outcome, found = judged(
        tmp_path, data(tmp_path / "d", "", '"template": "no/such"', '"template": "tit/compare"', "")
    )
    assert outcome.status == "complete"
    for name in ("1.png", "2.png"):
        status, reason = found[name]
        assert status is Status.BAD_INPUT
        assert "the item's template cannot be used" in reason
    assert {found[name][0] for name in ("0.png", "3.png")}.isdisjoint({Status.BAD_INPUT})


def test_a_seed_that_is_no_number_is_bad_input(tmp_path: Path) -> None:
    random = '"template": "random", "template_seed": '
    _, found = judged(tmp_path, data(tmp_path / "d", random + '"x"', random + "[1]", random + '"7"'))
    for name in ("0.png", "1.png"):
        status, reason = found[name]
        assert (status, "'template_seed' must be a whole number" in reason) == (Status.BAD_INPUT, True)
    assert found["2.png"][0] is not Status.BAD_INPUT


def test_data_too_deep_to_be_written_down_are_the_items_fault(tmp_path: Path) -> None:
    outcome, _ = judged(tmp_path, data(tmp_path / "d", "", '"deep": ' + "[" * 900 + "]" * 900))
    assert outcome.status == "complete"
    listed = read_lines(tmp_path / "run" / "items.jsonl")
    assert "cannot be kept as JSON" in listed[1]["bad"]
    assert "bad" not in listed[0]


@pytest.mark.parametrize("read", [lambda path: list(read_jsonl(path)), lambda path: list(csv_rows(path)), read_text])
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path, read: Any) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(DataError, match="a pipe or a device, not a file"):
        read(tmp_path / "pipe.jsonl")


def test_images_that_are_pipes_are_named_by_judge_and_label(tmp_path: Path) -> None:
    from titjudge.apps.label.dataset import load_dataset

    manifest = data(tmp_path / "d", "", "", "")
    (tmp_path / "d" / "1.png").unlink()
    os.mkfifo(tmp_path / "d" / "1.png")
    _, found = judged(tmp_path, manifest)
    assert found["1.png"][0] is Status.BAD_INPUT
    assert "not a file" in found["1.png"][1]
    assert any("1.png: not a file" in problem for problem in load_dataset(manifest).problems)


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (
            (),
            4,
            "1 of 4 images have no score by lmm-score: coverage 75.0%, less than the 90.0% that --min-coverage asks for\n",
        ),
        (("--min-coverage", "0"), 0, "1 of 4 images have no score by lmm-score: coverage 75.0%\n"),
        (("--min-coverage", "0.75"), 0, "coverage 75.0%\n"),
        (("--min-coverage", "0.8"), 4, "coverage 75.0%, less than the 80.0% that --min-coverage asks for\n"),
        (("--min-coverage", "80"), 2, "--min-coverage: must be less than or equal to 1, not 80.0"),
    ],
)
def test_a_share_of_images_can_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], code: int, said: str
) -> None:
    manifest = data(tmp_path / "d", "", "", "", "")
    (tmp_path / "d" / "2.png").write_bytes(b"not an image")
    arguments = ["judge", "--data", str(manifest), "--metric", "lmm-score", "--captioner", "fake", "--no-report"]
    arguments += ["--set", f"cache={tmp_path / 'cache'}", "--out", str(tmp_path / "run"), *flags]
    assert run_command("titjudge", arguments) == code
    caught = capsys.readouterr()
    assert (caught.err if code == 2 else caught.out).endswith(said) or (code == 2 and said in caught.err)


def test_a_run_that_scored_everything_says_nothing_of_coverage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = data(tmp_path / "d", "", "")
    arguments = ["judge", "--data", str(manifest), "--metric", "lmm-score", "--captioner", "fake", "--no-report"]
    arguments += ["--set", f"cache={tmp_path / 'cache'}", "--out", str(tmp_path / "run"), "--min-coverage", "1"]
    assert run_command("titjudge", arguments) == 0
    assert "have no score" not in capsys.readouterr().out


def test_a_run_with_failures_says_what_to_do_about_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = data(tmp_path / "d", *[""] * 12)
    (tmp_path / "d" / "2.png").write_bytes(b"not an image")
    arguments = ["judge", "--data", str(manifest), "--metric", "lmm-score", "--captioner", "fake"]
    arguments += ["--set", f"cache={tmp_path / 'cache'}", "--out", str(tmp_path / "run")]
    assert run_command("titjudge", arguments) == 0  # eleven twelfths are enough
    line = "1 with an image or prompt that cannot be used: correct or remove them, then run the command again"
    assert f"images without a score:\n  {line}\n" in capsys.readouterr().err
    assert line.partition(": ")[2] in (tmp_path / "run" / "report.html").read_text()
