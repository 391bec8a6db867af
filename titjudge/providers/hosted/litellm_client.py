"""What litellm may do on the network: one request for each call, to the address it was told, and an answer of bounded size.

litellm follows redirects (and the image and the prompt would go wherever a server points), reads answers of any size,
and reports what went wrong by exceptions of its own that do not say whether anything was sent. All its clients go through
one transport: that is where this stands, and what it saw of a call is kept in a `Trace`.
"""

from __future__ import annotations

import os
import re
import ssl
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from titjudge.core.types import FailureKind
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.http import TransportError, Unreachable, Untrusted, whole

_NO_CONNECTION = frozenset(
    {
        "ClientConnectorError",
        "ConnectionRefusedError",
        "ConnectionTimeoutError",
        "ClientProxyConnectionError",
        "gaierror",
    }
)
_NO_COUNT = re.compile(rb'token[a-z_]*"\s*:\s*(?:true|false)', re.IGNORECASE)
_PACKED = ("content-encoding", "content-length", "transfer-encoding")


@dataclass(slots=True)
class Trace:
    """What one call did on the wire: it `sent` a request, and got a whole answer with this `status` (0: none).

    `uncounted`: the answer has a truth value for a count of tokens, which litellm takes for 1 or 0.
    """

    sent: bool = False
    status: int = 0
    uncounted: bool = False


_current: ContextVar[Trace | None] = ContextVar("litellm_trace", default=None)


@contextmanager
def traced() -> Iterator[Trace]:
    """Make a trace of the calls that start inside."""
    trace = Trace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def own_error(error: BaseException) -> Exception | None:
    """Find the error of ours behind an exception of litellm's, or None.

    `Unreachable` where there was no connection, `Untrusted` where there could be none that is safe.
    """
    causes = list(_chain(error))
    for each in causes:
        if isinstance(each, ProviderFailure | TransportError):
            return each
        if isinstance(each, ssl.SSLError):
            return Untrusted(str(each))
    for each in causes:
        if any(kind.__name__ in _NO_CONNECTION for kind in type(each).__mro__):
            return Unreachable(str(each))
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def load() -> Any:
    """Import litellm without its telemetry and its price list, its transport guarded for calls in a `traced` block.

    The guard stands in litellm's own classes, since not every vendor's code takes a client from outside; calls that a
    program makes beside titjudge go through it untouched. Without telemetry, debug hints and the price list from the
    network litellm is for the whole process.
    """
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
        from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
    warnings.filterwarnings("ignore", message="Item '.*' on TypedDict class", category=UserWarning)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    if LiteLLMAiohttpTransport.handle_async_request.__module__ != __name__:
        AsyncHTTPHandler.single_connection_post_request = _once(AsyncHTTPHandler.single_connection_post_request)
        AsyncHTTPHandler.should_use_aiohttp_transport = staticmethod(lambda: True)
        LiteLLMAiohttpTransport.handle_async_request = _guarded(LiteLLMAiohttpTransport.handle_async_request)
    return litellm


def _once(send_anew: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Replace what sends a request anew after a broken connection: in calls of ours that decision is the engine's."""

    async def single_connection_post_request(*arguments: Any, **named: Any) -> Any:
        if _current.get() is None:
            return await send_anew(*arguments, **named)
        raise sys.exception() or ConnectionError("the connection broke")

    return single_connection_post_request


def _guarded(send: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def handle_async_request(self: Any, request: Any) -> Any:
        import httpx

        trace = _current.get()
        if trace is None:  # a call of somebody else in this process
            return await send(self, request)
        trace.sent, trace.status = True, 0
        request.headers["accept-encoding"] = "gzip, deflate"
        answer = await send(self, request)
        try:
            if 300 <= answer.status_code < 400:
                place = f"{request.url.scheme}://{request.url.netloc.decode()}"
                raise ProviderFailure(
                    FailureKind.FATAL,
                    f"HTTP {answer.status_code} from {place}: it points to another address, where nothing is sent",
                )
            body = await whole(answer.stream.__aiter__(), answer.headers.get("content-encoding", ""))
        finally:
            await answer.aclose()
        trace.status = answer.status_code
        trace.uncounted = _NO_COUNT.search(body) is not None
        headers = [(name, value) for name, value in answer.headers.raw if name.decode().lower() not in _PACKED]
        return httpx.Response(answer.status_code, headers=headers, content=body, request=request)

    return handle_async_request
