"""The one retry loop. Providers only classify a failure; this module decides what happens next.

    retry, rate_limit, later   again, after a wait that is never shorter than Retry-After
    refused, rejected          `Unanswered`: this request has no answer
    unusable                   `Unanswered` with what came, which is kept: asking again would be paid again
    fatal, barred              `FatalProviderError`: no request has

Faults use up attempts; answers that a server broke off get fewer of them, since each is likely to be billed. Rate limits,
overloaded servers and outages (a server that answered before and cannot be reached now) use up patience, in seconds,
since they mean "later" and not "no"; both are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from titjudge.core.errors import FatalProviderError, TitjudgeError, Unanswered
from titjudge.core.types import Failure, FailureKind, Status

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to go on.

    Attributes:
        attempts: Requests that may fail by a fault.
        patience: Seconds of waiting in all that rate limits, overloaded servers and outages may cost one question, and the
            longest Retry-After that is sat out.
        base, longest: Seconds; before repetition n of a fault the wait is drawn from 0 to min(longest, base x 2^(n-1))
            (exponential backoff, full jitter), on top of any Retry-After.
        limited: How often one question may be put off, however short the waits; None for as often as `patience` allows.
        unusable: Answers with a status of success that were broken off, each of which is likely to have been billed.
    """

    attempts: int = 8
    patience: float = 600.0
    base: float = 0.5
    longest: float = 30.0
    limited: int | None = None
    unusable: int = 3

    @property
    def most_put_off(self) -> int:
        """How often one question may be put off. The mean wait is 15 s in the end: patience runs out first."""
        return max(100, int(self.patience / 6)) if self.limited is None else self.limited


DEFAULT = Policy()


class AttemptFailed(Exception):
    """One attempt failed, and another may get an answer."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def retrying(
    policy: Policy = DEFAULT,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
) -> AsyncRetrying:
    """Make tenacity's loop for one question, used as its manual shows: `async for attempt in ...: with attempt: ...`.

    An attempt that raises `AttemptFailed` is followed by another, or, when the policy allows no more, by `Unanswered`. Any
    other exception, and cancellation, ends the loop untouched.

    Args:
        policy: How long to go on.
        sleep: Waits the given seconds; replaced by tests.
        jitter: Returns a number from 0 to 1; replaced by tests.
    """
    from tenacity import AsyncRetrying, retry_if_exception_type

    failures = _Failures(policy, jitter)
    return AsyncRetrying(
        retry=retry_if_exception_type(AttemptFailed),
        after=failures.count,
        wait=failures.wait,
        stop=failures.stop,
        before_sleep=_log,
        retry_error_callback=failures.give_up,
        sleep=sleep,
    )


class _Failures:
    """The failures of one question so far, and their effect on the next attempt: tenacity's strategies."""

    def __init__(self, policy: Policy, jitter: Callable[[], float]) -> None:
        self.policy, self._jitter = policy, jitter
        self.faults = self.put_off = self.unusable = 0
        self.waited = 0.0  # seconds of patience that are used up

    def count(self, state: RetryCallState) -> None:
        """Count the last failure."""
        failure = _last(state).failure
        if _says_later(failure):
            self.put_off += 1
        else:
            self.faults += 1
            self.unusable += failure.answered

    def wait(self, state: RetryCallState) -> float:
        """Draw the wait before the next attempt, in seconds; tenacity asks once after each failure."""
        failure, policy = _last(state).failure, self.policy
        retry_after = max(0.0, failure.retry_after or 0.0)
        if not _says_later(failure):
            return retry_after + self._backoff(policy.base, self.faults)
        # If the server names a time, little jitter is needed on top of it at first.
        base = policy.base if failure.retry_after is None else policy.base / 5
        seconds = retry_after + self._backoff(base, self.put_off)
        patience_left = policy.patience - self.waited
        if 0 < patience_left < seconds:  # the last attempt is made when patience ends, not some seconds before
            seconds = max(patience_left, retry_after)
        self.waited += seconds
        return seconds

    def _backoff(self, base: float, times: int) -> float:
        """Draw seconds between 0 and a bound that doubles each time ("full jitter"): requests that failed together separate."""
        return self._jitter() * min(self.policy.longest, base * 2.0 ** min(times - 1, 60))

    def stop(self, state: RetryCallState) -> bool:
        """Whether the last failure is not followed by another attempt."""
        return self._exhausted(_last(state).failure) is not None

    def give_up(self, state: RetryCallState) -> NoReturn:
        """End the question.

        Raises:
            Unanswered: The limit that was reached, and the last failure.
        """
        error = _last(state)
        why = self._exhausted(error.failure) or error.failure.message
        raise _unanswered(error.failure, why) from error.__cause__

    def _exhausted(self, failure: Failure) -> str | None:
        """Return why no further attempt may follow a failure, in words; None if one may."""
        policy, last, attempts = self.policy, f": {failure.message}", self.faults + self.put_off
        if (failure.retry_after or 0.0) > policy.patience:
            return f"the server asks to wait {failure.retry_after:.0f} s, longer than the {policy.patience:g} s allowed{last}"
        if self.faults >= policy.attempts or self.unusable >= policy.unusable:
            return f"no answer after {attempts} attempts{last}"
        if self.waited > policy.patience or self.put_off >= policy.most_put_off:
            condition = "rate limited" if failure.kind is FailureKind.RATE_LIMIT else "overloaded"
            condition = "out of reach" if failure.not_sent else condition
            return f"still {condition} after {attempts} attempts and {policy.patience:g} s allowed for waiting{last}"
        return None


def _log(state: RetryCallState) -> None:
    failure = _last(state).failure
    logger.info(
        "attempt %(attempt)d failed (%(kind)s), the next in %(seconds).2f s: %(failure)s",
        {
            "attempt": state.attempt_number,
            "kind": str(failure.kind),
            "seconds": state.upcoming_sleep,
            "failure": failure.message,
        },
    )


def _last(state: RetryCallState) -> AttemptFailed:
    error = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(error, AttemptFailed)
    return error


def terminal_error(failure: Failure) -> TitjudgeError:
    """Make the error that ends a question whose failure is not followed by another attempt."""
    if failure.kind in (FailureKind.FATAL, FailureKind.BARRED):
        return FatalProviderError(failure.message)
    return _unanswered(failure, failure.message)


def _unanswered(failure: Failure, why: str) -> Unanswered:
    status = Status.REFUSED if failure.kind is FailureKind.REFUSED else Status.FAILED
    if failure.reply is not None:
        status = Status.UNPARSED
    reply = failure.reply and replace(failure.reply, reason=why)
    return Unanswered(status, why, reply, cause=failure.cause)


def _says_later(failure: Failure) -> bool:
    """Whether a failure uses up patience; "overloaded" inside an answer with a status of success may have been billed."""
    return failure.kind is FailureKind.RATE_LIMIT or (failure.kind is FailureKind.LATER and not failure.answered)
