"""Guard litellm's use of the network: one request for each call, to the configured address, and an answer of bounded size.

litellm follows redirects (and would send the image and the prompt wherever a server points), reads answers of any size,
and reports failures by special exceptions that do not show whether anything was sent. All its clients use one transport:
it is guarded here, sends through the session and the proxy of `titjudge.providers.hosted.http`, and records each call in
a `CallTrace`.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Lock
from typing import Any

from titjudge.core.errors import ConfigError
from titjudge.core.types import Failure, FailureKind, Json, Usage, Values
from titjudge.providers.base import Headers, note_sending, watched_sending
from titjudge.providers.hosted import http
from titjudge.providers.hosted.failures import ProviderFailure, causes, connection_error
from titjudge.providers.hosted.sdk import unpacked, unreadable_head
from titjudge.providers.usage import openai_usage

_LOGS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")  # its loggers have separate handlers, on standard error
_WARNINGS = ("Items? '.*' on TypedDict class", "Pydantic serializer warnings")
_SENDS_AGAIN = ("single_connection_request", "single_connection_post_request")  # the second before version 1.108
_FINISH = tuple("finish_reason finishReason stop_reason stopReason done_reason".split())  # the first of several counts
_NO_COUNT = re.compile(rb'token[a-z_]*"\s*:\s*(?:true|false)', re.IGNORECASE)


@dataclass(slots=True)
class CallTrace:
    """The network events of one call.

    Attributes:
        sent: A request was sent.
        accepted: The last POST was answered with a status of success: what follows, such as fetching the result, is paid.
        status: HTTP status of the complete answer, 0 if there was none.
        answered: An answer began that cannot be read.
        headers: Those of the answer.
        body: The answer as the vendor wrote it.
        error: Why there was none.
    """

    sent: bool = False
    accepted: bool = False
    status: int = 0
    answered: bool = False
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    error: Exception | None = None

    @property
    def is_success(self) -> bool:
        """Whether the answer came whole, with a status of success."""
        return 200 <= self.status < 300

    def usage(self, translated: Any) -> Usage | None:
        """Read the usage that the server reports: from an answer in OpenAI's form, otherwise from litellm's translation.

        A truth value for a count of tokens is none; litellm takes it for 1 or 0.
        """
        usage = self.data().get("usage")
        if isinstance(usage, Mapping) and "prompt_tokens" in usage:
            return openai_usage(usage, self.headers)
        return openai_usage(None if _NO_COUNT.search(self.body) else translated, self.headers)

    def data(self) -> Values:
        """Return the answer as the vendor wrote it; nothing if it is not a JSON object."""
        try:
            data = http.parsed(self.body)
        except (ValueError, RecursionError):
            return {}
        return data if isinstance(data, Mapping) else {}

    def finish(self) -> Json:
        """Find the finish reason under the key `finish_reason`; nothing if the vendor has no place for it that is known.

        litellm itself makes `stop` of every word that it does not know, and of null.
        """
        data = self.data()
        lists = [data[name] for name in ("choices", "candidates") if isinstance(data.get(name), list)]
        entries = [entry for entry in (lists[0] if lists else []) if isinstance(entry, Mapping)]
        place = next((entry for entry in entries if entry.get("index") == 0), entries[0] if entries else data)
        name = next((name for name in _FINISH if name in place), None)
        return {} if name is None else {"finish_reason": place[name]}


_current: ContextVar[CallTrace | None] = ContextVar("litellm_trace", default=None)
_LOADING = Lock()
Send = Callable[[Any, Any], Awaitable[Any]]
"""Method of one of litellm's classes that gets a request."""


@contextmanager
def traced(user: object) -> Iterator[CallTrace]:
    """Trace the calls that `user` starts inside the block; the session they use stays open until `user` leaves it."""
    http.shared.join(user)
    trace = CallTrace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def load() -> Any:
    """Import litellm without its telemetry and its price list, its transport guarded for calls in a `traced` block.

    The guard is put into litellm's own classes, since not every vendor's code takes a client from outside; calls that a
    program makes beside titjudge pass it untouched. Telemetry, debug hints and the price list from the network are off for
    the whole process.
    """
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS="True")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
        from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=message, category=UserWarning)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in _LOGS:
        logging.getLogger(name).addFilter(_not_ours)
    with _LOADING:  # of two threads that guard it, the second would guard the guard, and find each answer read already
        if LiteLLMAiohttpTransport.handle_async_request.__module__ != __name__:
            again = [name for name in _SENDS_AGAIN if hasattr(AsyncHTTPHandler, name)]
            if not again:
                raise ConfigError(
                    f"litellm {version('litellm')} is not supported. Install 1.100 to 1.110, or write the model without litellm/"
                )
            for name in again:
                setattr(AsyncHTTPHandler, name, _once(getattr(AsyncHTTPHandler, name)))
            AsyncHTTPHandler.should_use_aiohttp_transport = staticmethod(lambda: True)
            LiteLLMAiohttpTransport.handle_async_request = _guarded(LiteLLMAiohttpTransport.handle_async_request)
            session = _our_session(LiteLLMAiohttpTransport._get_valid_client_session)
            LiteLLMAiohttpTransport.get_valid_client_session = LiteLLMAiohttpTransport._get_valid_client_session = (
                session
            )
            LiteLLMAiohttpTransport._get_proxy_settings = _our_proxy(LiteLLMAiohttpTransport._get_proxy_settings)
    return litellm


def _not_ours(record: logging.LogRecord) -> bool:
    """Keep litellm's log records of titjudge's calls from the terminal: their content, with tracebacks, is in their `Failure`."""
    return _current.get() is None


def _once(send_anew: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Replace what sends a request again after a broken connection: in our calls the engine decides that."""

    async def once(*arguments: Any, **named: Any) -> Any:
        if _current.get() is None:
            return await send_anew(*arguments, **named)
        raise sys.exception() or ConnectionError("the connection broke")

    return once


def _unsent(error: Exception, url: Any) -> Exception:
    """Make the error of a request whose connection was never made."""
    chain = list(causes(error))
    for cause in chain:
        if type(cause).__name__ == "ClientHttpProxyError":
            return http.refused_by_proxy(getattr(cause, "status", 0), str(url))
    if not any(isinstance(cause, OSError) or type(cause).__module__.startswith("aiohttp") for cause in chain):
        return error  # not of the network
    return connection_error(error, url.host) or http.Unreachable(f"cannot connect to {url.host}: {error}")


def _our_session(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give our calls the session that all our requests use."""
    return lambda self: own(self) if _current.get() is None else http.shared.session()


def _our_proxy(own: Send) -> Send:
    """Give our calls the proxy that all our requests use."""

    async def proxy(self: Any, request: Any) -> Any:
        if _current.get() is None:
            return await own(self, request)
        found = http.proxy_of(request.url.scheme, request.url.host)
        return found and found.url

    return proxy


def _guarded(send: Send) -> Send:
    """Wrap the `send` of litellm's transport: a traced call sends once, follows no redirect, bounds the answer."""

    async def handle_async_request(self: Any, request: Any) -> Any:
        trace = _current.get()
        if trace is None:  # a call of other code in this process
            return await send(self, request)
        if request.method == "POST" and trace.error is not None:  # an SDK behind litellm sends it again by itself
            raise trace.error
        note_sending()
        trace.sent, trace.status = True, 0
        trace.accepted = trace.accepted and request.method != "POST"
        request.headers["accept-encoding"] = "gzip, deflate"
        try:
            with watched_sending() as sending:
                answer = await send(self, request)
        except Exception as error:
            trace.error, trace.answered = error, unreadable_head(causes(error))
            if not sending.begun:
                trace.error = _unsent(error, request.url)
            if trace.error is error:
                raise
            raise trace.error from error
        try:
            if 300 <= answer.status_code < 400:
                why = f"HTTP {answer.status_code} from {http.place(str(request.url))}: it points to another address, where nothing is sent"
                raise ProviderFailure(Failure(FailureKind.FATAL, why))
            trace.accepted = trace.accepted or (request.method == "POST" and answer.status_code < 300)
            response = await unpacked(answer, request)
        finally:
            await answer.aclose()
        trace.status, trace.headers, trace.body = response.status_code, response.headers, response.content
        # The SDKs of OpenAI and Anthropic would repeat the request; litellm does not always turn that off.
        response.headers["x-should-retry"] = "false"
        return response

    return handle_async_request
