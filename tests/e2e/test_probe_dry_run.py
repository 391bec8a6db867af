"""`probe --dry-run` says what the probe then asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from servers import Seen, Server

from titjudge.cli.dispatch import run_command

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "known_answer"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The images of the example's first prompt, small."""
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    for name in ("prompts.jsonl", "pairs.jsonl"):
        shutil.copy(EXAMPLE / name, folder / name)
    records = [json.loads(line) for line in (EXAMPLE / "images.jsonl").read_text().splitlines()]
    kept = [record for record in records if record["prompt_id"] == records[0]["prompt_id"]]
    (folder / "images.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept))
    for record in kept:
        with Image.open(EXAMPLE / record["image"]) as image:
            image.resize((48, 48)).save(folder / record["image"])
    return folder


def answer(seen: Seen) -> str:
    """A judge of descriptions, alone and in pairs, and one who describes."""
    if seen.images:
        return f"A table with fruit, {seen.digest.hex()[:8]}."
    return json.dumps({"missing": [], "contradicted": [], "reason": "because", "score": 70, "better": "first"})


def probe(tmp_path: Path, data: Path, *more: str) -> int:
    return run_command(
        "python cli.py",
        ["probe", "--data", str(data), "--captioner", "openai/gpt-4o", "--judge", "openai/gpt-4.1", "--cache",
         str(tmp_path / "cache"), "--out", str(tmp_path / "run"), "--repeats", "2", "--edits", "2", *more],
    )  # fmt: skip


def test_the_forecast_counts_what_is_then_asked_and_sends_nothing(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
        out = tmp_path / "dry.json"
        assert probe(tmp_path, data, "--dry-run", "--json", str(out)) == 0
        assert "Dry run: what this would ask and cost" in capsys.readouterr().out
        assert server.count() == 0
        assert not (tmp_path / "run").exists()
        found = json.loads(out.read_text())
        assert found["list_cost"][0] < found["list_cost"][2]
        assert probe(tmp_path, data) == 0
        assert server.count(lambda seen: seen.model == "gpt-4o") == found["roles"]["captioner"]["requests"]
        asked = server.count(lambda seen: seen.model == "gpt-4.1")
        assert asked == found["roles"]["judge"]["requests"]
        capsys.readouterr()
        assert probe(tmp_path, data, "--dry-run", "--json", str(out)) == 0
        assert json.loads(out.read_text())["roles"].get("judge", {"requests": 0})["requests"] == 0
        assert server.count(lambda seen: seen.model == "gpt-4.1") == asked


def test_each_judge_has_its_own_forecast(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    out = tmp_path / "dry.json"
    assert probe(tmp_path, data, "--judge", "gemini/gemini-2.5-flash", "--dry-run", "--json", str(out)) == 0
    assert capsys.readouterr().out.count("Dry run") == 2
    first, second = json.loads(out.read_text())
    assert first["roles"]["judge"]["model"] == "openai/gpt-4.1"
    assert second["roles"]["judge"]["model"] == "gemini/gemini-2.5-flash"
