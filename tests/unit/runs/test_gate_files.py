"""What a gate leaves for a pull request: JUnit XML, a comment with thumbnails, and the GitHub Action that uses them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import orjson
import pytest
import yaml
from commands import cli
from PIL import Image
from report_runs import picture, score, write_run

from titjudge.cli.commands import command_of
from titjudge.core.types import Item

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-planted-4711-secret"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve prompts by `base`, `worse` (most on prompts 3, 5, 7) and `same`; a prompt has markup, XML's and a key."""
    monkeypatch.setenv("PLANTED_API_KEY", SECRET)
    items, scores = [], []
    for number in range(12):
        for at, name in enumerate(("base", "worse", "same")):
            image = picture(tmp_path / "images" / name / f"{number}.png", (20 * number, 80 * at, 9), (640, 320))
            prompt = f"prompt {number} | <img src=x> @all {SECRET} \x01" if number == 5 else f"prompt {number}"
            items.append(Item(f"{name}/{number}", prompt, image, name, str(number)))
            lost = {3: 0.7, 5: 0.9, 7: 0.8}.get(number, 0.3) if name == "worse" else 0.001 * (number % 3) * at
            scores.append(score(items[-1], "tit", 0.95 - lost))
    write_run(tmp_path / "run", items, scores)
    return tmp_path / "run"


def gate(folder: Path, *more: str, code: int = 1) -> str:
    names = ("compare", "generators", "run", "--metric", "tit", "--baseline", "base", "--fail-if-worse", "0.05")
    return cli(folder, *names, *more, code=code)


@pytest.mark.parametrize("status", ["incomplete: budget", "incomplete: interrupted", "running", "failed: HTTP 500"])
def test_the_gate_of_an_incomplete_run_cannot_tell(run: Path, tmp_path: Path, status: str) -> None:
    file = run / "manifest.json"
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"status": status}))
    said = gate(tmp_path, "--json", "out.json", code=0)
    found = orjson.loads((tmp_path / "out.json").read_bytes())["gate"]
    assert (found["outcome"], set(found["verdicts"].values())) == ("cannot tell", {"cannot tell"})
    why = "stopped, or not finished" if status == "running" else status.removeprefix("incomplete: ")
    assert all(why in reason and "run" in reason for reason in found["reasons"].values())
    assert "the run is incomplete" in said
    gate(tmp_path, "--strict", code=1)


def test_junit_has_a_case_for_each_generator(run: Path, tmp_path: Path) -> None:
    assert "junit  ci/junit.xml" in gate(tmp_path, "--junit", "ci/junit.xml")
    (suite,) = ElementTree.parse(tmp_path / "ci" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    worse, same = sorted(suite, key=lambda case: str(case.get("name")), reverse=True)
    assert worse.get("name") == "worse is not worse than base by more than 0.05"
    (failure,) = worse
    assert str(failure.get("message")).startswith("worse is worse than base by more than 0.05, interval")
    (skipped,) = same  # 12 prompts leave open that one in four has -1
    assert str(skipped.get("message")).startswith(
        "cannot tell with 12 prompts whether same is worse than base by more than 0.05"
    )
    assert str(skipped.get("message")).endswith("would do if they were like these")
    assert same.get("classname") == "titjudge.tit"


def test_what_cannot_be_told_is_skipped_or_fails_when_strict(run: Path, tmp_path: Path) -> None:
    wide = ("compare", "generators", "run", "--metric", "tit", "--baseline", "base", "--fail-if-worse", "0.45")
    cli(tmp_path, *wide, "--junit", "a.xml", "--comment", "a.md")
    cli(tmp_path, *wide, "--strict", "--junit", "b.xml", "--comment", "b.md", code=1)
    suites = [ElementTree.parse(tmp_path / name).getroot()[0] for name in ("a.xml", "b.xml")]
    assert [(each.get("failures"), each.get("skipped")) for each in suites] == [("0", "2"), ("2", "0")]
    told = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.md", "b.md")]
    assert told[0].startswith("### titjudge: the gate cannot tell\n\n- ❔ cannot tell with 12 prompts")
    assert told[1].startswith("### titjudge: the gate has failed\n\n- ❌ cannot tell with 12 prompts")


def test_what_no_unseen_prompt_can_change_passes(run: Path, tmp_path: Path) -> None:
    wide = ("compare", "generators", "run", "--metric", "tit", "--baseline", "base", "--fail-if-worse", "0.6")
    assert "same is not worse than base by more than 0.6" in cli(tmp_path, *wide, "--junit", "ci.xml")
    (suite,) = ElementTree.parse(tmp_path / "ci.xml").getroot()
    assert {str(case.get("name")).partition(" ")[0]: len(case) for case in suite} == {"same": 0, "worse": 1}


def test_the_comment_shows_the_three_prompts_that_lost_most_with_their_images(run: Path, tmp_path: Path) -> None:
    gate(tmp_path, "--comment", "ci/note.md")
    told = (tmp_path / "ci" / "note.md").read_text(encoding="utf-8")
    lines = told[told.index("**worse against base") :].splitlines()
    assert told.index("**same against base") < told.index("**worse against base")  # best first
    assert lines[2] == "| prompt | base | worse |"
    assert [line.split(" ")[2] for line in lines[4:7]] == ["5", "7", "3"]
    links = re.findall(r"!\[\w+\]\(([^)]*)\)", "\n".join(lines))
    assert len(links) == 6
    for link in links:
        with Image.open(tmp_path / "ci" / link) as shown:
            assert (shown.format, max(shown.size)) == ("WEBP", 320)
    assert "0.95<br>" in lines[4]
    assert "0.05<br>" in lines[4]
    assert SECRET not in told
    assert "<img" not in told
    assert "@all" not in told


def test_the_images_lie_where_they_are_said_to(run: Path, tmp_path: Path) -> None:
    gate(tmp_path, "--comment", "note.md", "--image-url", "https://example.org/a/")
    files = {each.name for each in (tmp_path / "note_images").iterdir()}
    told = (tmp_path / "note.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(https://example\.org/a/([^)]*)\)", told)) == files
    assert len(files) >= 6


def test_a_table_without_images_is_commented_all_the_same(tmp_path: Path) -> None:
    rows = [f"p{n},{name},{0.9 if name == 'base' else 0.2 + 0.01 * n}" for n in range(9) for name in ("base", "new")]
    (tmp_path / "scores.csv").write_text("\n".join(["prompt_id,generator,score", *rows]))
    names = ("compare", "generators", "scores.csv", "--baseline", "base", "--fail-if-worse", "0.1")
    cli(tmp_path, *names, "--comment", "note.md", "--junit", "junit.xml", code=1)
    told = (tmp_path / "note.md").read_text(encoding="utf-8")
    assert "| p0 | 0.9 | 0.2 |" in told
    assert not (tmp_path / "note_images").exists()
    cli(tmp_path, *names[:-3], "new", *names[-2:], "--comment", "note.md")
    assert "base lost on no prompt" in (tmp_path / "note.md").read_text(encoding="utf-8")


def test_flags_that_do_not_go_together_are_said(run: Path, tmp_path: Path) -> None:
    names = ("compare", "generators", "run", "--metric", "tit")
    assert "--junit requires --fail-if-worse" in cli(tmp_path, *names, "--junit", "a.xml", code=2)
    assert "--comment requires --fail-if-worse" in cli(tmp_path, *names, "--comment", "a.md", code=2)
    assert "--image-url requires --comment" in gate(tmp_path, "--image-url", "x", code=2)


def _action() -> dict[str, Any]:
    text = (ROOT / "examples" / "ci" / "action.yml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 50
    action: dict[str, Any] = yaml.safe_load(text)
    assert action["runs"]["using"] == "composite"
    return action


def test_the_commands_of_the_action_exist() -> None:
    scripts = [step["run"] for step in _action()["runs"]["steps"] if "run" in step]
    assert all(step.get("shell") == "bash" for step in _action()["runs"]["steps"] if "run" in step)
    assert not any("${{" in script for script in scripts)  # text of a pull request is no code: it comes as a variable
    joined = "\n".join(scripts).replace("\\\n", " ")
    used = re.findall(r"titjudge (judge|compare generators)([^\n]*)", joined)
    assert [name for name, _ in used] == ["judge", "compare generators"]
    for name, rest in used:
        command = command_of(name.split()[0])
        command = command.commands["generators"] if isinstance(command, click.Group) else command
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in rest.split() if word.startswith("--")} <= options


@pytest.mark.slow
@pytest.mark.parametrize(("strict", "code"), [("false", 0), ("true", 1)])
def test_the_action_in_a_repository(run: Path, tmp_path: Path, strict: str, code: int) -> None:
    """The steps run in the shell of a runner. `pip` and `gh` only record how they were called; the run is there already."""
    (tmp_path / "gate").mkdir()
    run.rename(tmp_path / "gate" / "run")
    tools = tmp_path / "tools"
    tools.mkdir()
    programs = {
        "pip": 'echo pip "$@" >> calls',
        "gh": 'echo gh "$@" >> calls',
        "titjudge": f'[ "$1" = judge ] && {{ echo judge >> calls; exit 4; }}; exec {sys.executable} {ROOT}/cli.py "$@" --metric tit',
    }
    for name, script in programs.items():
        (tools / name).write_text(f"#!/bin/bash\n{script}\n")
        (tools / name).chmod(0o755)
    values = {
        "DATA": "data",
        "OPTIONS": "--provider openai",
        "BASE": "base",
        "MARGIN": "0.7",
        "STRICT": strict,
        "PR": "7",
    }
    more = {"GITHUB_ACTION_PATH": str(ROOT / "examples" / "ci"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    environment = {**os.environ, **values, **more, "PATH": f"{tools}:{os.environ['PATH']}"}
    ended = []
    for step in _action()["runs"]["steps"]:
        if "run" in step:
            shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            ended.append(subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True))
    assert [step.returncode for step in ended] == [0, code, 0], ended
    assert "::warning" in ended[1].stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].endswith(f"{ROOT}/examples/ci/../..")
    assert [call.split()[:3] for call in calls[1:]] == [["judge"], ["gh", "pr", "comment"]]
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert ("cannot tell" if code == 0 else "failed") in summary.splitlines()[0]
    assert "![" not in summary
