"""The cap under any interleaving: 128 tasks, random prices, random faults, cancellations; it holds and nobody hangs."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from virtual_time import run_virtual

from titjudge.core.errors import BudgetExhausted, BudgetHeld
from titjudge.engine.budget import Budget

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class World:
    """Items of two calls, as the engine makes them, and the bill as a server would write it."""

    budget: Budget
    chance: random.Random
    alone: bool = False
    calls: int = 2
    share: float = 1.0  # of the worst case of all calls that a reservation holds
    stepped_back: int = 0
    billed: float = 0.0
    sent: int = 0
    finished: int = 0
    refused: int = 0
    order: list[int] = field(default_factory=list)

    def check(self) -> None:
        budget = self.budget
        if budget.max_cost is not None:
            assert budget.spent + budget.uncertain + budget.reserved <= budget.max_cost + 1e-9
            assert self.billed <= budget.max_cost + 1e-9
        if budget.max_requests is not None:
            assert self.sent <= budget.max_requests
        assert budget.reserved >= 0

    async def nap(self) -> None:
        if self.chance.random() < 0.8:
            await asyncio.sleep(self.chance.choice([0, 0, 0.1, 0.5, 3]))

    async def request(self, draw_from: object, worst: float, tokens: int) -> None:
        """One call, repeated after faults."""
        while True:
            draw = await draw_from.draw(worst, tokens)  # type: ignore[attr-defined]
            with draw:
                await self.nap()  # the queue of the limiter
                self.sent += 1
                fate = self.chance.random()
                cost = round(worst * self.chance.random(), 9)
                try:
                    await self.nap()
                except asyncio.CancelledError:
                    self.billed += cost
                    draw.mark_uncertain()
                    raise
                if fate < 0.1:  # no answer, billed or not
                    self.billed += self.chance.choice([0.0, cost])
                    draw.mark_uncertain()
                    continue
                if fate < 0.25:  # a failure that costs something or nothing
                    cost = self.chance.choice([0.0, cost])
                    self.billed += cost
                    draw.settle(cost, tokens // 2)
                    continue
                cost = self.chance.choice([cost, worst])
                self.billed += cost
                draw.settle(cost, tokens // 2)
            self.check()
            return

    async def item(self, number: int) -> None:
        worst = [round(self.chance.uniform(0.001, 0.4), 6) for _ in range(self.calls)]
        try:
            if self.alone:
                for each in worst:
                    await self.request(self.budget, each, 100)
            else:
                await self.with_reservation(number, worst)
            self.finished += 1
        except BudgetExhausted:
            self.refused += 1
        self.check()

    async def with_reservation(self, number: int, worst: list[float]) -> None:
        """Set aside a share of what the calls may cost; step back and go on from there when that is not enough."""
        done: set[int] = set()  # answers in the cache
        held_back: BudgetHeld | None = None

        async def call(held: object, at: int) -> None:
            await self.request(held, worst[at], 100)
            done.add(at)

        while len(done) < len(worst):
            todo = [at for at in range(len(worst)) if at not in done]
            amount = max(self.share * sum(worst[at] for at in todo), held_back.cost if held_back else 0.0)
            with await self.budget.reserve(amount, 100 * len(todo), len(todo), again=held_back is not None) as held:
                if held_back is None:
                    self.order.append(number)
                self.check()
                try:
                    if self.chance.random() < 0.3:  # all calls at once
                        found = await asyncio.gather(*(call(held, at) for at in todo), return_exceptions=True)
                        for each in found:
                            if isinstance(each, BaseException):
                                raise each
                    else:
                        for at in todo:
                            await call(held, at)
                            await self.nap()
                except BudgetHeld as error:
                    held_back = error
                    self.stepped_back += 1


async def _live(world: World, items: int, cancel: float) -> None:
    tasks = [asyncio.create_task(world.item(number)) for number in range(items)]
    for task in tasks:
        if world.chance.random() < cancel:
            asyncio.get_running_loop().call_later(world.chance.uniform(0, 5), task.cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    orphans = asyncio.all_tasks() - {asyncio.current_task()}  # the other call of an item that was refused
    await asyncio.gather(*orphans, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]
    world.check()
    assert world.budget.reserved == 0.0
    assert world.budget._in_flight == 0
    assert not world.budget._draws
    assert not world.budget._queue


@QUICK
@given(
    seed=st.integers(0, 2**32), items=st.integers(1, 128), cap=st.floats(0.01, 20), cancel=st.sampled_from([0.0, 0.2])
)
def test_the_cap_holds_and_everybody_comes_to_an_end(seed: int, items: int, cap: float, cancel: float) -> None:
    world = World(Budget(max_cost=cap, max_requests=3 * items), random.Random(seed))
    run_virtual(_live(world, items, cancel))
    if not cancel:
        assert world.finished + world.refused == items
        assert bool(world.refused) == world.budget.exhausted


@QUICK
@given(
    seed=st.integers(0, 2**32),
    items=st.integers(1, 64),
    cap=st.floats(0.01, 20),
    calls=st.integers(2, 9),
    share=st.floats(0.05, 0.6),
)
def test_items_that_reserve_too_little_step_back_and_use_the_cap_up(
    seed: int, items: int, cap: float, calls: int, share: float
) -> None:
    world = World(Budget(max_cost=cap), random.Random(seed), calls=calls, share=share)
    run_virtual(_live(world, items, 0.0))
    assert world.finished + world.refused == items
    assert bool(world.refused) == world.budget.exhausted
    if world.refused:  # no run ends while there is money for what it wants next
        most = share * calls * 0.4 + 0.4
        assert world.budget.spent + world.budget.uncertain + most > cap


@QUICK
@given(seed=st.integers(0, 2**32), items=st.integers(1, 128), cap=st.floats(0.01, 20))
def test_the_cap_holds_for_calls_without_a_reservation(seed: int, items: int, cap: float) -> None:
    world = World(Budget(max_cost=cap), random.Random(seed), alone=True)
    run_virtual(_live(world, items, 0.1))


@pytest.mark.slow
@QUICK
@given(seed=st.integers(0, 2**32), items=st.integers(2, 128))
def test_items_are_admitted_in_order(seed: int, items: int) -> None:
    world = World(Budget(max_cost=5.0), random.Random(seed))
    run_virtual(_live(world, items, 0.0))
    assert world.order == list(range(len(world.order)))


@pytest.mark.parametrize("seed", range(3))
def test_a_cap_far_below_the_bill_is_used_up(seed: int) -> None:
    """30% of the bill: with worst cases four times the truth, most of it must still be spent on whole items."""

    async def main() -> tuple[Budget, int]:
        budget, chance, done = Budget(max_cost=0.3 * 500 * 0.01), random.Random(seed), 0

        async def item() -> None:
            nonlocal done
            try:
                with await budget.reserve(0.04, 0, 2) as held:
                    for share in (0.8, 0.2):
                        draw = await held.draw(0.04 * share, 0)
                        await asyncio.sleep(chance.uniform(0.1, 0.3))
                        draw.settle(0.01 * share, 0)
                done += 1
            except BudgetExhausted:
                pass

        gate = asyncio.Semaphore(64)

        async def gated() -> None:
            async with gate:
                await item()

        await asyncio.gather(*(gated() for _ in range(500)))
        return budget, done

    budget, done = run_virtual(main())
    assert budget.exhausted
    assert 1.5 * 0.95 <= budget.spent <= 1.5
    assert done == round(budget.spent / 0.01)
