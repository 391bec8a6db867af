"""The request rate of one provider account: slots, pauses, and the limits in the headers of its answers.

    concurrency   additive increase, multiplicative decrease (as TCP does): up only while all slots are in use, down when
                  the account is limited or the server overloaded, at most once a round trip
    Retry-After   nothing is sent before it is over; then waiting requests go out at a pace, not all at once
    pace          token buckets: an explicit rpm or tpm, and the limits read from the headers of every answer

A single 429 among many good answers concerns one request (it waits, see `retry`), not the account. The account is treated
as limited in three cases: many of the last requests got a 429, nothing else comes back, or the headers report that
nothing is left. With `tolerance=0` every 429 makes it count so.

Of the waiting requests the one of the earliest item is sent first (`PLACE`); one event loop, no threads. A request
occupies a slot while it is on its way and not while it backs off: enter `slot` once for each attempt.

Token buckets for a rate that the user sets, or that is read from the headers of a provider's answers.

The bucket of a server copies the server's bucket: every answer reports its level. Between answers it is refilled at the
server's rate, and drained by each request sent, also by requests that the server has not counted yet.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import math
import random
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

from titjudge.core.errors import must_be
from titjudge.core.numbers import finite
from titjudge.core.types import Failure, FailureKind

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_LONGEST_RESET = 2 * 86400.0  # a larger "reset" is a point in time, not a span
_PROBE = 60.0  # seconds after which one request goes out whatever the headers reported
_SILENT = 3  # answers in a row without limits in their headers after which a limit is forgotten
_STALE = 10.0  # seconds without a limit in headers after which the next answer without one is enough
_HEADROOM = 0.1  # seconds of refill that stay in a server's bucket, as requests travel at different speeds
_EPSILON = 1e-9

_NAMES = {
    "requests": (
        ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
        (
            "anthropic-ratelimit-requests-limit",
            "anthropic-ratelimit-requests-remaining",
            "anthropic-ratelimit-requests-reset",
        ),
        ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
    ),
    "tokens": (
        ("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
        (
            "anthropic-ratelimit-tokens-limit",
            "anthropic-ratelimit-tokens-remaining",
            "anthropic-ratelimit-tokens-reset",
        ),
    ),
}
"""limit, remaining, reset. Anthropic's reset is a point in time by its clock, which is in its `Date` header."""


@dataclass(frozen=True, slots=True)
class HeaderLimit:
    """One limit as a header states it.

    Attributes:
        limit: Requests or tokens of a window of time.
        remaining: The rest of it.
        reset: Seconds until all of it is back; None if the header does not give it.
    """

    limit: float
    remaining: float
    reset: float | None = None


def read_limits(headers: Mapping[str, str]) -> dict[str, HeaderLimit]:
    """Read the limits in an answer's headers, by `requests` and `tokens`; unreadable values are skipped."""
    limit_headers = {name.lower(): value for name, value in headers.items() if "ratelimit" in name.lower()}
    if not limit_headers:
        return {}
    now = next((value for name, value in headers.items() if name.lower() == "date"), "")
    limits: dict[str, HeaderLimit] = {}
    for kind, spellings in _NAMES.items():
        for limit_name, remaining_name, reset_name in spellings:
            limit, remaining = _number(limit_headers.get(limit_name)), _number(limit_headers.get(remaining_name))
            if limit and remaining is not None:
                reset = limit_headers.get(reset_name)
                seconds = seconds_of(reset)
                limits[kind] = HeaderLimit(
                    limit, min(remaining, limit), _until(reset, now) if seconds is None else seconds
                )
                break
    return limits


def seconds_of(text: str | None) -> float | None:
    """Seconds of "1s", "6m0s", "12ms", "1h2m3.5s" or a plain number; None for anything else."""
    text = (text or "").strip().lower()
    seconds = _number(text)
    if seconds is None:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            return None
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return seconds if seconds <= _LONGEST_RESET else None


def _until(when: str | None, now: str) -> float | None:
    """Seconds to a point in time (RFC 3339) since `now`, a Date header; 0 for the past; None if either is unreadable."""
    try:
        moment = datetime.fromisoformat((when or "").strip().upper().replace("Z", "+00:00"))
        seconds = (moment - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, seconds) if seconds <= _LONGEST_RESET else None


def _number(text: str | None) -> float | None:
    """Read a finite number of 0 or more; of a list ("100, 100;w=60") the first."""
    value = finite(re.split(r"[,;]", text or "", maxsplit=1)[0])
    return value if value is not None and value >= 0 else None


class TokenBucket:
    """A bucket that refills at `rate` a second up to `capacity`; its level may go below 0 (a debt is paid off first).

    Args:
        now: Seconds.
        tokens: Counts tokens, not requests.
        rate, capacity: None until headers give them; nothing waits before.
    """

    __slots__ = (
        "_filled_at",
        "_header_at",
        "_level",
        "_probe",
        "_remaining",
        "_without_header",
        "capacity",
        "margin",
        "rate",
        "tokens",
    )

    def __init__(
        self, *, now: float, tokens: bool = False, rate: float | None = None, capacity: float | None = None
    ) -> None:
        self.tokens, self.rate, self.capacity = tokens, rate or 0.0, math.inf if capacity is None else capacity
        self.margin = 0.0
        self._filled_at, self._level = now, self.capacity
        self._probe, self._remaining = math.inf, math.inf
        self._header_at, self._without_header = now, 0

    @classmethod
    def explicit(cls, per_minute: float, now: float, *, tokens: bool = False) -> Self:
        """Make a bucket for a rate a minute that is spent evenly, with a burst of one second's worth (but at least one)."""
        rate = per_minute / 60
        return cls(now=now, tokens=tokens, rate=rate, capacity=max(1.0, rate))

    def delay(self, need: float, now: float) -> float:
        """Seconds until `need` may be taken; when the bucket is full, a need above its capacity may be taken too."""
        self._fill(now)
        lack = min(need + self.margin, self.capacity) - self._level
        if lack <= _EPSILON:
            return 0.0
        wait = lack / self.rate if self.rate > 0 else math.inf
        return max(0.0, min(wait, self._probe - now))

    def take(self, need: float, now: float) -> None:
        self._fill(now)
        self._level -= need
        if self._probe < math.inf:
            self._probe = now + _PROBE

    def give_back(self, surplus: float) -> None:
        self._level = min(self.capacity, self._level + surplus)

    def short(self, need: float) -> bool:
        """Whether the last headers reported that less than `need` is left."""
        return self._remaining < need

    def observe(self, header: HeaderLimit, in_transit: float, now: float) -> None:
        """Follow the server's bucket.

        Args:
            header: The limit in an answer's headers.
            in_transit: The amount sent so recently that the server may not have
                counted it when it wrote them.
            now: Seconds of the monotonic clock.
        """
        self._fill(now)
        first = self._probe == math.inf
        self.rate = _rate(header)
        self.capacity = (
            header.limit if header.reset is None else min(header.limit, header.remaining + header.reset * self.rate)
        )
        self.capacity = max(1.0, self.capacity)
        self.margin = min(_HEADROOM * self.rate, 0.1 * self.capacity)
        self._probe, self._remaining = now + _PROBE, header.remaining
        self._header_at, self._without_header = now, 0
        low, high = header.remaining - in_transit, header.remaining + 0.999  # remaining is rounded down
        self._level = low if first else min(max(self._level, low), high)

    def passed_over(self, now: float) -> bool:
        """Count an answer whose headers name no limit; returns whether the limit read before is out of date."""
        self._without_header += 1
        return self._without_header >= _SILENT or now - self._header_at > _STALE

    def _fill(self, now: float) -> None:
        self._level = min(self.capacity, self._level + self.rate * max(0.0, now - self._filled_at))
        self._filled_at = max(self._filled_at, now)


def _rate(header: HeaderLimit) -> float:
    """Compute the refill a second. A limit is per minute unless `reset` shows a longer window (Groq's is a day)."""
    rate = header.limit / 60
    if (
        header.reset
        and header.remaining < header.limit
        and header.remaining + header.reset * rate > 1.05 * header.limit + 1
    ):
        return (header.limit - header.remaining) / header.reset
    return rate


logger = logging.getLogger(__name__)

_POLL_INTERVAL = 0.05  # seconds between looks of the next request, as an answer's headers may end its wait
_MIN_SLEEP = 1e-6  # shorter waits, in seconds, are skipped
_WINDOW = 32  # the number of last requests that decide whether the account is limited; more where more are in flight
_LONGEST_TRANSIT = 0.25  # seconds after which a request that was sent has surely been counted by the server


@dataclass(slots=True)
class PromptTurn:
    """Place of a prompt in the run.

    Attributes:
        number: Requests of smaller numbers are sent first, so that a stopped run has whole prompts.
        begun: Whether a request about an image of this prompt was sent.
    """

    number: int
    begun: bool = False


PLACE: ContextVar[PromptTurn | None] = ContextVar("place", default=None)
"""Place of the prompt that a request is about; None for a request about none, which is sent first."""


class _Turn:
    """A lock that the waiting request of the earliest item gets first, and of one item the one that came first."""

    def __init__(self) -> None:
        self._taken, self._number = False, itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def __aenter__(self) -> None:
        if not self._taken:
            self._taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = PLACE.get()
        heapq.heappush(self._waiting, (place.number if place else 0, next(self._number), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                return turn.set_result(None)
        self._taken = False


class RateLimiter:
    """Limits how many requests, and how fast, are sent to one provider account.

    Args:
        concurrency: Maximum number of requests in flight.
        rpm, tpm: Requests and tokens a minute that are never passed, beyond a burst of one second's worth.
        start: Requests in flight at first (default `concurrency`).
        tolerance: Share of the last requests (0 to 1) that may get a 429 before the account counts as limited.
        longest_pause: Seconds; a Retry-After beyond it is not waited for by the whole account.
        account: Its name in the log.
        now, sleep, jitter: Replaced by tests; `now` in seconds, `jitter` returns a number from 0 to 1.
    """

    def __init__(
        self,
        concurrency: int = 32,
        rpm: float | None = None,
        tpm: float | None = None,
        *,
        start: int | None = None,
        tolerance: float = 0.3,
        longest_pause: float = 600.0,
        account: str = "",
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if concurrency < 1:
            raise ValueError(must_be("concurrency", "at least 1", concurrency))
        self.concurrency, self.tolerance, self.longest_pause = concurrency, tolerance, longest_pause
        self.account = account
        self.limit = float(min(concurrency, max(1, start or concurrency)))
        self.in_flight = 0
        self.waiting = 0
        self._now, self._sleep, self._jitter = now, sleep, jitter
        self._turn = _Turn()
        self._slot_freed: asyncio.Future[None] | None = None
        self._requests = [TokenBucket.explicit(rpm, now())] if rpm else []
        self._tokens = [TokenBucket.explicit(tpm, now(), tokens=True)] if tpm else []
        self._from_headers: dict[str, TokenBucket] = {}
        self._transit: deque[tuple[float, int]] = deque()
        self._fastest = 2 * _LONGEST_TRANSIT
        self._recent: deque[Slot] = deque()
        self._limited = 0  # slots in `_recent` that got a 429
        self._streak = 0  # 429s since the last good answer
        self._number = 0  # requests sent so far
        self._cut_at = 0  # of those, when the limit last went down
        self._ceiling = float("inf")  # the limit when it last went down
        self._last_full = float("-inf")  # when a request last waited for a slot
        self._not_before = float("-inf")
        self._last_sent = float("-inf")
        self._gap, self._gaps_left = 0.0, 0

    # -- slots -----------------------------------------------------------------------------------------------------

    def slot(self, tokens: int = 0, may_go: Callable[[], bool] = lambda: True) -> Slot:
        """`async with limiter.slot(tokens)`: wait until one request of at most `tokens` tokens may be sent.

        While `may_go` is false, it lets other requests pass.
        """
        return Slot(self, tokens, may_go)

    @property
    def paused_for(self) -> float:
        """Seconds until the account's Retry-After is over."""
        return max(0.0, self._not_before - self._now())

    @property
    def delay(self) -> float:
        """Seconds until the pace allows the next request."""
        return max(0.0, self._delay(1))

    async def _enter(self, slot: Slot) -> None:
        """Wait until it is this request's turn, a slot is free and the next request may be sent, and take the slot."""
        self.waiting += 1
        try:
            while True:
                async with self._turn:
                    while slot.may_go():
                        if self.in_flight >= int(self.limit):
                            self._last_full = self._now()
                            self._slot_freed = asyncio.get_running_loop().create_future()
                            await self._slot_freed
                        elif (delay := self._delay(slot.tokens)) > _MIN_SLEEP:
                            await self._sleep(min(delay, _POLL_INTERVAL))
                        else:
                            return self._send(slot)
                await self._sleep(_POLL_INTERVAL)
        finally:
            self.waiting -= 1

    def _delay(self, tokens: int) -> float:
        """Seconds until the next request may be sent."""
        now = self._now()
        delay = self._not_before - now
        if self._gaps_left:
            delay = max(delay, self._last_sent + self._gap - now)
        for pacer in self._pacers():
            delay = max(delay, pacer.delay(tokens if pacer.tokens else 1, now))
        return delay

    def _pacers(self) -> list[TokenBucket]:
        return [*self._requests, *self._tokens, *self._from_headers.values()]

    def _send(self, slot: Slot) -> None:
        """Take a slot for a request, and count it in the window of last requests and in every token bucket."""
        now = self._now()
        self.in_flight += 1
        self._gaps_left = max(0, self._gaps_left - 1)
        self._last_sent = slot.sent = now
        slot.number, self._number = self._number, self._number + 1
        self._forget_transit(now)
        self._transit.append((now, slot.tokens))
        for pacer in self._pacers():
            pacer.take(slot.tokens if pacer.tokens else 1, now)
        self._recent.append(slot)
        while len(self._recent) > max(_WINDOW, int(self.limit)):
            old = self._recent.popleft()
            self._limited -= old.limited
            old.recent = False

    def _leave(self, slot: Slot, *, good: bool) -> None:
        self.in_flight -= 1
        if good:
            self._streak = 0
            self._fastest = min(self._fastest, self._now() - slot.sent)
            if self._last_full >= slot.sent and slot.number >= self._cut_at:
                self.limit = min(float(self.concurrency), self.limit + self._step() / self.limit)
        self._wake()

    def _step(self) -> float:
        """Return how much the limit grows in one round trip: little near the value that was too much last time."""
        near = 0.7 * self._ceiling <= self.limit <= 1.3 * self._ceiling
        return 1.0 if near else max(1.0, self.concurrency / 16)

    def _wake(self) -> None:
        if self._slot_freed is not None and not self._slot_freed.done() and self.in_flight < int(self.limit):
            self._slot_freed.set_result(None)

    # -- the server's limits ----------------------------------------------------------------------------------------

    def failed(self, failure: Failure, slot: Slot) -> None:
        """Take note of a failed attempt and its slot; only rate limits and overload change the pace."""
        if failure.kind in (FailureKind.RATE_LIMIT, FailureKind.LATER):
            self.rate_limited(failure.retry_after, slot)

    def rate_limited(self, retry_after: float | None = None, slot: Slot | None = None) -> None:
        """Slow down after a 429 (or 503, 529); `slot` is the one that the request was sent in."""
        if slot is not None and slot.limiter is self and not slot.limited:
            slot.limited = True
            self._limited += slot.recent
        self._streak += 1
        if not self._account_is_limited(slot.tokens if slot is not None else 1):
            text = "%(account)s: a request is delayed; the pace stays, because other requests are not affected"
            logger.info(text, {"account": self.account})
            return
        now = self._now()
        self._pause(retry_after, now)
        if slot is None or slot.limiter is not self or slot.number >= self._cut_at:
            self._ceiling, self._cut_at = self.limit, self._number
            self.limit = max(1.0, self.limit / 2)
        logger.info(
            "%(account)s: slowed down; %(limit)d requests at once, nothing for %(pause).2f s",
            {"account": self.account, "limit": int(self.limit), "pause": self.paused_for},
        )

    def _account_is_limited(self, tokens: int) -> bool:
        if not self.tolerance or any(
            pacer.short(tokens if pacer.tokens else 1) for pacer in self._from_headers.values()
        ):
            return True
        many = max(3.0, self.tolerance * max(_WINDOW, self.limit))
        return self._limited >= many or self._streak >= max(3.0, self.tolerance * self.limit)

    def _pause(self, retry_after: float | None, now: float) -> None:
        if retry_after is None or not 0 < retry_after <= self.longest_pause:
            return
        until = now + retry_after + self._jitter() * min(1.0, 0.02 + 0.1 * retry_after)
        if until <= self._not_before:
            return
        self._not_before = until
        self._gaps_left = int(self.limit)
        self._gap = min(1.0, max(self._fastest, retry_after / 4)) / self._gaps_left

    def observe_headers(self, headers: Mapping[str, str]) -> None:
        """Set the pace by the limits an answer reports; call it for every answer, the failed ones, too.

        Limits are forgotten when later answers name none: the one that did may have come from a proxy.
        """
        header_limits, now = read_limits(headers), self._now()
        if not header_limits:
            self._from_headers = {
                name: pacer for name, pacer in self._from_headers.items() if not pacer.passed_over(now)
            }
            return
        self._forget_transit(now)
        if logger.isEnabledFor(logging.DEBUG):
            limits = {name: f"{limit.remaining:g} of {limit.limit:g} left" for name, limit in header_limits.items()}
            logger.debug("%(account)s reports its limits: %(limits)s", {"account": self.account, "limits": limits})
        for name, header_limit in header_limits.items():
            tokens = name != "requests"
            pacer = self._from_headers.get(name)
            if pacer is None:
                pacer = self._from_headers[name] = TokenBucket(now=now, tokens=tokens)
            in_transit = sum(amount for _, amount in self._transit) if tokens else len(self._transit)
            pacer.observe(header_limit, in_transit, now)

    def _forget_transit(self, now: float) -> None:
        """Drop from `_transit` the requests that the server had surely counted when it wrote the headers now read."""
        window = min(_LONGEST_TRANSIT, max(0.02, self._fastest / 2))
        while self._transit and self._transit[0][0] < now - window:
            self._transit.popleft()


class Slot:
    """The slot of one request, as a context manager. Leaving the block without an exception counts as a good answer."""

    __slots__ = ("limited", "limiter", "may_go", "number", "recent", "sent", "tokens")

    def __init__(self, limiter: RateLimiter, tokens: int, may_go: Callable[[], bool]) -> None:
        self.limiter, self.tokens, self.may_go = limiter, tokens, may_go
        self.sent, self.number = 0.0, 0
        self.limited, self.recent = False, True

    def used(self, tokens: int) -> None:
        """Report the tokens that the request really took; the rest of its worst case goes back to an explicit tpm."""
        for pacer in self.limiter._tokens:
            pacer.give_back(max(0, self.tokens - tokens))

    async def __aenter__(self) -> Slot:
        await self.limiter._enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.limiter._leave(self, good=kind is None)
