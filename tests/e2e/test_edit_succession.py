"""The walk of the page on edits from a retired judge to its successor, with the commands that stand there."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from builders import png, read_lines, write_lines
from commands import cli
from pages import page_text

from titjudge.core import registry
from titjudge.core.types import ImageFile, Reply, Request, Usage
from titjudge.providers.dry_run import made_up_reply
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI

EDITORS = {f"editor_{k}": 2 + k for k in range(6)}  # how bright their results are, in tenths
TITLE = "Map scores of edits to a new judge"


class _SeesBrightness:
    """Rates an edit by the brightness of its result, so that a judge's scores are known; refuses what is darker than `blind_below`."""

    shift, blind_below = 0.0, 0.0

    async def complete(self, request: Request) -> Reply:
        images = [part for message in request.messages for part in message.parts if isinstance(part, ImageFile)]
        tenths = brightness(images[-1].path)
        if tenths < self.blind_below:
            return Reply("I am sorry, I cannot help with that.", finish_reason="content_filter")
        rating = min(10.0, tenths + self.shift)
        text = json.dumps({"reasoning": "seen", "score": [rating, rating]})
        return replace(
            made_up_reply(request, text), text=text, usage=Usage(input=9, output=9), model_version="1", endpoint="here"
        )


class OldJudge(_SeesBrightness, OpenAI):
    """The judge that will be shut down."""


class NewJudge(_SeesBrightness, Gemini):
    """Its successor, which rates all edits a point and a half higher."""

    shift = 1.5


def brightness(path: Path) -> float:
    from PIL import Image

    with Image.open(path) as image:
        return float(image.convert("RGB").getpixel((0, 0))[0]) / 25


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out eight edits by six editors, of which the new judge gets five, and the judges without a network."""
    for name, judge in {"openai": "OldJudge", "gemini": "NewJudge"}.items():
        monkeypatch.setitem(registry.TABLES["providers"], name, f"{__name__}:{judge}")
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "none")
    rows = []
    for k in range(8):
        source = png(tmp_path / "edits" / "src" / f"{k}.png", (10 * k, 9, 9))
        for editor, tenths in EDITORS.items():
            result = png(tmp_path / "edits" / editor / f"{k}.png", (25 * tenths + 5 * (k % 3), 100, k))
            paths = {"source_image": str(source), "edited_image": str(result)}
            rows.append({**paths, "instruction": f"Make it warmer by {k} degrees.", "model": editor})
    write_lines(tmp_path / "edits" / "edits.jsonl", *rows)
    write_lines(tmp_path / "edits" / "again.jsonl", *(row for row in rows if row["model"] != "editor_3"))
    return tmp_path


def walk() -> list[list[str]]:
    """The commands of the section, split into words, without `python cli.py`."""
    section = page_text("judge-edits").split(f"## {TITLE}\n", 1)[1].split("\n## ", 1)[0]
    block = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]
    return [shlex.split(line)[2:] for line in block.splitlines()]


def standings(place: Path) -> dict[str, dict[str, float]]:
    *first, bridge = walk()
    for command in first:
        cli(place, *command)
    cli(place, *bridge, "--json", "bridge.json")
    found = json.loads((place / "bridge.json").read_text(encoding="utf-8"))
    return {each["generator"]: each for each in found["generators"]}


def test_the_board_of_edits_is_carried_to_the_new_judge(place: Path) -> None:
    found = standings(place)
    assert [name for name, each in found.items() if each["carried"]] == ["editor_3"]
    assert found["editor_3"]["score"] == pytest.approx(EDITORS["editor_3"] + 1.5, abs=0.25)
    assert list(found) == [f"editor_{k}" for k in (5, 4, 3, 2, 1, 0)]
    assert (place / "bridge.svg").is_file()


def test_refused_edits_are_no_zeros_on_the_bridge_and_are_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OldJudge, "blind_below", 2.1)  # the darkest three edits of editor_0
    *first, bridge = walk()
    cli(place, *first[0], "--min-coverage", "0.5")
    cli(place, *first[1])
    said = cli(place, *bridge, "--json", "bridge.json")
    old = json.loads((place / "bridge.json").read_text(encoding="utf-8"))
    assert old["map"]["slope"] == pytest.approx(1, abs=0.05)  # zeros would have bent the line
    assert old["map"]["intercept"] == pytest.approx(1.5, abs=0.1)
    assert (old["left_out"], old["leave_one_out"]["held"]) == (["editor_0"], 4)  # five prompts are too few
    assert "editor_0" in said.partition("too few common prompts")[0].rpartition("\n")[2]


def test_instructions_that_changed_under_the_same_id_are_no_bridge(place: Path) -> None:
    for name, word in (("edits", "warmer"), ("again", "colder")):
        rows = read_lines(place / "edits" / f"{name}.jsonl")
        told = [{**row, "prompt_id": Path(row["source_image"]).stem, "instruction": f"Make it {word}."} for row in rows]
        write_lines(place / "edits" / f"{name}.jsonl", *told)
    *first, bridge = walk()
    for command in first:
        cli(place, *command)
    said = cli(place, *bridge, code=2)
    assert "8 of 8 prompts have a different text in runs/edits-old under the same id ('0')" in said
