"""`judge --canary` against a judge that changes, and what `judges agreement` makes of it."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit import Scripted, Seen, Server
from tests.kit.wires import openai_answer
from titjudge.cli.commands import run_command


class Judge:
    """Rates by the length of what it reads; `shift` and `version` are those of today."""

    def __init__(self) -> None:
        self.shift, self.version, self.silent = 0, "v1", False
        self.cached_tokens = self.reasoning_tokens = 0

    def __call__(self, seen: Seen) -> Scripted:
        if self.silent:
            return Scripted.fault("refusal")
        score = 40 + len(seen.text) % 30 + self.shift
        text = json.dumps({"missing": [], "contradicted": [], "reason": "r", "score": score})
        return Scripted(body={**openai_answer(seen, text, Scripted(text), self), "model": self.version})


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(judge: Judge) -> Iterator[Server]:
    with Server(judge) as running:
        yield running


@pytest.fixture
def place(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two images of somebody else's, with recorded descriptions."""
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    data = tmp_path / "data"
    (data / "images").mkdir(parents=True)
    rows = (example / "images.jsonl").read_text().splitlines()[:2]
    (data / "images.jsonl").write_text("\n".join(rows))
    shutil.copy(example / "prompts.jsonl", data)
    shutil.copy(example / "descriptions.jsonl", data)
    for row in rows:
        image = json.loads(row)["image"]
        shutil.copy(example / image, data / image)
    return data


Shell = Callable[..., str]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    def call(*arguments: str | Path, code: int = 0) -> str:
        found = run_command("python cli.py", [*map(str, arguments)])
        told = capsys.readouterr()
        assert found == code, told.out + told.err
        return told.out + told.err

    return call


def asked(server: Server, place: Path, out: str) -> list[str | Path]:
    return ["judge", "--data", place, "--metric", "tit-llm", "--judge", "openai/m", "--base-url", server.openai,
            "--canary", "--no-report", "--out", place.parent / out]  # fmt: skip


def test_a_judge_of_recorded_descriptions_has_canaries_and_compare_refuses_to_join_across_a_drift(
    server: Server, judge: Judge, place: Path, shell: Shell
) -> None:
    assert "canaries: 50 answers frozen in" in shell(*asked(server, place, "one"))
    assert "canaries: 50 asked again, 0 have another answer: no drift" in shell(*asked(server, place, "two"))
    judge.shift, judge.version = 25, "v2"
    told = shell(*asked(server, place, "three"))
    assert "DRIFT: 50 of 50 canaries" in told
    assert "DRIFT: judge answers as v2@fp_1, was v1@fp_1" in told
    kept = json.loads((place.parent / "three" / "manifest.json").read_text())["canary"]
    assert (kept["state"], len(kept["flips"])) == ("drift", 50)
    one, two, three = (place.parent / name for name in ("one", "two", "three"))
    assert "drift" not in shell("judges", "agreement", one, two).replace("no drift", "")
    refused = shell("judges", "agreement", one, three, code=2)
    assert "not comparable" in refused
    assert "its canaries drifted (50 of 50 flipped)" in refused
    assert "--allow-drift" in refused
    assert "joined across a drift" in shell("judges", "agreement", one, three, "--allow-drift")
    assert "joined across a drift" in shell("merge", one, three, "--out", place.parent / "both")


def test_a_dry_run_counts_the_canaries_and_says_what_repair_turns_may_cost(
    server: Server, place: Path, shell: Shell
) -> None:
    out = place.parent / "dry.json"
    for name, expected in (("one", 2 + 150), ("two", 50)):
        said = shell(*asked(server, place, name), "--price", "m=1,1", "--dry-run", "--json", out)
        found, before = json.loads(out.read_text()), server.count()
        assert found["roles"]["judge"]["requests"] == expected
        assert found["repair_turns_at_most"]["requests"] == expected
        assert found["repair_turns_at_most"]["list_cost"] > 0
        assert f"at most {expected} repair turns" in " ".join(said.split())
        assert "canaries: " in said
        shell(*asked(server, place, name))
        assert server.count() - before == expected


def test_canaries_that_nobody_answers_are_not_frozen(server: Server, judge: Judge, place: Path, shell: Shell) -> None:
    judge.silent = True
    assert "canaries: none of 50 got an answer, so none is frozen" in shell(*asked(server, place, "one"), code=1)
    judge.silent = False
    assert "canaries: 50 answers frozen in" in shell(*asked(server, place, "two"), "--retry-failed")


@pytest.mark.slow
def test_where_nothing_can_have_changed_it_is_said(place: Path, tmp_path: Path, shell: Shell) -> None:
    told = shell("judge", "--data", place, "--metric", "tit", "--canary", "--no-report", "--out", tmp_path / "r")
    assert "canaries: none was asked: no metric of this run asks a model that can have changed (tit)" in told
