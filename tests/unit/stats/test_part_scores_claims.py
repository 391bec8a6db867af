"""Claims of scores and their place in the prompt."""

import pytest

from titjudge.core.errors import DataError
from titjudge.core.types import Item, Score, Status
from titjudge.stats.scores.part_scores import ClaimOutcome, claims_of, place_of


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"position": 1.5}, "0 to 1"),
        ({"position": True}, "0 to 1"),
        ({"met": "yes"}, "true, false"),
    ],
)
def test_a_record_that_is_wrong_is_named(change: dict[str, object], word: str) -> None:
    record = {
        "claim": "a red cat",
        "kind": "entity",
        "position": 0.5,
        "met": True,
        "generator": "g",
        "prompt_id": "p",
    } | change
    with pytest.raises(DataError, match=f"a red cat.*{word}"):
        ClaimOutcome.from_record(record)


def test_claims_out_of_scores() -> None:
    item = Item("i", "A cat sits on two red mats.", None, "g", "p")
    graph = Score(
        "i",
        "graph-alignment",
        0.5,
        parts={"alignment": {"entity": [[["cat"], True], [["dog"], True]], "attribute": [[["big mat", "red"], False]]}},
    )
    agent = Score(
        "i",
        "tit-agent",
        0.5,
        parts={
            "claims": [
                {"claim": "a cat", "kind": "entity", "met": None, "span": [13, 20]},
                {"claim": "no place", "met": True},
            ]
        },
    )
    found = claims_of([item], [graph, agent, Score("other", "graph-alignment", 1.0)])
    assert [(claim.claim, claim.met) for claim in found] == [("cat", True), ("big mat red", False), ("a cat", None)]
    assert found[0].position == pytest.approx(2 / 27)
    assert found[1].position == pytest.approx(22 / 27)
    assert found[2].position == pytest.approx(13 / 27)


def test_claims_of_the_agentic_judge() -> None:
    rows = [
        {"claim": c, "kind": "entity", "position": 0.5, "verdict": c}
        for c in ("met", "not_met", "cannot_be_seen", "open")
    ]
    item = Item("i", "A cat.", None, "g", "p")
    found = claims_of([item], [Score("i", "tit-agent", 50.0, parts={"claims": rows})])
    assert [claim.met for claim in found] == [True, False, None, None]
    failed = claims_of([item], [Score("i", "tit-agent", None, Status.UNPARSED, parts={"claims": rows})])
    assert {claim.met for claim in failed} == {None}


def test_questions_stand_where_the_prompt_names_what_they_are_about() -> None:
    item = Item("i", "A cat sits on two red mats.", None, "g", "p")
    dsg = [
        {"tuple": "1 | entity - whole (cat)", "question": "Is there a cat?", "yes": True, "valid": True},
        {"tuple": "attribute - color (mats, red)", "question": "Are the mats red?", "yes": True, "valid": False},
        {"tuple": "entity - whole (dog)", "question": "Is there a dog?", "yes": True, "valid": True},
        {"question": "no tuple", "yes": True},
        "odd",
    ]
    tifa = [{"element": "mats", "type": "object", "question": "What is there?", "right": False}]
    scores = [Score("i", "dsg", 0.5, parts={"questions": dsg}), Score("i", "tifa", 0.0, parts={"questions": tifa})]
    found = [(claim.claim, claim.kind, claim.met, round(27 * claim.position)) for claim in claims_of([item], scores)]
    assert found == [
        ("Is there a cat?", "entity", True, 2),
        ("Are the mats red?", "attribute", False, 22),
        ("What is there?", "object", False, 22),
    ]
    assert (
        claims_of(
            [item], [Score("i", "x", 0.5, parts={"questions": 7, "alignment": {"entity": [1, ["a"], [[], True]]}})]
        )
        == []
    )


def test_the_place_of_a_name() -> None:
    assert place_of("apples", "the apple falls") == pytest.approx(4 / 15)
    assert place_of("cat", "concatenate") is None
    assert place_of("", "a cat") is None
