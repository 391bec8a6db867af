"""What follows a failure: how often, after how long, and how it ends."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrying import call

from titjudge.core.errors import BudgetExhausted, FatalProviderError, Unanswered
from titjudge.core.types import Failure, FailureKind, Status
from titjudge.engine import retry
from titjudge.engine.retry import Policy

RETRY, LIMITED, LATER = FailureKind.RETRY, FailureKind.RATE_LIMIT, FailureKind.LATER


class Broken(Exception):
    def __init__(self, kind: FailureKind, message: str = "boom", retry_after: float | None = None) -> None:
        self.failure = Failure(kind, message, retry_after)


class Script:
    """Attempts that fail as told, then answer; remembers waits and reports."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures, self.sent = list(failures), 0
        self.waits: list[float] = []
        self.reports: list[tuple[FailureKind, int]] = []

    async def send(self) -> str:
        self.sent += 1
        if self.failures:
            raise self.failures.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def call(self, policy: Policy = retry.DEFAULT, jitter: Callable[[], float] = lambda: 1.0) -> str:
        return await call(
            self.send,
            on_failure=lambda failure, attempt: self.reports.append((failure.kind, attempt)),
            policy=policy,
            sleep=self.sleep,
            jitter=jitter,
        )

    def run(self, policy: Policy = retry.DEFAULT, jitter: Callable[[], float] = lambda: 1.0) -> str:
        return asyncio.run(self.call(policy, jitter))


def test_an_answer_needs_one_attempt() -> None:
    script = Script()
    assert script.run() == "answer"
    assert (script.sent, script.waits, script.reports) == (1, [], [])


def test_faults_are_repeated_with_growing_waits() -> None:
    script = Script(*(Broken(RETRY) for _ in range(7)))
    assert script.run(Policy(longest=8)) == "answer"
    assert script.waits == [0.5, 1, 2, 4, 8, 8, 8]
    assert script.reports == [(RETRY, n) for n in range(1, 8)]


def test_faults_end_after_the_last_attempt() -> None:
    script = Script(*(Broken(RETRY, f"boom {n}") for n in range(9)))
    with pytest.raises(Unanswered, match="no answer after 8 attempts: boom 7") as caught:
        script.run()
    assert caught.value.status is Status.FAILED
    assert (script.sent, len(script.waits), len(script.reports)) == (8, 7, 8)


def test_an_answer_that_cannot_be_used_is_asked_for_three_times() -> None:
    empty = Broken(RETRY, "the answer is empty")
    empty.failure = Failure(RETRY, "the answer is empty", answered=True)
    script = Script(Broken(RETRY), *[empty] * 9)
    with pytest.raises(Unanswered, match="no answer after 4 attempts: the answer is empty"):
        script.run()
    assert script.sent == 4


def test_jitter_is_full() -> None:
    script = Script(Broken(RETRY), Broken(RETRY))
    script.run(jitter=lambda: 0.0)
    assert script.waits == [0.0, 0.0]


@pytest.mark.parametrize("kind", [RETRY, LIMITED])
@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_never_before_retry_after_and_not_long_after(kind: FailureKind, jitter: float) -> None:
    script = Script(*[Broken(kind, retry_after=7.0)] * 3)
    script.run(jitter=lambda: jitter)
    most = 0.1 if kind is LIMITED else 0.5
    assert script.waits == pytest.approx([7 + jitter * most * times for times in (1, 2, 4)])


@pytest.mark.parametrize("odd", [0.0, -5.0, float("nan")])
def test_a_retry_after_in_the_past_is_no_wait_and_no_crash(odd: float) -> None:
    script = Script(Broken(LIMITED, retry_after=odd))
    assert script.run() == "answer"
    assert 0 <= script.waits[0] <= 0.5


def test_rate_limits_do_not_use_up_attempts() -> None:
    script = Script(*(Broken(LIMITED, retry_after=1.0) for _ in range(20)), *(Broken(RETRY) for _ in range(7)))
    assert script.run(jitter=lambda: 0.0) == "answer"
    assert script.sent == 28


def test_rate_limits_end_with_patience() -> None:
    script = Script(*(Broken(LIMITED, "slow down", retry_after=10.0) for _ in range(200)))
    with pytest.raises(Unanswered, match=r"still rate limited after 10 attempts and 95 s .*: slow down"):
        script.run(Policy(patience=95), jitter=lambda: 0.0)
    assert sum(script.waits) <= 95


def test_a_question_waits_out_exactly_the_patience_it_is_given() -> None:
    script = Script(*(Broken(LATER, "overloaded") for _ in range(200)))
    with pytest.raises(Unanswered, match=r"still overloaded after \d+ attempts and 100 s .*: overloaded"):
        script.run(Policy(patience=100))
    assert sum(script.waits) == 100


@pytest.mark.parametrize("patience", [600, 8 * 3600])
def test_waits_of_chance_do_not_use_up_the_times_a_question_may_be_put_off(patience: float) -> None:
    script, chance = Script(*(Broken(LATER) for _ in range(5000))), random.Random(3)
    with pytest.raises(Unanswered, match="still overloaded"):
        script.run(Policy(patience=patience), jitter=chance.random)
    assert sum(script.waits) == pytest.approx(patience)


def test_overloaded_inside_an_answer_that_may_be_billed_is_no_reason_to_wait_for_long() -> None:
    answered = Broken(LATER, "overloaded")
    answered.failure = Failure(LATER, "overloaded", answered=True)
    script = Script(*[answered] * 9)
    with pytest.raises(Unanswered, match="no answer after 3 attempts: overloaded"):
        script.run()


def test_rate_limits_without_any_wait_are_bounded_too() -> None:
    script = Script(*(Broken(LIMITED, retry_after=0.0) for _ in range(200)))
    with pytest.raises(Unanswered, match="still rate limited"):
        script.run(Policy(limited=30), jitter=lambda: 0.0)
    assert script.sent == 30


def test_a_long_retry_after_within_patience_is_sat_out() -> None:
    script = Script(Broken(LIMITED, retry_after=500.0))
    assert script.run(jitter=lambda: 0.0) == "answer"
    assert script.waits == [500.0]


@pytest.mark.parametrize("kind", [RETRY, LIMITED])
def test_an_absurd_retry_after_fails_at_once_and_says_why(kind: FailureKind) -> None:
    script = Script(Broken(kind, "busy", retry_after=3600.0))
    with pytest.raises(Unanswered, match="asks to wait 3600 s, longer than the 600 s allowed: busy"):
        script.run()
    assert (script.sent, script.waits) == (1, [])


@pytest.mark.parametrize(
    ("kind", "status"), [(FailureKind.REFUSED, Status.REFUSED), (FailureKind.REJECTED, Status.FAILED)]
)
def test_refused_and_rejected_are_not_repeated(kind: FailureKind, status: Status) -> None:
    script = Script(Broken(kind, "content filter"))
    with pytest.raises(Unanswered, match="content filter") as caught:
        script.run()
    assert (caught.value.status, script.sent, script.reports) == (status, 1, [(kind, 1)])
    assert isinstance(caught.value.__cause__, Broken)


def test_fatal_stops_everything() -> None:
    script = Script(Broken(RETRY), Broken(FailureKind.FATAL, "wrong key"))
    with pytest.raises(FatalProviderError, match="wrong key"):
        script.run()
    assert script.sent == 2


@pytest.mark.parametrize("own", [BudgetExhausted("cap"), Unanswered(Status.UNPARSED, "x"), FatalProviderError("y")])
def test_our_own_errors_pass_through(own: Exception) -> None:
    script = Script(own)
    with pytest.raises(type(own)) as caught:
        script.run()
    assert caught.value is own
    assert (script.sent, script.reports) == (1, [])


def test_cancellation_passes_through_a_request_and_a_wait() -> None:
    async def hang(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    async def cancelled(send: Callable[[], Awaitable[str]], sleep: Callable[[float], Awaitable[object]]) -> None:
        reports: list[Failure] = []
        task = asyncio.create_task(call(send, on_failure=lambda failure, _: reports.append(failure), sleep=sleep))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(failure.kind is RETRY for failure in reports)

    asyncio.run(cancelled(hang, hang))
    asyncio.run(cancelled(Script(Broken(RETRY)).send, hang))


@pytest.mark.parametrize(
    ("kind", "error"), [(RETRY, Unanswered), (FailureKind.REFUSED, Unanswered), (FailureKind.FATAL, FatalProviderError)]
)
def test_giving_up_raises_what_the_loop_would(kind: FailureKind, error: type[Exception]) -> None:
    assert isinstance(retry.terminal_error(Failure(kind, "why")), error)


_FAULT = st.one_of(
    st.just(Broken(RETRY)),
    st.builds(lambda seconds: Broken(LIMITED, retry_after=seconds), st.one_of(st.none(), st.floats(0, 700))),
    st.builds(lambda seconds: Broken(RETRY, retry_after=seconds), st.floats(0, 700)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_FAULT, max_size=40), st.floats(0, 1))
def test_counts_and_waits_stay_within_the_policy(faults: list[Broken], jitter: float) -> None:
    script, policy = Script(*faults), Policy(attempts=5, patience=300, limited=20)
    try:
        answered = script.run(policy, lambda: jitter) == "answer"
    except Unanswered:
        answered = False
    met = faults[: script.sent]
    assert len(script.reports) == script.sent - answered
    assert len(script.waits) == script.sent - 1
    assert sum(each.failure.kind is RETRY for each in met) <= 5
    limited = [n for n, each in enumerate(met) if each.failure.kind is LIMITED]
    assert len(limited) <= 20
    assert sum(script.waits[n] for n in limited if n < len(script.waits)) <= 300
    for wait, each in zip(script.waits, met, strict=False):
        assert wait >= (each.failure.retry_after or 0.0)
