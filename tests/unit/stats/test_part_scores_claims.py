"""Claims of scores, of which the prompt names what they are about."""

from typing import Any

import pytest

from titjudge.core.errors import DataError
from titjudge.core.types import Item, Score
from titjudge.stats.scores.part_scores import claims_of, place_of

ITEM = Item("i", "A cat sits on two red mats.", None, "g", "p")


def found(**parts: Any) -> list[tuple[str, bool | None]]:
    return [(kind, met) for _, kind, met in claims_of(ITEM, Score("i", "m", 0.5, parts=parts))]


def test_an_outcome_that_is_wrong_is_named() -> None:
    with pytest.raises(DataError, match=r"a red cat.*true, false"):
        found(claims=[{"claim": "a red cat", "kind": "entity", "position": 0.5, "met": "yes"}])


def test_elements_of_a_graph_count_if_the_prompt_names_them() -> None:
    graph = {"entity": [[["cat"], True], [["dog"], True]], "attribute": [[["big mat", "red"], False]]}
    assert found(alignment=graph) == [("entity", True), ("attribute", False)]


def test_claims_of_the_agentic_judge_count_if_they_have_a_place() -> None:
    rows: list[dict[str, Any]] = [{"kind": "entity", "position": 0.5, "verdict": verdict}
                                  for verdict in ("met", "not_met", "cannot_be_seen", "open")]  # fmt: skip
    assert [met for _, met in found(claims=rows)] == [True, False, None, None]
    rows = [{"claim": "a cat", "kind": "entity", "met": None, "span": [13, 20]}, {"claim": "no place", "met": True}]
    assert found(claims=rows) == [("entity", None)]


def test_questions_count_if_the_prompt_names_what_they_are_about() -> None:
    dsg = [
        {"tuple": "1 | entity - whole (cat)", "question": "Is there a cat?", "yes": True, "valid": True},
        {"tuple": "attribute - color (mats, red)", "question": "Are the mats red?", "yes": True, "valid": False},
        {"tuple": "entity - whole (dog)", "question": "Is there a dog?", "yes": True, "valid": True},
        {"question": "no tuple", "yes": True},
        "odd",
    ]
    assert found(questions=dsg) == [("entity", True), ("attribute", False)]
    tifa = [{"element": "mats", "type": "object", "question": "What is there?", "right": False}]
    assert found(questions=tifa) == [("object", False)]
    assert found(questions=7, alignment={"entity": [1, ["a"], [[], True]]}) == []


def test_a_name_is_found_in_singular_and_plural() -> None:
    assert place_of("apples", "the apple falls")
    assert place_of("big mat", "two red mats")
    assert not place_of("cat", "concatenate")
    assert not place_of("", "a cat")
