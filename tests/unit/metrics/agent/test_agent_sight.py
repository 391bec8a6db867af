"""The judge that sees: image, parts and crops in one conversation, without a captioner."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_agent_inventory import crowded, judged, large
from test_agent_loop import CLAIMS, StandIn, all_met, turn

from titjudge.metrics.agent.claims import Claim, Claims, contradicts, numbered
from titjudge.metrics.agent.looks import Look
from titjudge.metrics.agent.loop import _check_requests
from titjudge.metrics.agent.state import AgentState, LookBounds, SeeingTurn

__all__ = ["crowded", "large"]


def test_the_judge_is_shown_the_image_and_its_parts_and_nobody_else_is_asked(large: Path, crowded: None) -> None:
    ask = StandIn(turn(all_met()))
    score = judged(ask, large, "sight")
    assert [(each["template"], each["role"], len(each["sizes"])) for each in ask.asked] == [
        ("agent/split", "judge", 0),
        ("agent/see", "judge", 5),
    ]
    assert (
        "E1: picture 1 is the whole image; picture 2 is its part [0, 0, 0.52, 0.52], enlarged 3.8 times"
        in ask.texts("agent/see")[0]
    )
    assert (score.value, score.parts["protocol"], score.parts["counts"]["looks"]) == (100, "sight", 1)


def test_what_it_wants_to_see_enlarged_is_shown_beside_what_it_saw_and_verifies(large: Path, crowded: None) -> None:
    box = [0.1, 0.1, 0.3, 0.3]
    seen: list[str] = []

    def verify(text: str) -> str:
        seen.append(text)
        return json.dumps({"settle": [], "looks": [box, [0.5, 0.5, 0.9, 0.9]]})

    ask = StandIn(turn(all_met(but={3: "not_met"})), verify, turn([(3, "met", "E2")]), turn())
    score = judged(ask, large, "sight")
    assert "Verify: " in seen[0]
    pictures = [len(each["sizes"]) for each in ask.asked if each["template"] == "agent/see"]
    assert pictures[:3] == [5, 1, 2], "at first the whole, and then what was enlarged to verify"
    assert "E2: picture 1 is its part [0.1, 0.1, 0.3, 0.3], enlarged 5.0 times" in ask.texts("agent/see")[2]
    row = score.parts["claims"][2]
    assert (row["verdict"], row["place"], row["before"]) == ("met", box, [["not_met", "E1"]])
    assert score.parts["counts"]["looks"] == 2


def test_what_it_saw_instead_is_kept(large: Path) -> None:
    settled = (
        '{"settle": [{"claims": [3], "verdict": "not_met", "evidence": "E1", "seen": "two oranges"}], "looks": []}'
    )
    score = judged(StandIn(settled, turn(all_met(but={3: "not_met"})), turn()), large, "sight")
    assert score.parts["claims"][2]["seen"] == "two oranges"


def test_a_verdict_without_what_was_seen_is_refused(large: Path) -> None:
    bulk = json.dumps({"settle": [{"claims": [1, 2, 3], "verdict": "met", "evidence": "E1"}], "looks": []})
    ask = StandIn(bulk, turn(all_met()))
    score = judged(ask, large, "sight")
    assert "claim 2: 'seen' is empty" in ask.texts("agent/see")[1]
    assert (score.value, score.parts["counts"]["unsupported"]) == (100, 3)
    fields = SeeingTurn.model_json_schema()["properties"]
    assert {name: field["items"]["type"] for name, field in fields.items()} == {"settle": "string", "looks": "array"}


@pytest.mark.parametrize("look", [("ask", "what is it?"), ("read_text", ""), ("count", "oranges")])
def test_a_look_at_no_part_shows_nothing_new_and_is_refused(look: tuple[str, str], large: Path) -> None:
    score = judged(StandIn(turn(looks=[look]), turn(all_met())), large, "sight")
    assert (score.parts["counts"]["looks"], score.parts["counts"]["bad_boxes"]) == (1, 1)


def test_later_turns_show_the_image_and_what_is_new(large: Path, crowded: None) -> None:
    """Parts that were shown are not paid again: what was left open is looked at in its own place."""
    zooms = [("zoom", "", [0, 0, 0.2, 0.2]), ("zoom", "", [0.5, 0.5, 0.7, 0.7])]
    ask = StandIn(turn(all_met()[:3], zooms[:1]), turn([], zooms[1:]), turn(all_met("E3")))
    judged(ask, large, "sight")
    pictures = [each["sizes"] for each in ask.asked if each["template"] == "agent/see"]
    assert [len(sizes) for sizes in pictures] == [5, 2, 2]
    assert {sizes[0] for sizes in pictures} == {(512, 410)}


def test_the_prompt_is_numbered_and_later_turns_keep_the_sentences_that_are_needed() -> None:
    prompt = "A bowl [7] is red. It holds six eggs. Nobody is there. Fog lies over all."
    claims = [
        Claim(1, "bowl", "entity", "macro", 0, 6),
        Claim(2, "is red", "attribute", "micro", 11, 17),
        Claim(3, "six eggs", "entity", "micro", 28, 36),
        Claim(4, "nobody", "entity", "generic", 38, 53),
    ]
    assert numbered(prompt, claims) == (
        "A bowl [1] (7) is red [2] . It holds six eggs [3] . Nobody is there [4 generic] . [...]"
    )
    assert numbered(prompt, claims[2:3]) == "A bowl (7) is red. It holds six eggs [3] . [...]"
    assert numbered("x </prompt> y", [Claim(1, "x", "entity", "macro", 0, 1)]) == "x [1] ‹/prompt> y"


@pytest.mark.parametrize(
    ("claim", "seen", "differs"),
    [
        ("bowl: holds six eggs", "five eggs", True),
        ("bowl: holds six eggs", "6 eggs", False),
        ("bowl: holds six eggs", "six eggs, 2 of them cracked", False),
        ("bowl: holds six eggs", "some eggs", False),
        ("none of the 12 is green", "four blue, four red, four black", False),
        ("row 3: red mugs", "four red mugs", False),
        ("twenty-four coins", "24 coins", False),
        ("5 tiers", "25 blocks, A-E, 1-5", False),
        ("sign: reads 'OPEN 24'", "'OPEN 42'", True),
        ('sign: reads "Fresh Bread"', "“FRESH BREAD”", False),
        ("the man's hat", "the man's 'hat'", False),
    ],
)
def test_numbers_and_letters_that_were_seen_are_compared(claim: str, seen: str, differs: bool) -> None:
    assert contradicts(claim, seen, claim) is differs


def test_a_number_that_was_seen_may_be_that_of_another_claim_of_the_line() -> None:
    claim, seen = "from above: 5 tiers", "25 blocks, seen from above"
    assert contradicts(claim, seen, f"{claim}; Light: low sun")
    assert not contradicts(claim, seen, f"A grandstand of 25 blocks; {claim}")


@pytest.mark.parametrize(("first_look", "most"), [("sight", 12), ("inventory", 24)])
def test_a_judge_that_sees_the_image_gets_at_most_twelve_parts_at_once(first_look: Any, most: int) -> None:
    state = AgentState(LookBounds(64), first_look=first_look)
    looks = [Look(tool="zoom", box=[0.03 * k, 0, 0.03 * k + 0.1, 0.2], question=f"what is {k}") for k in range(28)]
    _, groups = _check_requests(state, looks, 63)
    assert (sum(map(len, groups)), state.counts["looks_over_limit"]) == (most, 28 - most)


def test_a_verdict_against_what_was_seen_is_asked_again_once(large: Path) -> None:
    wrong = json.dumps({"settle": ["1, 2, 4-6 | as asked | met", "3 | two oranges | met | E1"], "looks": []})
    again: list[str] = []

    def insist(text: str) -> str:
        again.append(text)
        return wrong

    score = judged(StandIn(wrong, insist), large, "sight")
    assert "claim 3 is not met by what you saw: two oranges" in again[0]
    assert "three oranges [3]" in again[0]
    assert "[1]" not in again[0].partition("</prompt>")[0]
    assert (score.parts["claims"][2]["verdict"], score.parts["claims"][2]["seen"]) == ("met", "two oranges")


@pytest.mark.parametrize("line", ["", "3", "3 | met", "| |", "x | three | met", "3 | three | met | nothing | E1 | E2"])
def test_a_line_that_cannot_be_read_settles_nothing(line: str, large: Path) -> None:
    ask = StandIn(json.dumps({"settle": [line], "looks": []}), turn(all_met()))
    assert judged(ask, large, "sight").parts["claims"][2]["verdict"] in ("met", "open")


RISKY = [*CLAIMS[:2], ("The girl touches 12 oranges", "relation", "micro", "three oranges"), *CLAIMS[3:]]


def test_claims_that_are_easily_misread_are_seen_enlarged_at_once_and_verified(large: Path) -> None:
    texts: list[str] = []

    def first(text: str) -> str:
        texts.append(text)
        return turn(all_met(), [("zoom", "", [0, 0, 0.2, 0.2])])

    def second(text: str) -> str:
        texts.append(text)
        return turn([(3, "not_met", "E2")])

    score = judged(StandIn(first, second, claims=RISKY), large, "sight")
    assert "at the places of claims 3, which" in texts[0]
    assert "Verify: 3\n" in texts[1]
    assert len(texts) == 2
    row = score.parts["claims"][2]
    assert (row["verdict"], row["before"], score.parts["counts"]["verified"]) == ("not_met", [["met", "E1"]], 1)


def test_a_place_that_was_seen_enlarged_before_verifies(large: Path) -> None:
    """The picture is shown again, though the look came before the verification."""
    shown: list[str] = []
    of_one = [("There is a bowl", "entity", "macro", "A blue bowl", "bowl"), *RISKY[1:4]]
    claims = [(*claim[:4], "bowl") for claim in of_one]

    def last(text: str) -> str:
        shown.append(text)
        return turn([(3, "not_met", "E2")])

    ask = StandIn(turn(all_met()[2:3], [("zoom", "", [0, 0, 0.2, 0.2])]), turn([(1, "met", "E2"), (2, "met", "E2"), (4, "met", "E2")]), last)  # fmt: skip
    ask.claims = [dict(zip(("claim", "kind", "level", "span"), c, strict=False)) | {"things": [c[4]]} for c in claims]
    score = judged(ask, large, "sight")
    assert "Verify: 3\n" in shown[0]
    assert "E2: picture 1 is its part" in shown[0]
    assert (score.parts["claims"][2]["verdict"], score.parts["counts"]["looks"]) == ("not_met", 2)


def test_risk_counts_kinds_of_misreading_and_style_is_never_looked_at_on_a_part() -> None:
    risks = {"a red mug": 0, "the bowl holds three eggs": 0, "eleven people": 1, "two men touch": 1, "she holds a kite": 1,
             "only the third of 12 has its arm raised": 3}  # fmt: skip
    assert {text: Claim(1, text, "attribute", "micro", 0, 1).risk for text in risks} == risks
    state = AgentState(LookBounds(8), first_look="sight")
    state.claims = Claims((Claim(1, "all of it in 12 lights", "style", "micro", 0, 1),))
    assert not state.risky


def test_places_are_verified_while_other_claims_are_open(large: Path) -> None:
    texts: list[str] = []

    def first(text: str) -> str:
        return turn([entry for entry in all_met() if entry[0] != 5], [("zoom", "", [0, 0, 0.2, 0.2]), ("zoom", "", [0.5, 0.5, 0.7, 0.7])])  # fmt: skip

    def second(text: str) -> str:
        texts.append(text)
        return turn([(3, "not_met", "E2"), (5, "met", "E3")])

    score = judged(StandIn(first, second, claims=RISKY), large, "sight")
    assert "Verify: 3\n" in texts[0]
    assert "Open claims: 5\n" in texts[0]
    assert len(texts) == 1
    assert (score.parts["claims"][2]["verdict"], score.parts["stopped"]) == ("not_met", "covered")


@pytest.mark.parametrize(("places", "verified"), [(8, True), (9, False)])
def test_up_to_eight_doubtful_places_are_seen_enlarged(places: int, verified: bool, large: Path) -> None:
    """A reader of few pixels is wrong in some places of an image without an error."""
    claims = [(f"thing {name} is there", "entity", "micro", "A blue bowl") for name in "abcdefghij"]
    ask = StandIn(turn([(n, "not_met" if n <= places else "met", "E1") for n in range(1, 11)]), turn(), claims=claims)
    judged(ask, large, "sight")
    assert [("Verify: 1, 2" in text) for text in ask.texts("agent/see")] == [False, True][: 1 + verified]
