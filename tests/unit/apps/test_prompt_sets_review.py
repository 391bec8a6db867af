"""`prompts review`: decisions over HTTP, kill -9, what an export keeps of edited prompts, and what is refused."""

import errno
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from builders import read_lines
from commands import cli
from reviewing import GRAPH, HOSTILE, SHORT, UNIQUE, make_set, reviewing

from titjudge.apps.prompt_sets.review.annotations import fields_of
from titjudge.apps.prompt_sets.review.server import Review, check_again
from titjudge.core.errors import DataError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def decide(review: Review, at: int, decision: str, reviewer: str = "ada", **more: Any) -> None:
    review.decide(at, review.show(at, reviewer)["seen"], decision, reviewer, **more)


@pytest.mark.slow
def test_decisions_outlive_kill_9(tmp_path: Path) -> None:
    path = make_set(tmp_path)
    with reviewing(path, "--author", "ada") as served:
        status, state = served.decide(0, "accepted")
        assert (status, state["next"]) == (200, 1)
        assert served.decide(1, "rejected", reason="  dull ")[0] == 200
        served.process.send_signal(signal.SIGKILL)
        served.process.wait(20)
    file = tmp_path / "set.jsonl.review.jsonl"
    before = file.read_bytes()
    assert [(each["prompt_id"], each["decision"]) for each in read_lines(file)] == [
        ("t1", "accepted"),
        ("g1", "rejected"),
    ]
    assert read_lines(file)[1]["reason"] == "dull"
    with file.open("ab") as damaged:
        damaged.write(b'{"prompt_id": "<b>h</b>", "deci')  # what a kill can leave of a line
    with reviewing(path, "--author", "ada") as served:
        state = served.ask("GET", "/api/prompt")[1]
        assert (state["at"], state["accepted"], state["rejected"]) == (2, 1, 1)
        status, state = served.decide(2, "accepted")
        assert (status, state["next"]) == (200, None)
    assert file.read_bytes().startswith(before)
    assert [each["reviewer"] for each in read_lines(file)] == ["ada"] * 3


@pytest.mark.slow
def test_strangers_and_wrong_requests_store_nothing(tmp_path: Path) -> None:
    path = make_set(tmp_path)
    with reviewing(path) as served:
        seen = served.ask("GET", "/api/prompt?at=0")[1]["seen"]
        good = {"at": 0, "seen": seen, "decision": "accepted"}
        assert served.ask("GET", "/api/prompt", Authorization="Bearer guessed")[0] == 401
        assert served.ask("GET", "/api/prompt", Authorization="Bearer \xe9")[0] == 401
        assert served.ask("POST", "/api/decide", good, Authorization="")[0] == 401
        assert served.ask("POST", "/api/decide", good, Origin="http://elsewhere.example")[0] == 403
        assert served.ask("GET", "/", Host="elsewhere.example")[0] == 403
        for wrong in (
            None, [], {**good, "at": 3}, {**good, "at": True}, {**good, "seen": "other"}, {**good, "decision": "maybe"},
            {**good, "reason": "both"}, {**good, "text": 5}, {**good, "parts": {"graph": ["a"]}}, {**good, "parts": {"questions": "yes | x"}}, {**good, "decision": "rejected"},
            {**good, "decision": "rejected", "reason": " "}, {**good, "decision": "rejected", "reason": "r", "text": "t"},
        ):  # fmt: skip
            assert served.ask("POST", "/api/decide", wrong)[0] == 400, wrong
        for name in ("", "label.css", "review.css", "review.js"):
            assert served.ask("GET", f"/{name}", Authorization="")[0] == 200
        assert served.ask("GET", "/api/prompt?at=99")[1]["at"] == 0
    assert not (tmp_path / "set.jsonl.review.jsonl").exists()


def test_an_export_has_accepted_prompts_and_the_checks_that_hold_for_edited_ones(tmp_path: Path) -> None:
    path = make_set(tmp_path)
    review = Review(path)
    decide(review, 0, "rejected", reason="a slip")
    decide(review, 0, "accepted", text="Two red cubes stand on a table")
    told = cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "final.jsonl", code=2)
    assert "2 of 3 prompts are undecided, or without a majority (g1, <b>h</b>)" in told
    assert not (tmp_path / "final.jsonl").exists()
    told = cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "final.jsonl", "--accepted-only")
    assert "prompts 1 in final.jsonl (1 edited, 0 rejected, 2 undecided)" in told
    decide(review, 1, "accepted", text=f"{GRAPH['prompt']}, at noon")
    decide(review, 2, "rejected", reason="not a prompt")
    told = cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "final.jsonl")
    assert "prompts 2 in final.jsonl (2 edited, 1 rejected, 0 undecided)" in told
    short, graph = read_lines(tmp_path / "final.jsonl")
    assert short["prompt"] == "Two red cubes stand on a table"
    assert short["edited"] == {"was": SHORT["prompt"], "checks_dropped": SHORT["checks"]}
    assert short["checks"] == ["accepted by a person"]
    assert short["provenance"] == SHORT["provenance"]
    assert short["review"]["reviewers"] == ["ada"]
    held = ["words in the interval", "entities in the words of the prompt"]
    assert graph["checks"] == [*held, "accepted by a person"]
    assert graph["edited"]["checks_dropped"] == ["refined", UNIQUE]
    assert read_lines(path) == [SHORT, GRAPH, HOSTILE], "the set itself stays as it is"


def test_an_unedited_prompt_keeps_its_checks(tmp_path: Path) -> None:
    review = Review(make_set(tmp_path, SHORT))
    decide(review, 0, "accepted", text=f" {SHORT['prompt']}\n")
    review.export(tmp_path / "final.jsonl")
    (final,) = read_lines(tmp_path / "final.jsonl")
    assert final["prompt"] == SHORT["prompt"]
    assert "edited" not in final
    assert final["checks"] == [*SHORT["checks"], "accepted by a person"]


def test_a_decision_holds_for_the_line_that_was_seen(tmp_path: Path) -> None:
    review = Review(make_set(tmp_path, SHORT, GRAPH))
    decide(review, 0, "accepted")
    decide(review, 1, "accepted")
    again = Review(make_set(tmp_path, {**SHORT, "prompt": "Another"}, GRAPH))
    assert list(again.decisions()) == ["g1"]
    assert again.show(None, "ada")["at"] == 0
    with pytest.raises(DataError, match="the prompt 't1' has changed"):
        again.decide(0, review.show(0, "ada")["seen"], "accepted", "ada")


def test_bad_rows_are_named_and_a_set_without_prompts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    rows = [json.dumps(SHORT), "nonsense", json.dumps({**SHORT, "prompt": "twice"}), '{"prompt_id": 3, "prompt": "x"}']
    path.write_text("\n".join([*rows, '{"prompt_id": "e", "prompt": " "}', '{"prompt_id": "n"}']) + "\n")
    problems = Review(path).problems
    assert len(problems) == 5
    assert [problem.split(": ")[0].rpartition(":")[2] for problem in problems] == ["2", "3", "4", "5", "6"]
    assert "another prompt has the prompt_id 't1'" in problems[1]
    path.write_text("nonsense\n")
    assert "no line is a JSON object with prompt_id and prompt" in cli(
        tmp_path, "prompts", "review", "set.jsonl", code=2
    )
    assert ".: Is a directory" in cli(tmp_path, "prompts", "review", ".", code=2)
    assert "absent.jsonl" in cli(tmp_path, "prompts", "review", "absent.jsonl", code=2)
    make_set(tmp_path, SHORT)
    assert "no prompt is accepted yet" in cli(
        tmp_path, "prompts", "review", "set.jsonl", "--out", "o.jsonl", "--accepted-only", code=2
    )
    assert "--out FILE" in cli(tmp_path, "prompts", "review", "set.jsonl", "--accepted-only", code=2)
    decide(Review(path), 0, "accepted")
    assert "would overwrite the set" in cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "set.jsonl", code=2)
    (tmp_path / "set.jsonl.review.jsonl").write_text("nonsense\n")
    assert "set.jsonl.review.jsonl:1" in cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "o.jsonl", code=2)


NOTES = {"Quality / Realism / Material Texture": "fur", "Quality / Realism / Physical Logic": "weight"}
LINES = ["cat", "wall", "cat | grey", "wall | stone", "cat | sleeps on | wall"]


def test_the_majority_of_several_people_decides_and_their_disagreement_is_kept(tmp_path: Path) -> None:
    faceted = {"prompt_id": "f1", "prompt": "A heavy cat", "notes": NOTES, "checks": []}
    path = make_set(tmp_path, SHORT, GRAPH, faceted)
    review = Review(path)
    assert review.show(1, "ada")["parts"] == {"graph": LINES}
    decide(review, 0, "accepted", "ada", parts={"questions": ["yes | Are the cubes red?", "no |  Is it snowing?"]})
    decide(review, 0, "accepted", "ben", parts={"questions": ["yes | Are the cubes red?", "no | Is it snowing?"]})
    decide(review, 0, "rejected", "cyd", reason="dull")
    decide(review, 1, "accepted", "ada", parts={"graph": [*LINES[:4], "moss"]})
    decide(review, 1, "accepted", "ben", parts={"graph": [*LINES[1:2], LINES[3], "moss", "moss | green"]})
    decide(review, 1, "accepted", "cyd", parts={"graph": LINES})  # as it is
    decide(review, 2, "accepted", "ada", parts={"facets": ["Quality / Realism / Physical Logic: heavy"]})
    assert review.show(1, "dan")["people"] == []  # nobody is told before they decide
    seen = review.show(1, "cyd")
    assert [each["reviewer"] for each in seen["people"]] == ["ada", "ben", "cyd"]
    assert ["cat", 2] in seen["disagreements"]["graph"]
    assert review.export(tmp_path / "final.jsonl")["edited"] == 3
    short, graph, faceted = read_lines(tmp_path / "final.jsonl")
    assert (short["questions"], short["gold_answers"]) == (["Are the cubes red?", "Is it snowing?"], ["yes", "no"])
    assert {**short["review"], "time": ""} == {
        "reviewers": ["ada", "ben", "cyd"],
        "accepted": 2,
        "rejected": 1,
        "time": "",
    }
    assert short["edited"]["parts_were"] == {"questions": ["yes | Are the cubes red?", "no | Is it raining?"]}
    assert graph["graph"] == {
        "entities": ["cat", "wall", "moss"], "attributes": [["cat", "grey"], ["wall", "stone"]], "relations": [],
    }  # fmt: skip
    assert ["moss | green", 1] in graph["review"]["disagreements"]["graph"]
    assert (faceted["notes"], faceted["facets"]) == (
        {"Quality / Realism / Physical Logic": "heavy"}, {"Quality": [["Realism", "Physical Logic"]]},
    )  # fmt: skip


def test_lines_count_as_equal_however_their_bars_are_spaced(tmp_path: Path) -> None:
    review = Review(make_set(tmp_path, SHORT, GRAPH))
    for name, bar in (("ada", "|"), ("ben", " |  ")):
        decide(review, 0, "accepted", name, parts={"questions": [f"yes{bar}Is it red?", f"no{bar}Is it wet?"]})
        decide(review, 1, "accepted", name, parts={"graph": ["cat", f"cat{bar}grey"]})
    review.export(tmp_path / "final.jsonl")
    short, graph = read_lines(tmp_path / "final.jsonl")
    assert (short["questions"], short["gold_answers"]) == (["Is it red?", "Is it wet?"], ["yes", "no"])
    assert graph["graph"] == {"entities": ["cat"], "attributes": [["cat", "grey"]], "relations": []}
    assert not {"disagreements"} & (short["review"].keys() | graph["review"].keys())


@pytest.mark.parametrize(
    "damage",
    [
        {"prompt_id": ["g1"]},
        {"reviewer": {}},
        {"decision": "maybe"},
        {"text": 5},
        {"parts": "x"},
        {"parts": {"other": ["x"]}},
        {"parts": {"graph": ["a | b"]}},
    ],
)
def test_a_damaged_decision_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = make_set(tmp_path, GRAPH)
    decide(Review(path), 0, "accepted")
    file = tmp_path / "set.jsonl.review.jsonl"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage) + "\n")
    told = cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "o.jsonl", code=2)
    assert "set.jsonl.review.jsonl:1: " in told
    assert len(told.strip().splitlines()) == 1


def test_a_line_with_a_graph_of_another_form_has_no_graph_to_correct(tmp_path: Path) -> None:
    path = make_set(tmp_path, {**GRAPH, "graph": {"entities": ["cat"], "attributes": None}})
    assert Review(path).show(0, "ada")["parts"] == {}


def test_names_that_nobody_has_are_refused(tmp_path: Path) -> None:
    make_set(tmp_path, SHORT)
    assert "the name is empty" in cli(tmp_path, "prompts", "review", "set.jsonl", "--author", " ", code=2)


def test_a_prompt_without_a_majority_is_undecided(tmp_path: Path) -> None:
    review = Review(make_set(tmp_path, SHORT, GRAPH))
    decide(review, 0, "accepted", "ada")
    decide(review, 0, "rejected", "ben", reason="dull")
    decide(review, 1, "accepted", "ada", text="Another text")
    decide(review, 1, "accepted", "ben")
    told = cli(tmp_path, "prompts", "review", "set.jsonl", "--out", "final.jsonl", code=2)
    assert "2 of 2 prompts are undecided, or without a majority (t1, g1)" in told
    decide(review, 0, "accepted", "ben")
    assert review.export(tmp_path / "final.jsonl", accepted_only=True)["accepted"] == 1


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"graph": ["cat", "dog | grey"]}, "graph: 'dog | grey' must be ENTITY"),
        ({"graph": ["cat", "cat | on | wall | x"]}, "must be ENTITY"),
        ({"graph": [" "]}, "graph: no line is left"),
        ({"graph": [["cat"]]}, "'graph' must be a list of texts"),
        ({"questions": ["yes | x"]}, "'parts' must be lines by part (graph)"),
        ([1], "'parts' must be lines by part (graph)"),
    ],
)
def test_corrections_that_cannot_be_read_are_named(tmp_path: Path, parts: Any, reason: str) -> None:
    review = Review(make_set(tmp_path, GRAPH))
    with pytest.raises(DataError, match=re.escape(reason)):
        decide(review, 0, "accepted", parts=parts)
    assert review.decisions() == {}


@pytest.mark.parametrize(
    ("part", "line", "reason"),
    [
        ("facets", "Quality / Nothing: x", "unknown facet 'Quality / Nothing'"),
        ("facets", "Quality / Realism / Physical Logic: x", "each facet once"),
        ("questions", "maybe | Is it?", "must be yes | QUESTION or no | QUESTION"),
        ("questions", "no | Is it a cat?", "'Is it a cat?' has two answers"),
        ("questions", "yes |", "must be yes | QUESTION or no | QUESTION"),
    ],
)
def test_lines_of_another_form_are_quoted(part: str, line: str, reason: str) -> None:
    first = {"facets": "Quality / Realism / Physical Logic: y", "questions": "yes | Is it a cat?"}[part]
    with pytest.raises(DataError, match=re.escape(reason)):
        fields_of({part: [first, line]})


BLOCKS = dict.fromkeys(
    ("core_subject", "environment", "composition", "lighting", "style", "details"), "lanterns glowing"
)
SIX = {
    "prompt": "lanterns glowing " * 125,
    "blocks": BLOCKS,
    "checks": ["at least 250 words", "one paragraph", "all six blocks"],
}
FACETS = {
    "prompt": "A red fox",
    "prompt_zh": "一只红狐狸",
    "length": "short",
    "checks": ["length", "languages", "every target found again"],
}


@pytest.mark.parametrize(
    ("line", "prompt", "wrong"),
    [
        (SIX, SIX["prompt"], {}),
        (SIX, "nothing\n\nleft", {"at least 250 words": 1, "one paragraph": 1, "all six blocks": 6}),
        (FACETS, "A fox", {"every target found again": None}),
        (FACETS, "fox" * 100, {"length": 1, "every target found again": None}),
        (FACETS, "红狐狸", {"languages": 1, "every target found again": None}),
        (GRAPH, "a cat", {"words in the interval": 1, "entities in the words of the prompt": 1, "refined": None, UNIQUE: None}),
        ({**GRAPH, "graph": 5}, GRAPH["prompt"], dict.fromkeys(GRAPH["checks"][1:])),
    ],
)  # fmt: skip
def test_checks_run_again_by_code(line: dict[str, Any], prompt: str, wrong: dict[str, int | None]) -> None:
    found = check_again({**line, "prompt": prompt})
    assert list(found) == line["checks"]
    told = {name: None if problems is None else len(problems) for name, problems in found.items() if problems != []}
    assert told == wrong


def test_a_decision_that_the_disk_does_not_take_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    review = Review(make_set(tmp_path))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        decide(review, 0, "accepted")
    assert review.decisions() == {}
    monkeypatch.undo()
    decide(review, 0, "accepted")
    assert list(review.decisions()) == ["t1"]
