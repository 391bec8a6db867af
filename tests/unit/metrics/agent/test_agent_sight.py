"""The judge that sees: image, parts and crops in one conversation, without a captioner."""

import json
from pathlib import Path

import pytest
from test_agent_inventory import judged, large
from test_agent_loop import StandIn, all_met, turn

from titjudge.metrics.agent.state import SeeingTurn

__all__ = ["large"]


def test_the_judge_is_shown_the_image_and_its_parts_and_nobody_else_is_asked(large: Path) -> None:
    ask = StandIn(turn(all_met()))
    score = judged(ask, large, "sight")
    assert [(each["template"], each["role"], len(each["sizes"])) for each in ask.asked] == [
        ("agent/split", "judge", 0),
        ("agent/see", "judge", 5),
    ]
    assert (
        "E1 see(): picture 1 is the whole image; picture 2 is its part [0, 0, 0.52, 0.52], enlarged"
        in ask.texts("agent/see")[0]
    )
    assert (score.value, score.parts["protocol"], score.parts["counts"]["looks"]) == (100, "sight", 1)


def test_what_it_wants_to_see_enlarged_is_shown_beside_what_it_saw_and_verifies(large: Path) -> None:
    box = [0.1, 0.1, 0.3, 0.3]
    seen: list[str] = []

    def verify(text: str) -> str:
        seen.append(text)
        return turn(looks=[("zoom", "", box), ("zoom", "what else?", [0.5, 0.5, 0.9, 0.9])])

    ask = StandIn(turn(all_met(but={3: "not_met"})), verify, turn([(3, "met", "E2")]), turn())
    score = judged(ask, large, "sight")
    assert "Verify: " in seen[0]
    pictures = [len(each["sizes"]) for each in ask.asked if each["template"] == "agent/see"]
    assert pictures[:3] == [5, 1, 2], "at first the whole, and then what was enlarged to verify"
    assert (
        "E2 zoom([0.1, 0.1, 0.3, 0.3]): picture 1 is its part [0.1, 0.1, 0.3, 0.3], enlarged"
        in ask.texts("agent/see")[2]
    )
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
    properties = SeeingTurn.model_json_schema()["$defs"]["SeenVerdict"]["properties"]
    assert list(properties) == ["claims", "seen", "verdict", "evidence"], "a model writes in the order of the schema"


@pytest.mark.parametrize("look", [("ask", "what is it?"), ("read_text", ""), ("count", "oranges")])
def test_a_look_at_no_part_shows_nothing_new_and_is_refused(look: tuple[str, str], large: Path) -> None:
    score = judged(StandIn(turn(looks=[look]), turn(all_met())), large, "sight")
    assert (score.parts["counts"]["looks"], score.parts["counts"]["bad_boxes"]) == (1, 1)


def test_later_turns_show_the_image_and_what_is_new(large: Path) -> None:
    """Parts that were shown are not paid again: what was left open is looked at in its own place."""
    zooms = [("zoom", "", [0, 0, 0.2, 0.2]), ("zoom", "", [0.5, 0.5, 0.7, 0.7])]
    ask = StandIn(turn(all_met()[:3], zooms[:1]), turn([], zooms[1:]), turn(all_met("E3")))
    judged(ask, large, "sight")
    pictures = [each["sizes"] for each in ask.asked if each["template"] == "agent/see"]
    assert [len(sizes) for sizes in pictures] == [5, 2, 2]
    assert {sizes[0] for sizes in pictures} == {(1500, 1200)}
