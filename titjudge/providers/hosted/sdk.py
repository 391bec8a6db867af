"""Send through the vendors' own SDKs: for credentials that only they know, and for users who prefer them.

An SDK makes the address, authorises the request and sends it, once, through the HTTP client it is given here. The answer is
taken from that client, before the SDK reads it, so the provider reads answers, errors and bills alike, whichever way a
request goes.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

import orjson

from titjudge.core.errors import ConfigError
from titjudge.core.redaction import register_secret, url_parts
from titjudge.core.types import Json, Values
from titjudge.providers.base import Headers, note_sending
from titjudge.providers.hosted import http
from titjudge.providers.hosted.failures import causes, connection_error, first_cause

if TYPE_CHECKING:
    import httpx

# Names of httpx's exceptions; litellm raises them for resets after sending, too.
_UNCONNECTED = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})
_PACKED = ("content-encoding", "content-length", "transfer-encoding")


@dataclass(slots=True)
class _Trace:
    """The network events of one call.

    Attributes:
        sent: Its request went out.
        answered: The status and headers of an answer came.
        answer: The response, before the SDK read it; of an error at first only its status and headers.
    """

    sent: bool = False
    answered: bool = False
    answer: http.Answer | None = None


_current: ContextVar[_Trace | None] = ContextVar("sdk_trace", default=None)


def careful_client(
    address: str,
    timeout: float,
    longest: int = http.LONGEST_ANSWER,
    allows_host: Callable[[str], bool] = lambda host: False,
) -> httpx.AsyncClient:
    """Make the HTTP client for an SDK: it sends to one host alone, follows no redirect, and bounds the size of answers.

    Each request has a new connection, through the same proxy as in `titjudge.providers.hosted.http`.

    Args:
        address: An address of the host.
        timeout: Seconds.
        longest: Bytes of an answer, decompressed.
        allows_host: Whether requests may go to another host as well.
    """
    import httpx

    parts = url_parts(address)
    home = parts.hostname or ""
    proxy = http.proxy_of(parts.scheme, home)

    class Careful(httpx.AsyncClient):
        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            where, trace = request.url.host, _current.get()
            if where != home and not allows_host(where):
                raise http.Untrusted(f"{home} points to {where}, where nothing is sent")
            if trace is not None:
                if trace.sent:
                    raise http.Dropped(f"{home}: the SDK sends a request a second time")
                trace.sent = True
            note_sending()
            register_secret(request.headers.get("authorization", "").removeprefix("Bearer "))
            connected = False

            async def note(event: str, info: Values) -> None:
                nonlocal connected
                if event.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
                    connected = True

            request.extensions = {**request.extensions, "trace": note}
            try:
                answer = await super().send(request, stream=True, **{**options, "follow_redirects": False})
            except httpx.ProxyError as error:  # its message begins with the status of the proxy
                status = str(error).partition(" ")[0]
                raise http.refused_by_proxy(int(status) if status.isdecimal() else 502, str(request.url)) from None
            except httpx.TransportError as error:
                if connected or connection_error(error, home, _UNCONNECTED) is not None:
                    raise
                raise http.Unreachable(f"cannot connect to {home}: {error or type(error).__name__}") from None
            if stream:
                return answer
            if trace is not None:
                trace.answered = True
                if not answer.is_success:
                    trace.answer = http.Answer(answer.status_code, answer.headers, b"")
            response = await unpacked(answer, request, longest)
            if trace is not None:
                trace.answer = http.Answer(answer.status_code, answer.headers, response.content)
            return response

    return Careful(
        verify=_tls(),
        timeout=timeout,
        follow_redirects=False,
        headers={"accept-encoding": "gzip, deflate", "connection": "close"},
        limits=httpx.Limits(max_keepalive_connections=0),
        proxy=proxy and proxy.url,
        trust_env=False,  # the proxy is known; .netrc has no key of a model
    )


async def unpacked(
    answer: httpx.Response, request: httpx.Request, longest: int = http.LONGEST_ANSWER
) -> httpx.Response:
    """Read an answer to its end and return it decompressed.

    Raises:
        Dropped: It breaks off, cannot be decompressed, or has more than `longest` bytes.
    """
    import httpx

    try:
        body = await http.whole(answer.status_code, answer.headers, answer.aiter_raw(), longest)
    except http.Dropped as error:
        raise http.Dropped(f"{request.url.host}: {error}", answered=True) from None
    finally:
        await answer.aclose()
    kept = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in _PACKED]
    return httpx.Response(answer.status_code, headers=kept, content=body, request=request)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Trust the certificates that titjudge's HTTP trusts; reading them takes tens of milliseconds."""
    return ssl.create_default_context()


def lost(error: BaseException, address: str, *, sent: bool = True) -> Exception:
    """Translate an exception of an SDK that is not an HTTP status; its text contains no registered secret."""
    connection_failure = connection_error(error, address, _UNCONNECTED)
    if connection_failure is not None:
        return connection_failure
    chain = list(causes(error))
    text = first_cause(chain, address)
    if not sent:  # the authorisation of requests has failed, for now or for good
        may_pass = any(
            getattr(error, "retryable", False) or type(error).__name__ == "TransportError" for error in chain
        )
        return http.Unreachable(text) if may_pass else ConfigError(text)
    if any(isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__ for cause in chain):
        return http.TimedOut(text)
    return http.Dropped(text, answered=unreadable_head(chain))


def unreadable_head(chain: Iterable[BaseException]) -> bool:
    """Whether an answer began that cannot be read as HTTP, by the exceptions that httpx and aiohttp raise for it."""
    raised = {(type(cause).__module__.partition(".")[0], type(cause).__name__) for cause in chain}
    return not raised.isdisjoint({("h11", "RemoteProtocolError"), ("aiohttp", "ClientResponseError")})


class SdkTransport(http.Transport, ABC):
    """An SDK instead of titjudge's HTTP, for one model. Each event loop has separate clients, one for each address."""

    package = ""  # the package that is imported for it

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()

    async def post_json(self, url: str, *, headers: Headers, body: bytes, timeout: float) -> http.Answer:
        """Send `body` (JSON text) once, by the SDK.

        Raises:
            ConfigError: There are no credentials.
            TransportError: No complete HTTP answer within `timeout` seconds.
        """
        place, trace = http.place(url), _Trace()
        clients = self._clients.setdefault(asyncio.get_running_loop(), {})
        if url not in clients:
            await asyncio.to_thread(importlib.import_module, self.package)  # seconds
        token = _current.set(trace)
        try:
            if url not in clients:
                web = careful_client(url, timeout)
                clients[url] = self._client(url, headers, timeout, web), web
            async with asyncio.timeout(timeout):
                await self._send(clients[url][0], body)
        except TimeoutError:
            if trace.answer is None:
                kind = http.TimedOut if trace.sent else http.Unreachable
                raise kind(f"no answer from {place} within {timeout:g} s", answered=trace.answered) from None
        except Exception as error:  # also of an answer that the SDK cannot read, or calls an error
            if trace.answer is None:
                raise lost(error, place, sent=trace.sent) from None
        finally:
            _current.reset(token)
        if trace.answer is None:
            raise http.Dropped(f"{place}: the SDK gave no answer")
        return trace.answer

    @abstractmethod
    def _client(self, url: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
        """Make the SDK's client for an address."""

    @abstractmethod
    async def _send(self, client: Any, body: bytes) -> None:
        """Send a body once; the answer is taken from the HTTP client, whatever the SDK returns or raises."""

    def join(self, user: object) -> None:
        return None

    async def leave(self, user: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for _, web in self._clients.pop(asyncio.get_running_loop(), {}).values():
            await web.aclose()


class OpenAISdk(SdkTransport):
    """`openai.AsyncOpenAI`."""

    package = "openai"

    def _client(self, url: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
        return openai_client(url.replace("/chat/completions", "", 1), headers, timeout, web)

    async def _send(self, client: Any, body: bytes) -> None:
        import httpx

        await client.post("/chat/completions", body=orjson.loads(body), cast_to=httpx.Response)


def openai_client(address: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
    """Make the client of OpenAI's SDK for an address; `headers` authorise it, and nothing of the environment does."""
    import openai

    all_headers: Json = dict(headers)
    for name in ("OpenAI-Organization", "OpenAI-Project"):
        all_headers.setdefault(name, openai.Omit())  # the SDK would send the environment's to any host
    bare, _, query = address.partition("?")
    return openai.AsyncOpenAI(
        api_key="none",
        base_url=bare,
        default_headers=all_headers,
        default_query=dict(parse_qsl(query)),
        max_retries=0,
        timeout=timeout,
        http_client=web,
    )


class AzureSdk(OpenAISdk):
    """`openai.AsyncAzureOpenAI`, or `openai.AsyncOpenAI` at an address of Azure's v1 API.

    Args:
        model: The deployment.
        version: The version of the API that was asked for; empty for none.
        default_version: The version if none was.
        credential: Returns the client's arguments with the key, or with the function that makes tokens of Entra ID.
    """

    def __init__(self, model: str, version: str, default_version: str, credential: Callable[[], Values]) -> None:
        super().__init__(model)
        self._version, self._default_version, self._credential = version, default_version, credential

    def _client(self, url: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
        import openai

        address, _, query = url.partition("?")
        address, query_parameters = address.removesuffix("/chat/completions"), dict(parse_qsl(query))
        default_headers: Json = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        common: Json = {"max_retries": 0, "timeout": timeout, "http_client": web}
        credential = self._credential()
        if not address.endswith("/openai/v1"):
            version = self._version or self._default_version
            return openai.AsyncAzureOpenAI(
                azure_endpoint=address,
                api_version=version,
                default_headers=default_headers,
                default_query=query_parameters,
                **common,
                **credential,
            )
        if self._version:
            query_parameters["api-version"] = self._version
        if key := credential.get("api_key"):
            default_headers["api-key"] = key
        token = credential.get("azure_ad_token") or credential.get("azure_ad_token_provider") or key
        return openai.AsyncOpenAI(
            base_url=address, api_key=token, default_headers=default_headers, default_query=query_parameters, **common
        )


class GeminiSdk(SdkTransport):
    """`google.genai.Client` for the Gemini API."""

    package = "google.genai"

    def _client(self, url: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
        return gemini_client(url.partition("/models/")[0].partition("/tunedModels/")[0], headers, timeout, web)

    async def _send(self, client: Any, body: bytes) -> None:
        from google.genai import types

        options = types.HttpOptions(extra_body=orjson.loads(body))  # takes the place of `contents`
        config = types.GenerateContentConfig(http_options=options)
        await client.aio.models.generate_content(model=self._model, contents="?", config=config)


def gemini_client(address: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
    """Make the client of Google's SDK for an address of the Gemini API; `headers` authorise it."""
    from google import genai

    further_headers = dict(headers)
    key = further_headers.pop("x-goog-api-key", "none")
    versioned = re.search(r"/(v\d\w*)$", address)
    return genai.Client(
        vertexai=False,
        api_key=key,
        http_options=genai.types.HttpOptions(
            base_url=address[: versioned.start()] if versioned else address,
            api_version=versioned.group(1) if versioned else "v1beta",
            **_google_options(timeout, web),
            headers=further_headers or None,
        ),
    )


def _google_options(timeout: float, web: httpx.AsyncClient) -> Json:
    """Make the HTTP options of Google's SDK; `verify` and `ssl` save it from reading certificates that it does not need.

    Its further clients, which send nothing, would refuse a proxy that `web` does not use.
    """
    tls = {"verify": _tls(), "ssl": _tls(), "trust_env": False}
    return {"timeout": int(timeout * 1000), "httpx_async_client": web, "client_args": tls, "async_client_args": tls}


class VertexSdk(GeminiSdk):
    """`google.genai.Client` for Vertex AI, with application-default credentials.

    Args:
        model: The model.
        address: The address of Vertex AI.
        project: The project that pays.
        location: Its region, or `global`.
    """

    def __init__(self, model: str, address: str, project: str, location: str) -> None:
        super().__init__(model)
        self._address, self._project, self._location = address, project, location

    def _client(self, url: str, headers: Headers, timeout: float, web: httpx.AsyncClient) -> Any:
        from google import genai

        return genai.Client(
            vertexai=True,
            project=self._project,
            location=self._location,
            http_options=genai.types.HttpOptions(base_url=self._address, **_google_options(timeout, web)),
        )
