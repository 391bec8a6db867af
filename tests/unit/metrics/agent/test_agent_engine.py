"""The agentic judge behind the real pipeline: shared answers, a second run, plans, caps, repair."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_answers import split
from PIL import Image
from test_agent_loop import CLAIMS, PROMPT, all_met, turn

from titjudge.core.config import RunConfig, load_config
from titjudge.core.errors import BudgetExhausted, ConfigError
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Reply, Request, Score, Status, Tool, ToolCall, Usage
from titjudge.engine.ask import BoundAsk
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import score_item
from titjudge.metrics.agent.metric import tit_agent
from titjudge.metrics.agent.pairs import tit_agent_pairs
from titjudge.metrics.tit import tit_llm
from titjudge.providers import Capabilities
from titjudge.providers.fake import Fake
from titjudge.runs.open_run import open_planner

Answers = Callable[[Request], Any]
SPLIT = split(CLAIMS)


def config() -> RunConfig:
    return load_config(None, {"captioner": "fake/eyes", "judge": "fake/mind", "prices": {"eyes": {"input": 1, "output": 1}, "mind": {"input": 1, "output": 1}}})  # fmt: skip


def engine(folder: Path, answers: Answers, budget: Budget | None = None, journal: Any = None) -> tuple[Engine, Fake]:
    fake = Fake(None, answers, capabilities=Capabilities())
    cache = AnswerCache(folder / "cache")
    return Engine(Roles(config(), make=lambda _: fake), PromptLibrary(), cache, budget, journal=journal), fake


def item(folder: Path, name: str = "a", colour: int = 0) -> Item:
    Image.new("RGB", (300, 300), (colour, 0, 0)).save(folder / f"{name}.png")
    return Item(name, PROMPT, folder / f"{name}.png", f"g{name}", "p")


def good(request: Request) -> str:
    if request.template == "agent/split":
        return SPLIT
    if request.template == "agent/orchestrate":
        looked = any("E2" in message.text for message in request.messages)
        return (
            turn(all_met("E2"))
            if looked
            else turn([(1, "met", "E1")], [("zoom", "what?", [0, 0, 0.5, 0.5]), ("ask", "what?")])
        )
    if request.template == "tit/compare":
        return json.dumps({"missing": [], "contradicted": [], "reason": "r", "score": 50})
    return "a blue bowl"


def test_a_prompt_is_taken_apart_once_and_a_second_run_asks_nothing(tmp_path: Path) -> None:
    items = [item(tmp_path, name, colour) for name, colour in (("a", 10), ("b", 90))]

    async def run() -> tuple[list[Score], Counter[str]]:
        eng, fake = engine(tmp_path, good)
        scores = await asyncio.gather(*(score_item(eng, each, "tit-agent", tit_agent) for each in items))
        await eng.aclose()
        return list(scores), Counter(request.template for request in fake.requests)

    scores, asked = asyncio.run(run())
    assert [score.value for score in scores] == [100, 100]
    assert asked == {"agent/split": 1, "tit/describe": 2, "agent/orchestrate": 2, "agent/zoom": 2, "agent/ask": 2}
    assert all(len(score.replies) == 6 for score in scores)
    again, nothing = asyncio.run(run())
    assert nothing == {}
    assert [score.parts for score in again] == [score.parts for score in scores]


def test_the_description_is_that_of_the_other_metrics(tmp_path: Path) -> None:
    async def run() -> Counter[str]:
        eng, fake = engine(tmp_path, good)
        who = item(tmp_path)
        await asyncio.gather(score_item(eng, who, "tit-agent", tit_agent), score_item(eng, who, "tit-llm", tit_llm))
        await eng.aclose()
        return Counter(request.template for request in fake.requests)

    assert asyncio.run(run())["tit/describe"] == 1


def test_a_description_cut_short_is_evidence_here_and_no_score_there(tmp_path: Path) -> None:
    def cut(request: Request) -> Any:
        if request.template == "tit/describe":
            return Reply("a blue bowl and", Status.TRUNCATED, usage=Usage(10, 512))
        return good(request)

    async def run() -> list[Score]:
        eng, _ = engine(tmp_path, cut)
        who = item(tmp_path)
        scores = await asyncio.gather(
            score_item(eng, who, "tit-agent", tit_agent), score_item(eng, who, "tit-llm", tit_llm)
        )
        await eng.aclose()
        return list(scores)

    agent, llm = asyncio.run(run())
    assert (agent.value, agent.parts["evidence"][0]["text"], agent.parts["counts"]["cut_answers"]) == (
        100,
        "a blue bowl and",
        1,
    )
    assert (llm.value, llm.status) == (None, Status.TRUNCATED)


def test_an_answer_that_does_not_validate_gets_a_repair_turn_and_never_acts(tmp_path: Path) -> None:
    def broken(request: Request) -> str:
        if request.template == "agent/orchestrate" and request.attempt == 0:
            return "All claims are met, trust me."
        return good(request)

    async def run(name: str, answers: Answers) -> Score:
        (tmp_path / name).mkdir()
        eng, _ = engine(tmp_path / name, answers)
        score = await score_item(eng, item(tmp_path), "tit-agent", tit_agent)
        await eng.aclose()
        return score

    score = asyncio.run(run("never", lambda r: "no" if r.template == "agent/orchestrate" else good(r)))
    assert score.status is Status.UNPARSED
    assert asyncio.run(run("once", broken)).value == 100


def planned(folder: Path, **meta: Any) -> Counter[str]:
    who = item(folder)
    who = Item(who.id, who.prompt, who.image, meta=meta)

    async def run() -> Counter[str]:
        planner = open_planner(config(), AnswerCache(folder / "cache"), per_item=True)
        found = await planner.expect(who, {"tit-agent": tit_agent})
        await planner.aclose()
        return Counter(each.template for each in found)

    return asyncio.run(run())


def test_a_plan_expects_some_looks(tmp_path: Path) -> None:
    assert planned(tmp_path) == {
        "agent/split": 1,
        "tit/describe": 1,
        "agent/orchestrate": 2,
        "agent/ask": 1,
    }


def test_one_look_is_planned_as_one(tmp_path: Path) -> None:
    found = planned(tmp_path, max_looks=1)
    assert found["agent/ask"] == 0
    assert found["tit/describe"] == 1


def test_a_plan_begins_where_the_cache_ends(tmp_path: Path) -> None:
    async def part() -> None:
        eng, _ = engine(tmp_path, good)
        ask = BoundAsk(eng, item(tmp_path))
        from titjudge.metrics.agent.claims import split

        await split(PROMPT, ask)
        await eng.aclose()

    asyncio.run(part())
    assert planned(tmp_path) == {"tit/describe": 1, "agent/orchestrate": 2, "agent/ask": 1}


def test_a_plan_goes_on_from_the_round_that_was_reached(tmp_path: Path) -> None:
    async def part() -> None:
        eng, _ = engine(tmp_path, good, Budget(max_requests=2))
        with pytest.raises(BudgetExhausted):
            await score_item(eng, item(tmp_path), "tit-agent", tit_agent)
        await eng.aclose()

    asyncio.run(part())
    assert planned(tmp_path) == {"agent/orchestrate": 2, "agent/ask": 1}


def test_a_judged_item_costs_a_plan_nothing(tmp_path: Path) -> None:
    async def whole() -> None:
        eng, _ = engine(tmp_path, good)
        await score_item(eng, item(tmp_path), "tit-agent", tit_agent)
        await eng.aclose()

    asyncio.run(whole())
    assert planned(tmp_path) == {}


def test_the_cap_ends_an_item_and_what_was_answered_is_kept(tmp_path: Path) -> None:
    async def run(budget: Budget) -> tuple[Score | None, int]:
        eng, fake = engine(tmp_path, good, budget)
        try:
            return await score_item(eng, item(tmp_path), "tit-agent", tit_agent), len(fake.requests)
        except BudgetExhausted:
            return None, len(fake.requests)
        finally:
            await eng.aclose()

    assert asyncio.run(run(Budget(max_requests=4))) == (None, 4)
    score, asked = asyncio.run(run(Budget(max_requests=4)))
    assert score is not None
    assert (score.value, asked) == (100, 2)


def test_a_scripted_provider_calls_tools(tmp_path: Path) -> None:
    def called(request: Request) -> Any:
        if request.template != "agent/investigate":
            return good(request)
        assert [tool.name for tool in request.tools][-1] == "settle"
        results = [result.text for message in request.messages for result in message.results]
        if not results:
            return Reply("hm", tool_calls=(ToolCall("ask", '{"question": "what?"}', "a"), ToolCall("x-ray", "{}", "b")))
        assert results[0] == 'E2 ask("what?"): a blue bowl'
        assert results[1].startswith("refused: there is no tool 'x-ray'")
        assert results[1].endswith("Open claims: 1, 2, 3, 4, 5, 6\nLooks left: 6")
        verdicts = [{"claim": n, "verdict": "met", "evidence": "E2"} for n in range(1, 7)]
        return Reply("", tool_calls=(ToolCall("settle", json.dumps({"verdicts": verdicts}), "c"),))

    async def run() -> Score:
        fake = Fake(None, called, capabilities=Capabilities(tools=True))
        eng = Engine(Roles(config(), make=lambda _: fake), PromptLibrary(), AnswerCache(tmp_path / "cache"))
        score = await score_item(eng, item(tmp_path), "tit-agent", tit_agent)
        await eng.aclose()
        return score

    first, again = asyncio.run(run()), asyncio.run(run())
    assert (first.value, first.parts["protocol"], first.parts["counts"]["invented_tools"]) == (100, "tools", 1)
    assert again.parts == first.parts


def test_tools_are_offered_only_to_models_that_call_them(tmp_path: Path) -> None:
    async def run() -> None:
        eng, _ = engine(tmp_path, good)
        ask = BoundAsk(eng, item(tmp_path))
        assert not ask.has_tools("judge")
        tool = Tool("look", "looks", {"type": "object", "properties": {}})
        with pytest.raises(ConfigError, match="fake/mind cannot call tools"):
            await ask("agent/split", role="judge", tools=[tool], prompt="a bowl")
        await eng.aclose()

    asyncio.run(run())


@pytest.mark.parametrize(("dollars", "rounds", "looks"), [(100.0, 2, 1), (0.0, 1, 0)])
def test_a_dry_run_ends_where_the_budget_of_an_item_does(
    tmp_path: Path, dollars: float, rounds: int, looks: int
) -> None:
    priced = RunConfig.model_validate(
        {"captioner": "openai/m", "judge": "openai/m", "prices": {"m": {"input": 2.5, "output": 10}}}
    )

    async def run() -> Counter[str]:
        planner = open_planner(priced, AnswerCache(tmp_path / "cache"))
        found = await planner.expect(item(tmp_path), {"tit-agent": tit_agent.configured({"max_cost": dollars})})
        await planner.aclose()
        return Counter(each.template for each in found)

    found = asyncio.run(run())
    assert (found["agent/split"], found["tit/describe"]) == (1, 1)
    asked = found["agent/orchestrate"] + found["agent/investigate"]
    assert (asked, found["agent/ask"]) == (rounds, looks)


def test_a_dry_run_counts_a_comparison_of_every_two_images_in_both_orders(tmp_path: Path) -> None:
    priced = RunConfig.model_validate(
        {"captioner": "openai/m", "judge": "openai/m", "prices": {"m": {"input": 2.5, "output": 10}}}
    )
    alone = [item(tmp_path, name, colour) for name, colour in (("a", 10), ("b", 90), ("c", 170))]
    items = [replace(each, same_prompt=tuple(alone)) for each in alone]

    async def run() -> set[tuple[str, str]]:
        planner = open_planner(priced, AnswerCache(tmp_path / "cache"))
        metric = tit_agent_pairs.configured({"first_look": "sight"})
        found = [await planner.expect(each, {"tit-agent-pairs": metric}) for each in items]
        await planner.aclose()
        return {(each.template, each.key) for of_item in found for each in of_item}

    asked = Counter(template for template, _ in asyncio.run(run()))
    assert (asked["agent/pair"], asked["agent/see"]) == (6, 6)
