"""The cap: what it admits, what it charges, who waits and who is turned away."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from virtual_time import clock, run_virtual

from titjudge.core.errors import BudgetExhausted
from titjudge.engine.budget import Budget, Spending


def run(main: Coroutine[Any, Any, None]) -> None:
    run_virtual(main)


def test_settling_replaces_the_worst_case_by_the_truth() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        held = await budget.reserve(0.5, 100, 2)
        assert (budget.spent, budget.reserved, budget.requests) == (0.0, 0.5, 0)
        held.settle(0.2, 40, 2)
        assert (budget.spent, budget.reserved, budget.requests, budget.tokens) == (0.2, 0.0, 2, 40)

    run(main())


def test_settle_and_release_count_once() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        held = await budget.reserve(0.5, 100)
        draw = await held.draw(0.4, 80)
        for _ in range(3):
            draw.settle(0.3, 60)
            draw.release()
            draw.mark_uncertain()
        for _ in range(3):
            held.release()
            held.settle(0.1, 1)
        assert (budget.spent, budget.reserved, budget.uncertain, budget.requests) == (0.3, 0.0, 0.0, 1)

    run(main())


def test_leaving_the_block_gives_everything_back() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        with pytest.raises(KeyError), await budget.reserve(0.5, 1) as held, await held.draw(0.2, 1):
            raise KeyError
        assert (budget.reserved, budget.spent) == (0.0, 0.0)

    run(main())


def test_sums_are_exact() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        for _ in range(10):
            (await budget.reserve(0.1, 0)).settle(0.1, 0)
        assert budget.spent == 1.0
        assert not budget.exhausted

    run(main())


def test_waits_for_outstanding_room_and_then_fits() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        first = await budget.reserve(0.8, 0)
        waiter = asyncio.create_task(budget.reserve(0.8, 0))
        await asyncio.sleep(1)
        assert not waiter.done()
        first.settle(0.1, 0)
        (await waiter).release()
        assert not budget.exhausted

    run(main())


def test_no_room_and_nothing_outstanding_is_the_end() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        (await budget.reserve(0.5, 0)).settle(0.5, 0)
        with pytest.raises(BudgetExhausted, match=r"\$1 cap reached: \$0.5000 spent, the next may cost \$0.6000"):
            await budget.reserve(0.6, 0)
        assert budget.exhausted

    run(main())


def test_after_exhaustion_nothing_new_is_admitted_even_if_it_would_fit() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        running = await budget.reserve(0.5, 0)
        big, small = (asyncio.create_task(budget.reserve(cost, 0)) for cost in (0.9, 0.1))
        await asyncio.sleep(0)
        assert not small.done()  # first come, first served
        running.settle(0.4, 0)
        for refused in (big, small):
            with pytest.raises(BudgetExhausted):
                await refused
        with pytest.raises(BudgetExhausted):
            await budget.reserve(0.0, 0)
        with pytest.raises(BudgetExhausted):
            await budget.draw(0.0, 0)

    run(main())


def test_what_holds_a_reservation_drains_after_exhaustion() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        with await budget.reserve(0.6, 0, 2) as held:
            with pytest.raises(BudgetExhausted):
                await budget.reserve(1.1, 0)
            (await held.draw(0.3, 0)).settle(0.3, 0)
            (await held.draw(0.3, 0)).settle(0.2, 0)
            (await held.draw(0.4, 0)).settle(0.4, 0)  # a repetition beyond the reservation, which still fits
        assert budget.spent == 0.9

    run(main())


def test_a_cap_of_zero_admits_only_what_is_free() -> None:
    async def main() -> None:
        budget = Budget(max_cost=0.0)
        (await budget.reserve(0.0, 5)).settle(0.0, 5)
        with pytest.raises(BudgetExhausted):
            await budget.reserve(1e-9, 0)

    run(main())


@pytest.mark.parametrize(
    ("caps", "match"), [({"max_requests": 3}, "cap of 3 requests"), ({"max_tokens": 250}, "cap of 250 tokens")]
)
def test_requests_and_tokens_are_capped_the_same_way(caps: dict[str, int], match: str) -> None:
    async def main() -> None:
        budget = Budget(**caps)
        (await budget.reserve(9.0, 200, 2)).settle(9.0, 200, 2)
        with pytest.raises(BudgetExhausted, match=match):
            await budget.reserve(0.0, 100, 2)

    run(main())


def test_a_failed_call_that_reports_usage_is_charged_and_repeated_from_the_reservation() -> None:
    async def main() -> None:
        budget = Budget(max_cost=0.5)
        with await budget.reserve(0.4, 0) as held:
            (await held.draw(0.4, 0)).settle(0.1, 0)
            (await held.draw(0.4, 0)).settle(0.2, 0)  # 0.3 from the reservation, 0.1 more from the budget
        assert budget.spent == pytest.approx(0.3)
        assert budget.requests == 2

    run(main())


def test_a_lost_request_stays_out_of_reach() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        (await budget.draw(0.6, 10)).mark_uncertain()
        assert (budget.spent, budget.uncertain, budget.requests) == (0.0, 0.6, 1)
        with pytest.raises(BudgetExhausted, match="possibly billed"):
            await budget.draw(0.5, 10)

    run(main())


def test_a_draw_beyond_its_reservation_waits_for_requests_on_their_way() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        other = await (await budget.reserve(0.5, 0)).draw(0.5, 0)
        held = await budget.reserve(0.5, 0)
        waiter = asyncio.create_task(held.draw(0.9, 0))
        await asyncio.sleep(5)
        assert not waiter.done()
        other.release()  # goes back to its reservation, which is not released: no room
        await asyncio.sleep(0)
        assert not waiter.done()
        with pytest.raises(BudgetExhausted):
            await waiter

    run(main())


def test_a_draw_goes_before_the_line() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        sent = await budget.draw(0.4, 0)
        held = await budget.reserve(0.5, 0)
        order: list[str] = []

        async def stand_in_line() -> None:
            (await budget.reserve(0.5, 0)).release()
            order.append("line")

        async def repeat() -> None:
            draw = await held.draw(0.7, 0)
            order.append("draw")
            draw.release()
            held.release()

        tasks = [asyncio.create_task(stand_in_line()), asyncio.create_task(repeat())]
        await asyncio.sleep(0)
        sent.settle(0.2, 0)
        await asyncio.gather(*tasks)
        assert order == ["draw", "line"]

    run(main())


def test_holders_that_wait_for_each_other_do_not_deadlock() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        a, b = await budget.reserve(0.5, 0), await budget.reserve(0.5, 0)

        async def ask_for_more(held: Any) -> str:
            try:
                with held:
                    (await held.draw(0.6, 0)).settle(0.6, 0)
                return "sent"
            except BudgetExhausted:
                return "refused"

        assert sorted(await asyncio.gather(ask_for_more(a), ask_for_more(b))) == ["refused", "sent"]
        assert budget.spent == 0.6

    run(main())


def test_a_draw_waits_for_one_that_was_granted_at_the_same_moment() -> None:
    async def main() -> None:
        budget = Budget(max_cost=0.06)
        first = await budget.draw(0.05, 10)
        others = [asyncio.create_task(budget.draw(0.04, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        first.settle(0.002, 5)
        for task in others:
            draw = await task
            await asyncio.sleep(5)  # its answer takes longer than those between two requests are waited for
            draw.settle(0.002, 5)
        assert not budget.exhausted
        assert budget.spent == pytest.approx(0.008)

    run(main())


def test_a_draw_gives_up_on_holders_that_do_nothing() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        idle, held = await budget.reserve(0.5, 0), await budget.reserve(0.5, 0)
        with pytest.raises(BudgetExhausted):
            await held.draw(0.6, 0)
        assert 0 < clock() < 2
        idle.release()
        (await held.draw(0.5, 0)).settle(0.5, 0)  # what it had taken is back in its reservation

    run(main())


def test_siblings_share_what_the_first_leaves() -> None:
    async def main() -> None:
        budget = Budget(max_cost=0.5)
        held = await budget.reserve(0.5, 0, 2)
        first = await held.draw(0.4, 0)
        second = asyncio.create_task(held.draw(0.4, 0))
        await asyncio.sleep(0)
        first.settle(0.1, 0)
        (await second).settle(0.4, 0)
        assert budget.spent == 0.5

    run(main())


def test_a_draw_outlives_its_reservation() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        held = await budget.reserve(0.6, 0)
        draw = await held.draw(0.4, 0)
        held.release()
        assert budget.reserved == 0.4
        draw.settle(0.1, 0)
        again = await held.draw(0.8, 0)
        again.settle(0.8, 0)
        assert (budget.spent, budget.reserved) == (0.9, 0.0)

    run(main())


@pytest.mark.parametrize("turns", [0, 1])
def test_a_cancelled_waiter_leaves_nothing_behind(turns: int) -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        held, mine = await budget.reserve(0.6, 0), await budget.reserve(0.4, 0)
        waiters = [asyncio.create_task(budget.reserve(0.7, 0)), asyncio.create_task(mine.draw(0.5, 0))]
        await asyncio.sleep(0.1)
        if turns:
            held.release()  # granted in the same turn in which it is cancelled
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        held.release()
        mine.release()
        assert budget.reserved == 0.0
        (await budget.reserve(1.0, 0)).release()

    run(main())


def test_whoever_is_next_in_line_goes_on_when_the_one_before_gives_up() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        held = await budget.reserve(0.6, 0)
        large, small = (asyncio.create_task(budget.reserve(cost, 0)) for cost in (0.7, 0.3))
        await asyncio.sleep(1)
        assert not small.done()
        large.cancel()
        (await asyncio.wait_for(small, 1)).release()
        held.release()
        assert (large.cancelled(), budget.reserved, budget.exhausted) == (True, 0.0, False)

    run(main())


def test_an_answer_dearer_than_its_worst_case_is_recorded() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        assert budget.notes() == []
        (await budget.draw(0.5, 10)).settle(0.9, 30)
        assert (budget.spent, budget.tokens, budget.reserved) == (0.9, 30, 0.0)
        assert ["answers cost $0.4000 more" in note for note in budget.notes()] == [True]

    run(main())


def test_list_cost_counts_cached_answers_and_spent_does_not() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0)
        (await budget.draw(0.5, 10)).settle(0.2, 5)
        budget.note_cached(0.7)
        assert (budget.spent, budget.list_cost, budget.requests) == (0.2, pytest.approx(0.9), 1)

    run(main())


def test_a_resumed_run_counts_what_it_spent_before() -> None:
    async def main() -> None:
        budget = Budget(max_cost=1.0, max_requests=5)
        budget.resume(Spending(0.9, requests=4, tokens=1000, uncertain=0.05))
        assert (budget.spent, budget.requests, budget.tokens) == (0.9, 4, 1000)
        with pytest.raises(BudgetExhausted):
            await budget.reserve(0.06, 1)

    run(main())


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_nonsense_is_a_bug_and_says_so(cost: float) -> None:
    async def main() -> None:
        budget = Budget()
        with pytest.raises(ValueError, match="not an amount"):
            await budget.reserve(cost, 0)

    run(main())


def test_without_caps_nothing_waits() -> None:
    async def main() -> None:
        budget = Budget()
        held = [await budget.reserve(1e6, 10**9, 100) for _ in range(50)]
        assert budget.reserved == 5e7
        for each in held:
            each.release()
        assert budget.reserved == 0.0

    run(main())
