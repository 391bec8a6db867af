"""Slots, pauses and pace of one account, in virtual time."""

import asyncio
import itertools
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from virtual_time import clock, run_virtual

from titjudge.core.types import Failure, FailureKind
from titjudge.engine.rate_limiter import PLACE, PromptTurn, RateLimiter, Slot


def limiter(concurrency: int = 32, seed: int = 0, **options: Any) -> RateLimiter:
    return RateLimiter(concurrency, now=clock, jitter=random.Random(seed).random, **options)


def run(main: Coroutine[Any, Any, Any]) -> None:
    run_virtual(main)


async def ask(gate: RateLimiter, seconds: float = 1.0, fail: float | None = None, tokens: int = 0) -> float:
    """One request; with `fail`, a 429 with that Retry-After. Returns when it was sent."""
    slot = gate.slot(tokens)
    try:
        async with slot:
            await asyncio.sleep(seconds)
            if fail is not None:
                raise KeyError
    except KeyError:
        gate.failed(Failure(FailureKind.RATE_LIMIT, "slow down", fail or None), slot)
    return slot.sent


def test_slots_are_never_more_than_the_concurrency() -> None:
    async def main() -> None:
        gate, most = limiter(4), 0

        async def one() -> None:
            nonlocal most
            async with gate.slot():
                most = max(most, gate.in_flight)
                await asyncio.sleep(1)

        await asyncio.gather(*(one() for _ in range(21)))
        assert (most, gate.in_flight, gate.waiting) == (4, 0, 0)
        assert clock() == 6

    run(main())


def test_first_come_first_served() -> None:
    async def main() -> None:
        gate, order = limiter(3), []

        async def one(number: int) -> None:
            async with gate.slot():
                order.append(number)
                await asyncio.sleep(random.Random(number).random())

        await asyncio.gather(*(one(number) for number in range(50)))
        assert order == list(range(50))

    run(main())


def test_a_slot_is_given_back_after_an_error_and_a_cancellation() -> None:
    async def main() -> None:
        gate = limiter(1)
        await ask(gate, fail=0.0)
        held = asyncio.create_task(ask(gate, 100))
        waiting = [asyncio.create_task(ask(gate, 100)) for _ in range(3)]
        await asyncio.sleep(1)
        for task in (waiting[0], waiting[2], held):
            task.cancel()
        await asyncio.sleep(1)
        assert (gate.in_flight, gate.waiting) == (1, 0)
        waiting[1].cancel()
        await asyncio.sleep(0)
        await ask(gate)
        assert (gate.in_flight, gate.waiting) == (0, 0)

    run(main())


def test_nobody_sends_before_retry_after_and_nobody_returns_in_a_herd() -> None:
    async def main() -> None:
        gate = limiter(64, tolerance=0)
        await ask(gate, 0.5, fail=10.0)
        assert 10.0 <= gate.paused_for <= 11.1
        sent = sorted(await asyncio.gather(*(ask(gate, 0.2) for _ in range(60))))
        assert sent[0] >= 10.5
        assert sent[-1] - sent[0] >= 0.2
        assert max(sum(a <= b < a + 0.01 for b in sent) for a in sent) <= 5

    run(main())


def test_the_end_of_a_pause_is_spread() -> None:
    async def main() -> None:
        early, late = (RateLimiter(now=clock, tolerance=0, jitter=lambda share=share: share) for share in (0.0, 1.0))
        for retry_after, spread in ((4.0, 0.42), (60.0, 1.0)):
            for gate in (early, late):
                gate.rate_limited(retry_after)
            assert early.paused_for == retry_after
            assert late.paused_for == pytest.approx(retry_after + spread)

    run(main())


@pytest.mark.parametrize(("answered_in", "retry_after", "spread"), [(0.2, 2.0, 0.5), (0.2, 0.4, 0.2), (0.2, 60.0, 1.0)])
def test_after_a_pause_as_many_return_one_by_one_as_were_let_in_before(
    answered_in: float, retry_after: float, spread: float
) -> None:
    """Over a quarter of the pause, but no less than the fastest answer takes, and at most a second."""

    async def main() -> None:
        gate = RateLimiter(8, tolerance=0, now=clock, jitter=lambda: 0.0)
        await ask(gate, answered_in)
        gate.rate_limited(retry_after)
        sent = sorted(await asyncio.gather(*(ask(gate, 0.001) for _ in range(10))))
        assert sent[0] == pytest.approx(answered_in + retry_after)
        apart = [later - earlier for earlier, later in itertools.pairwise(sent)]
        assert apart == pytest.approx([spread / 8] * 7 + [0.0] * 2)

    run(main())


def test_good_answers_from_before_a_decrease_do_not_undo_it() -> None:
    async def main() -> None:
        gate = limiter(16, start=8, tolerance=0)
        before = [asyncio.create_task(ask(gate, 1.0)) for _ in range(9)]  # the ninth waits for a slot
        await asyncio.sleep(0.5)
        gate.rate_limited()
        assert gate.limit == 4
        await asyncio.sleep(0.6)
        assert gate.limit == 4
        await asyncio.gather(*before)

    run(main())


def test_a_longer_pause_replaces_a_shorter_one_and_not_the_other_way_round() -> None:
    async def main() -> None:
        gate = limiter(tolerance=0)
        gate.rate_limited(5.0)
        gate.rate_limited(1.0)
        assert gate.paused_for >= 5.0
        gate.rate_limited(20.0)
        assert gate.paused_for >= 20.0

    run(main())


@pytest.mark.parametrize("odd", [None, 0.0, -3.0, float("nan"), 86_400.0])
def test_a_retry_after_that_makes_no_sense_pauses_nobody(odd: float | None) -> None:
    async def main() -> None:
        gate = limiter(tolerance=0)
        gate.rate_limited(odd)
        assert gate.paused_for == 0.0

    run(main())


def test_one_429_among_good_answers_is_no_limit_of_the_account() -> None:
    async def main() -> None:
        gate = limiter(32)
        for number in range(200):
            await ask(gate, 0.01, fail=5.0 if number % 20 == 0 else None)
        assert (gate.limit, gate.paused_for) == (32, 0.0)

    run(main())


@pytest.mark.parametrize(
    ("concurrency", "tolerance", "many"), [(8, 0.3, 10), (8, 0.05, 3), (32, 0.5, 16), (128, 0.3, 39)]
)
def test_an_account_is_limited_when_more_of_its_last_requests_were_put_off_than_it_tolerates(
    concurrency: int, tolerance: float, many: int
) -> None:
    """The last 32, or as many as may be in flight."""

    async def main() -> None:
        gate = limiter(concurrency, tolerance=tolerance)
        for number in range(1, many + 1):
            assert gate.limit == concurrency
            await ask(gate, 0.01)
            await ask(gate, 0.01, fail=0.0)
            assert gate.limit == concurrency / (2 if number == many else 1)

    run(main())


@pytest.mark.parametrize(("concurrency", "many"), [(4, 3), (8, 3), (16, 5), (32, 10)])
def test_each_429_without_a_good_answer_between_counts_once(concurrency: int, many: int) -> None:
    async def main() -> None:
        gate = limiter(concurrency)
        for _ in range(many - 1):
            await ask(gate, 0.01, fail=0.0)
        assert gate.limit == concurrency
        await ask(gate, 0.01, fail=0.0)
        assert gate.limit == concurrency / 2

    run(main())


@pytest.mark.parametrize("concurrency", [1, 4, 32, 128])
def test_an_account_that_answers_nothing_else_is_limited(concurrency: int) -> None:
    async def main() -> None:
        gate = limiter(concurrency)
        await asyncio.gather(*(ask(gate, 0.1, fail=2.0) for _ in range(max(3, concurrency))))
        assert gate.limit == max(1, concurrency / 2)
        assert gate.paused_for > 1.5

    run(main())


def test_headers_that_say_nothing_is_left_confirm_a_429_at_once() -> None:
    async def main() -> None:
        gate = limiter(32)
        gate.observe_headers({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"})
        await asyncio.sleep(5)
        await ask(gate, 0.1, fail=2.0)
        assert gate.limit == 16
        assert gate.paused_for > 1.5

    run(main())


def test_other_failures_change_nothing() -> None:
    async def main() -> None:
        gate = limiter(8, tolerance=0)
        for kind in FailureKind:
            if kind not in (FailureKind.RATE_LIMIT, FailureKind.LATER):
                gate.failed(Failure(kind, "x", 60.0), gate.slot())
        assert (gate.limit, gate.paused_for) == (8, 0.0)

    run(main())


def test_one_decrease_for_each_round_trip() -> None:
    async def main() -> None:
        gate = limiter(64, tolerance=0)
        await asyncio.gather(*(ask(gate, 1 + number / 100, fail=0.0) for number in range(64)))
        assert gate.limit == 32
        await asyncio.gather(*(ask(gate, 1 + number / 100, fail=0.0) for number in range(32)))
        assert gate.limit == 16

    run(main())


def test_growth_only_when_all_slots_are_used() -> None:
    async def main() -> None:
        gate = limiter(64, start=8)
        for _ in range(100):
            await asyncio.gather(*(ask(gate, 0.1) for _ in range(7)))
        assert gate.limit == 8
        await asyncio.gather(*(ask(gate, 0.1) for _ in range(100)))
        assert gate.limit > 16

    run(main())


def test_recovers_after_a_limit_and_never_passes_the_concurrency() -> None:
    async def main() -> None:
        gate = limiter(32, tolerance=0)
        for _ in range(8):
            await ask(gate, 0.1, fail=0.0)
        assert gate.limit == 1
        await asyncio.gather(*(ask(gate, 0.1) for _ in range(1500)))
        assert gate.limit == 32

    run(main())


@pytest.mark.parametrize(("concurrency", "start", "stride"), [(64, 32, 4.0), (8, 4, 1.0)])
def test_growth_is_careful_near_the_place_where_it_last_was_too_much(
    concurrency: int, start: int, stride: float
) -> None:
    """A slot more in a round trip from 0.7 to 1.3 of that limit; a sixteenth of the concurrency below it and above."""

    async def main() -> None:
        gate, steps = limiter(concurrency, start=start, tolerance=0), []

        async def one() -> None:
            async with gate.slot():
                await asyncio.sleep(1)
                before = gate.limit
            steps.append((before, (gate.limit - before) * before))

        await ask(gate, fail=0.0)
        assert gate.limit == start / 2
        await asyncio.gather(*(one() for _ in range(2500)))
        grown = [(limit, step) for limit, step in steps if step and limit < 0.9 * concurrency]
        near = {limit for limit, _ in grown if 0.7 * start <= limit <= 1.3 * start}
        assert min(limit for limit, _ in grown) < min(near) <= 0.75 * start
        assert max(limit for limit, _ in grown) > max(near) >= 1.25 * start
        assert [step for _, step in grown] == pytest.approx([1.0 if limit in near else stride for limit, _ in grown])

    run(main())


@pytest.mark.parametrize(("answered_in", "window"), [(None, 0.25), (0.6, 0.25), (0.2, 0.1), (0.001, 0.02)])
def test_a_request_is_taken_off_what_headers_leave_for_half_the_time_of_the_fastest_answer(
    answered_in: float | None, window: float
) -> None:
    """At least 20 ms and at most 250 ms: then the server has counted it itself."""

    async def sent_at_once(ago: float) -> bool:
        gate = limiter(8)
        if answered_in is not None:
            await ask(gate, answered_in)
            await asyncio.sleep(1)
        under_way = asyncio.create_task(ask(gate, 5))
        await asyncio.sleep(ago)
        gate.observe_headers({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "2"})
        now = clock()
        at_once = await ask(gate) == now
        await under_way
        return at_once

    async def main() -> None:
        assert [await sent_at_once(window * share) for share in (0.95, 1.05)] == [False, True]

    run(main())


def test_an_explicit_rpm_is_an_even_pace() -> None:
    async def main() -> None:
        gate = limiter(128, rpm=600)
        sent = sorted(await asyncio.gather(*(ask(gate, 0.1) for _ in range(110))))
        assert sent[9] == 0.0  # a burst of one second's worth
        assert sent[-1] == pytest.approx(10.0, abs=0.01)
        assert all(b - a == pytest.approx(0.1, abs=1e-3) for a, b in itertools.pairwise(sent[10:]))

    run(main())


def test_an_explicit_tpm_counts_the_worst_case_until_the_truth_is_known() -> None:
    async def main() -> None:
        gate = limiter(128, tpm=60_000)

        async def one(used: int | None) -> float:
            async with gate.slot(1000) as slot:
                if used is not None:
                    slot.used(used)
            return slot.sent

        slow = [await one(None) for _ in range(11)]
        assert slow[-1] - slow[0] == pytest.approx(10, abs=0.01)
        fast = [await one(100) for _ in range(11)]
        assert fast[-1] - fast[0] == pytest.approx(1, abs=0.01)

    run(main())


def test_a_429_belongs_to_the_slot_it_was_sent_in() -> None:
    async def main() -> None:
        gate, slots = limiter(8), []

        async def one(fail: bool) -> None:
            async with gate.slot() as slot:
                slots.append((slot, fail))
                await asyncio.sleep(1)
            if fail:
                gate.failed(Failure(FailureKind.RATE_LIMIT, "x"), slot)

        await asyncio.gather(*(one(number % 3 == 0) for number in range(6)))
        assert all(slot.limited == fail for slot, fail in slots)

    run(main())


def test_wrong_concurrency_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        RateLimiter(0)


def test_without_limits_a_slot_costs_no_time() -> None:
    async def main() -> None:
        gate = RateLimiter(2)
        async with gate.slot() as slot:
            assert isinstance(slot, Slot)
            assert gate.in_flight == 1

    asyncio.run(main())


def test_the_questions_of_an_earlier_item_go_before_those_of_a_later_one() -> None:
    async def main() -> None:
        gate, sent = limiter(1), []

        async def one(place: int, name: str) -> None:
            PLACE.set(PromptTurn(place))
            async with gate.slot():
                sent.append(name)
                await asyncio.sleep(1)

        tasks = [asyncio.create_task(one(place, f"{place}-{n}")) for n in range(2) for place in (0, 3, 1, 2)]
        await asyncio.sleep(0.5)
        tasks[2].cancel()  # 1-0 waits
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sent == ["0-0", "3-0", "0-1", "1-1", "2-0", "2-1", "3-1"]  # 3-0 was at the head when the others came

    run(main())


def test_a_request_that_must_wait_lets_later_ones_pass() -> None:
    async def main() -> None:
        gate, sent, may_go = limiter(1), [], [False]

        async def one(name: str, *condition: Any) -> None:
            async with gate.slot(0, *condition):
                sent.append(name)

        held = asyncio.create_task(one("held", lambda: may_go[0]))
        await asyncio.sleep(1)
        await one("later")
        may_go[0] = True
        await held
        assert sent == ["later", "held"]

    run(main())
