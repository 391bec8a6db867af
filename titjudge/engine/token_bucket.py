"""Token buckets for a rate that the user sets, or that is read from the headers of a provider's answers.

The bucket of a server is a copy of the server's own: every answer says what is left in it; between answers it is refilled
at the server's rate, and drained by what is sent, requests that the server has not counted yet included.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Self

from titjudge.core.numbers import finite

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
_LONGEST_RESET = 2 * 86400.0  # a larger "reset" is a point in time, not a span
_PROBE = 60.0  # seconds after which one request goes out whatever the headers said
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
"""limit, remaining, reset. Anthropic's reset is a point in time by its clock, which its `Date` header tells."""


@dataclass(frozen=True, slots=True)
class HeaderLimit:
    """One limit as a header states it.

    Attributes:
        limit: Requests or tokens of a window of time.
        remaining: What is left of it.
        reset: Seconds until all of it is back; None where the header does not say.
    """

    limit: float
    remaining: float
    reset: float | None = None


def read_limits(headers: Mapping[str, str]) -> dict[str, HeaderLimit]:
    """Read the limits in an answer's headers, by `requests` and `tokens`; what cannot be read is left out."""
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
    """Seconds to a point in time (RFC 3339) since `now`, a Date header; 0 for the past; None where either is unreadable."""
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
        """Seconds until `need` may be taken; more than the bucket holds may be taken when it is full."""
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
        """Whether the last headers said that less than `need` is left."""
        return self._remaining < need

    def observe(self, header: HeaderLimit, in_transit: float, now: float) -> None:
        """Follow the server's bucket.

        Args:
            header: What an answer's headers say.
            in_transit: What was sent so recently that the server may not have counted it when it wrote them.
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
    """Compute the refill a second. A limit is one a minute unless `reset` shows a longer window (Groq's is a day)."""
    rate = header.limit / 60
    if (
        header.reset
        and header.remaining < header.limit
        and header.remaining + header.reset * rate > 1.05 * header.limit + 1
    ):
        return (header.limit - header.remaining) / header.reset
    return rate
