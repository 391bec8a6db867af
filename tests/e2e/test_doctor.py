"""`doctor --ask` proves every address, not one that happens to answer."""

import json
from pathlib import Path

import pytest

from tests.kit import Scripted, Server
from titjudge.cli.commands import run_command
from titjudge.core import registry


def test_each_of_several_addresses_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    with Server() as one, Server() as two:
        arguments = [
            "doctor",
            "--ask",
            "--judge",
            "openai/a",
            "--judge",
            "openai/b",
            "--base-url",
            f"{one.openai},{two.openai}",
        ]
        code = run_command(
            "titjudge", [*arguments, "--set", f"cache={tmp_path / 'c'}", "--json", str(tmp_path / "d.json")]
        )
        assert (code, one.count(), two.count()) == (0, 2, 2)
    rows = [row for row in json.loads((tmp_path / "d.json").read_text()) if "openai/" in row["what"]]
    assert [row["what"] for row in rows] == ["judge openai/a"] * 2 + ["judge 2 openai/b"] * 2
    assert f"{two.openai} answered as b" in rows[3]["facts"]
    assert "OPENAI_API_KEY" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["", "weights", "absent"])
def test_weights_of_learned_metrics_are_found_or_missed(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    monkeypatch.setattr("titjudge.providers.local.hardware.local_report", list)
    monkeypatch.setenv("TITJUDGE_WEIGHTS", str(tmp_path / place) if place else "")
    (tmp_path / "weights" / "pickscore").mkdir(parents=True)
    code = run_command(
        "titjudge", ["doctor", "--local", "--set", f"cache={tmp_path / 'c'}", "--json", str(tmp_path / "d")]
    )
    (row,) = [each for each in json.loads((tmp_path / "d").read_text()) if each["what"] == "weights of learned metrics"]
    said = {"": "TITJUDGE_WEIGHTS is not set", "weights": "weights: pickscore;", "absent": "absent is not a folder"}
    assert said[place] in row["facts"]
    assert (row["state"], code) == (("failed", 2) if place == "absent" else ("ok", 0))
    capsys.readouterr()


def test_an_address_in_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@127.0.0.1:9/v1")
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)
    assert run_command("titjudge", ["doctor", "--set", f"cache={tmp_path / 'c'}"]) == 0
    said = capsys.readouterr().out
    assert said.count("requests go to the address in OPENAI_BASE_URL") == said.count("requests go to") == 1
    assert "secret" not in said


def test_a_provider_of_another_package_that_does_not_load_is_named_and_the_others_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    broken = {"theirs": "no_such_package:Theirs"}
    monkeypatch.setattr(registry, "announced", lambda kind: broken if kind == "providers" else {})
    file = tmp_path / "d.json"
    assert run_command("titjudge", ["doctor", "--set", f"cache={tmp_path / 'c'}", "--json", str(file)]) == 0
    rows = {row["what"]: row for row in json.loads(file.read_text())}
    assert rows["theirs"]["state"] == "warning"
    assert "no_such_package" in rows["theirs"]["facts"]
    assert {"openai", "gemini", "azure"} <= rows.keys()
    assert run_command("titjudge", ["providers"]) == 0
    assert "theirs" in capsys.readouterr().out


def test_a_cache_that_cannot_be_used_is_one_line_among_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    (tmp_path / "file").write_text("no folder")
    assert run_command("titjudge", ["doctor", "--set", f"cache={tmp_path / 'file' / 'cache'}"]) == 2
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "cannot be used" in line]
    assert "Not a directory" in line
    assert "--set cache=DIR" in line
    assert "TITJUDGE_CACHE" in line


def test_nobody_at_the_address_is_said_after_one_attempt_and_what_is_asked_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with Server() as server:
        nobody = f"{server.url.rpartition(':')[0]}:9/v1"
        config = {
            "judge": {"model": "openai/a", "base_url": nobody},
            "embedder": {"model": "openai/e", "base_url": nobody},
        }
        (tmp_path / "run.yaml").write_text(json.dumps(config))
        flags = [
            "--config",
            str(tmp_path / "run.yaml"),
            "--set",
            f"cache={tmp_path / 'c'}",
            "--json",
            str(tmp_path / "d"),
        ]
        assert run_command("titjudge", ["doctor", "--ask", *flags]) == 2
    rows = {row["what"]: row for row in json.loads((tmp_path / "d").read_text())}
    assert all("cannot connect" in rows[name]["facts"] for name in ("embedder openai/e", "judge openai/a"))
    assert "loading the embedder openai/e ..." in (said := capsys.readouterr().err)
    assert f"asking judge openai/a at {nobody} ..." in said


def test_the_models_that_are_too_large_for_this_machine_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        ("memory", "ok", ""),
        ("local/a/Small", "fits", ""),
        ("local/a/Big", "too large", "x"),
        ("scorer/huge", "too large", "y"),
    ]
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    monkeypatch.setattr("titjudge.providers.local.hardware.local_report", lambda: list(rows))
    file = tmp_path / "d.json"
    assert run_command("titjudge", ["doctor", "--local", "--set", f"cache={tmp_path / 'c'}", "--json", str(file)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "too large" in line]
    assert line.split() == ["2", "known", "models", "too", "large", "Big,", "huge"]
    assert {row["what"] for row in json.loads(file.read_text())} >= {"local/a/Big", "scorer/huge"}


def test_what_a_package_announces_under_a_name_of_titjudge_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    for kind, name in (
        ("commands", "judge"),
        ("metrics", "tit"),
        ("learned_metrics", "pickscore"),
        ("metrics", "free"),
    ):
        monkeypatch.setitem(registry.announced(kind), name, f"other.{kind}:{name}")
    assert (
        run_command("titjudge", ["doctor", "--set", f"cache={tmp_path / 'c'}", "--json", str(tmp_path / "d.json")]) == 0
    )
    rows = [row for row in json.loads((tmp_path / "d.json").read_text()) if "entry point" in row["facts"]]
    assert [(row["what"], row["state"]) for row in rows] == [
        (name, "warning") for name in ("judge", "tit", "pickscore")
    ]
    assert "titjudge.metrics (other.metrics:tit) is not used" in rows[1]["facts"]
    capsys.readouterr()


RED = {"prompt_tokens": 400, "completion_tokens": 1, "total_tokens": 401}


@pytest.mark.parametrize(
    ("said", "usage", "state"),
    [
        ("Red.", RED, "ok"),
        ("I see no image", RED, "warning"),
        ("Red", {**RED, "prompt_tokens": 14, "total_tokens": 15}, "warning"),
    ],
)
def test_a_captioner_is_shown_an_image(
    said: str, usage: dict[str, int], state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("titjudge.cli.doctor._embedder", lambda config: ("embedder", "ok", ""))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    with Server(lambda seen: Scripted(said, usage=usage)) as server:
        model = ["--captioner", "openai/a", "--base-url", server.openai]
        flags = [*model, "--set", f"cache={tmp_path / 'c'}", "--json", str(tmp_path / "d.json")]
        assert run_command("titjudge", ["doctor", "--ask", *flags]) == 0
        assert [len(seen.images) for seen in server.requests] == [1]
    (row,) = [row for row in json.loads((tmp_path / "d.json").read_text()) if row["what"] == "captioner openai/a"]
    assert row["state"] == state
    assert ("image" in row["facts"]) is (state == "warning")
