"""ImgEdit: the rubric of the type of edit, its rule about the first rating, and the published parser."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import edited, png

from titjudge.core.item_meta import EDIT_TYPES
from titjudge.core.prompts import PromptLibrary
from titjudge.core.score_parts import could_be, question_counts
from titjudge.core.types import Item, Request, Status
from titjudge.metrics.imgedit import imgedit, imgedit_uge, read_lines
from titjudge.metrics.rubric import field_name, rubric_of
from titjudge.testing import Scored, score_one

RATINGS = {question.when["edit_type"][0]: question.ratings for question in rubric_of("imgedit").questions["ratings"]}
RUBRIC = "Brief reasoning: fine.\nStyle Fidelity: {}\nContent Preservation: {}\nRendering Quality: {}"


def scored(folder: Path, answer: Callable[[Request], Any], metric: Any = imgedit, **config: Any) -> Scored:
    return score_one(metric, edited(folder, "as an etching", edit_type="style"), answer, **config)


def rated(first: Any, second: Any, third: Any) -> Callable[[Request], str]:
    names = [field_name(name) for name in RATINGS["style"]]
    return lambda request: json.dumps({"reasoning": "well", **dict(zip(names, (first, second, third), strict=True))})


def test_the_score_is_the_mean_of_three_ratings_by_the_rubric_of_the_type(tmp_path: Path) -> None:
    score, (request,) = scored(tmp_path, rated(5, 4, 4))
    assert score.value == pytest.approx(13 / 3)
    assert score.parts == {"Style Fidelity": 5, "Content Preservation": 4, "Rendering Quality": 4}
    words, *images = request.messages[-1].parts
    assert "editing instruction is : as an etching." in str(words)
    assert [Path(image.path).name for image in images] == ["source.png", "result.png"]


def test_a_rating_above_the_first_is_lowered_to_it_and_the_reason_says_so(tmp_path: Path) -> None:
    score, _ = scored(tmp_path, rated(2, 5, 1))
    assert score.value == pytest.approx(5 / 3)
    assert score.parts["given"] == {"Style Fidelity": 2, "Content Preservation": 5, "Rendering Quality": 1}
    assert score.reason == "well (lowered 5 to 2: no rating may be higher than the first)"


@pytest.mark.parametrize("first", [0, 6, 4.5, "4/5", None])
def test_a_rating_off_the_scale_is_no_score(tmp_path: Path, first: Any) -> None:
    score, _ = scored(tmp_path, rated(first, 4, 4))
    assert (score.value, score.status) == (None, Status.UNPARSED)


def test_an_unknown_type_of_edit_is_named(tmp_path: Path) -> None:
    item = Item("i", "x", png(tmp_path / "a.png"), meta={"edit_type": "tilt"}, sources=(png(tmp_path / "b.png"),))
    score, requests = score_one(imgedit, item)
    assert (score.status, requests) == (Status.BAD_INPUT, [])
    assert "'edit_type' must be one of add, adjust" in score.reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (RUBRIC.format(2, 5, 5), 4),
        (RUBRIC.format(4, "4/5", 3), 3.5),
        (RUBRIC.format("4.5", "**4**", "high"), None),
        (RUBRIC.format(9, 5, 5), None),
        ("I'm sorry, I can't help with that.", None),
    ],
)
def test_the_official_protocol_takes_the_lines_that_the_published_parser_reads(
    tmp_path: Path, text: str, value: float | None
) -> None:
    score, (request,) = scored(tmp_path, lambda _: text, protocol="official")
    assert score.value == value
    assert request.schema is None


@pytest.mark.parametrize(
    ("ratings", "counts", "bounds"),
    [((4, 4, 3), (3, 0), None), ((4, "4/5", 3), (3, 1), [8 / 3, 4]), (("**4**", "high", 3), (3, 2), [5 / 3, 13 / 3])],
)
def test_lines_that_the_published_parser_does_not_read_are_counted_and_bounded(
    tmp_path: Path, ratings: tuple[Any, ...], counts: tuple[int, int], bounds: list[float] | None
) -> None:
    score, _ = scored(tmp_path, lambda _: RUBRIC.format(*ratings), protocol="official")
    assert question_counts(score.parts) == counts
    assert could_be(score.parts).get("") == (bounds and pytest.approx(bounds))
    assert bool(score.reason) is bool(bounds)


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
@pytest.mark.parametrize("metric", [imgedit, imgedit_uge])
def test_a_blank_reply_is_not_asked_for_again_under_the_official_protocol(
    tmp_path: Path, metric: Any, blank: str
) -> None:
    score, requests = scored(tmp_path, lambda _: blank, metric, protocol="official")
    assert (score.status, len(requests)) == (Status.UNPARSED, 1)


def test_uge_asks_for_one_rating(tmp_path: Path) -> None:
    score, (request,) = scored(tmp_path, lambda _: '{"reasoning": "fine", "score": 4}', imgedit_uge)
    assert (score.value, request.template) == (4, "imgedit/uge")


@pytest.mark.parametrize(
    "text", ["Brief reasoning: distorted. Score: 2.", "Brief reasoning: unnatural. Score: 3 (Acceptable)"]
)
def test_the_published_parser_reads_no_rating_in_the_published_examples_of_uge(text: str) -> None:
    assert read_lines(text) == []


@pytest.mark.parametrize("edit_type", EDIT_TYPES)
def test_the_ratings_are_those_of_the_rubric(edit_type: str) -> None:
    (message,) = PromptLibrary().get(f"imgedit/{edit_type}").messages({"prompt": "x"})
    assert re.findall(r"\n([A-Z][\w &/]+): A number from 1 to 5\.", message.text) == RATINGS[edit_type]


def test_a_rating_of_any_number_of_digits_is_off_the_scale() -> None:
    assert read_lines(f"Prompt Compliance: {'9' * 5_000}\nVisual Naturalness: 4") == [0, 4]
