"""Limiter and retry loop together against a server that limits, in virtual time."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrying import call
from virtual_time import clock, run_virtual

from titjudge.core.errors import Unanswered
from titjudge.core.types import Failure, FailureKind
from titjudge.engine.rate_limiter import RateLimiter, Slot

pytestmark = pytest.mark.slow  # many in all, each of them short


class Refused(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


@dataclass
class Server:
    """A token bucket of requests, as hosted providers keep it; `faults` 429s are drawn by chance besides."""

    chance: random.Random
    rpm: float = 0.0
    burst: float = 5.0
    latency: float = 0.2
    faults: float = 0.0
    capacity: int = 10**9
    headers: bool = True
    retry_after: float = 1.0
    level: float = 0.0
    at: float = 0.0
    in_flight: int = 0
    most: int = 0
    early: int = 0
    refused: int = 0
    good: list[float] = field(default_factory=list)
    not_before: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.level = self.rpm / 60 * self.burst

    def fill(self) -> None:
        top = max(1.0, self.rpm / 60 * self.burst)
        self.level = min(top, self.level + (clock() - self.at) * self.rpm / 60)
        self.at = clock()

    def told(self) -> dict[str, str]:
        if not (self.headers and self.rpm):
            return {}
        self.fill()
        reset = (max(1.0, self.rpm / 60 * self.burst) - self.level) * 60 / self.rpm
        return {
            "x-ratelimit-limit-requests": f"{self.rpm:.0f}",
            "x-ratelimit-remaining-requests": str(max(0, int(self.level))),
            "x-ratelimit-reset-requests": f"{reset:.3f}s",
        }

    def refuse(self, number: int, wait: float) -> Refused:
        self.refused += 1
        self.not_before[number] = clock() + wait
        return Refused(Failure(FailureKind.RATE_LIMIT, "slow down", wait))

    async def answer(self, number: int, gate: RateLimiter) -> None:
        await asyncio.sleep(self.chance.uniform(0.001, 0.02))  # the way there
        self.early += clock() < self.not_before.get(number, 0.0)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self.in_flight > self.capacity:
                raise self.refuse(number, self.retry_after)
            if self.rpm:
                self.fill()
                if self.level < 1:
                    raise self.refuse(number, (1 - self.level) * 60 / self.rpm)
                self.level -= 1
            if self.chance.random() < self.faults:
                raise self.refuse(number, self.retry_after)
            await asyncio.sleep(self.latency)
            self.good.append(clock())
        finally:
            self.in_flight -= 1
            told = self.told()
            await asyncio.sleep(self.chance.uniform(0.001, 0.02))  # the way back
            gate.observe_headers(told)


async def load(server: Server, gate: RateLimiter, requests: int) -> tuple[int, float]:
    """Every request through the retry loop; returns how many got no answer, and the seconds it took."""

    async def one(number: int) -> bool:
        slots: list[Slot] = []

        async def send() -> bool:
            slots.append(gate.slot())
            async with slots[-1]:
                await server.answer(number, gate)
            return True

        try:
            return await call(
                send, on_failure=lambda failure, _: gate.failed(failure, slots[-1]), jitter=server.chance.random
            )
        except Unanswered:
            return False

    answers = await asyncio.gather(*(one(number) for number in range(requests)))
    return answers.count(False), clock()


def play(server: Server, requests: int, concurrency: int, **options: float) -> tuple[int, float, RateLimiter]:
    async def main() -> tuple[int, float, RateLimiter]:
        gate = RateLimiter(concurrency, now=clock, jitter=server.chance.random, **options)  # type: ignore[arg-type]
        return *await load(server, gate, requests), gate

    return run_virtual(main())


def own_time(server: Server, requests: int) -> float:
    """Seconds the limit itself takes for so many requests."""
    return (requests - server.rpm / 60 * server.burst) / (server.rpm / 60)


@pytest.mark.parametrize("seed", range(3))
def test_three_thousand_a_minute_at_128_in_flight(seed: int) -> None:
    server = Server(random.Random(seed), rpm=3000)
    lost, seconds, _ = play(server, 1000, 128)
    assert (lost, server.early) == (0, 0)
    assert seconds <= 1.10 * own_time(server, 1000)
    assert server.refused == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_small_bucket_met_by_many(seed: int) -> None:
    server = Server(random.Random(seed), rpm=3000, burst=1.0)
    lost, seconds, _ = play(server, 1000, 128)
    assert (lost, server.early) == (0, 0)
    assert seconds <= 1.15 * own_time(server, 1000)


@pytest.mark.parametrize("seed", range(3))
def test_a_limit_that_no_header_tells(seed: int) -> None:
    server = Server(random.Random(seed), rpm=1200, headers=False)
    lost, seconds, _ = play(server, 500, 64)
    assert (lost, server.early) == (0, 0)
    assert seconds <= 2.5 * own_time(server, 500)


@pytest.mark.parametrize("seed", range(3))
def test_a_few_429s_by_chance_do_not_hold_up_the_others(seed: int) -> None:
    server = Server(random.Random(seed), faults=0.05)
    lost, seconds, gate = play(server, 1000, 32)
    assert (lost, server.early, gate.limit) == (0, 0, 32)
    assert seconds <= 1.45 * 1000 * (server.latency + 0.021) / 32  # with the mean way there and back


@pytest.mark.parametrize("seed", range(3))
def test_a_server_with_few_places_is_found_out(seed: int) -> None:
    server = Server(random.Random(seed), capacity=10)
    lost, seconds, gate = play(server, 600, 64)
    assert (lost, server.early) == (0, 0)
    assert gate.limit < 64
    assert len(server.good) == 600
    assert seconds < 6 * 600 * 0.2 / 10


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rpm=st.sampled_from([0, 60, 600, 3000, 20_000]),
    burst=st.sampled_from([0.1, 1.0, 5.0, 60.0]),
    faults=st.sampled_from([0.0, 0.05, 0.3]),
    capacity=st.sampled_from([1, 10, 10**9]),
    concurrency=st.sampled_from([1, 7, 64, 128]),
    headers=st.booleans(),
    latency=st.sampled_from([0.0, 0.2, 5.0]),
)
def test_nothing_is_lost_and_nobody_comes_back_early(
    seed: int, rpm: int, burst: float, faults: float, capacity: int, concurrency: int, headers: bool, latency: float
) -> None:
    server = Server(
        random.Random(seed), rpm=rpm, burst=burst, faults=faults, capacity=capacity, headers=headers, latency=latency
    )
    lost, _, gate = play(server, 60, concurrency)
    assert (lost, server.early, len(server.good)) == (0, 0, 60)
    assert server.most <= concurrency
    assert (gate.in_flight, gate.waiting) == (0, 0)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), waits=st.lists(st.floats(0.01, 30), min_size=1, max_size=10))
def test_strictly_nobody_sends_while_the_account_is_paused(seed: int, waits: list[float]) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        gate = RateLimiter(16, tolerance=0, now=clock, jitter=chance.random)
        pauses: list[tuple[float, float]] = []
        sent: list[float] = []

        async def server_says_wait() -> None:
            for wait in waits:
                await asyncio.sleep(chance.uniform(0, 20))
                pauses.append((clock(), clock() + wait))
                gate.rate_limited(wait)

        async def one() -> None:
            async with gate.slot() as slot:
                sent.append(slot.sent)
                await asyncio.sleep(chance.uniform(0.1, 2))

        await asyncio.gather(server_says_wait(), *(one() for _ in range(100)))
        assert len(sent) == 100
        assert not any(start < moment < end for moment in sent for start, end in pauses)

    run_virtual(main())
