"""`probe --dry-run` says what the probe then asks."""

import json
from pathlib import Path

import pytest
from known_answers import answer, first_prompt

from tests.kit import Server
from titjudge.cli.commands import run_command


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return first_prompt(tmp_path / "data")


def probe(tmp_path: Path, data: Path, *more: str) -> int:
    return run_command(
        "python cli.py",
        ["probe", "--data", str(data), "--captioner", "openai/gpt-4o", "--judge", "openai/gpt-4.1", "--set", f"cache={tmp_path / 'cache'}", "--out", str(tmp_path / "run"), "--repeats", "2", "--errors", "2", *more],
    )  # fmt: skip


def test_the_forecast_counts_what_is_then_asked_and_sends_nothing(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Server(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai)
        out = tmp_path / "dry.json"
        assert probe(tmp_path, data, "--dry-run", "--json", str(out)) == 0
        assert "Dry run: requests and cost" in capsys.readouterr().out
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
