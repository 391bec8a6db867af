"""KRIS-Bench: which questions a category is asked, in which order images are shown, and what each protocol makes of replies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from builders import png

from titjudge.core.config import RunConfig
from titjudge.core.score_parts import could_be, question_counts
from titjudge.core.types import Item, Reply, Request, Status
from titjudge.metrics.kris import PARTS, kris, read_knowledge, read_rating
from titjudge.runs.run_input import RunInput
from titjudge.suites.loading import open_suite
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
    assert score.reason.startswith("1 of 3 ratings missing: quality_score")
    score, _ = scored(edit(tmp_path, "color_change"), lambda _: "I can't.", protocol="official")
    assert score.value is None


def reply_without(*names: str) -> Callable[[Request], str]:
    """A judge that gives all ratings but these."""
    return lambda _: json.dumps({name: None if name in names else rating for name, rating in RATINGS.items()})


@pytest.mark.parametrize(
    ("category", "lost", "counts", "value", "bounds"),
    [
        ("physics", [], (4, 0), 62.5, None),
        ("physics", ["knowledge_score"], (4, 1), 75, [56.25, 81.25]),
        ("physics", ["quality_score", "consistency_score"], (4, 2), 37.5, [18.75, 68.75]),
        ("multi-element_composition", [], (3, 0), 75, None),
    ],
)
def test_missing_ratings_are_counted_and_bounded(
    tmp_path: Path, category: str, lost: list[str], counts: tuple[int, int], value: float, bounds: list[float] | None
) -> None:
    score, _ = scored(edit(tmp_path, category), reply_without(*lost), protocol="official")
    assert score.value == value
    assert question_counts(score.parts) == counts
    assert could_be(score.parts).get("") == bounds
    assert could_be(score.parts).keys() - {""} == {PARTS[name] for name in lost}
    assert all(name in score.reason for name in lost)


@pytest.mark.parametrize(
    ("category", "family", "lost"),
    [("physics", "kris", "instruction_score"), *((each, "bagel", name) for each, name in [
        ("physics", "knowledge_score"), ("physics", "quality_score"), ("color_change", "instruction_score"),
    ])],
)  # fmt: skip
def test_an_edit_has_no_score_without_its_instruction_rating_and_in_bagel_without_any(
    tmp_path: Path, category: str, family: str, lost: str
) -> None:
    metric = kris.configured({"family": family})
    answer = reply_without(lost) if category == "physics" else lambda _: "no"
    score, _ = scored(edit(tmp_path, category), answer, metric=metric, protocol="official")
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert lost in score.reason


@pytest.mark.parametrize("rating", [0, 6, -1, 10**400])
def test_a_rating_off_the_scale_is_missing_and_bagel_keeps_its_edit(tmp_path: Path, rating: int) -> None:
    def answer(lost: str) -> Callable[[Request], str]:
        return lambda _: json.dumps(RATINGS | {lost: rating})

    for family in ("kris", "bagel"):
        metric = kris.configured({"family": family})
        score, _ = scored(edit(tmp_path, "physics"), answer("quality_score"), metric=metric, protocol="official")
        assert (score.value, question_counts(score.parts)) == (pytest.approx(175 / 3), (4, 1))
        score, _ = scored(edit(tmp_path, "physics"), answer("instruction_score"), metric=metric, protocol="official")
        assert score.value is None
        assert score.parts["ratings"]["quality_score"] == 4  # what was paid for is kept


def test_a_cut_reply_leaves_an_official_edit_without_a_score(tmp_path: Path) -> None:
    def answers(request: Request) -> Any:
        text = json.dumps(RATINGS)
        return Reply(text, status=Status.TRUNCATED) if request.template == "kris/quality" else text

    score, _ = scored(edit(tmp_path, "physics"), answers, protocol="official")
    assert (score.value, score.status) == (None, Status.TRUNCATED)


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_reply_is_a_missing_rating_and_is_not_asked_for_again(tmp_path: Path, blank: str) -> None:
    score, requests = scored(
        edit(tmp_path, "color_change"),
        lambda request: blank if request.template == "kris/quality" else json.dumps(RATINGS),
        protocol="official",
    )
    assert (question_counts(score.parts), len(requests)) == ((3, 1), 3)


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


@pytest.mark.parametrize(
    ("text", "plain", "kris_knowledge", "bagel_knowledge"),
    [
        ('{"quality_score": null, "reasoning": "between 2 and 3"}', 2, None, None),
        ('{"score": 4, "reasoning": "no quality_score here"}', 4, None, None),
        ("Of the 2 objects, quality score 3", 3, 2, 3),
        ("Of the 2 objects, quality score：3", 3, 3, 3),
        ('{"quality_score": "4/5"}', 4, 4, 4),
    ],
)
def test_each_family_reads_the_categories_of_knowledge_in_its_way(
    text: str, plain: int | None, kris_knowledge: int | None, bagel_knowledge: int | None
) -> None:
    assert read_rating(text, "quality_score") == plain
    assert read_rating(text, "quality_score", knowledge="kris") == kris_knowledge
    assert read_rating(text, "quality_score", knowledge="bagel") == bagel_knowledge


@pytest.mark.parametrize(
    ("text", "of_kris", "of_bagel"),
    [
        ('{"instruction_score": 3, "knowledge_score": 1}', (3, 1), (3, 1)),
        ('"instruction_score": 3, "knowledge_score": 1', (None, None), (3, 1)),
        ("instruction_score：3\nknowledge score: 1", (3, 1), (None, 1)),
        ('{"instruction_score": 1, "knowledge_score": 4, "knowledge_reasoning": "too {of} it"}', (None, None), (1, 4)),
        ('{"instruction_score": 2, "knowledge_score": null}', (2, None), (2, None)),
        ('[{"instruction_score": 2, "knowledge_score": 3}]', (2, 3), (None, None)),
        ('{"x": 1} {"instruction_score": 2, "knowledge_score": 3}', (2, 3), (None, None)),
        ('{"instruction_score": "high"} instruction score: 2', (2, None), (None, None)),
        ("{}", (None, None), (None, None)),
        ("}{", (None, None), (None, None)),
        ("{" * 5000, (None, None), (None, None)),
        ("I can't help with that.", (None, None), (None, None)),
    ],
)
def test_the_published_parsers_of_two_ratings(text: str, of_kris: Any, of_bagel: Any) -> None:
    assert tuple(read_knowledge(text, "kris").values()) == of_kris
    assert tuple(read_knowledge(text, "bagel").values()) == of_bagel


@pytest.mark.parametrize(
    ("protocol", "options", "noted"),
    [("official", {}, True), ("official", {"family": "bagel"}, False), ("strict", {}, False)],
)
def test_a_run_whose_judge_sees_no_instruction_has_a_note_of_it(
    protocol: Literal["official", "strict"], options: dict[str, str], *, noted: bool
) -> None:
    suite = open_suite(RunConfig(suite="kris-bench"))
    config = RunConfig(suite="kris-bench", protocol=protocol)
    notes = RunInput(config, suite).data_notes([kris.configured(options)])
    assert [("no instruction" in note, "kris.family=bagel" in note) for note in notes] == [(True, True)] * noted
