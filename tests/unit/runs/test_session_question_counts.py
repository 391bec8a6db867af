"""Scores that are made of questions: those without an answer are asked again where they can be, and counted."""

import json
from pathlib import Path

import pytest
from commands import cli
from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.core.score_parts import question_counts


def corebench(folder: Path, *questions: str) -> Path:
    """A copy of T2I-CoReBench with one prompt and one image."""
    row = {
        "Prompt": "a cat", "Main Class": "Composition", "Sub Class": "M",
        "Checklist": [{"question": question} for question in questions],
    }  # fmt: skip
    image = folder / "data" / "images" / "gen" / "C-MI" / "C-MI-001-0.png"
    image.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(image)
    (folder / "data" / "C-MI.json").write_text(json.dumps({"C-MI-001": row}))
    return folder / "data"


def judge(folder: Path, server: Server, *more: str, model: str = "Qwen/Qwen2.5-VL-7B-Instruct", code: int = 0) -> str:
    return cli(
        folder, "judge", "--suite", "t2i-corebench", "--data", "data", "--judge", f"openai/{model}", "--out", "run",
        "--base-url", server.openai, "--set", "cache=cache", "--protocol", "official", "--no-report", *more, code=code,
    )  # fmt: skip


def undecided(seen: Seen) -> str:
    return "I cannot tell." if "hidden" in seen.text else "yes"


def test_questions_without_an_answer_are_in_output_results_and_warnings(tmp_path: Path) -> None:
    corebench(tmp_path, "Is it a cat?", "Is a mouse hidden?", "Is it red?", "Is a dog hidden?")
    with Server(undecided) as server:
        said = judge(tmp_path, server, code=4)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["questions"] == {"questions": {"asked": 4, "skipped": 2, "images": 1}}
    (warning,) = [line for line in results["warnings"] if "questions about the scored images have no answer" in line]
    assert warning.startswith("questions: 2 of 4 questions")
    assert "2 of 4 questions about scored images have no answer by questions: coverage 50.0%" in said


def test_the_coverage_that_is_asked_for_is_that_of_questions_too(tmp_path: Path) -> None:
    corebench(tmp_path, "Is it a cat?", "Is a mouse hidden?")
    with Server(undecided) as server:
        judge(tmp_path, server, "--min-coverage", "0.5")
        assert "less than the 60.0% that --min-coverage asks for" in judge(
            tmp_path, server, "--min-coverage", "0.6", code=4
        )


def test_a_cut_answer_is_asked_for_again_with_more_tokens(tmp_path: Path) -> None:
    corebench(tmp_path, "Is it a cat?", "Is it a long story?")

    def cut(seen: Seen) -> Scripted | str:
        long = "long story" in seen.text and seen.body["max_tokens"] < 8192
        return Scripted("I think", kind="length") if long else "no" if "long story" in seen.text else "yes"

    with Server(cut) as server:
        judge(tmp_path, server)
        asked = [seen.body["max_tokens"] for seen in server.requests if "long story" in seen.text]
    assert asked == [512, 2048, 8192]
    assert json.loads((tmp_path / "run" / "results.json").read_text())["metrics"]["questions"]["mean"] == 0.5


def test_an_answer_that_stays_cut_leaves_its_image_without_a_score(tmp_path: Path) -> None:
    corebench(tmp_path, "Is it a cat?", "Is it a long story?")
    with Server(lambda seen: Scripted("I think", kind="length") if "long story" in seen.text else "yes") as server:
        said = judge(tmp_path, server, code=1)
    assert "1 of 2 questions without an answer" in said
    assert "truncated" in said


@pytest.mark.parametrize(("model", "limit"), [("Qwen/Qwen3-VL-8B-Thinking", 512 + 8192), ("Qwen/Qwen3-VL-8B", 512)])
def test_what_a_model_is_known_to_think_comes_on_top_of_the_limit(tmp_path: Path, model: str, limit: int) -> None:
    corebench(tmp_path, "Is it a cat?")
    with Server(lambda seen: "yes") as server:
        judge(tmp_path, server, "--suite-option", "variant=qwen", model=model)
        body = server.last.body
    assert (body["max_tokens"], body["repetition_penalty"]) == (limit, 1.05)
    assert [turn["role"] for turn in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("parts", "counts"),
    [
        ({"questions": [{"answer": 1.0}, {"answer": None}]}, (2, 1)),
        ({"questions": [{"yes": False, "valid": True}, {"right": True}]}, (2, 0)),
        ({"preds": ["yes", "no"], "questions": ["Is it?", "Is it not?"]}, (2, 0)),
        ({"questions_asked": 12, "questions_skipped": 3}, (12, 3)),
        ({"questions": None, "preds": None}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_what_counts_as_a_question_without_an_answer(parts: dict[str, object], counts: tuple[int, int]) -> None:
    assert question_counts(parts) == counts
