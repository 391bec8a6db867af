"""The recorded answers of the example give its published tables again: without a network, a key or a cent, anywhere."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from builders import write_lines

from titjudge.core.config import load_config
from titjudge.core.errors import DataError
from titjudge.core.files import read_jsonl
from titjudge.core.paths import bundled_root
from titjudge.runs.outcome import Outcome
from titjudge.runs.resolve import resolve
from titjudge.runs.session import Session

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "replay_recorded.json"
ASKED = ["yes-no", "graph-alignment", "tit-llm", "lmm-score"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a replay opened a connection")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def replay(data: Path, out: Path, metrics: list[str], **more: Any) -> Outcome:
    given = {"data": data, "suite": "known-answer", "captioner": "recorded", "judge": "recorded", "metrics": metrics}
    return Session(load_config(None, {**given, "out": out, "cache": out / "cache", "report": False, **more})).run()


def told(outcome: Outcome) -> dict[str, Any]:
    """What is published: accuracy over the pairs, and the tables of the suite."""
    results = outcome.results
    return {
        "pairs": {name: [each.correct, each.pairs_scored] for name, each in results.metrics.items()},
        "tables": {
            table.title: [table.columns, *table.rows]
            for table in results.tables
            if table.title.startswith("Known answers")
        },
    }


def golden(*metrics: str) -> dict[str, Any]:
    """The golden file, of some metrics."""
    whole = json.loads(GOLDEN.read_text(encoding="utf-8"))
    tables = {
        title: [columns, *rows]
        for title, (columns, *lines) in whole["tables"].items()
        if (rows := [row for row in lines if row[0] in metrics])
    }
    return {"pairs": {name: whole["pairs"][name] for name in metrics}, "tables": tables}


def moved(example: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(example, tmp_path / "somewhere" / "else"))


def answers(data: Path) -> list[dict[str, Any]]:
    return [record for _, record in read_jsonl(data / "answers.jsonl")]


def rewrite(data: Path, lines: list[dict[str, Any]]) -> None:
    write_lines(data / "answers.jsonl", *lines)


@pytest.mark.slow
def test_the_published_tables_come_out_again_elsewhere_too(example: Path, tmp_path: Path) -> None:
    here = replay(example, tmp_path / "here", ASKED)
    assert told(here) == golden(*ASKED)
    assert (here.status, here.results.spent, here.results.list_cost) == ("complete", 0, 0)
    there = replay(moved(example, tmp_path), tmp_path / "there", ASKED)
    assert told(there) == golden(*ASKED)


@pytest.mark.slow
def test_claims_are_replayed_look_by_look(example: Path, tmp_path: Path) -> None:
    outcome = replay(example, tmp_path / "run", ["tit-agent"])
    assert told(outcome) == golden("tit-agent")
    scores = [record for _, record in read_jsonl(outcome.folder / "scores.jsonl")]
    assert {score["parts"]["stopped"] for score in scores} == {"covered", "little left"}
    assert sum(score["parts"]["counts"]["looks"] for score in scores) == 24 + 37


@pytest.mark.slow
@pytest.mark.parametrize(("template", "metric"), [("tiif/questions_3", "yes-no"), ("agent/ask", "tit-agent")])
def test_a_missing_answer_is_missing_and_never_a_score(
    example: Path, tmp_path: Path, template: str, metric: str
) -> None:
    data = moved(example, tmp_path)
    lines = answers(data)
    gone = next(line for line in lines if line["template"] == template)
    rewrite(data, [line for line in lines if line is not gone])
    outcome = replay(data, tmp_path / "run", [metric])
    scores = {record["item"]: record for _, record in read_jsonl(outcome.folder / "scores.jsonl")}
    lost = [item for item, score in scores.items() if score["value"] is None]
    assert lost == gone["images"]
    assert scores[lost[0]]["status"] == "missing"
    assert "answers.jsonl has no answer to" in scores[lost[0]]["reason"]
    assert outcome.results.metrics[metric].scored == 23
    rewrite(data, lines)
    again = replay(data, tmp_path / "run", [metric])  # the same run, once the answer is there
    assert told(again) == golden(metric)


def test_answers_are_replayed_to_the_templates_they_were_given_to(example: Path, tmp_path: Path) -> None:
    """Templates beside a recording are used where all of a run is recorded, and nowhere else."""
    data = moved(example, tmp_path)
    (data / "prompts" / "agent").mkdir(parents=True, exist_ok=True)
    bundled = bundled_root() / "agent" / "split.md"
    (data / "prompts" / "agent" / "split.md").write_text(bundled.read_text(encoding="utf-8") + "And so on.\n", "utf-8")
    recorded = resolve(load_config(None, {"data": data, "captioner": "recorded", "judge": "recorded"})).config
    assert recorded.prompts == data / "prompts"
    asked = resolve(load_config(None, {"data": data, "captioner": "recorded", "judge": "fake/m"})).config
    assert asked.prompts is None
    outcome = replay(data, tmp_path / "run", ["tit-agent"], limit=1)
    assert [status for _, status, _ in outcome.failures] == ["missing"]
    mine = resolve(
        load_config(None, {"data": data, "captioner": "recorded", "judge": "recorded", "prompts": example})
    ).config
    assert mine.prompts == example


def test_a_repeated_question_is_not_answered_with_the_first_answer(example: Path, tmp_path: Path) -> None:
    outcome = replay(example, tmp_path / "run", ["yes-no"], samples=2, limit=1)
    (score,) = (record for _, record in read_jsonl(outcome.folder / "scores.jsonl"))
    assert score["parts"]["samples"] == [1.0, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key": "0123', "not JSON"),
        ('{"answer": "yes"}', "'key' is missing"),
        ('{"key": "../etc/passwd", "answer": "yes"}', "64 hex digits"),
        ('{"key": "%s", "answer": "  "}' % ("0" * 64), "'answer' must be a text"),
        ('{"key": "%s", "answer": 5}' % ("0" * 64), "'answer' must be a text"),
    ],
)
def test_a_damaged_line_is_named(example: Path, tmp_path: Path, line: str, message: str) -> None:
    data = moved(example, tmp_path)
    whole = (data / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    (data / "answers.jsonl").write_text("\n".join([*whole[:4], line, *whole[4:]]), encoding="utf-8")
    with pytest.raises(DataError, match=rf"answers\.jsonl:5: .*{message}"):
        replay(data, tmp_path / "run", ["yes-no"])


def test_two_answers_to_one_question_are_refused(example: Path, tmp_path: Path) -> None:
    data = moved(example, tmp_path)
    lines = answers(data)
    rewrite(data, [*lines, {**lines[2], "answer": "another"}])
    with pytest.raises(DataError, match=rf"answers\.jsonl:{len(lines) + 1}: line 3 answers the same question"):
        replay(data, tmp_path / "run", ["yes-no"])


def test_every_recorded_answer_says_what_was_asked_of_which_image_and_who_answered(example: Path) -> None:
    for line in answers(example):
        from_texts = line["template"] == "tit/compare"
        assert (
            line["by"]
            == f"a {'language model, from the two texts alone' if from_texts else 'vision-language model, blind'}"
        )
        assert line["question"].strip()
        assert all((example / image).is_file() for image in line["images"])


def test_the_suite_alone_replays_what_is_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("titjudge.runs.resolve._installed", lambda metric: True)
    whole = resolve(load_config(None, {"suite": "known-answer"})).config
    assert whole.metrics == ["tit", "tit-llm", "yes-no", "graph-alignment", "text-rendering"]
    assert (whole.captioner.model, whole.judge.model) == ("recorded", "recorded")  # type: ignore[union-attr]
    seen = resolve(load_config(None, {"suite": "known-answer", "captioner": "openai/gpt-4o"})).config
    assert seen.judge is None  # nothing is recorded about other descriptions
    assert resolve(load_config(None, {})).config.judge is None


def test_what_lacks_its_package_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.runs.resolve._installed", lambda metric: metric.name != "text-rendering")
    session = Session(load_config(None, {"suite": "known-answer"}))
    assert "text-rendering" not in session.metrics
    assert [line for line in session.warnings if "text-rendering" in line] == [
        "text-rendering is left out, its package is not installed: pip install 'titjudge[ocr]'"
    ]
    named = Session(load_config(None, {"suite": "known-answer", "metrics": ["text-rendering"]}))
    assert list(named.metrics) == ["text-rendering"]  # asked for by name, it says itself what it needs
    assert not named.warnings


def test_what_lacks_a_model_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.runs.resolve._installed", lambda metric: True)
    session = Session(load_config(None, {"suite": "known-answer", "captioner": "fake/eyes"}))
    assert [line for line in session.warnings if "left out" in line] == [
        f"{name} is left out, it needs a judge: --judge PROVIDER/MODEL"
        for name in ("tit-llm", "yes-no", "graph-alignment")
    ]
    plain = Session(load_config(None, {"captioner": "fake/eyes"}))
    assert not plain.warnings
