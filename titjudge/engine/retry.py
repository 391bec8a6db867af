"""The one retry loop. Providers only classify a failure; what follows is decided here.

    retry, rate_limit, later   again, after a wait that is never shorter than Retry-After
    refused, rejected          `Unanswered`: this request has no answer
    fatal, barred              `FatalProviderError`: no request has

Faults use up attempts; answers that cannot be used get fewer of them, since each is likely to be billed. Rate limits,
overloaded servers and outages (a server that answered before and cannot be reached now) use up patience, in seconds, since
they say "later" and not "no"; both are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from titjudge.core.errors import FatalProviderError, TitjudgeError, Unanswered
from titjudge.core.types import Failure, FailureKind, Status

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
        unusable: Answers with a status of success that cannot be used, each of which is likely to have been billed.
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
    """One attempt failed in a way that its provider has classified."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class RetryState:
    """The failures of one question so far, and what they mean for the next attempt.

    Args:
        policy: how long to go on.
        sleep, jitter: replaced by tests; `jitter` returns a number from 0 to 1.
    """

    def __init__(
        self,
        policy: Policy = DEFAULT,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.policy, self._sleep, self._jitter = policy, sleep, jitter
        self.faults = self.limited = self.unusable = 0
        self.waited = self.delay = 0.0

    def attempts(self) -> AsyncRetrying:
        """Make the loop: `async for attempt in state.attempts(): with attempt: ...`.

        An attempt says by `AttemptFailed` that it failed; any other exception, and cancellation, ends the loop untouched.
        """
        return AsyncRetrying(
            sleep=self._sleep,
            retry=_IF_MAY_PASS,
            after=self._note,
            wait=lambda state: self.delay,
            stop=lambda state: self._exhausted(_failure_of(state)) is not None,
            before_sleep=self._log,
            reraise=True,
        )

    def terminal_error(self, failure: Failure) -> TitjudgeError:
        """Make the error that ends the question, after the last of its failures."""
        why = self._exhausted(failure) if failure.kind.may_pass else None
        return terminal_error(failure) if why is None else Unanswered(Status.FAILED, why, empty=failure.empty)

    def _note(self, state: RetryCallState) -> None:
        """Count a failure that may pass, and draw the wait that it makes necessary."""
        failure, policy = _failure_of(state), self.policy
        if _says_later(failure):
            self.limited += 1
            # a server that says when needs little jitter at first
            base, times = (policy.base / 5 if failure.retry_after is not None else policy.base), self.limited
        else:
            self.faults += 1
            self.unusable += failure.answered
            base, times = policy.base, self.faults
        most = min(policy.longest, base * 2.0 ** min(times - 1, 60))
        self.delay = max(0.0, failure.retry_after or 0.0) + self._jitter() * most
        if _says_later(failure):
            left = policy.patience - self.waited
            if 0 < left < self.delay:  # a last look when patience ends, not some seconds before it does
                self.delay = max(left, failure.retry_after or 0.0)
            self.waited += self.delay

    def _exhausted(self, failure: Failure) -> str | None:
        """Why a failure that may pass is not followed by another attempt; None where it is."""
        policy, last, attempts = self.policy, f": {failure.message}", self.faults + self.limited
        if (failure.retry_after or 0.0) > policy.patience:
            return f"the server asks to wait {failure.retry_after:.0f} s, longer than the {policy.patience:g} s allowed{last}"
        if self.faults >= policy.attempts or self.unusable >= policy.unusable:
            return f"no answer after {attempts} attempts{last}"
        if self.waited > policy.patience or self.limited >= policy.most_put_off:
            what = "rate limited" if failure.kind is FailureKind.RATE_LIMIT else "overloaded"
            what = "out of reach" if failure.not_sent else what
            return f"still {what} after {attempts} attempts and {policy.patience:g} s allowed for waiting{last}"
        return None

    def _log(self, state: RetryCallState) -> None:
        logger.info(
            "attempt %(attempt)d failed (%(kind)s), the next in %(seconds).2f s: %(failure)s",
            {
                "attempt": state.attempt_number,
                "kind": str(_failure_of(state).kind),
                "seconds": self.delay,
                "failure": _failure_of(state).message,
            },
        )


def terminal_error(failure: Failure) -> TitjudgeError:
    """Make the error that ends a question whose failure is not followed by another attempt."""
    if failure.kind in (FailureKind.FATAL, FailureKind.BARRED):
        return FatalProviderError(failure.message)
    refused = failure.kind is FailureKind.REFUSED
    return Unanswered(Status.REFUSED if refused else Status.FAILED, failure.message, empty=failure.empty)


def _says_later(failure: Failure) -> bool:
    """Whether a failure uses up patience; "overloaded" inside an answer with a status of success may have been billed."""
    return failure.kind is FailureKind.RATE_LIMIT or (failure.kind is FailureKind.LATER and not failure.answered)


def _failure_of(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(error, AttemptFailed)
    return error.failure


_IF_MAY_PASS = retry_if_exception(lambda error: isinstance(error, AttemptFailed) and error.failure.kind.may_pass)
