"""RISEBench: which questions a category is asked, the weights, and what cannot be read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import png

from titjudge.core.types import Item, Request, Status
from titjudge.metrics.rise import read_final_score, rise, weighted
from titjudge.testing import Scored, score_one


def edit(folder: Path, category: str = "temporal_reasoning", truth: bool = False, **meta: Any) -> Item:
    known = {"reference_image": str(png(folder / "truth.png", (1, 1, 1)))} if truth else {"reference": "a brown banana"}
    given = {"category": category, **known, **meta}
    return Item(
        "i", "a year later", png(folder / "result.png"), meta=given, sources=(png(folder / "source.png", (5, 5, 5)),)
    )


def scored(item: Item, answer: Callable[[Request], Any] | None = None, **config: Any) -> Scored:
    def rated(request: Request) -> str:
        mark = 1 if "logical" in request.template else 4
        return json.dumps({"final_score": mark}) if request.schema else f"So it is.\n\n**Final Score:** **{mark}**"

    return score_one(rise, item, answer or rated, **config)


def asked(requests: list[Request]) -> dict[str, list[str]]:
    return {request.template: [Path(image.path).name for image in request.images] for request in requests}


@pytest.mark.parametrize(
    ("category", "meta", "questions"),
    [
        ("causal_reasoning", {}, {"rise/consistency": ["source", "result"], "rise/reasoning": ["result"], "rise/plausibility": ["result"]}),
        ("temporal_reasoning", {"reasoning_image": True, "consistency_free": True},
         {"rise/reasoning_with_source": ["source", "result"], "rise/plausibility": ["result"]}),
        ("spatial_reasoning", {},
         {"rise/spatial_consistency": ["source", "result"], "rise/spatial_reasoning": ["result"], "rise/spatial_plausibility": ["result"]}),
        ("logical_reasoning", {"reference_txt": "two"},
         {"rise/logical_consistency_with_answer": ["source", "result"], "rise/logical_reasoning": ["result"]}),
    ],
)  # fmt: skip
def test_the_questions_of_a_category(
    tmp_path: Path, category: str, meta: dict[str, Any], questions: dict[str, list[str]]
) -> None:
    _, requests = scored(edit(tmp_path, category, **meta))
    assert asked(requests) == {name: [f"{image}.png" for image in images] for name, images in questions.items()}


@pytest.mark.parametrize("category", ["spatial_reasoning", "logical_reasoning"])
def test_consistency_is_judged_beside_the_source_and_by_the_published_script_beside_the_right_image(
    tmp_path: Path, category: str
) -> None:
    name = f"rise/{category.partition('_')[0]}_consistency"
    assert asked(scored(edit(tmp_path, category, truth=True)).requests)[name] == ["source.png", "result.png"]
    official = asked(scored(edit(tmp_path, category, truth=True), protocol="official").requests)
    assert official[name] == ["truth.png", "result.png"]


def test_a_logical_problem_may_be_judged_without_its_words(tmp_path: Path) -> None:
    item = edit(tmp_path, "logical_reasoning", truth=True, without_instruction=True)
    assert "rise/logical_reasoning_without_instruction" in asked(scored(item).requests)


@pytest.mark.parametrize(
    ("category", "ratings", "counts", "score"),
    [
        ("temporal_reasoning", (1, 5, 5), True, 70),
        ("temporal_reasoning", (1, 5, 5), False, 100),
        ("causal_reasoning", (5, 1, 5), True, 12.5),
        ("causal_reasoning", (1, 1, 1), True, 0),
        ("logical_reasoning", (1, 5, 0), True, 70),
    ],
)
def test_the_weights(category: str, ratings: tuple[int, int, int], counts: bool, score: float) -> None:
    named = dict(zip(("ApprConsistency", "Reasoning", "VisualPlausibility"), ratings, strict=True))
    assert weighted(category, named, consistency_counts=counts) == pytest.approx(score)


def test_an_absent_cell_in_a_column_for_marked_edits_takes_the_weight_of_consistency_under_the_official_protocol(
    tmp_path: Path,
) -> None:
    def answers(request: Request) -> str:
        return f"Final Score: {1 if request.template == 'rise/consistency' else 5}"

    item = edit(tmp_path, consistency_free_absent=True)
    assert scored(item, answers, protocol="official").score.value == 100
    item = edit(tmp_path, consistency_free="", consistency_free_absent=False)
    assert scored(item, answers, protocol="official").score.value == 70
    strict = scored(
        item, lambda request: json.dumps({"final_score": 1 if request.template == "rise/consistency" else 5})
    )
    assert strict.score.value == pytest.approx(70)
    assert strict.score.parts["accuracy"] == 0


def test_a_logical_mark_of_1_is_a_5(tmp_path: Path) -> None:
    score, _ = scored(edit(tmp_path, "logical_reasoning", reference_txt="two"))
    assert (score.value, score.parts["accuracy"]) == (100, 100)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**Final Score:** **4**", 4),
        ("final score 3", 3),
        ("Final Score: 4/5", 4),
        ("**Final Scores**: 2", 2),
        ("The Final Score is high.\nFinal Score: 5", 5),
        ("Final Score: 5, 4", None),
        ("Final Score: [3]", None),
        ("Failed to obtain answer via API. ", None),
    ],
)
def test_the_published_parser_where_it_finds_one_number(text: str, wanted: int | None) -> None:
    assert read_final_score(text) == wanted


@pytest.mark.parametrize("text", ["Final Score: 9", "Final Score: 0", "I can't help with that.", "", "  "])
def test_a_rating_off_the_scale_a_refusal_or_a_blank_reply_is_no_score(tmp_path: Path, text: str) -> None:
    score, requests = scored(edit(tmp_path), lambda _: text, protocol="official")
    assert len(requests) == 3
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert score.reason.startswith("ApprConsistency: ")


@pytest.mark.parametrize(
    ("category", "says"),
    [("astral_reasoning", "one of temporal_reasoning"), ("logical_reasoning", "neither reference_txt")],
)
def test_an_edit_of_which_nothing_says_what_is_right_is_no_input(tmp_path: Path, category: str, says: str) -> None:
    score, requests = scored(edit(tmp_path, category))
    assert (score.status, requests) == (Status.BAD_INPUT, [])
    assert says in score.reason
