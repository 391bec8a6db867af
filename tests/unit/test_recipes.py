"""The recipes in examples/recipes do what their first lines promise."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from commands import ROOT

from titjudge.suites.pair_files import read_pairs


@pytest.fixture
def label_studio(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["label_studio.py", *map(str, arguments)])
        runpy.run_path(str(ROOT / "examples" / "recipes" / "label_studio.py"), run_name="__main__")

    return run


def annotation(person: int, choice: str, **more: object) -> dict[str, Any]:
    result = [{"type": "choices", "from_name": "vote", "to_name": "prompt", "value": {"choices": [choice]}}]
    return {"completed_by": person, "result": result, "was_cancelled": False, **more}


def test_a_recipe_has_at_most_forty_lines() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in (ROOT / "examples" / "recipes").glob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 40} == {}


def test_tasks_for_label_studio_come_back_as_votes_that_judge_reads(
    example: Path, tmp_path: Path, label_studio: Any
) -> None:
    label_studio("tasks", example, tmp_path / "tasks.json", "/data/?d=")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert len(tasks) == 36
    assert all(task["data"]["left"] == "/data/?d=" + task["data"]["image_a"] for task in tasks)
    interface = ElementTree.parse(tmp_path / "tasks.xml")
    shown = {tag.attrib["value"].removeprefix("$") for tag in interface.iter() if tag.tag in ("Text", "Image")}
    assert shown <= tasks[0]["data"].keys()
    choices = [tag.attrib["value"] for tag in interface.iter("Choice")]
    for number, task in enumerate(tasks):
        task["annotations"] = [annotation(person, choices[number % 4]) for person in (1, 2)]
    tasks[0]["annotations"] = [
        annotation(1, "right", updated_at="2026-03-09T12:00:00Z"),
        annotation(1, "left", updated_at="2026-03-09T11:00:00Z"),
        annotation(2, "right"),
        annotation(3, "left", was_cancelled=True),
        {"completed_by": 4, "result": []},
    ]
    (tmp_path / "exported.json").write_text(json.dumps(tasks))
    label_studio("votes", tmp_path / "exported.json", tmp_path / "votes.csv")
    pairs = {(pair.prompt_id, pair.a, pair.b): pair for pair in read_pairs(tmp_path / "votes.csv")}
    read = [pairs[task["data"]["prompt_id"], task["data"]["image_a"], task["data"]["image_b"]] for task in tasks]
    expected = {"left": "a", "right": "b", "tie": "tie", "both_bad": "tie"}
    assert [pair.preference for pair in read[1:]] == [expected[choices[n % 4]] for n in range(1, 36)]
    assert read[0].preference == "b"
    assert [n for n, pair in enumerate(read) if pair.both_bad] == [n for n in range(36) if choices[n % 4] == "both_bad"]
