"""Before the work ends, verdicts of the description are looked at once more: contradicted ones, and some that hold."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_agent_loop import PROMPT, StandIn, all_met, image, judged, turn

from titjudge.core.errors import Unanswered
from titjudge.core.types import Score, Status
from titjudge.metrics.agent.claims import Claim, Claims, adherence_score, score_bounds
from titjudge.metrics.agent.looks import LookRequest, Observation
from titjudge.metrics.agent.loop import MOST_PLACES, verifying
from titjudge.metrics.agent.state import AgentState, Evidence, LookBounds, SettledClaim

__all__ = ["image"]

ZOOM = ("zoom", "how many are there?", [0, 0, 0.5, 0.5])
DESCRIBED = LookRequest("describe")


def ends(score: Score) -> tuple[Any, ...]:
    counts = score.parts["counts"]
    return score.parts["stopped"], counts["verified"], counts["revised"], counts["looks"]


def test_a_contradicted_claim_is_looked_at_once_more_and_mended(image: Path) -> None:
    seen: list[str] = []

    def verify(text: str) -> str:
        seen.append(text)
        return turn(looks=[ZOOM])

    ask = StandIn(turn(all_met(but={3: "not_met"})), verify, turn([(3, "met", "E2"), (6, "met", "E2")]), turn())
    score = judged(ask, image)
    assert ends(score)[2:] == (1, 2)
    assert score.value == 100
    assert score.parts["claims"][2]["before"] == [["not_met", "E1"]]
    assert "Verify: " in seen[0]
    assert "3. The bowl holds three oranges" in seen[0]


def test_a_verdict_that_is_confirmed_rests_on_the_newer_look(image: Path) -> None:
    ask = StandIn(turn(all_met(but={3: "not_met"})), turn(looks=[ZOOM]), turn([(3, "not_met", "E2")]), turn())
    score = judged(ask, image)
    third = score.parts["claims"][2]
    assert "1 chosen for a second look had none" in score.reason, "the claim that holds was drawn and not settled again"
    assert (third["verdict"], third["evidence"], ends(score)) == ("not_met", "E2", ("covered", 1, 0, 2))


def test_as_many_claims_that_hold_are_drawn_so_that_scores_do_not_only_rise(image: Path) -> None:
    """The other verdict of the draw falls."""
    numbers: list[int] = []

    def verify(text: str) -> str:
        line = next(line for line in text.splitlines() if line.startswith("Verify: "))
        numbers.extend(map(int, line.removeprefix("Verify: ").split(", ")))
        return turn(looks=[ZOOM])

    ask = StandIn(
        turn(all_met(but={3: "not_met"})),
        verify,
        lambda _: turn([(n, "not_met", "E2") for n in numbers]),
        turn(),
    )
    first = judged(ask, image)
    assert len(numbers) == 2
    assert 3 in numbers
    assert ends(first) == ("covered", 2, 1, 2)
    again: list[int] = list(numbers)
    numbers.clear()
    ask.turns = [turn(all_met(but={3: "not_met"})), verify, turn()]
    judged(ask, image)
    assert numbers == again, "the draw is the same whenever the image is judged"


@pytest.mark.parametrize("but", [{}, dict.fromkeys(range(1, 7), "not_met")])
def test_nothing_is_verified_where_nothing_is_contradicted_or_everything_is(image: Path, but: dict[int, str]) -> None:
    ask = StandIn(turn(all_met(but=but)))
    assert ends(judged(ask, image)) == ("covered", 0, 0, 1)
    assert ask.count("agent/orchestrate") == 1


def test_a_verdict_of_a_look_of_its_own_is_not_verified(image: Path) -> None:
    ask = StandIn(turn(all_met(but={3: "cannot_be_seen"}), [("count", "oranges")]), turn([(3, "not_met", "E2")]))
    ask.turns[0] = turn([(n, "met", "E1") for n in (1, 2, 4, 5, 6)], [("count", "oranges")])
    assert ends(judged(ask, image)) == ("covered", 0, 0, 2)


def test_without_a_look_left_nothing_is_verified(image: Path) -> None:
    ask = StandIn(turn(all_met(but={3: "not_met"})))
    assert ends(judged(ask, image, max_looks=1)) == ("covered", 0, 0, 1)


def test_the_last_look_is_kept_for_what_is_doubtful(image: Path) -> None:
    """What is open may share it; where nothing is doubtful it is free."""
    seen: list[str] = []

    def last(text: str) -> str:
        seen.append(text)
        return turn(looks=[ZOOM, ("zoom", "what does it say?", [0.5, 0, 1, 0.5])])

    doubtful = all_met(but={3: "not_met"})[:4]
    ask = StandIn(turn(doubtful, [("ask", "what does the sign say?")]), last, turn([(3, "met", "E3"), (5, "met", "E4")]))  # fmt: skip
    score = judged(ask, image, max_looks=3)
    assert "Verify: " in seen[0]
    assert "Open claims: 5, 6" in seen[0]
    assert (score.parts["stopped"], score.parts["counts"]["looks"]) == ("looks", 3)
    assert score.parts["claims"][2]["before"] == [["not_met", "E1"]]
    ask = StandIn(turn(all_met()[:4], [("ask", "what does the sign say?")]), last, turn([(5, "met", "E3")]))
    judged(ask, image, max_looks=3)
    assert "Verify: " not in seen[1]


def test_a_description_is_sent_until_its_doubtful_places_have_been_looked_at(image: Path) -> None:
    ask = StandIn(turn(all_met(but={3: "not_met"})), turn(looks=[ZOOM]), turn([(3, "met", "E2"), (6, "met", "E2")]), turn())  # fmt: skip
    judged(ask, image)
    shown = ["what tit/describe saw" in text for text in ask.texts("agent/orchestrate")]
    assert shown[:3] == [True, True, False]


def test_an_orchestrator_that_does_not_verify_ends_as_before(image: Path) -> None:
    ask = StandIn(turn(all_met(but={3: "not_met"})), turn())
    assert ends(judged(ask, image)) == ("covered", 0, 0, 1)
    assert ask.count("agent/orchestrate") == 2


@pytest.mark.parametrize("status", [Status.MISSING, Status.FAILED])
def test_a_verification_without_an_answer_is_no_score(status: Status, image: Path) -> None:
    score = judged(StandIn(turn(all_met(but={3: "not_met"})), Unanswered(status, "none")), image)
    assert (score.value, score.status) == (None, status)


def test_a_missing_answer_while_much_is_open_is_no_score(image: Path) -> None:
    """A second look finds the bowl: what was settled by its absence is open again, and nobody has answered it."""
    ask = StandIn(
        turn([(1, "not_met", "E1"), *((n, "met", "E1") for n in (4, 5, 6))]),
        turn(looks=[ZOOM]),
        turn([(1, "met", "E2")]),
        Unanswered(Status.MISSING, "no answer on file"),
    )
    things = [["bowl"], ["bowl"], ["bowl"], ["table"], ["sign"], []]
    ask.claims = [{**claim, "things": named} for claim, named in zip(ask.claims, things, strict=True)]
    score = judged(ask, image)
    assert ask.count("agent/orchestrate") == 4
    assert (score.value, score.status) == (None, Status.MISSING)


def test_counts_and_words_are_looked_for_in_a_part_and_a_question_about_a_part_is_a_zoom(image: Path) -> None:
    box = [0.5, 0, 1, 0.5]
    looks = [
        ("count", "oranges"), ("count", "oranges", box), ("count", "oranges", [0, 0, 0.5, 0.5]), ("count", "oranges", box),
        ("ask", "what colour?", box),
    ]  # fmt: skip
    ask = StandIn(turn(looks=looks), turn(all_met("E2")))
    score = judged(ask, image)
    rows = score.parts["evidence"][1:]
    assert [(row["tool"], row["box"]) for row in rows] == [
        ("count", None), ("count", box), ("count", [0, 0, 0.5, 0.5]), ("zoom", box)
    ]  # fmt: skip
    sizes = {
        template: [each["sizes"] for each in ask.asked if each["template"] == template]
        for template in ("agent/count", "agent/parts")
    }
    assert sizes == {"agent/count": [[(400, 200)]], "agent/parts": [[(400, 200)] * 3]}, (
        "a part is enlarged to the size of the image"
    )
    assert score.parts["counts"]["repeats_refused"] == 1


def test_words_of_a_part_are_read_in_the_enlarged_part(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from titjudge.metrics import ocr

    read: list[Path] = []
    monkeypatch.setattr(ocr, "read_text", lambda path: read.append(path) or ["FRESH"])
    ask = StandIn(turn(looks=[("read_text", "", [0, 0, 0.5, 0.5]), ("read_text",)]), turn(all_met("E2")))
    judged(ask, image)
    assert len(set(read)) == 2
    assert image in read


def test_a_bad_box_is_refused_for_every_tool(image: Path) -> None:
    ask = StandIn(
        turn(looks=[("count", "oranges", [10, 10, 300, 300]), ("read_text", "", [0, 0, 0, 0])]), turn(all_met())
    )
    assert judged(ask, image).parts["counts"]["bad_boxes"] == 2


def test_what_stays_open_makes_bounds_of_the_score(image: Path) -> None:
    many = [(f"Claim {n}", "entity", "macro" if n < 20 else "micro", "bowl") for n in range(40)]
    score = judged(StandIn(turn([(n, "met", "E1") for n in range(1, 40)]), claims=many), image)
    assert score.value == score.parts["upper"] == 100
    assert score.parts["lower"] == pytest.approx(100 * (5 + 4 * 19 / 20) / 9)
    assert f"{score.parts['lower']:.1f} to 100.0, depending on the open claims" in score.reason
    whole = judged(StandIn(turn(all_met())), image, PROMPT)
    assert "lower" not in whole.parts


@given(st.lists(st.tuples(st.sampled_from(["macro", "micro", "generic"]), st.sampled_from(["met", "not_met", None])), min_size=1, max_size=12))  # fmt: skip
def test_the_score_lies_within_its_bounds(drawn: Sequence[tuple[str, str | None]]) -> None:
    claims = [Claim(n, f"c{n}", "attribute", "micro", 0, 1, (f"t{n}",)) for n, (level, _) in enumerate(drawn)]
    verdicts = {n: verdict for n, (_, verdict) in enumerate(drawn) if verdict}
    value, bounds = adherence_score(claims, verdicts), score_bounds(claims, verdicts)
    if bounds is None:
        assert len(verdicts) == len(claims) or value is None
    elif value is not None:
        assert bounds[0] - 1e-9 <= value <= bounds[1] + 1e-9


# -- which verdicts are chosen ------------------------------------------------------------------------------------------


def settled(*claims: tuple[str, str], by: LookRequest | None = None) -> AgentState:
    """A state in which each claim (a thing, a verdict) was settled by the first look, or by a second one, `by`."""
    state = AgentState(LookBounds(8))
    state.claims = Claims(
        tuple(Claim(n, f"claim {n}", "attribute", "micro", 0, 1, (thing,)) for n, (thing, _) in enumerate(claims, 1))
    )
    looks = (DESCRIBED, by) if by else (DESCRIBED,)
    state.evidence = [Evidence(n, look, Observation("a bowl")) for n, look in enumerate(looks, 1)]
    state.settled = {n: SettledClaim(verdict, len(looks)) for n, (_, verdict) in enumerate(claims, 1)}
    return state


def chosen(state: AgentState) -> tuple[int, ...]:
    verifying(state, 3, progress=True)
    assert state.verification is not None
    return state.verification.claims


@pytest.mark.parametrize("wrong", [1, MOST_PLACES, MOST_PLACES + 1])
def test_an_image_that_is_wrong_in_more_than_four_places_is_not_looked_at_again(wrong: int) -> None:
    state = settled(*((f"thing {n}", "not_met" if n < wrong else "met") for n in range(12)))
    claims = chosen(state)
    assert claims[:wrong] == (tuple(range(1, wrong + 1)) if wrong <= MOST_PLACES else ())
    assert len(claims) == (2 * wrong if wrong <= MOST_PLACES else 0)


def test_claims_that_hold_are_drawn_of_other_places_than_the_contradicted_ones() -> None:
    state = settled(("bowl", "not_met"), *([("bowl", "met")] * 30), ("table", "met"))
    assert chosen(state) == (1, 32)


def test_a_claim_without_a_weight_is_not_looked_at_again() -> None:
    state = settled(("bowl", "met"), ("table", "met"), ("people", "not_met"))
    *rest, last = state.claims.claims
    state.claims = Claims((*rest, replace(last, level="generic")))
    assert chosen(state) == ()


@pytest.mark.parametrize(("box", "again"), [(None, (1, 2)), ((0.0, 0.0, 0.5, 0.5), ())])
def test_a_description_of_a_part_is_a_look_of_its_own_and_one_of_the_whole_image_is_none(
    box: tuple[float, float, float, float] | None, again: tuple[int, ...]
) -> None:
    state = settled(("bowl", "not_met"), ("table", "met"), by=LookRequest("describe", box=box))
    assert chosen(state) == again


def test_a_first_second_look_needs_no_progress_and_the_next_does() -> None:
    state = settled(("bowl", "not_met"), ("table", "met"))
    assert [verifying(state, left, progress=progress) for left, progress in ((3, False), (3, False), (3, True), (0, True))] == [
        True, False, True, False,
    ]  # fmt: skip


def test_what_was_seen_before_the_second_looks_began_verifies_nothing(image: Path) -> None:
    ask = StandIn(
        turn([(1, "met", "E1")], [("count", "oranges")]),
        turn([(n, "not_met" if n == 3 else "met", "E1") for n in range(2, 7)]),
        turn([(3, "not_met", "E2")]),
    )
    assert ends(judged(ask, image)) == ("covered", 0, 0, 2)


def test_nothing_is_said_of_second_looks_once_no_look_is_left(image: Path) -> None:
    ask = StandIn(turn(all_met(but={3: "not_met"})), turn(looks=[ZOOM]), turn([(3, "not_met", "E2")]))
    judged(ask, image, max_looks=2)
    assert ["Verify: " in text for text in ask.texts("agent/orchestrate")] == [False, True, False]
