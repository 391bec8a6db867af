"""`probe images` from the command line to a judged folder."""

import json
import sys
from pathlib import Path

import pytest
from builders import read_lines
from commands import cli
from PIL import Image
from scene_stubs import noise, unseen

from tests.kit import Scripted, Seen, Server
from titjudge.apps.scenes.generate import make
from titjudge.apps.scenes.scene import Options
from titjudge.cli.commands import run_command
from titjudge.core.types import Item
from titjudge.suites.known_answer.suite import KnownAnswer


@pytest.mark.slow
def test_a_scene_is_made_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mitsuba")
    command = ["probe", "images", "--scenes", "1", "--seed", "5", "--size", "48", "--rays", "1"]
    command += ["--levels", "0,3", "--out", str(tmp_path / "out")]
    assert run_command("cli", command) == 0
    shown = capsys.readouterr()
    assert "1 prompts at 2 levels" in shown.out
    assert "2/2 images" in shown.err
    assert "left" in shown.err
    lines = read_lines(tmp_path / "out" / "images.jsonl")
    assert [line["level"] for line in lines] == [0, 3]
    with Image.open(tmp_path / "out" / lines[0]["image"]) as image:
        assert image.size == (48, 48)
    assert run_command("cli", command) == 0
    assert "images," not in capsys.readouterr().err


def test_without_the_renderer_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    assert run_command("cli", ["probe", "images", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error == "titjudge: rendering scenes needs mitsuba: pip install 'titjudge[scenes]'\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("levels", ["0,4", "1,1", "", "a"])
def test_levels_that_are_none_are_refused(tmp_path: Path, levels: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mitsuba")
    arguments = ["probe", "images", "--out", str(tmp_path / "out"), "--levels", levels]
    assert run_command("cli", arguments) == 2
    assert "must be different levels" in capsys.readouterr().err


def test_a_ladder_is_made_without_a_renderer_and_read_by_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    out = tmp_path / "out"
    command = ["probe", "images", "--ladder", "1", "--scenes", "1", "--levels", "0,1", "--out", str(out)]
    assert run_command("cli", command) == 0
    assert "2 images of 1024 x 1024 pixels, about 0:0" in capsys.readouterr().err
    items = list(KnownAnswer().load(out))
    assert sorted(item.meta["alignment"] for item in items if isinstance(item, Item)) == [0.9808, 1.0]
    assert "--ladder 1 --scene mixed --scenes 1 --seed 0 --levels 0,1" in (out / "README.md").read_text()
    assert run_command("cli", [*command[:3], "2", *command[4:]]) == 2
    assert "was made with size 1024, not 1536" in capsys.readouterr().err


def test_a_template_is_asked_for_by_name_and_a_folder_keeps_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["probe", "images", "--ladder", "1", "--scenes", "1", "--levels", "0", "--out", str(out)]
    assert run_command("cli", [*command, "--scene", "cabinet"]) == 0
    made = (out / "made.json").read_text()
    assert json.loads(made)["template"] == "cabinet"
    assert run_command("cli", command) == 0
    assert (out / "made.json").read_text() == made
    assert run_command("cli", [*command, "--scene", "stand"]) == 2
    assert "was made with template cabinet, not stand" in capsys.readouterr().err
    assert run_command("cli", [*command, "--scene", "attic"]) == 2
    assert "Known: cabinet, stand, shelves, mixed" in capsys.readouterr().err
    assert run_command("cli", ["probe", "images", "--scene", "stand", "--out", str(tmp_path / "b")]) == 2
    assert "--scene requires --ladder" in capsys.readouterr().err


@pytest.mark.parametrize("also", ["--hard", "--edits", "--size=64", "--rays=16"])
def test_a_ladder_is_no_other_sort_of_scenes(tmp_path: Path, also: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("cli", ["probe", "images", "--ladder", "1", also, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "--ladder" in said
    assert also.partition("=")[0] in said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_made_folder_is_judged_with_a_captioner_and_compared(tmp_path: Path) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    make(data, 3, Options(seed=2, size=24), look=unseen, render=noise, watch=lambda _: None)
    prompt = json.loads((data / "prompts.jsonl").read_text().splitlines()[0])["prompt"]

    def describe(seen: Seen) -> Scripted:
        return Scripted(f"{prompt} It is {seen.images[0][:8]}." if seen.images else prompt)

    with Server(describe) as server:
        command = (
            "judge",
            "--suite",
            "known-answer",
            "--data",
            str(data),
            "--metric",
            "tit",
            "--no-report",
            "--out",
            str(run),
        )
        model = ("--captioner", "openai/gpt-4o", "--base-url", server.openai)
        told = cli(tmp_path, *command, *model, OPENAI_API_KEY="x")
        assert server.count() >= 12
    assert "Known answers: scores against true alignment" in told
    assert "18" in cli(tmp_path, "judges", "agreement", str(run), "--pairs", str(data / "pairs.jsonl"))
