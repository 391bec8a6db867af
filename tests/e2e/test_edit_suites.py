"""A suite of edits from files to tables: what is sent, what a refusal does to the means, and that it can be recomputed."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import png, read_lines, write_lines
from commands import cli

from tests.kit import Scripted, Server
from titjudge.core.config import load_config
from titjudge.runs.check.verify import verify
from titjudge.runs.session import Session

KINDS = ("color_alter", "subject-remove")


def gedit(folder: Path) -> Path:
    """Two generators, four edits of two types each."""
    rows = []
    for n in range(4):
        rows.append({
            "key": f"k{n}", "task_type": KINDS[n % 2], "instruction": f"edit number {n}", "instruction_language": "en",
            "Intersection_exist": n < 2,
        })  # fmt: skip
        for place, generator in enumerate(("bagel", "step1x")):
            (results := folder / f"results/{generator}/fullset/{KINDS[n % 2]}/en").mkdir(parents=True, exist_ok=True)
            png(results / f"k{n}.png", (60 * n, 200 * place, 7))
            png(results / f"k{n}_SRCIMG.png", (60 * n, 9, 99))
    write_lines(folder / "gedit.jsonl", *rows)
    return folder


def answer(seen: Any) -> str | Scripted:
    """Refuse to rate the success of edit 3; else 8 and 4 for it, and 9 and 9 for quality."""
    text = json.dumps(seen.body["messages"])
    if "edit number 3" in text:
        return Scripted.fault("refusal")
    return json.dumps({"score": [8, 4] if "edit number" in text else [9, 9], "reasoning": "so"})


@pytest.mark.parametrize("protocol", ["strict", "official"])
def test_a_refused_edit_enters_no_mean_and_is_counted_by_its_type_with_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with Server(answer) as server:
        judge = {"model": "openai/gpt-4.1", "base_url": server.openai}
        keys = {"data": gedit(tmp_path / "data"), "suite": "gedit-bench", "judge": judge, "protocol": protocol}
        config = load_config(None, {**keys, "out": tmp_path / "run", "cache": tmp_path / "cache", "report": False})
        Session(config).run()
    tables = {each["title"]: each for each in json.loads((tmp_path / "run/results.json").read_text())["tables"]}
    overall = tables["GEdit-Bench: overall (O)"]
    assert overall["rows"] == [["bagel", 4, 3, 6, 6, 6], ["step1x", 4, 3, 6, 6, 6]]
    unscored = tables["GEdit-Bench: overall (O): images without a score"]
    assert unscored["columns"][2:] == ["refused", "mean", "if all were worst", "if all were best"]
    assert unscored["rows"][:2] == [["bagel", "overall", 1, 6, 4.5, 7], ["bagel", "subject-remove", 1, 6, 3, 8]]
    assert tables["GEdit-Bench, intersection: semantic consistency (SC)"]["rows"][0][3] == 4
    assert verify(tmp_path / "run").holds


def test_the_edits_of_a_suite_are_exported_with_their_sources_and_made_by_a_command(tmp_path: Path) -> None:
    edits = {f"k{n}": {"id": f"animal/{n}.png", "prompt": f"edit number {n}", "edit_type": "add"} for n in range(4)}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "basic_edit.json").write_text(json.dumps(edits))
    for n in range(4):
        png(tmp_path / "data" / "original_images" / "animal" / f"{n}.png", (60 * n, 9, 99))
    flags = ("--suite", "imgedit-bench", "--data", "data")
    cli(tmp_path, "prompts", "export", *flags, "--images-per-prompt", "1", "-o", "todo.jsonl")
    wanted = read_lines(tmp_path / "todo.jsonl")
    assert [line["prompt"] for line in wanted] == [f"edit number {n}" for n in range(4)]
    (tmp_path / "edit.py").write_text("import shutil, sys\nshutil.copy(sys.argv[2], sys.argv[3])\n")
    program = shlex.join([sys.executable, str(tmp_path / "edit.py"), "--prompt={prompt}", "{source}", "{out}"])
    made = cli(tmp_path, "generate", "todo.jsonl", "--command", program, "--out", "data", "--name", "nothing")
    assert "4 images made" in made
    assert "complete" in cli(tmp_path, "prompts", "coverage", *flags, "--images-per-prompt", "1")
    result = next((tmp_path / "data").rglob("nothing/k3.png"))
    assert result.read_bytes() == (tmp_path / "data" / "original_images" / "animal" / "3.png").read_bytes()
