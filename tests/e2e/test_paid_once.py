"""What was paid is not paid again: by the same command, after a kill, with the cache gone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.outcome import Outcome
from titjudge.runs.session import Session

KINDS = {"fine": "ok", "declined": "refused", "cut off": "truncated", "babble": "unparsed", "filtered": "refused"}
GOOD = json.dumps({"score": 7, "reason": "because"})


def message(content: str | None, finish: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    said = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return {"id": "x", "model": "gpt-4o", "choices": [choice], "usage": usage}


def answer(seen: Seen) -> Scripted | str:
    if "declined" in seen.text:
        return Scripted(body=message(None, refusal="I cannot"))
    if "cut off" in seen.text:
        return Scripted(body=message("abc", finish="length"))
    if "filtered" in seen.text:
        return Scripted(status=400, body={"error": {"message": "no", "code": "content_filter"}})
    return "no number in here" if "babble" in seen.text else GOOD


@pytest.fixture
def server(serve_openai: Callable[..., Server]) -> Server:
    return serve_openai(answer)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number, kind in enumerate(KINDS):
        Image.new("RGB", (16, 16), (number, 30, 90)).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"a {kind} thing")
    return folder


def judged(tmp_path: Path, data: Path, **more: Any) -> Outcome:
    settings = {"data": data, "metrics": ["lmm-score"], "captioner": "openai/gpt-4o", "out": tmp_path / "run"}
    return Session(load_config(None, {"cache": tmp_path / "cache", "report": False, **settings, **more})).run()


def statuses(tmp_path: Path) -> list[str]:
    found = RunFolder(tmp_path / "run").scores()
    return [str(found[f"{number}.png", "lmm-score"].status) for number in range(len(KINDS))]


def test_a_complete_run_repeated_asks_nothing(tmp_path: Path, data: Path, server: Server) -> None:
    first = judged(tmp_path, data)
    assert (first.status, statuses(tmp_path)) == ("complete", list(KINDS.values()))
    asked = server.count()
    assert asked == len(KINDS) + 1  # and one repair turn
    lines = (tmp_path / "run" / "replies.jsonl").read_bytes()
    for _ in range(2):
        again = judged(tmp_path, data)
        assert (again.status, statuses(tmp_path)) == ("complete", list(KINDS.values()))
    assert server.count() == asked
    assert (tmp_path / "run" / "replies.jsonl").read_bytes() == lines
    assert again.results.spent == first.results.spent > 0

    assert Session(load_config(None, {"data": data, "metrics": ["lmm-score"], "captioner": "openai/gpt-4o",
                                      "cache": tmp_path / "cache", "out": tmp_path / "other"})).dry_run().roles == {}  # fmt: skip
    server.handler = lambda seen: GOOD
    judged(tmp_path, data, retry_failed=True)
    assert statuses(tmp_path) == ["ok"] * len(KINDS)
    assert server.count() == asked + 4


def test_answers_of_the_run_are_used_when_the_cache_has_gone(tmp_path: Path, data: Path, server: Server) -> None:
    judged(tmp_path, data)
    asked = server.count()
    for status in ("incomplete: interrupted", "complete"):
        shutil.rmtree(tmp_path / "cache")
        (tmp_path / "run" / "scores.jsonl").unlink()
        RunFolder(tmp_path / "run").set_status(status)
        judged(tmp_path, data)
        assert statuses(tmp_path) == list(KINDS.values())
    assert server.count() == asked
