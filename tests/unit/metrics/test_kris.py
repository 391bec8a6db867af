"""KRIS-Bench: which questions a category is asked, in which order images are shown, and what each protocol makes of replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import png
from published_words import words_digest

from titjudge.core.types import Item, Request, Status
from titjudge.metrics.kris import kris, read_knowledge, read_rating
from titjudge.testing import Scored, score_one

RATINGS = {"consistency_score": 5, "instruction_score": 3, "quality_score": 4, "knowledge_score": 2, "reasoning": "so"}


def edit(folder: Path, category: str, *sources: str, **meta: Any) -> Item:
    before = tuple(png(folder / name, (number, 2, 3)) for number, name in enumerate(sources or ("1.png",)))
    given = {"category": category, "explanation": "salt melts ice", **meta}
    return Item("i", "sprinkle salt", png(folder / "result.png"), meta=given, sources=before)


def scored(item: Item, answer: Callable[[Request], Any] | None = None, metric: Any = kris, **config: Any) -> Scored:
    return score_one(metric, item, answer or (lambda request: json.dumps(RATINGS)), **config)


def shown(request: Request) -> list[str]:
    """The last line of each text of a request, and the names of its images."""
    parts = request.messages[-1].parts
    return [part.rpartition("\n")[2] if isinstance(part, str) else Path(part.path).name for part in parts]


def test_the_score_is_the_mean_of_all_ratings_and_each_is_a_part(tmp_path: Path) -> None:
    score, requests = scored(edit(tmp_path, "physics"))
    assert {name: score.parts[name] for name in ("VC", "IF", "VQ", "KP")} == {"VC": 100, "IF": 50, "VQ": 75, "KP": 25}
    assert (score.value, len(requests)) == (62.5, 3)
    score, _ = scored(edit(tmp_path, "color_change"))
    assert "KP" not in score.parts
    assert score.value == 75


def test_images_stand_after_their_labels(tmp_path: Path) -> None:
    _, requests = scored(edit(tmp_path, "physics"))
    pair = ["This is the original image:", "1.png", "This is the edited image:", "result.png"]
    assert {request.template: shown(request) for request in requests} == {
        "kris/consistency": pair, "kris/instruction_and_knowledge": pair, "kris/quality": pair[2:],
    }  # fmt: skip


def test_a_view_is_judged_beside_the_right_one(tmp_path: Path) -> None:
    item = edit(tmp_path, "viewpoint_change", reference_image=str(png(tmp_path / "truth.png")))
    _, requests = scored(item)
    (view,) = [request for request in requests if request.template == "kris/viewpoint"]
    assert shown(view)[-2:] == ["This is the ground truth image:", "truth.png"]


def test_a_frame_stands_where_it_belongs_among_the_others(tmp_path: Path) -> None:
    _, requests = scored(edit(tmp_path, "temporal_prediction", "7-1.png", "7-2.png", "7-4.png"))
    assert shown(requests[0]) == [
        "Frame 1 (Reference):", "7-1.png", "Frame 2 (Reference):", "7-2.png", "Frame 3 (Generated):", "result.png",
        "Frame 4 (Reference):", "7-4.png",
    ]  # fmt: skip


def test_several_sources_are_numbered(tmp_path: Path) -> None:
    _, requests = scored(edit(tmp_path, "multi-element_composition", "1-1.png", "1-2.png"))
    assert shown(requests[0]) == [
        "Reference Image 1:", "1-1.png", "Reference Image 2:", "1-2.png", "Predicted Image:", "result.png",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "family", "sent"),
    [({}, "kris", True), ({"protocol": "official"}, "kris", False), ({"protocol": "official"}, "bagel", True)],
)
def test_the_published_scripts_send_no_instruction_and_the_strict_protocol_does(
    tmp_path: Path, config: dict[str, Any], family: str, sent: bool
) -> None:
    _, requests = scored(edit(tmp_path, "physics"), metric=kris.configured({"family": family}), **config)
    by_template = {request.template: request.messages[-1].text for request in requests}
    assert ("**Editing Instruction**: sprinkle salt\n" in by_template["kris/consistency"]) is sent
    assert ("salt melts ice" in by_template["kris/instruction_and_knowledge"]) is sent


def test_the_rubric_for_anomalies_is_used_by_the_strict_protocol_alone(tmp_path: Path) -> None:
    for protocol, template in (("strict", "kris/anomaly"), ("official", "kris/instruction")):
        _, requests = scored(edit(tmp_path, "anomaly_correction"), protocol=protocol)
        assert template in {request.template for request in requests}


def test_knowledge_counts_for_nothing_where_the_instruction_was_not_followed(tmp_path: Path) -> None:
    answer = json.dumps(RATINGS | {"instruction_score": 2, "knowledge_score": 4})
    score, _ = scored(edit(tmp_path, "physics"), lambda _: answer)
    assert score.parts["KP"] == 0
    assert score.parts["ratings"]["knowledge_score"] == 4
    assert "knowledge lowered to 1" in score.reason
    assert scored(edit(tmp_path, "physics"), lambda _: answer, protocol="official").score.parts["KP"] == 75


def test_a_question_without_an_answer_costs_the_score_unless_the_protocol_is_the_official_one(tmp_path: Path) -> None:
    def answers(request: Request) -> str:
        return "I can't help with that." if request.template == "kris/quality" else json.dumps(RATINGS)

    score, _ = scored(edit(tmp_path, "color_change"), answers)
    assert (score.value, score.status) == (None, Status.UNPARSED)
    score, _ = scored(edit(tmp_path, "color_change"), answers, protocol="official")
    assert (score.value, "VQ" in score.parts) == (75, False)
    assert score.reason.startswith("1 of 3 questions without an answer")
    score, _ = scored(edit(tmp_path, "color_change"), lambda _: "I can't.", protocol="official")
    assert score.value is None


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ('so {"reasoning": "x", "quality_score": "4"}', 4),
        ('{"quality_score": 4.7}', 4),
        ('{"reasoning": no quotes, "quality_score": 3}', 3),
        ("Quality score: 2 of 5", 2),
        ("I give it 4/5, though 3 arms", 4),
        ("There are 2 cats.", 2),
        ("none", None),
    ],
)
def test_the_published_parser(text: str, rating: int | None) -> None:
    assert read_rating(text, "quality_score") == rating


def test_the_published_parser_of_two_ratings() -> None:
    both = {"instruction_score": 3, "knowledge_score": 1}
    assert read_knowledge(json.dumps(both)) == both
    assert read_knowledge('"instruction_score": 3, "knowledge_score": 1') == both
    assert read_knowledge("I can't help with that.") == {"instruction_score": None, "knowledge_score": None}


SHA = {
    "kris/anomaly": "5d31fb2c9e681117",
    "kris/consistency": "931d27391a986e6a",
    "kris/instruction": "3ededfc7f363f49c",
    "kris/instruction_and_knowledge": "2925b2fe6fe60de3",
    "kris/multi_consistency": "1641340a70f77826",
    "kris/multi_instruction": "ffdd9d7c3c954ad4",
    "kris/quality": "e4dd2bffe1e0db44",
    "kris/temporal_consistency": "548424593873ef94",
    "kris/temporal_instruction": "9f2a429335ba7131",
    "kris/viewpoint": "184da9e8ca920b1a",
}


@pytest.mark.parametrize("name", list(SHA))
def test_the_words_stay_as_published(name: str) -> None:
    assert words_digest(name) == SHA[name]
