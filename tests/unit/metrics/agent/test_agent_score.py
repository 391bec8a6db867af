"""From verdicts to the number of the agentic judge, and when there is none."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_agent_loop import CLAIMS, PROMPT, StandIn, all_met, image, judged, turn

from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.types import Item, Reply, Score, Status
from titjudge.metrics.agent.metric import MAX_LOOKS, MOST_LOOKS, tit_agent
from titjudge.stats.scores.part_scores import claims_of

__all__ = ["image"]


@pytest.mark.parametrize(("decided", "scored"), [(6, True), (5, False)])
def test_sixty_percent_is_enough_and_less_is_not(image: Path, decided: int, scored: bool) -> None:
    claims = [(f"Claim {n}", "entity", "micro", "bowl") for n in range(10)]
    score = judged(StandIn(turn([(n, "met", "E1") for n in range(1, decided + 1)]), turn(), claims=claims), image)
    assert (score.value is not None) == scored


def test_what_cannot_be_seen_and_what_is_open_is_shown_and_does_not_count(image: Path) -> None:
    ask = StandIn(turn([*all_met(but={2: "cannot_be_seen", 3: "not_met"})[:5]]), turn())
    score = judged(ask, image)
    assert score.value == pytest.approx(100 * (5 + 4 / 2) / 9)
    assert score.parts["number"] == {"met": 3, "not_met": 1, "cannot_be_seen": 1, "open": 1}
    assert "1 cannot be seen, 1 open" in score.reason


def test_a_prompt_that_is_mostly_not_quoted_is_not_judged(image: Path) -> None:
    claims = [("There is a bowl", "entity", "macro", "bowl"), ("There is a ufo", "entity", "macro", "a flying saucer")]
    ask = StandIn(turn(all_met()), claims=claims)
    score = judged(ask, image)
    assert (score.value, score.status) == (None, Status.UNPARSED)
    assert "1 of 2 claims quote words that are not in the prompt" in score.reason
    assert len(ask.asked) == 1


def test_a_few_unfounded_claims_are_shown_and_left_out(image: Path) -> None:
    ask = StandIn(turn(all_met()), claims=[*CLAIMS, ("There is a ufo", "entity", "macro", "a flying saucer")])
    score = judged(ask, image)
    assert score.value == 100
    assert score.parts["unfounded"] == ["There is a ufo (a flying saucer)"]
    assert "ufo" not in ask.texts("agent/orchestrate")[0]


def test_an_unreadable_split_is_no_score(image: Path) -> None:
    with pytest.raises(Exception, match="unparsed"):
        judged(StandIn(turn(), claims=[]), image)


@pytest.mark.parametrize("looks", [0, -1, MOST_LOOKS + 1, 2.5, True, None, "many", [], "9999", "²"])
def test_a_wrong_number_of_looks_is_bad_input(image: Path, looks: Any) -> None:
    ask = StandIn(turn())
    score = judged(ask, image, max_looks=looks)
    assert (score.value, score.status, ask.asked) == (None, Status.BAD_INPUT, [])


@pytest.mark.parametrize(("given", "looks"), [({}, MAX_LOOKS), ({"max_looks": 3}, 3), ({"max_looks": " 4 "}, 4)])
def test_the_number_of_looks_is_recorded(image: Path, given: dict[str, Any], looks: int) -> None:
    assert judged(StandIn(turn(all_met())), image, **given).parts["max_looks"] == looks


def test_without_an_image_or_a_prompt_nothing_is_asked(image: Path) -> None:
    ask = StandIn(turn())
    with pytest.raises(Unanswered, match="bad_input: this metric requires an image"):
        judged(ask, None)
    score = judged(ask, image, " ... ")
    assert (score.value, score.status, ask.asked) == (None, Status.BAD_INPUT, [])


def test_claims_have_kinds_and_outcomes(image: Path) -> None:
    score = judged(StandIn(turn(all_met(but={2: "cannot_be_seen", 3: "not_met"}))), image)
    found = [(kind, met) for _, kind, met in claims_of(Item(score.item_id, PROMPT, image, "g", "p"), score)]
    assert [met for _, met in found] == [True, None, False, True, True, True]
    assert found[2][0] == "attribute"


def test_parts_survive_a_run_folder(image: Path) -> None:
    score = judged(StandIn(turn(all_met(), [])), image)
    item = Item(score.item_id, PROMPT, image)
    kept = replace(score, parts=json.loads(json.dumps(dict(score.parts))))
    assert list(claims_of(item, kept)) == list(claims_of(item, score)) != []


def test_it_declares_what_it_needs() -> None:
    assert (tit_agent.name, tit_agent.roles, tit_agent.range) == ("tit-agent", ("captioner", "judge"), (0, 100))
    assert tit_agent.summary.startswith("Share of the prompt's claims that an image meets")


def test_items_share_nothing_but_the_split(image: Path) -> None:
    ask = StandIn(turn(all_met()))

    async def both() -> list[Score]:
        items = [Item(name, PROMPT, image, name, "p") for name in ("a", "b")]
        return await asyncio.gather(*(tit_agent(item, ask) for item in items))  # type: ignore[arg-type]

    one, two = asyncio.run(both())
    assert one.value == two.value == 100
    assert len(set(ask.texts("agent/split"))) == 1


def test_the_shape_of_parts_is_what_the_module_says(image: Path) -> None:
    """The report shows them: keys are only ever added."""
    ask = StandIn(turn(looks=[("zoom", "what?", [0, 0, 0.5, 0.5])]), turn(all_met("E2", {3: "not_met"})))
    parts = judged(ask, image).parts
    assert parts.keys() >= {
        "claims", "number", "weight", "levels", "unfounded", "repeated", "claims_over", "prompt_words", "prompt_covered",
        "evidence", "transcript", "counts", "max_looks", "max_cost", "stopped", "protocol", "ocr",
    }  # fmt: skip
    assert {key for row in parts["claims"] for key in row} == {
        "number", "claim", "thing", "kind", "level", "weight", "span", "quote", "position", "verdict", "evidence", "before", "place",
    }  # fmt: skip
    assert {key for each in parts["evidence"] for key in each} == {
        "id", "tool", "question", "box", "text", "failed", "cut", "settles", "source",
    }  # fmt: skip
    assert {key for each in parts["transcript"] for key in each} == {
        "round", "protocol", "thought", "settled", "looks", "refused",
    }  # fmt: skip
    assert [(each["round"], each["protocol"], each["looks"]) for each in parts["transcript"]] == [
        (0, "", ["E1"]),
        (1, "json", ["E2"]),
        (2, "json", []),
    ]


def priced(cost: float | None) -> Any:
    eyes = {name: Reply("a bowl", list_cost=cost) for name in ("tit/describe", "agent/ask")}
    numbers = iter(range(100))
    return StandIn(lambda _: Reply(turn(looks=[("ask", f"what {next(numbers)}?")]), list_cost=cost), eyes=eyes)


def with_budget(ask: Any, image: Path, max_cost: float) -> Score:
    metric = tit_agent.configured({"max_cost": max_cost, "max_looks": 20})
    return asyncio.run(metric(Item("i", PROMPT, image, "g", "p"), ask))


@pytest.mark.parametrize(("max_cost", "looks"), [(0.0, 1), (1.0, 1), (1.5, 2), (4.9, 3), (1000.0, 20)])
def test_the_items_budget_ends_the_looks(image: Path, max_cost: float, looks: int) -> None:
    """Each answer costs 1: a description, then a consultation and a look in each round."""
    score = with_budget(priced(1.0), image, max_cost)
    assert score.parts["counts"]["looks"] == looks
    assert score.parts["stopped"] == ("looks" if looks == 20 else "budget")
    assert score.parts["max_cost"] == max_cost


def test_a_budget_needs_prices(image: Path) -> None:
    with pytest.raises(ConfigError, match="the price of the captioner is unknown"):
        with_budget(priced(None), image, 1.0)
    assert judged(priced(None), image).parts["max_cost"] is None


def with_worth(image: Path, ask: Any, point_worth: float) -> Score:
    return asyncio.run(tit_agent.configured({"point_worth": point_worth})(Item("i", PROMPT, image, "g", "p"), ask))


@pytest.mark.parametrize(("point_worth", "stopped", "looks"), [(0.05, "too dear", 1), (0.2, "covered", 2)])
def test_a_look_that_costs_more_than_what_is_open_is_worth_is_not_taken(
    image: Path, point_worth: float, stopped: str, looks: int
) -> None:
    """Claims of 20 points are open, and the first look cost 3 USD with the questions about it."""
    ask = StandIn(
        Reply(turn(all_met()[:3] + all_met()[4:], [("ask", "what is it on?")]), list_cost=1.0), Reply(turn(all_met("E2")), list_cost=1.0),
        eyes={"tit/describe": Reply("a bowl", list_cost=2.0), "agent/ask": Reply("a table", list_cost=0.0)},
    )  # fmt: skip
    score = with_worth(image, ask, point_worth)
    assert (score.parts["stopped"], score.parts["counts"]["looks"]) == (stopped, looks)
    if stopped == "too dear":
        assert score.parts["lower"] < score.parts["upper"], "what is open makes bounds"


def test_what_is_contradicted_is_not_verified_where_it_weighs_less_than_a_look_costs(image: Path) -> None:
    ask = StandIn(Reply(turn(all_met(but={3: "not_met"})), list_cost=1.0), Reply(turn(looks=[("zoom", "?", [0, 0, 0.4, 0.4])]), list_cost=1.0), Reply(turn(), list_cost=1.0), eyes={"tit/describe": Reply("a bowl", list_cost=2.0), "agent/zoom": Reply("a bowl", list_cost=0.0)})  # fmt: skip
    assert with_worth(image, ask, 0.01).parts["counts"]["looks"] == 1
    ask.turns[:] = [Reply(turn(all_met(but={3: "not_met"})), list_cost=1.0), Reply(turn(looks=[("zoom", "what?", [0, 0, 0.4, 0.4])]), list_cost=1.0), Reply(turn(), list_cost=1.0)]  # fmt: skip
    assert with_worth(image, ask, 1.0).parts["counts"]["looks"] == 2
