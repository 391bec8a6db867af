"""VIEScore and UnifiedReward: the published formulas and words, and no guess where an answer cannot be read."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import png
from pydantic import ValidationError

from titjudge.core.types import Item, Request, Status
from titjudge.metrics import Metric
from titjudge.metrics.unifiedreward import read_axes, read_final_score, unifiedreward, unifiedreward_2
from titjudge.metrics.viescore import Quality, Semantics, overall, viescore
from titjudge.providers import Capabilities
from titjudge.testing import Scored, score_one


def scored(folder: Path, metric: Metric, answers: Callable[[Request], Any]) -> Scored:
    return score_one(metric, Item("i", "a red door", png(folder / "a.png")), answers, capabilities=Capabilities())


def test_overall_is_the_root_of_the_product_of_the_smallest() -> None:
    assert overall([4], [9, 10]) == (4, 9, 6)
    assert overall([0], [9, 10]) == (0, 9, 0)


def rated(semantics: Any, quality: Any) -> Callable[[Request], str]:
    said = {"viescore/semantics": semantics, "viescore/quality": quality}
    return lambda request: json.dumps({"score": said[request.template], "reasoning": request.template})


def test_viescore_asks_twice_and_keeps_both(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, viescore, rated([8], [6, 3]))
    assert score.value == pytest.approx(math.sqrt(24))
    parts = {name: score.parts[name] for name in ("SC", "PQ", "naturalness", "artifacts")}
    assert parts == {"SC": 8, "PQ": 3, "naturalness": 6, "artifacts": 3}
    assert {each.template: "red door" in each.messages[-1].text for each in requests} == {
        "viescore/semantics": True,
        "viescore/quality": False,
    }


def test_a_bare_number_is_a_list_of_one(tmp_path: Path) -> None:
    assert scored(tmp_path, viescore, rated(9, [4, 4]))[0].value == 6


@pytest.mark.parametrize("semantics", [[11], [-1], [], [5, 5], "eight", None])
def test_what_cannot_be_read_is_never_guessed(tmp_path: Path, semantics: Any) -> None:
    score, requests = scored(tmp_path, viescore, rated(semantics, [4, 4]))
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert score.reason.startswith("semantics:")
    assert len(requests) == 3  # one repair turn


def test_lists_have_their_published_length() -> None:
    Semantics.model_validate({"score": [5]})
    Quality.model_validate({"score": [5, 6]})
    with pytest.raises(ValidationError):
        Quality.model_validate({"score": [5]})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("door (object): 1\nFinal Score: 3.5", 3.5),
        ("**Final Score:** 4", 4),
        ("Final Score: 2\n... Final Score: 5", 5),
        ("final score : 1.0", 1),
        ("Final Score: 85", None),  # the scale of 100 (UnifiedReward#31)
        ("Final Score: 0", None),
        ("Final Score: high", None),
        ("4", None),
        ("", None),
    ],
)
def test_final_score(text: str, wanted: float | None) -> None:
    assert read_final_score(text) == wanted


AXES = "Alignment Score (1-5): 2.694700002670288\nCoherence Score (1-5): 2.371500015258789\nStyle Score (1-5): 2.802500009536743"


def test_three_axes_as_in_the_published_example() -> None:
    found = read_axes(AXES)
    assert found == {"alignment": 2.694700002670288, "coherence": 2.371500015258789, "style": 2.802500009536743}
    assert read_axes(AXES.replace("Style", "Mood")) is None
    assert read_axes(AXES.replace("2.37", "7.37")) is None


def test_unifiedreward_through_the_engine(tmp_path: Path) -> None:
    score, requests = scored(tmp_path, unifiedreward, lambda _: "door (object): 1\nFinal Score: 4")
    assert score.value == 4
    assert requests[0].messages[-1].text.endswith("Text Caption: [a red door]")
    score, _ = scored(tmp_path, unifiedreward_2, lambda _: AXES)
    assert (score.value, score.parts["style"]) == (2.694700002670288, 2.802500009536743)


@pytest.mark.parametrize("metric", [unifiedreward, unifiedreward_2])
def test_an_unread_rating_is_no_rating(tmp_path: Path, metric: Any) -> None:
    score, _ = scored(tmp_path, metric, lambda _: "A fine picture.")
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert score.parts["output"] == "A fine picture."
