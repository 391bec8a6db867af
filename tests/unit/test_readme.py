"""The README cannot rot: its generated parts are current and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_generated_parts_are_current() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_run_yaml_loads(tmp_path: Path) -> None:
    from titjudge.config import load_config

    (block,) = blocks("yaml")
    (tmp_path / "run.yaml").write_text(block)
    assert load_config(tmp_path / "run.yaml").limits.max_cost == 5
    assert yaml.safe_load(block)["metrics"] == ["tit", "tit-llm"]


def test_the_metric_example_works_with_the_fake_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from titjudge import Judge, registry

    example = next(block for block in blocks("python") if "@metric" in block)
    module = tmp_path / "mood_example.py"
    module.write_text(example)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(registry.TABLES["metrics"], "mood", "mood_example:mood")
    (tmp_path / "prompts" / "mine").mkdir(parents=True)
    (tmp_path / "prompts" / "mine" / "mood.md").write_text(
        "---\nversion: 1\nsource: me\nvars: [prompt]\n---\nRate the mood against: {{ prompt }}\n"
    )
    Image.new("RGB", (8, 8)).save(tmp_path / "image.png")
    with Judge(metric="mood", captioner="fake/any", prompts=tmp_path / "prompts") as judge:
        score = judge.score(tmp_path / "image.png", "a calm sea")
    assert (score.value, score.status) == (0.0, "ok")


def test_every_command_of_the_shell_blocks_exists() -> None:
    from titjudge.cli.commands import COMMANDS
    from titjudge.cli.run import command_of

    used = re.findall(r"python cli\.py ([a-z-]+)((?: [^`#\n]*)?)", "\n".join(blocks("sh")))
    assert used
    for name, rest in used:
        command = command_of(name)
        if isinstance(command, click.Group):
            command = command.commands.get(rest.split()[0]) or command.commands["serve" if name == "label" else "runs"]
        options = {option for parameter in command.params for option in parameter.opts}
        assert name in COMMANDS
        assert {word for word in rest.split() if word.startswith("--")} <= options, (name, rest)


def test_the_block_of_output_is_what_the_example_prints(tmp_path: Path) -> None:
    block = next(block for block in blocks("text") if block.startswith("Agreement with people"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "cli.py"), "judge", "--no-report", "--out", str(tmp_path / "run")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = {line.strip() for line in done.stdout.splitlines()}
    assert [line for line in block.splitlines() if line.strip() and line.strip() not in printed] == []
