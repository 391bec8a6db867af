"""VIEScore for edits: both questions, the smaller rating of each, and no guess where an answer cannot be read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import edited

from titjudge.core.score_parts import could_be, question_counts
from titjudge.core.types import Request, Status
from titjudge.metrics.viescore import read_ratings, viescore_edit
from titjudge.testing import Scored, score_one


def scored(folder: Path, answers: Callable[[Request], Any], **config: Any) -> Scored:
    return score_one(viescore_edit, edited(folder), answers, **config)


def rated(semantics: Any, quality: Any) -> Callable[[Request], str]:
    said = {"viescore/edit_semantics": semantics, "viescore/edit_quality": quality}
    return lambda request: json.dumps({"score": said[request.template], "reasoning": request.template})


def test_the_smaller_rating_of_each_question_counts(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, rated([8, 5], [6, 3]))
    assert score.value == pytest.approx(math.sqrt(15))
    parts = {name: score.parts[name] for name in ("SC", "PQ", "success", "over_edit", "naturalness", "artifacts")}
    assert parts == {"SC": 5, "PQ": 3, "success": 8, "over_edit": 5, "naturalness": 6, "artifacts": 3}
    assert len(requests) == 2


def test_success_is_rated_beside_the_source_and_quality_alone_and_images_stand_after_the_words(tmp_path: Path) -> None:
    _, requests = scored(tmp_path, rated([8, 5], [6, 3]))
    by_template = {request.template: request.messages[-1].parts for request in requests}
    words, source, result = by_template["viescore/edit_semantics"]
    assert str(words).rstrip().endswith("Editing instruction: paint the door red")
    assert [Path(image.path).name for image in (source, result)] == ["source.png", "result.png"]
    _, alone = by_template["viescore/edit_quality"]
    assert Path(alone.path).name == "result.png"


@pytest.mark.parametrize("semantics", [[11, 5], [5], [], [5, 5, 5], "eight", None])
def test_an_answer_off_the_schema_is_no_score(tmp_path: Path, semantics: Any) -> None:
    score, requests = scored(tmp_path, rated(semantics, [4, 4]))
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert score.reason.startswith("semantics:")
    assert len(requests) == 3  # one repair turn


@pytest.mark.parametrize(
    "answer", ["I cannot help with that.", "", "  ", '{"score": [8, 9], "reasoning": "the "big" cat"}']
)
def test_the_official_protocol_asks_both_questions_twice_and_then_there_is_no_score(
    tmp_path: Path, answer: str
) -> None:
    def answers(request: Request) -> str:
        return answer if request.template.endswith("semantics") else '{"score": [7, 7]}'

    score, requests = scored(tmp_path, answers, protocol="official")
    assert score.value is None
    assert score.reason
    assert sorted(request.template[-7:] for request in requests) == ["mantics"] * 2 + ["quality"] * 2


@pytest.mark.parametrize(
    ("semantics", "quality", "skipped", "bounded"),
    [([4, 9], [9, 9], 0, {}), ([4], [9, 9], 1, {"": [0, 6], "SC": [0, 4]}),
     ([4], [9], 2, {"": [0, 6], "SC": [0, 4], "PQ": [0, 9]}), ([4, 9, 9], [9], 1, {"": [0, 6], "PQ": [0, 9]})],
)  # fmt: skip
def test_a_rating_that_is_asked_for_and_missing_is_counted_and_bounded(
    tmp_path: Path, semantics: list[int], quality: list[int], skipped: int, bounded: dict[str, list[float]]
) -> None:
    score, _ = scored(tmp_path, rated(semantics, quality), protocol="official")
    assert score.value == pytest.approx(6)
    assert question_counts(score.parts) == (4, skipped)
    assert could_be(score.parts) == bounded


def test_the_second_answer_counts_for_both_questions_under_the_official_protocol(tmp_path: Path) -> None:
    def answers(request: Request) -> str:
        if not request.sample and "semantics" in request.template:
            return "?"
        return json.dumps({"score": [4 if request.sample else 8, 9]})

    score, _ = scored(tmp_path, answers, protocol="official")
    assert (score.parts["SC"], score.parts["PQ"]) == (4, 4)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"score": [8, 9], "reasoning": "x"}', [8, 9]),
        ('```json\n{"score" : [8, 9],\n"reasoning" : "a\nb"}\n```', [8, 9]),
        ('||V^=^V||\n{"score": 7}\n||V^=^V||', [7]),
        ("scores: [6, 0].", [6, 0]),
        (" 8 ", [8]),
        ("{score: 8, reasoning: fine}", [8]),
        ('<think>{"score": [1, 1]}</think>{"score": [2, 3.5]}', [2, 3.5]),
        ('{"score": [80, 9]}', None),
        ('{"score": ["8", "9"]}', None),
        ('{"score": [true, 9]}', None),
        ('{"score": []}', None),
        ('{"score": [8, 9], "reasoning": "the "big" cat"}', None),
        ('{"rating": [8, 9]}', None),
        ("Score: 7", None),
        ("[6, 0] or [7, 1]", None),
        ("11", None),
        ("", None),
    ],
)
def test_the_published_parser(text: str, wanted: list[float] | None) -> None:
    assert read_ratings(text) == wanted
