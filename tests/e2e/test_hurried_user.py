"""What a hurried user gets wrong ends in one clear line and exit code 2, or just works."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from titjudge.cli.commands import run_command
from titjudge.core import registry
from titjudge.core.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
FAKE = ("--captioner", "fake/x", "--judge", "fake/x", "--metric", "tit-llm", "--no-report")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    Image.new("RGB", (8, 8)).save(data / "a.png")
    (data / "a.txt").write_text("a cat")
    return data


def tj(*arguments: str) -> int:
    return run_command("titjudge", list(arguments))


def test_python_m_runs_and_says_how_it_was_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "titjudge", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: python -m titjudge COMMAND")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "data/a.png"), "data/a.png: this is an image. Give its folder"),
        (("--data", "data/a.txt"), "a manifest must be one of .jsonl, .ndjson, .json, .csv,"),
        (("--data", "data", "--captioner", "gpt-4o"), "'gpt-4o' has no provider. Write PROVIDER/MODEL"),
        (("--data", "data", "--captioner", "opnai"), "Did you mean 'openai'?"),
        (("--data", "data", "--captioner", "recorded"), "Use `answers record`"),
        (("--data", "data", "--out", "data/a.png"), "data/a.png is a file. Give a folder"),
        (("--data", "data", "--out", "data"), "data is not empty and not a run. Choose another --out"),
        (("--data", "data", "--suite-option", "x=1"), "no option 'x'. Remove it"),
        (("--data", "data", "--json", "data"), "data: cannot be written: Is a directory"),
    ],
)
def test_judge_says_in_one_line_what_is_wrong(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tj("judge", *FAKE, *arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(("command", "option"), [("judge", "--config"), ("sweep", "")])
def test_a_configuration_in_utf16_is_named(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yaml").write_text("data: data\n", encoding="utf-16")
    assert tj(command, *filter(None, [option]), "run.yaml") == 2
    assert capsys.readouterr().err == "titjudge: run.yaml: this is UTF-16 text. Save the file as UTF-8\n"


def test_the_opening_names_the_default_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    assert tj("judge", "--data", "data", "--provider", "gemini", "--metric", "tit-llm") == 2
    assert "captioner gemini/gemini-2.5-pro; judge gemini/gemini-2.5-pro" in capsys.readouterr().out


def test_one_bad_image_is_named_once_whatever_the_metrics(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "b.png").write_text("no image")
    (place / "b.txt").write_text("a dog")
    (place / "m.csv").write_text("image,prompt\na.png,a cat, and a dog\nb.png,a dog\n")
    for data in ("data", "data/m.csv"):
        tj("judge", "--data", data, *FAKE, "--metric", "lmm-score")
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  ")]
        assert sum("b.png" in line for line in lines) == 1
    assert sum(line.count("m.csv:2") for line in lines) == 1


def test_score_of_nothing_is_no_success(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say = ("score", "--prompt", "a cat", "--captioner", "fake/x", "--judge", "fake/x")
    assert tj(*say, "nosuch.png") == 1
    assert tj(*say, "nosuch.png", "data/a.png") == 0
    assert "no such image file" in capsys.readouterr().out


def test_a_report_goes_into_a_folder_that_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tj("judge", "--data", "data", *FAKE, "--out", "run") == 0
    (place.parent / "pages").mkdir()
    assert tj("report", "run", "--out", "pages") == 0
    assert tj("report", "run", "--format", "markdown", "--out", "pages") == 0
    assert {path.name for path in Path("pages").iterdir()} == {"report.html", "export.md"}


def test_a_path_through_a_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert tj("judge", "--data", "data", *FAKE, "--out", "run") == 0
    capsys.readouterr()
    assert tj("report", "run", "--out", "data/a.png/page.html") == 2
    assert capsys.readouterr().err == "titjudge: data/a.png: File exists. Choose another name, or move this file away\n"


def test_a_bad_second_try_leaves_a_complete_run_complete(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from titjudge.runs.folder.run_folder import RunFolder

    templates = place.parent / "mine" / "tit"
    templates.mkdir(parents=True)
    command = ("judge", "--data", "data", *FAKE, "--set", "prompts=mine", "--out", "run")
    assert tj(*command) == 0
    (templates / "compare.md").write_text("no front matter")
    assert tj(*command) == 2
    assert RunFolder(Path("run")).manifest().status == "complete"


def test_a_json_file_that_cannot_be_is_said_before_the_work_and_leaves_nothing(place: Path) -> None:
    assert tj("judge", "--data", "nosuch", *FAKE, "--json", "new/out.json") == 2
    assert not Path("new/out.json").exists()
    assert tj("score", "--prompt", "a cat", *FAKE[:4], "data/a.png", "--json", "data") == 2
    assert not Path("cache").exists()


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {"mood": "titjudge.metrics.tit:nothing_of_the_kind", "gone": "no_such_package.metric:m"}
    monkeypatch.setattr(registry, "announced", lambda kind: broken if kind == "metrics" else {})


@pytest.mark.usefixtures("stranger")
def test_a_broken_entry_point_is_named_and_breaks_no_list(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        ConfigError, match=r"entry point .no_such_package.metric:m. cannot be loaded: ModuleNotFoundError"
    ):
        registry.load("metrics", "gone")
    assert tj("judge", "--data", "data", *FAKE, "--metric", "mood") == 2
    assert "metric 'mood' of an entry point" in capsys.readouterr().err
    assert tj("metrics") == 0
    shown = capsys.readouterr()
    assert "tit-llm" in shown.out
    assert "mood" in shown.err


def test_an_unfinished_merge_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert tj("judge", "--data", "data", *FAKE, "--shard", "1/2", "--out", "one") == 0
    assert tj("merge", "one", "--out", "whole") == 1
    assert "shard 2/2 missing" in capsys.readouterr().out
