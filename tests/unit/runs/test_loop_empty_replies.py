"""Replies of a model that ends its answer without a word: kept, and an answer only if an official script takes it for one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import suite_data
from commands import cli
from PIL import Image

from tests.kit import Scripted, Seen, Server

EMPTY = Scripted(kind="empty")


def data(folder: Path, make: Callable[[Path], tuple[str, ...]], *images: str) -> tuple[str, ...]:
    """A tiny copy of a benchmark with these images, each of another colour; returns the flags that read it."""
    root = folder / "data"
    root.mkdir()
    flags = make(root)
    for number, name in enumerate(images):
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    return ("--data", "data", *flags)


def judge(folder: Path, server: Server, flags: tuple[str, ...], protocol: str, code: int = 0) -> dict[str, Any]:
    """Judge; returns the results of the first metric."""
    cli(
        folder, "judge", *flags, "--judge", "openai/Qwen/Qwen2.5-VL-7B-Instruct", "--base-url", server.openai,
        "--protocol", protocol, "--out", f"run-{protocol}", "--set", "cache=cache", "--no-report", code=code,
    )  # fmt: skip
    results = json.loads((folder / f"run-{protocol}" / "results.json").read_text())
    found: dict[str, Any] = next(iter(results["metrics"].values()))
    return found


def first_is_empty(text: str) -> Callable[[Seen], Scripted | str]:
    """Answer the image that is seen first with nothing, any other with the text."""
    first: list[str] = []

    def answer(seen: Seen) -> Scripted | str:
        first[:] = first or [seen.images[0]]
        return EMPTY if seen.images[0] == first[0] else text

    return answer


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.engine.retry.random.random", lambda: 0.0)


def test_a_reading_of_no_words_counts_under_official_and_is_none_under_strict(tmp_path: Path) -> None:
    flags = data(tmp_path, suite_data.longtext, "gen/0000_1.png", "gen/0001_1.png")
    with Server(first_is_empty("STOP")) as server:
        official = judge(tmp_path, server, flags, "official")
        asked = server.count()
        strict = judge(tmp_path, server, flags, "strict", code=4)
        assert (asked, server.count() - asked) == (2, 2)
    assert (official["scored"], official["mean"]) == (2, 0.5)
    assert (strict["scored"], strict["mean"]) == (1, 1.0)


def test_what_official_took_for_an_answer_stands_for_a_metric_that_does_not(tmp_path: Path) -> None:
    """The same request, from the same cache."""
    flags = data(tmp_path, suite_data.oneig, "anime/gen/000_0.png")
    flags = (*flags, "--metric", "questions", "--config", "run.yaml")
    (tmp_path / "run.yaml").write_text("judge: {temperature: 0}\n")
    with Server(lambda seen: EMPTY) as server:
        assert judge(tmp_path, server, flags, "official")["mean"] == 0.0
        assert judge(tmp_path, server, flags, "official")["mean"] == 0.0
        assert server.count() == 1
        server.handler = lambda seen: "yes"
        assert judge(tmp_path, server, flags, "strict", code=1)["scored"] == 0
        assert server.count() == 1
        assert judge(tmp_path, server, (*flags, "--retry-failed"), "strict")["mean"] == 1.0


def test_official_alignment_of_oneig_sends_no_temperature(tmp_path: Path) -> None:
    flags = (*data(tmp_path, suite_data.oneig, "anime/gen/000_0.png"), "--metric", "questions")
    with Server(lambda seen: "Yes") as server:
        judge(tmp_path, server, flags, "official")
        assert "temperature" not in server.last.body
        judge(tmp_path, server, flags, "strict")
        assert server.last.body["temperature"] == 0


def test_unigenbench_asks_eleven_times_for_a_word(tmp_path: Path) -> None:
    flags = data(tmp_path, suite_data.unigenbench, "gen/0_0.png")
    with Server(lambda seen: EMPTY) as server:
        judge(tmp_path, server, flags, "official", code=1)
        assert server.count() == 11
    marks = "<analysis>['oil']</analysis><score>[1]</score>"
    (tmp_path / "again").mkdir()
    flags = data(tmp_path / "again", suite_data.unigenbench, "gen/0_0.png")
    with Server(lambda seen: marks) as server:
        server.script(*[EMPTY] * 10)
        assert judge(tmp_path / "again", server, flags, "official")["mean"] == 1.0


def test_a_run_with_an_empty_answer_verifies(tmp_path: Path) -> None:
    flags = data(tmp_path, suite_data.longtext, "gen/0000_1.png", "gen/0001_1.png")
    with Server(first_is_empty("STOP")) as server:
        judge(tmp_path, server, flags, "official")
    cli(tmp_path, "verify", "run-official")
