"""Items that need more than was set aside for them, in the loop of a run: they step back, and the cap is used up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from titjudge.core.config import load_config
from titjudge.core.errors import BudgetExhausted, BudgetHeld
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Item, Reply, Request, Score, Usage
from titjudge.engine.budget import Budget, Reservation
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.metrics import metric
from titjudge.providers import Capabilities
from titjudge.providers.fake import Fake
from titjudge.runs.loop import RunLoop
from titjudge.runs.open_run import open_planner

QUESTIONS = 3


class Mark(BaseModel):
    score: float


@metric("talker", roles=("judge",), range=(0, 1))
async def talker(item: Item, ask: Any) -> Score:
    for number in range(QUESTIONS):
        await ask("tit/compare", role="judge", schema=Mark, prompt=item.id, description=f"{number}")
    return Score.of(1.0)


class Dear(Fake):
    """Every request may cost a dollar, and costs a tenth of one."""

    def usage_bound(self, request: Request) -> Usage:
        return Usage(input=1_000_000)

    def answer(self, request: Request) -> Reply:
        return Reply('{"score": 1}', usage=Usage(input=100_000))


class Sparing:
    """A planner that sets too little aside."""

    def __init__(self) -> None:
        self.stepped_back = 0

    async def reserve(self, item: Item, todo: Any, budget: Budget, held: BudgetHeld | None) -> Reservation:
        self.stepped_back += held is not None
        return await budget.reserve(max(0.4, held.cost if held else 0.0), 0, 0, again=held is not None)


@pytest.mark.parametrize(("cap", "done"), [(3.4, 8), (1.5, 1)])
def test_the_money_that_items_hold_is_used_before_a_run_ends(tmp_path: Path, cap: float, done: int) -> None:
    scores: list[Score] = []

    async def work() -> tuple[str, Budget, int]:
        fake = Dear(None, lambda request: fake.answer(request), latency=0.001, capabilities=Capabilities())
        config = load_config(None, {"judge": "fake/m", "prices": {"m": {"input": 1.0, "output": 1.0}}})
        budget, planner = Budget(max_cost=cap), Sparing()
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary(), AnswerCache(tmp_path / "cache"), budget)
        loop = RunLoop(
            engine, {"talker": talker}, planner=planner, on_score=lambda score, _: scores.append(score), in_flight=8
        )
        status = await loop.run([Item(f"i{n}", "p", None, "g", "p") for n in range(8)])
        await engine.aclose()
        return status, budget, planner.stepped_back

    status, budget, stepped_back = asyncio.run(work())
    assert budget.spent <= cap
    assert budget.reserved == 0
    assert stepped_back > 0
    if done == 8:
        assert (status, len(scores)) == ("complete", 8)
    else:
        assert status == "incomplete: budget"
        assert done <= len(scores) < 8
        assert budget.spent + 1.0 > cap


def test_an_item_that_stepped_back_reserves_what_it_lacked_also_when_nothing_new_begins() -> None:
    async def work() -> tuple[float, float]:
        config = load_config(None, {"judge": "openai/m", "prices": {"m": {"input": 1.0, "output": 1.0}}})
        planner, budget = open_planner(config, None, per_item=True), Budget(max_cost=1.0)
        budget.exhausted = True
        item = Item("i", "p", None, "g", "p")
        with pytest.raises(BudgetExhausted):
            await planner.reserve(item, {"talker": talker}, budget)
        with await planner.reserve(item, {"talker": talker}, budget, BudgetHeld("", 0.0, 0)):
            small = budget.reserved
        with await planner.reserve(item, {"talker": talker}, budget, BudgetHeld("", 0.75, 10)):
            large = budget.reserved
        await planner.aclose()
        return small, large

    small, large = asyncio.run(work())
    assert 0 < small < large == 0.75
