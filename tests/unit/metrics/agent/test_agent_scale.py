"""What verdicts on claims are worth: the scale of the agentic judge, by the properties that are promised of it."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_agent_loop import PROMPT, StandIn, image, judged, verdicts

from titjudge.metrics.agent.claims import (
    KINDS,
    Claim,
    absent_things,
    adherence_score,
    clear_claims,
    group_of,
    score_bounds,
    weights,
)

__all__ = ["image"]

Verdicts = dict[int, str]
THINGS = ("lamp", "desk", "mug")


LEVELS = ("macro", "micro", "generic")
SOME_THINGS = [(), *((thing,) for thing in THINGS), *itertools.permutations(THINGS, 2)]
CLAIMS = [
    (kind, level, things)
    for kind, level, things in itertools.product(KINDS, LEVELS, SOME_THINGS)
    if (kind, level) != ("style", "macro")
]


def prompts(least: int = 1) -> st.SearchStrategy[list[Claim]]:
    """Up to 100 claims of any kind and level; one choice a claim keeps the draws quick."""
    return st.lists(st.sampled_from(CLAIMS), min_size=least, max_size=100).map(
        lambda drawn: [
            Claim(number, f"claim {number}", kind, level, 0, 1, things)
            for number, (kind, level, things) in enumerate(drawn, 1)
        ]
    )


def some_met(claims: list[Claim], data: st.DataObject) -> Verdicts:
    """Verdicts as one draw: a bit a claim."""
    bits = data.draw(st.integers(0, 2 ** len(claims) - 1))
    return {claim.number: "met" if bits >> at & 1 else "not_met" for at, claim in enumerate(claims)}


def all_of(claims: list[Claim], verdict: str) -> Verdicts:
    return {claim.number: verdict for claim in claims}


@given(prompts(), st.data())
def test_the_score_is_within_bounds_and_no_met_claim_lowers_it(claims: list[Claim], data: st.DataObject) -> None:
    found = some_met(claims, data)
    score = adherence_score(claims, found)
    if all(claim.level == "generic" for claim in claims):
        assert score is None
        return
    assert score is not None
    assert 0 <= score <= 100 + 1e-9
    changed = data.draw(st.sampled_from(claims)).number
    better = adherence_score(claims, {**found, changed: "met"})
    assert better is not None
    assert better >= score - 1e-9


@given(prompts())
def test_a_flawless_image_is_100_and_one_with_everything_wrong_0(claims: list[Claim]) -> None:
    if any(claim.level != "generic" for claim in claims):
        assert adherence_score(claims, all_of(claims, "met")) == pytest.approx(100)
        assert adherence_score(claims, all_of(claims, "not_met")) == 0


@given(prompts())
def test_what_holds_for_any_image_does_not_save_one_with_everything_wrong(claims: list[Claim]) -> None:
    """Style and generic claims hold, nothing that the prompt asks for is there."""
    content = [claim for claim in claims if group_of(claim) in ("macro", "micro")]
    if content:
        score = adherence_score(claims, all_of(claims, "met") | all_of(content, "not_met"))
        assert score is not None
        assert score < 20


@given(prompts(), st.data())
def test_one_clear_error_of_a_core_subject_costs_five_points(claims: list[Claim], data: st.DataObject) -> None:
    core = clear_claims(claims)
    if core and any(claim.level != "generic" for claim in claims):
        wrong = data.draw(st.sampled_from(core))
        score = adherence_score(claims, all_of(claims, "met") | {wrong.number: "not_met"})
        assert score is not None
        assert score <= 95 + 1e-9


def test_what_is_said_of_a_core_subject_is_clear_and_what_is_said_of_a_small_thing_is_not() -> None:
    claims = [
        Claim(1, "There is a lamp", "entity", "macro", 0, 1, ("lamp",)),
        Claim(2, "There is a fly", "entity", "micro", 0, 1, ("fly",)),
        Claim(3, "The lamp is green", "attribute", "micro", 0, 1, ("lamp",)),
        Claim(4, "The fly is green", "attribute", "micro", 0, 1, ("fly",)),
        Claim(5, "The fly sits on the lamp", "relation", "micro", 0, 1, ("fly", "lamp")),
        Claim(6, "The lamp is lovely", "style", "micro", 0, 1, ("lamp",)),
        Claim(7, "There is no cat", "entity", "generic", 0, 1, ("cat",)),
    ]
    assert [claim.number for claim in clear_claims(claims)] == [1, 3, 7]
    assert weights(claims) == pytest.approx({1: 50, 2: 10, 3: 10, 4: 10, 5: 10, 6: 10, 7: 0})


@given(prompts(least=2), st.data())
def test_style_decides_a_tenth_at_most_and_generic_claims_nothing(claims: list[Claim], data: st.DataObject) -> None:
    if not any(group_of(claim) in ("macro", "micro") for claim in claims):
        return
    found = some_met(claims, data)
    style = [claim for claim in claims if group_of(claim) == "style"]
    best, worst = (adherence_score(claims, found | all_of(style, each)) for each in ("met", "not_met"))
    assert best is not None
    assert worst is not None
    assert best - worst <= 10 + 1e-9
    generic = [claim for claim in claims if claim.level == "generic"]
    rest = [claim for claim in claims if claim.level != "generic"]
    held = found | all_of(generic, "met")
    assert adherence_score(claims, held) == adherence_score(rest, held)
    assert sum(weights(claims).values()) == pytest.approx(100)


@given(prompts(), st.data())
def test_a_written_word_costs_what_any_other_detail_of_its_thing_costs(
    claims: list[Claim], data: st.DataObject
) -> None:
    words = [claim for claim in claims if claim.kind == "text" and claim.level != "generic"]
    if words:
        word = data.draw(st.sampled_from(words))
        wrong = all_of(claims, "met") | {word.number: "not_met"}
        detail = [replace(each, kind="attribute", level="micro") if each is word else each for each in claims]
        assert adherence_score(claims, wrong) == adherence_score(detail, wrong)


@given(prompts())
def test_style_weighs_at_most_two_details(claims: list[Claim]) -> None:
    weight = {group_of(claim): weights(claims)[claim.number] for claim in claims}
    if {"style", "micro"} <= weight.keys():
        assert weight["style"] <= 2 * weight["micro"] + 1e-9


@given(prompts(), st.data())
def test_macro_claims_go_before_details(claims: list[Claim], data: st.DataObject) -> None:
    """However good its details, an image has no more than the share of the core that it shows (A.11)."""
    macro = [claim for claim in claims if group_of(claim) == "macro"]
    if macro:
        found = all_of(claims, "met") | some_met(macro, data)
        share = sum(found[claim.number] == "met" for claim in macro) / len(macro)
        score = adherence_score(claims, found)
        assert score is not None
        assert score <= 100 * share + 1e-9


def test_a_thing_is_absent_unless_some_claim_finds_it() -> None:
    claims = [
        Claim(1, "There is a lamp", "entity", "macro", 0, 1, ("lamp",)),
        Claim(2, "There is another lamp", "entity", "micro", 0, 1, ("lamp",)),
        Claim(3, "There is no cat", "entity", "generic", 0, 1, ("cat",)),
        Claim(4, "The mug is red", "attribute", "micro", 0, 1, ("mug",)),
    ]
    assert absent_things(claims, {1: "not_met", 3: "not_met", 4: "not_met"}) == {}
    assert absent_things(claims, {1: "not_met", 2: "not_met"}) == {"lamp": 1}


def claim(text: str, kind: str, level: str, *things: str) -> dict[str, Any]:
    return {"claim": text, "kind": kind, "level": level, "span": "A blue bowl", "things": list(things)}


def test_what_is_said_of_a_thing_that_another_replaces_is_not_met(image: Path) -> None:
    """The verdict that the bowl is absent settles its colour and its place, and no look is left to take."""
    ask = StandIn(
        json.dumps(
            {
                "settle": [
                    {"claims": [1], "verdict": "not_met", "evidence": "E1"},
                    {"claims": [2, 3], "verdict": "met", "evidence": "E1"},
                ],
                "looks": [],
            }
        )
    )
    ask.claims = [
        claim("There is a bowl", "entity", "macro", "Bowl"),
        claim("There is a table", "entity", "macro", "table"),
        claim("The bowl is blue", "attribute", "micro", "bowl"),
        claim("The bowl stands on the table", "relation", "micro", "bowl ", "table"),
    ]
    score = judged(ask, image, PROMPT)
    assert verdicts(score) == ["not_met", "met", "not_met", "not_met"]
    assert {row["evidence"] for row in score.parts["claims"]} == {"E1"}
    assert score.parts["stopped"] == "covered"
    assert score.value is not None
    assert score.value < 20


def test_what_nobody_looks_for_leaves_the_score_decided() -> None:
    lamp = Claim(1, "There is: lamp", "entity", "macro", 0, 4, ("lamp",))
    people = Claim(2, "no people", "entity", "generic", 5, 14, ("people",))
    style = Claim(3, "warm", "style", "micro", 15, 19)
    assert score_bounds([lamp, people], {1: "met"}) is None
    assert score_bounds([lamp, people, style], {1: "met"}) == (pytest.approx(90), pytest.approx(100))
    assert adherence_score([lamp, people], {1: "met", 2: "not_met"}) == pytest.approx(95)
