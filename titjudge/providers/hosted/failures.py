"""Classify what went wrong with one request as a `FailureKind`. Nothing here ever contains a key."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence, Set
from email.utils import parsedate_to_datetime

from titjudge.core.errors import DataError, TitjudgeError
from titjudge.core.numbers import finite
from titjudge.core.redaction import one_line
from titjudge.core.types import Failure, FailureKind
from titjudge.providers.base import Headers
from titjudge.providers.hosted.http import TimedOut, TransportError, Unreachable, Untrusted, trust_hint

LONGEST_WAIT = 3600.0  # seconds; a longer Retry-After is cut
_LONGEST_BLIND_WAIT = 120.0  # seconds, for a date from a server that does not send its time
_UNCONNECTED = frozenset(
    {  # exceptions of HTTP libraries that mean that nothing was sent
        "ClientConnectorError",
        "ClientProxyConnectionError",
        "ConnectionRefusedError",
        "ConnectionTimeoutError",
        "gaierror",
    }
)

_KINDS = {
    429: FailureKind.RATE_LIMIT,
    **dict.fromkeys((503, 529), FailureKind.LATER),  # 529: Anthropic's "overloaded"
    **dict.fromkeys((408, 409, 425), FailureKind.RETRY),
    **dict.fromkeys((403, 404, 405), FailureKind.BARRED),
    **dict.fromkeys((401, 402, 407), FailureKind.FATAL),  # 407: a proxy wants a password
}  # other statuses are classified by their hundred


class ProviderFailure(Exception):
    """A request that failed in a known way; `failure` is what `classify` returns for it."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def retry_after(headers: Headers, now: float | None = None) -> float | None:
    """Read how many seconds a server asks to wait: `retry-after-ms`, `Retry-After` in seconds, or as an HTTP date.

    A date is measured against the server's own `Date` header, so a wrong clock on either side does no harm; without that
    header the wait is at most two minutes. It is never negative and never more than an hour.
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
    """Classify an HTTP status. A redirect is fatal: the address is wrong, and keys are not sent elsewhere.

    503 and 529: the server is overloaded. 429: this account has reached a limit. 500, 502 and 504 may be the fault of
    this one request, and behind the last two it may have been worked on and billed: they are not repeated for long.
    """
    if status in _KINDS:
        return _KINDS[status]
    if 300 <= status < 400:
        return FailureKind.FATAL
    return FailureKind.REJECTED if 400 <= status < 500 else FailureKind.RETRY


TIMEOUTS = (408, 504, 524)


def may_be_billed(status: int) -> bool:
    """Return True if a gateway stopped waiting: the request had been sent and may be billed."""
    return status in (408, 502, 504) or 520 <= status <= 524


def classify(error: Exception) -> Failure:
    """Classify an exception of any hosted provider."""
    if isinstance(error, ProviderFailure):
        return error.failure
    message = one_line(str(error) or type(error).__name__)
    if isinstance(error, Untrusted):
        return Failure(FailureKind.FATAL, message)
    if isinstance(error, TransportError | OSError):  # TimeoutError and ConnectionError are OSErrors
        not_sent = isinstance(error, Unreachable)
        unsent = not_sent or isinstance(error, ConnectionRefusedError)
        answered = isinstance(error, TransportError) and error.answered
        slow = isinstance(error, TimedOut | TimeoutError)
        return Failure(
            FailureKind.RETRY, message, maybe_billed=not unsent, not_sent=not_sent, answered=answered, slow=slow
        )
    if isinstance(error, DataError):
        return Failure(FailureKind.REJECTED, message)
    if isinstance(error, TitjudgeError):
        return Failure(FailureKind.FATAL, message)
    return Failure(FailureKind.REJECTED, f"{type(error).__name__}: {message}", maybe_billed=True)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, the first cause last."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def first_cause(chain: Sequence[BaseException], address: str) -> str:
    """Return the message of the last of an exception's `causes` on one line, for an error about an address."""
    return one_line(f"{address}: {chain[-1] or type(chain[-1]).__name__}")


def connection_error(error: BaseException, address: str, further_names: Set[str] = frozenset()) -> Exception | None:
    """Return why an SDK could not connect to `address`: titjudge's exception among the causes, otherwise a new one.

    Args:
        error: The exception.
        address: The address of the request.
        further_names: Further names of exceptions that mean that nothing was sent. Exceptions that may be raised after
            sending must not be among
            them: its request would be sent again without counting against the cap.
    """
    chain = list(causes(error))
    for cause in chain:
        if isinstance(cause, ProviderFailure | TransportError | TitjudgeError):
            return cause
    text = first_cause(chain, address)
    if any(isinstance(cause, ssl.SSLError) for cause in chain) or "CERTIFICATE_VERIFY_FAILED" in text:
        return Untrusted(f"{text}{trust_hint(chain[-1])}")
    names = {kind.__name__ for cause in chain for kind in type(cause).__mro__}
    if names & (_UNCONNECTED | further_names):
        return Unreachable(text)
    return None
