"""What went wrong with one request, in the five words of `FailureKind`. Nothing here ever holds a key."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from titjudge.core.errors import DataError, TitjudgeError
from titjudge.core.numbers import finite
from titjudge.core.redaction import one_line
from titjudge.core.types import Failure, FailureKind, Usage
from titjudge.providers.hosted.http import Dropped, TimedOut, TooLong, TransportError, Unreachable, Untrusted

LONGEST_WAIT = 3600.0  # seconds; no Retry-After is believed beyond this
_LONGEST_BLIND_WAIT = 120.0  # seconds, for a date from a server that does not tell its own time


class ProviderFailure(Exception):
    """A request that failed in a known way; `failure` is what `classify` returns for it."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        retry_after: float | None = None,
        usage: Usage | None = None,
        maybe_billed: bool = False,
        answered: bool = False,
    ) -> None:
        self.failure = Failure(kind, message, retry_after, usage, maybe_billed=maybe_billed, answered=answered)
        super().__init__(message)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds a server asks to wait, or None: `retry-after-ms`, `Retry-After` in seconds, or as an HTTP date.

    A date is measured against the server's own `Date` header, so a wrong clock on either side does no harm; without one
    it is believed for at most two minutes. The past is 0, and nothing is longer than an hour.
    """
    millis = finite(headers.get("retry-after-ms"))
    if millis is not None:
        return _clamp(millis / 1000)
    raw = headers.get("retry-after")
    seconds = finite(raw)
    if seconds is not None:
        return _clamp(seconds)
    when = _date(raw)
    if when is None:
        return None
    server_now = _date(headers.get("date"))
    if server_now is not None:
        return _clamp(when - server_now)
    return min(_clamp(when - (time.time() if now is None else now)), _LONGEST_BLIND_WAIT)


def _clamp(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_WAIT)


def _date(raw: str | None) -> float | None:
    try:
        return parsedate_to_datetime(raw or "").timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def kind_of_status(status: int) -> FailureKind:
    """Read what an HTTP status alone says. A redirect is fatal: the address is wrong and keys are not sent elsewhere."""
    if status == 429:
        return FailureKind.RATE_LIMIT
    if status in (408, 409, 425) or status >= 500:
        return FailureKind.RETRY
    if status in (403, 404, 405):
        return FailureKind.BARRED
    if status in (401, 402) or 300 <= status < 400:
        return FailureKind.FATAL
    return FailureKind.REJECTED if 400 <= status < 500 else FailureKind.RETRY


def gave_up(status: int) -> bool:
    """Whether a status says that somebody on the way stopped waiting: the request had been sent and may be billed."""
    return status in (408, 502, 504) or 520 <= status <= 524


def classify(error: Exception) -> Failure:
    """Classify an exception as all HTTP providers do; raises nothing."""
    if isinstance(error, ProviderFailure):
        return error.failure
    message = one_line(str(error) or type(error).__name__)
    if isinstance(error, Untrusted):
        return Failure(FailureKind.FATAL, message)
    if isinstance(error, TransportError | TimeoutError | ConnectionError):
        return Failure(
            FailureKind.RETRY,
            message,
            maybe_billed=isinstance(error, Dropped | TimedOut | TimeoutError),
            not_sent=isinstance(error, Unreachable),
            answered=isinstance(error, TooLong),
        )
    if isinstance(error, DataError):
        return Failure(FailureKind.REJECTED, message)
    if isinstance(error, TitjudgeError):
        return Failure(FailureKind.FATAL, message)
    if isinstance(error, OSError):
        return Failure(FailureKind.RETRY, message)
    return Failure(FailureKind.REJECTED, f"{type(error).__name__}: {message}")
