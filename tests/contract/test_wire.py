"""Which bytes count as the answer to a request, and which failures may have been billed: the same for all five clients."""

import asyncio
import json
import re
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest
from tls import Untrusted

from titjudge.core.errors import ConfigError
from titjudge.core.types import Failure, FailureKind, Message, Request
from titjudge.providers import ProviderSettings
from titjudge.providers.hosted import http
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.litellm import LiteLLM
from titjudge.providers.hosted.openai import OpenAI

pytestmark = pytest.mark.usefixtures("keys_of_nobody")

Pieces = list[bytes | float]
"""What a server sends: bytes, and pauses in seconds."""


class RawServer:
    """Answers each request with what `answer(number in the question, is Gemini)` returns; with `once`, then closes the connection."""

    def __init__(self, answer: Callable[[str, bool], Pieces], *, once: bool = False) -> None:
        self.requests = 0
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    while head := self._head():
                        length = int((re.search(rb"(?i)content-length: (\d+)", head) or [b"", b"0"])[1])
                        body = self.rfile.read(length)
                        outer.requests += 1
                        number = re.search(rb"question (\d+)", body)
                        for piece in answer(number[1].decode() if number else "", b"generateContent" in head):
                            if isinstance(piece, float):
                                time.sleep(piece)
                            else:
                                self.wfile.write(piece)
                        if once:
                            return
                except OSError:
                    return

            def _head(self) -> bytes:
                lines = b""
                while not lines.endswith(b"\r\n\r\n"):
                    line = self.rfile.readline()
                    if not line:
                        return b""
                    lines += line
                return lines

        class Threads(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


def body(text: str, gemini: bool) -> bytes:
    if gemini:
        parts = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
        return json.dumps(
            {"candidates": [parts], "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 9}}
        ).encode()
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
    return json.dumps(
        {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    ).encode()


def response(raw: bytes, status: str = "200 OK", headers: str = "", length: int | None = None) -> bytes:
    size = len(raw) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {size}\r\n\r\n"
    return head.encode("latin-1") + raw


CLIENTS: dict[str, Callable[[str], Any]] = {
    "openai": lambda url: OpenAI(settings("m", f"{url}/v1")),
    "openai-sdk": lambda url: OpenAI(settings("m", f"{url}/v1", client="sdk")),
    "gemini": lambda url: Gemini(settings("gemini-2.5-pro", url)),
    "gemini-sdk": lambda url: Gemini(settings("gemini-2.5-pro", url, client="sdk")),
    "litellm": lambda url: LiteLLM(settings("openai/m", f"{url}/v1")),
}


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    return CLIENTS[request.param]


def settings(model: str, url: str, **options: Any) -> ProviderSettings:
    return ProviderSettings(model, base_url=url, timeout=5.0, options=options)


def question(model: str, number: int) -> Request:
    return Request("", model, (Message("user", (f"question {number}",)),), {}, None, "")


def asked(provider: Any, count: int = 1) -> list[str]:
    async def work() -> list[str]:
        try:
            return [(await provider.complete(question(provider.model, number))).text for number in range(count)]
        finally:
            await provider.aclose()

    return asyncio.run(work())


def failed(provider: Any) -> Failure:
    with pytest.raises(Exception) as caught:
        asked(provider)
    return provider.classify(caught.value)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- each answer belongs to its own request


def stray(gemini: bool) -> bytes:
    return response(body("nobody asked", gemini))


@pytest.mark.parametrize(
    "further",
    [
        pytest.param(lambda gemini: [stray(gemini)], id="at once"),
        pytest.param(lambda gemini: [0.01, stray(gemini)], id="10 ms later"),
        pytest.param(lambda gemini: [0.08, stray(gemini)], id="80 ms later"),
        pytest.param(lambda gemini: [stray(gemini)[:30], 0.02, stray(gemini)[30:]], id="in two pieces"),
        pytest.param(lambda gemini: [stray(gemini)[:-3]], id="cut short"),
        pytest.param(lambda gemini: [0.01, response(b"{}", "408 Request Timeout")], id="408 on the idle connection"),
        pytest.param(lambda gemini: [0.01, b"\r\n"], id="an empty line"),
    ],
)
def test_a_second_response_is_never_the_answer_to_the_next_question(
    client: Callable[[str], Any], further: Callable[[bool], Pieces]
) -> None:
    with RawServer(lambda number, gemini: [response(body(f"answer {number}", gemini)), *further(gemini)]) as server:
        assert asked(client(server.url), 4) == [f"answer {number}" for number in range(4)]
        assert server.requests == 4


# ---------------------------------------------------------------------- the form of the HTTP


@pytest.mark.parametrize(
    "headers",
    ["X-Policy: " + "y" * 60_000 + "\r\n", "".join(f"X-Trace-{n}: {n}\r\n" for n in range(900))],
    ids=["long", "many"],
)
def test_long_headers_are_read(client: Callable[[str], Any], headers: str) -> None:
    with RawServer(lambda number, gemini: [response(body("fine", gemini), headers=headers)]) as server:
        assert asked(client(server.url)) == ["fine"]


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(lambda raw: response(raw, headers="Content-Encoding: br\r\n"), id="br"),
        pytest.param(lambda raw: response(raw, headers="Content-Encoding: gzip\r\n"), id="not gzip"),
        pytest.param(lambda raw: response(raw[:-9], length=len(raw)), id="cut"),
        pytest.param(lambda raw: response(raw, length=9), id="length too small"),
        pytest.param(lambda raw: CHUNKED + b"%x\r\n" % len(raw) + raw[:20], id="chunk cut"),
        pytest.param(lambda raw: CHUNKED + b"nonsense\r\n" + raw, id="no chunk"),
        pytest.param(lambda raw: response(raw, headers="X: " + "y" * 300_000 + "\r\n"), id="endless header"),
        pytest.param(lambda raw: raw + b"\r\n\r\n", id="no head"),
    ],
)
def test_what_breaks_after_the_head_counts_as_answered(
    client: Callable[[str], Any], broken: Callable[[bytes], bytes]
) -> None:
    with RawServer(lambda number, gemini: [broken(body("fine", gemini))], once=True) as server:
        found = failed(client(server.url))
    assert (found.answered, found.maybe_billed, found.not_sent) == (True, True, False)
    assert found.kind in (FailureKind.RETRY, FailureKind.UNUSABLE)  # at most 3 times, or kept at once


def test_silence_and_a_hang_up_are_not_answered(client: Callable[[str], Any]) -> None:
    with RawServer(lambda number, gemini: [], once=True) as server:
        found = failed(client(server.url))
    assert (found.kind, found.answered, found.maybe_billed, found.not_sent) == (FailureKind.RETRY, False, True, False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [("401 Unauthorized", FailureKind.FATAL), ("407 Proxy", FailureKind.FATAL), ("429 Slow", FailureKind.RATE_LIMIT)],
)
def test_an_error_whose_text_breaks_off_counts_by_its_status(
    client: Callable[[str], Any], status: str, kind: FailureKind
) -> None:
    with RawServer(lambda number, gemini: [response(b'{"error": {"mess', status, length=999)], once=True) as server:
        found = failed(client(server.url))
    assert (found.kind, found.maybe_billed) == (kind, False)


def test_an_answer_that_stops_is_answered(client: Callable[[str], Any]) -> None:
    with RawServer(lambda number, gemini: [response(body("fine", gemini))[:-5], 2.0]) as server:
        provider = client(server.url)
        provider.settings = ProviderSettings(provider.settings.model, base_url=provider.settings.base_url, timeout=0.5)
        found = failed(provider)
    assert (found.kind, found.answered, found.maybe_billed) == (FailureKind.RETRY, True, True)


# ---------------------------------------------------------------------- secrets


@pytest.mark.parametrize("place", ["model", "finish", "text", "escaped"])
def test_a_key_that_an_answer_repeats_is_not_kept(
    client: Callable[[str], Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "word/of-nobody-0123456789"
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, key)

    def answer(number: str, gemini: bool) -> Pieces:
        data = json.loads(body(f"it is {key}" if place == "text" else "fine", gemini))
        first = data["candidates" if gemini else "choices"][0]
        if place == "finish":
            first["finishReason" if gemini else "finish_reason"] = f"stop {key}"
        elif place != "text":
            data["modelVersion" if gemini else "model"] = f"m-{key} Bearer of-somebody-else-99"
        raw = json.dumps(data)
        return [response((raw.replace("/", "\\/") if place == "escaped" else raw).encode())]

    async def work(provider: Any) -> Any:
        try:
            return await provider.complete(question(provider.model, 0))
        finally:
            await provider.aclose()

    with RawServer(answer) as server:
        reply = asyncio.run(work(client(server.url)))
    assert key not in repr(reply)
    assert "of-somebody-else-99" not in repr(reply)
    assert "[key]" in repr(reply)


# ---------------------------------------------------------------------- proxies and certificates


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def set_to(**variables: str) -> None:
        for name in ("HTTP", "HTTPS", "ALL", "NO"):
            for spelling in (f"{name}_PROXY", f"{name}_proxy".lower()):
                monkeypatch.delenv(spelling, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        http.proxy_of.cache_clear()

    yield set_to
    http.proxy_of.cache_clear()


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://127.0.0.1:3128"}, ("http://127.0.0.1:3128", "HTTPS_PROXY")),
        ({"https_proxy": "proxy.example:3128"}, ("http://proxy.example:3128", "https_proxy")),
        ({"ALL_PROXY": "user:word@proxy.example:3128"}, ("http://user:word@proxy.example:3128", "ALL_PROXY")),
        ({"HTTP_PROXY": "socks5://proxy.example:1080"}, None),  # of another scheme
        ({"ALL_PROXY": "socks5://a:1", "HTTPS_PROXY": "https://b:2"}, ("https://b:2", "HTTPS_PROXY")),
        ({"HTTPS_PROXY": "socks5://a:1", "NO_PROXY": "api.example.com"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": ".example.com"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "localhost, *.example.com"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "api.example.com:443"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "10.0.0.0/8;EXAMPLE.com"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "pi.example.com, ,*.x"}, ("http://a:1", "HTTPS_PROXY")),
    ],
)
def test_the_proxy_is_the_one_that_the_environment_names(
    proxies: Callable[..., None], variables: dict[str, str], found: tuple[str, str] | None
) -> None:
    proxies(**variables)
    assert http.proxy_of("https", "api.example.com") == found
    assert http.proxy_of("https", "10.0.0.7") is None


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("scheme", ["socks", "socks4", "socks4a", "socks5", "SOCKS5h", "ftp"])
def test_a_proxy_that_is_not_http_is_refused_by_its_variable(
    proxies: Callable[..., None], variable: str, scheme: str
) -> None:
    proxies(**{variable: f"{scheme}://user:secret-word@proxy.example:1080"})
    with pytest.raises(ConfigError) as caught:
        http.proxy_of("https", "api.example.com")
    assert variable in str(caught.value)
    assert scheme in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["http://", "http://host:port", "http://[::1", "://x"])
def test_a_proxy_without_a_host_is_refused(proxies: Callable[..., None], value: str) -> None:
    proxies(HTTPS_PROXY=value)
    with pytest.raises(ConfigError, match="HTTPS_PROXY"):
        http.proxy_of("https", "api.example.com")


@pytest.mark.parametrize(
    "url", ["http://u:pw@[::1/v1?key=q", "http://h:port/v1", "http://h:99999999/v1", "http:///v1", "h"]
)
def test_a_base_url_that_is_not_an_address_is_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url") as caught:
        http.Endpoint(url)
    assert "pw" not in str(caught.value)
    assert "key=q" not in str(caught.value)


FAR = "https://api.example.com"


@pytest.mark.parametrize(
    ("answer", "fatal"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ndenied", True),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", False),
        (b"", False),
        (b"what?\r\n\r\n", False),
    ],
    ids=["407", "403", "502", "500", "hang up", "no HTTP"],
)
def test_what_a_proxy_does_not_connect_is_never_billed(
    client: Callable[[str], Any], proxies: Callable[..., None], answer: bytes, fatal: bool
) -> None:
    with RawServer(lambda number, gemini: [answer], once=True) as proxy:
        proxies(HTTPS_PROXY=proxy.url.replace("http://", "http://user:secret-word@"))
        found = failed(client(FAR))
        assert proxy.requests == 1
    assert (found.maybe_billed, found.answered) == (False, False)
    assert found.kind is (FailureKind.FATAL if fatal else FailureKind.RETRY)
    assert found.not_sent is not fatal
    assert "secret" not in found.message
    assert "HTTPS_PROXY" in found.message or not fatal


def test_a_socks_proxy_never_gets_the_key(client: Callable[[str], Any], proxies: Callable[..., None]) -> None:
    with RawServer(lambda number, gemini: [b""], once=True) as proxy:
        proxies(ALL_PROXY=proxy.url.replace("http://", "socks5://"))
        found = failed(client("http://api.example.com"))
        assert proxy.requests == 0
    assert (found.kind, found.maybe_billed) == (FailureKind.FATAL, False)
    assert "ALL_PROXY" in found.message


def test_a_private_host_is_reached_whatever_the_proxy(
    client: Callable[[str], Any], proxies: Callable[..., None]
) -> None:
    proxies(ALL_PROXY="socks5://127.0.0.1:9", HTTP_PROXY="nonsense://x")
    with RawServer(lambda number, gemini: [response(body("fine", gemini))]) as server:
        assert asked(client(server.url)) == ["fine"]


def test_a_proxy_without_a_scheme_is_http(client: Callable[[str], Any], proxies: Callable[..., None]) -> None:
    with RawServer(lambda number, gemini: [response(body("fine", gemini))]) as proxy:
        proxies(HTTP_PROXY=proxy.url.removeprefix("http://"))
        assert asked(client("http://api.example.com")) == ["fine"]
        assert proxy.requests == 1


def test_an_unknown_certificate_names_the_variable_for_it(client: Callable[[str], Any]) -> None:
    with Untrusted() as server:
        found = failed(client(server.url))
    assert (found.kind, found.maybe_billed) == (FailureKind.FATAL, False)
    assert "SSL_CERT_FILE" in found.message
