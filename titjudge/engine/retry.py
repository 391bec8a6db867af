"""The one retry loop. Providers only classify a failure; what follows is decided here.

    retry, rate_limit   again, after a wait that is never shorter than Retry-After
    refused, rejected   `Unanswered`: this request has no answer
    fatal, barred       `FatalProviderError`: no request has

Faults use up attempts; answers that cannot be used get fewer of them, since each is likely to be billed. Rate limits and
outages (a server that answered before and is gone) use up patience, in seconds, since they say "later" and not "no"; both
are bounded.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from titjudge.core.errors import FatalProviderError, TitjudgeError, Unanswered
from titjudge.core.types import Failure, FailureKind, Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to go on.

    `attempts`: requests that may fail by a fault. `base`, `longest`: seconds; before repetition n of a fault the wait
    is drawn from 0 to min(longest, base x 2^(n-1)) (exponential backoff, full jitter), on top of any Retry-After.
    `patience`: seconds of waiting in all that rate limits and outages may cost one question, and the longest Retry-After
    that is sat out. `limited`: answers 429, and refused connections, that one question may get. `unusable`: answers with
    a status of success that cannot be used, each of which is likely to have been billed.
    """

    attempts: int = 8
    base: float = 0.5
    longest: float = 30.0
    patience: float = 600.0
    limited: int = 100
    unusable: int = 3


DEFAULT = Policy()


class _Again(Exception):
    """This failure may be followed by another attempt."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class RetryState:
    """What one question has been through, as tenacity's `wait`, `stop` and `retry_error_callback`."""

    def __init__(self, policy: Policy, jitter: Callable[[], float]) -> None:
        self.policy, self._jitter = policy, jitter
        self.faults = self.limited = self.unusable = 0
        self.waited = 0.0

    @property
    def attempts(self) -> int:
        return self.faults + self.limited

    def note(self, failure: Failure) -> None:
        if _later(failure):
            self.limited += 1
        else:
            self.faults += 1
            self.unusable += failure.answered

    def wait(self, state: RetryCallState) -> float:
        """Seconds before the next attempt."""
        failure, policy = _failure(state), self.policy
        asked = max(0.0, failure.retry_after or 0.0)
        if _later(failure):
            # a server that says when needs little jitter at first
            base, times = (policy.base / 5 if failure.retry_after is not None else policy.base), self.limited
        else:
            base, times = policy.base, self.faults
        seconds = asked + self._jitter() * min(policy.longest, base * 2.0 ** min(times - 1, 60))
        if _later(failure):
            self.waited += seconds
        return seconds

    def stop(self, state: RetryCallState) -> bool:
        """Asked after `wait`."""
        return self._end(_failure(state)) is not None

    def _end(self, failure: Failure) -> str | None:
        """Why there is no other attempt, or None if there is one."""
        policy, last = self.policy, f": {failure.message}"
        if (failure.retry_after or 0.0) > policy.patience:
            return f"the server asks to wait {failure.retry_after:.0f} s, longer than the {policy.patience:g} s allowed{last}"
        if self.faults >= policy.attempts or self.unusable >= policy.unusable:
            return f"no answer after {self.attempts} attempts{last}"
        if self.waited > policy.patience or self.limited >= policy.limited:
            what = "out of reach" if failure.outage else "rate limited"
            return f"still {what} after {self.attempts} attempts and {policy.patience:g} s allowed for waiting{last}"
        return None

    def give_up(self, state: RetryCallState) -> NoReturn:
        raise Unanswered(Status.FAILED, self._end(_failure(state)) or "no answer")


def _later(failure: Failure) -> bool:
    return failure.kind is FailureKind.RATE_LIMIT or failure.outage


def _failure(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(error, _Again)
    return error.failure


async def call(
    send: Callable[[], Awaitable[T]],
    classify: Callable[[Exception], Failure],
    *,
    on_failure: Callable[[Failure, int], None] | None = None,
    policy: Policy = DEFAULT,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
) -> T:
    """Call `send` until it returns, or until there is no point.

    Args:
        send: one attempt. Our own errors (`TitjudgeError`) and cancellation pass through untouched.
        classify: what kind of failure any other exception is.
        on_failure: told of every failure, the last one included, with the number of the attempt (from 1).
        sleep, jitter: replaced by tests; `jitter` returns a number from 0 to 1.

    Raises:
        Unanswered: refused (status refused), rejected, or still failing (status failed; the reason has the last error).
        FatalProviderError: asking on is pointless.
    """
    course = RetryState(policy, jitter)

    async def attempt() -> T:
        try:
            return await send()
        except TitjudgeError:
            raise
        except Exception as error:
            failure = classify(error)
            course.note(failure)
            if on_failure is not None:
                on_failure(failure, course.attempts)
            if failure.kind in (FailureKind.RETRY, FailureKind.RATE_LIMIT):
                raise _Again(failure) from error
            raise _ending(failure) from error

    try:
        return await attempt()  # most questions need no more, and tenacity costs more CPU than the rest of a request
    except _Again as error:
        first: list[_Again] = [error]

    async def repetition() -> T:
        if first:
            raise first.pop()
        return await attempt()

    retrying = AsyncRetrying(
        sleep=sleep,
        wait=course.wait,
        stop=course.stop,
        retry=retry_if_exception_type(_Again),
        retry_error_callback=course.give_up,
    )
    return await retrying(repetition)


def _ending(failure: Failure) -> TitjudgeError:
    if failure.kind in (FailureKind.FATAL, FailureKind.BARRED):
        return FatalProviderError(failure.message)
    refused = failure.kind is FailureKind.REFUSED
    return Unanswered(Status.REFUSED if refused else Status.FAILED, failure.message)


async def give_up(failure: Failure) -> NoReturn:
    """End a question after one failure, for what is never repeated (models in this process).

    Raises:
        Unanswered or FatalProviderError, as `call` would.
    """
    raise _ending(failure)
