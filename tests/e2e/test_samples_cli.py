"""Several images of a prompt, from the command line to the tables."""

import csv
import json
from pathlib import Path

import pytest
from builders import read_lines, write_lines
from commands import cli
from PIL import Image

WORDS = {
    "good": ("a red ball", "a red ball on a table", "a red ball"),
    "bad": ("a red ball", "a blue box", "a green cat"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two generators with three images of each of two prompts, described beforehand."""
    folder, described, listed = tmp_path / "data", [], []
    folder.mkdir()
    for prompt in ("p1", "p2"):
        for generator, texts in WORDS.items():
            for seed, text in enumerate(texts):
                name = f"{generator}-{prompt}-{seed}.png"
                Image.new("RGB", (8, 8), (seed, len(prompt), len(generator))).save(folder / name)
                listed.append({"image": name, "prompt_id": prompt, "generator": generator, "seed": 40 + seed})
                described.append({"image": name, "description": text})
    prompts = [{"prompt_id": name, "prompt": "a red ball"} for name in ("p1", "p2")]
    for name, records in (("prompts", prompts), ("images", listed), ("descriptions", described)):
        write_lines(folder / f"{name}.jsonl", *records)
    return folder


def test_rules_of_the_leaderboard_and_of_compare(data: Path, tmp_path: Path) -> None:
    run = ("judge", "--data", str(data), "--metric", "tit", "--out", "run", "--json", "out.json")
    said = cli(tmp_path, *run)
    assert "tit: spread" in said
    means = {}
    for rule in ("mean", "best", "all:0.95"):  # the same run, counted otherwise: nothing is judged again
        said = cli(tmp_path, *run, "--per-prompt", rule)
        board = json.loads((tmp_path / "out.json").read_text())["leaderboard"]
        means[rule] = {row["generator"]: row["metrics"]["tit"]["mean"] for row in board}
        assert "verified" in cli(tmp_path, "verify", "run")
    assert means["best"]["bad"] == pytest.approx(means["best"]["good"], abs=0.01)
    assert means["mean"]["bad"] < means["mean"]["good"] - 0.1
    assert means["all:0.95"]["bad"] == 0.0
    assert "all of its images are right (score 0.95 or better)" in said
    said = cli(tmp_path, "compare", "generators", "run", "--per-prompt", "any:0.95", "--json", "c.json")
    assert {row["mean"] for row in json.loads((tmp_path / "c.json").read_text())["generators"]} == {1.0}
    cli(tmp_path, "report", "run", "--format", "csv", "--out", "scores.csv")
    with (tmp_path / "scores.csv").open() as file:
        assert [row["sample"] for row in csv.DictReader(file)][:3] == ["40", "41", "42"]


def test_the_command_for_missing_prompts_has_no_key(data: Path, tmp_path: Path) -> None:
    kept = [row for row in read_lines(data / "images.jsonl") if not row["image"].startswith("bad-p2")]
    write_lines(data / "images.jsonl", *kept)
    said = cli(tmp_path, "judge", "--data", str(data), "--metric", "tit", "--out", "sk-abcdefgh12345678")
    (command,) = [
        line for line in said.splitlines() if "cli.py judge" in line and "--retry" not in line and str(data) in line
    ]
    assert (str(data) in command, "[key]" in command, "sk-abc" in command) == (True, True, False)


def test_rules_that_say_nothing_are_refused_before_anything_is_asked(data: Path, tmp_path: Path) -> None:
    run = ("judge", "--data", str(data), "--metric", "tit")
    assert "--per-prompt must be mean, best" in cli(tmp_path, *run, "--per-prompt", "worst", code=2)
    assert "Remove --per-prompt" in cli(tmp_path, *run, "--per-prompt", "best", "--settle", "good,bad", code=2)
    assert not (tmp_path / "runs").exists()
