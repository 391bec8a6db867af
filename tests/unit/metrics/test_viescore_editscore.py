"""EditScore: both questions in every pass, ratings from 0 to 25 given on 0 to 10, and no guess where an answer cannot be read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import edited

from titjudge.core.types import Request, Status
from titjudge.metrics.viescore import editscore, read_edit_ratings
from titjudge.testing import Scored, score_one


def scored(folder: Path, answers: Callable[[Request], Any], sources: int = 1, protocol: str = "strict", **options: Any) -> Scored:  # fmt: skip
    return score_one(editscore.configured(options), edited(folder, sources=sources), answers, protocol=protocol)


def rated(*passes: tuple[list[float], list[float]]) -> Callable[[Request], str]:
    def answer(request: Request) -> str:
        semantics, quality = passes[request.sample]
        ratings = semantics if request.template.endswith("semantics") else quality
        return json.dumps({"reasoning": request.template, "score": ratings})

    return answer


def test_the_smaller_ratings_count_on_a_scale_of_ten(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, rated(([20, 12.5], [10, 25])))
    assert score.value == pytest.approx(math.sqrt(5 * 4))
    parts = {name: score.parts[name] for name in ("SC", "PQ", "success", "over_edit", "naturalness", "artifacts")}
    assert parts == {"SC": 5, "PQ": 4, "success": 8, "over_edit": 5, "naturalness": 4, "artifacts": 10}
    shown = {request.template: [Path(each.path).stem for each in request.images] for request in requests}
    assert shown == {"editscore/semantics": ["source", "result"], "editscore/quality": ["result"]}
    sampling = {"max_tokens": 512, "temperature": 0.7, "top_p": 0.9, "top_k": 20}
    assert all(sampling.items() <= dict(request.params).items() for request in requests)


def test_the_scores_of_the_passes_are_averaged_and_not_their_ratings(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, rated(([25, 25], [25, 25]), ([0, 25], [25, 25])), passes=2)
    assert score.value == pytest.approx(5)
    assert (score.parts["success"], score.parts["over_edit"]) == (5, 10)
    assert sorted(request.sample for request in requests) == [0, 0, 1, 1]


def test_a_pass_without_ratings_is_no_score(tmp_path: Path) -> None:
    score, _ = scored(tmp_path, rated(([25, 25], [25, 25]), ([26, 25], [25, 25])), passes=2)
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert "of 4 questions without an answer" in score.reason


def test_images_are_named_where_asked(tmp_path: Path) -> None:
    _, requests = scored(tmp_path, rated(([5, 5], [5, 5])), named_images=True)
    words = {request.template: [part for part in request.messages[-1].parts if isinstance(part, str)] for request in requests}  # fmt: skip
    assert words["editscore/semantics"][:2] == ["<img1>: ", "<img2>: "]
    assert words["editscore/quality"][0] == "<img1>: "


def test_several_sources_are_no_question_of_editscore(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, rated(([5, 5], [5, 5])), sources=2)
    assert (score.value, score.status, requests) == (None, Status.BAD_INPUT, [])


@pytest.mark.parametrize(
    ("text", "ratings"),
    [
        ('{"reasoning": "the "big" cat", "score": [20, 15]}', [20, 15]),  # mended
        ("{“score”: [3, 4]}", [3, 4]),
        ("<think>[1, 2]</think>It is [7, 8].", [7, 8]),
        ('{"score": [26, 3]}', None),
        ('{"score": ["20", "3"]}', None),
        ("I cannot help with that.", None),
        ("", None),
    ],
)
def test_ratings_are_read_and_never_guessed(text: str, ratings: list[float] | None) -> None:
    assert read_edit_ratings(text) == ratings


def test_the_official_protocol_needs_two_ratings_of_the_edit(tmp_path: Path) -> None:
    def answers(request: Request) -> str:
        return '{"score": [12], "reasoning": ""}'

    score, _ = scored(tmp_path, answers, protocol="official")
    assert (score.value, score.status) == (None, Status.UNPARSED)
