"""Send HTTP requests to models, for all providers: one aiohttp session for each event loop, bytes in, bytes out.

The SDKs cost 2 to 3 ms of CPU per request. It never retries, follows no redirect (a key must not travel to another host) and
keeps no cookies. Each request has a new connection: on a shared one, a second response to an earlier request would count as
the answer. That costs 0.2 ms of CPU per request, 0.7 ms with TLS. Tests replace it by passing another `Transport`.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import ipaddress
import itertools
import os
import re
import time
import urllib.request
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlunsplit
from weakref import WeakKeyDictionary, WeakSet

import orjson

from titjudge.core.errors import ConfigError, must_be
from titjudge.core.redaction import register_secret, url_parts, without_secrets
from titjudge.core.serialization import without_surrogates
from titjudge.providers.base import Headers, note_sending, watched_sending

if TYPE_CHECKING:
    import aiohttp

_CHUNKED = 2**20  # bytes; longer bodies go out in pieces so that the loop stays free
_CONNECT = 30.0  # seconds
_ASIDE = 30.0  # seconds an address that refuses connections is left alone
LONGEST_ANSWER = 32 * 2**20  # bytes, decompressed
LONGEST_HEADER = 2**16  # bytes


class TransportError(Exception):
    """No answer came over the wire; the message contains no key and no query.

    Attributes:
        answered: An answer began: its status and headers came, and the rest cannot be used.
    """

    def __init__(self, message: str, *, answered: bool = False) -> None:
        super().__init__(message)
        self.answered = answered


class Unreachable(TransportError):
    """No connection: nothing was sent, so another address may be tried at once."""


class Dropped(TransportError):
    """The connection broke, or what came was not HTTP; the request may have been billed."""


class TimedOut(TransportError):
    """No complete answer within the time allowed; the request may have been billed."""


class Untrusted(TransportError):
    """Nothing may be sent: the server's certificate is not to be trusted, or the proxy refuses the connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer.

    Attributes:
        status: The HTTP status.
        headers: By name, in any case.
        body: Decompressed.
    """

    status: int
    headers: Headers
    body: bytes

    @property
    def is_success(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Read the JSON of the body; raises as `parsed`."""
        return parsed(self.body)


class Transport:
    """HTTP for all providers of a process. Each event loop gets a separate session, made at the first request.

    A session is closed when the last of its users has left it (`leave`), or by `aclose`.
    """

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()
        self._users: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[Any]] = WeakKeyDictionary()

    async def post_json(self, url: str, *, headers: Headers, body: bytes, timeout: float) -> Answer:
        """POST `body` (JSON text) once, or GET if it is empty, and translate the exceptions of aiohttp.

        Raises:
            TransportError: No complete HTTP answer within `timeout` seconds.
            ConfigError: The URL is not a web address.
        """
        import aiohttp

        data, proxy = io.BytesIO(body) if len(body) > _CHUNKED else body, proxy_of(*_origin(url))
        with watched_sending() as sending:
            try:
                async with self.session().request(
                    "POST" if body else "GET",
                    url,
                    data=data or None,
                    headers=headers,
                    timeout=_timeout(timeout),
                    proxy=proxy and proxy.url,
                    allow_redirects=False,
                ) as response:
                    read = whole(response.status, response.headers, response.content.iter_any())
                    return Answer(response.status, response.headers, await read)
            except Dropped as error:
                raise Dropped(f"{place(url)}: {error}", answered=True) from None
            except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError) as error:
                raise Untrusted(f"{place(url)}: {error}{trust_hint(error)}") from None
            except aiohttp.ClientHttpProxyError as error:
                raise refused_by_proxy(error.status, url) from None
            except aiohttp.InvalidURL:
                raise ConfigError(must_be("base_url", "http://HOST/... or https://HOST/...", place(url))) from None
            except (aiohttp.ClientError, OSError) as error:
                if not sending.begun:
                    through = f" through the proxy in {proxy.variable}" if proxy else ""
                    raise Unreachable(f"cannot connect to {place(url)}{through}: {_reason(error)}") from None
                if isinstance(error, TimeoutError):
                    raise TimedOut(f"no answer from {place(url)} within {timeout:g} s") from None
                answered = isinstance(error, aiohttp.ClientResponseError)  # the answer cannot be read as HTTP
                raise Dropped(f"the connection to {place(url)} broke: {_reason(error)}", answered=answered) from None

    async def get(self, url: str, *, timeout: float) -> Answer:
        """GET a file once, without a key; as `post_json`."""
        return await self.post_json(url, headers={"Accept": "*/*"}, body=b"", timeout=timeout)

    def join(self, user: object) -> None:
        """Keep the running loop's session open until `user` leaves or is gone."""
        loop = asyncio.get_running_loop()
        users = self._users.get(loop)
        if users is None:
            users = self._users[loop] = WeakSet()
        users.add(user)

    async def leave(self, user: object) -> None:
        """Undo `join`; the last one out closes the session."""
        users = self._users.get(asyncio.get_running_loop())
        if users is None:
            return
        users.discard(user)
        if not users:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the running loop's session; the next request opens a new one."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()
            await asyncio.sleep(0)  # lets the closed connections report to the loop

    def session(self) -> aiohttp.ClientSession:
        """Return the running loop's session, made when it is first needed."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            session = self._sessions[loop] = _new_session()
        return session


def _new_session() -> aiohttp.ClientSession:
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *arguments: Any, **named: Any) -> Any:
            connection = await super().connect(*arguments, **named)
            note_sending()  # also through a proxy: before, nothing of the request was sent
            return connection

    known = inspect.signature(aiohttp.ClientSession).parameters
    many: dict[str, Any] = {"max_headers": LONGEST_HEADER} if "max_headers" in known else {}  # new
    return aiohttp.ClientSession(
        connector=Connector(limit=0, ttl_dns_cache=300, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # `whole` does it, and never makes more of an answer than it may be long
        headers={
            "User-Agent": "titjudge",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
        },
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
        **many,
    )


async def whole(status: int, headers: Headers, chunks: AsyncIterator[bytes], most: int = LONGEST_ANSWER) -> bytes:
    """Read the body of an answer, decompressed and without secrets. If an error breaks off, the received part of it is enough.

    Raises:
        Dropped: An answer with a status of success broke off, cannot be decompressed or has more than `most` bytes.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        unpack = _unpacker(headers.get("Content-Encoding", ""))
        async for chunk in chunks:
            pieces.append(unpack(chunk, most + 1 - size))
            size += len(pieces[-1])
            if size > most:
                raise Dropped(f"the answer is longer than {most >> 20} MB")
    except Exception as error:  # each HTTP library has a different one
        if 200 <= status < 300:
            raise Dropped(f"the answer cannot be read to its end: {_reason(error)}", answered=True) from error
    return without_secrets(b"".join(pieces))


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    """Make a function that turns a piece of a body into its text, of at most the given number of bytes."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return lambda chunk, most: chunk
    if name not in ("gzip", "x-gzip", "deflate"):
        raise zlib.error(f"the answer is compressed by '{name[:20]}', which the request did not accept")
    decompressor: Any = None

    def unpack(chunk: bytes, most: int) -> bytes:
        nonlocal decompressor
        if decompressor is None and chunk:  # content called deflate comes with and without a header
            bare = name == "deflate" and chunk[0] & 0x0F != 8
            decompressor = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
        return bytes(decompressor.decompress(chunk, most)) if chunk else b""

    return unpack


@lru_cache(maxsize=64)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    import aiohttp

    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, _CONNECT))


@lru_cache(maxsize=256)
def _origin(url: str) -> tuple[str, str]:
    parts = url_parts(url)
    return parts.scheme, parts.hostname or ""


class Proxy(NamedTuple):
    """An HTTP proxy, and the environment variable that names it."""

    url: str
    variable: str


@lru_cache(maxsize=64)
def proxy_of(scheme: str, host: str) -> Proxy | None:
    """Find the proxy that the environment names for a host; one of a private network is never reached through a proxy.

    Raises:
        ConfigError: It is not an HTTP proxy.
    """
    proxies = urllib.request.getproxies()
    if is_private(host) or urllib.request.proxy_bypass(host) or _excepted(host, proxies.get("no", "")):
        return None
    kind = scheme if proxies.get(scheme) else "all"
    address = proxies.get(kind, "").strip()
    if not address:
        return None
    names = sorted(
        (name for name, value in os.environ.items() if name.lower() == f"{kind}_proxy" and value), key=str.islower
    )
    variable = names[-1] if names else f"the system's {kind} proxy"
    address = address if "://" in address else f"http://{address}"
    parts = url_parts(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        given = address.partition("://")[0]
        raise ConfigError(
            f"{variable} must name an HTTP proxy as http://HOST:PORT, not '{given}://...'. Change or unset it. "
            "Write special characters of a password as %XX"
        )
    for secret in {parts.password or "", unquote(parts.password or ""), _basic(parts.username, parts.password)}:
        register_secret(secret)
    return Proxy(address, variable)


def _excepted(host: str, listed: str) -> bool:
    """Whether NO_PROXY lists a host in a form that `urllib` does not know: `*.HOST`, `HOST:PORT`, `;`, a network."""
    for entry in re.split(r"[,;\s]+", listed):
        name = re.sub(r"(?<=[^:]):\d+$", "", entry.removeprefix("*")).lower()
        if name and f".{host}".endswith(f".{name.removeprefix('.')}"):
            return True
        with suppress(ValueError):
            if "/" in name and ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False):
                return True
    return False


def refused_by_proxy(status: int, url: str) -> Exception:
    """Make the error of a proxy that did not open a connection to the host of `url`: nothing was sent, nothing is billed."""
    proxy = proxy_of(*_origin(url))
    variable = proxy.variable if proxy else "the environment"
    text = f"the proxy in {variable} does not connect to {place(url)}: HTTP {status}"
    if status in (403, 407):
        return Untrusted(f"{text}. Check its address and password, or add the host to NO_PROXY.")
    return Unreachable(text)


def trust_hint(error: BaseException) -> str:
    """Return advice on a certificate that cannot be verified; empty for other errors of TLS."""
    if "CERTIFICATE_VERIFY_FAILED" not in str(error):
        return ""
    return ". If the certificate comes from a private CA, set SSL_CERT_FILE to the file of the CA."


def place(url: str) -> str:
    """Return scheme, host and port of an address."""
    parts = url_parts(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@lru_cache(maxsize=256)
def is_private(host: str) -> bool:
    """Whether a host is this machine or one of a private network (a server there may need no key)."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))


shared = Transport()
"""The transport every provider uses unless it is given another."""


class Endpoint:
    """One address of a server: the URL for requests, and its identity without credentials."""

    def __init__(self, url: str) -> None:
        parts = url_parts(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(must_be("base_url", "http://HOST/... or https://HOST/...", _bare(url)))
        place = parts.netloc.rpartition("@")[2]
        self.host = parts.hostname or ""
        self.identity = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self.query = f"?{parts.query}" if parts.query else ""
        self.credentials = _basic(parts.username, parts.password)
        for secret in (parts.password or "", self.credentials, *(value for _, value in parse_qsl(parts.query))):
            register_secret(secret)
        self.private = is_private(self.host)
        self.in_flight = 0
        self.aside_until = 0.0

    def url(self, path: str) -> str:
        """Return the address of a path on this server, with the query that its base address has."""
        return f"{self.identity}{path}{self.query}"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Count the request in flight; an address that cannot be reached is put aside for a while."""
        self.in_flight += 1
        try:
            yield
        except Unreachable:
            self.aside_until = time.monotonic() + _ASIDE
            raise
        finally:
            self.in_flight -= 1


class Endpoints:
    """Several addresses of the same service: the least busy first, in turn when equally busy, the unreachable last."""

    def __init__(self, base_urls: str) -> None:
        self.all = [Endpoint(url) for url in base_urls.split(",") if url.strip()]
        if not self.all:
            raise ConfigError("base_url is empty. Write http://HOST/..., or remove the key")
        self.identity = ",".join(sorted({endpoint.identity for endpoint in self.all}))
        self._turn = itertools.count()

    def order(self) -> list[Endpoint]:
        """In which order to try the addresses for one request."""
        if len(self.all) == 1:
            return self.all
        now, turn, count = time.monotonic(), next(self._turn), len(self.all)
        rank = {id(endpoint): (index - turn) % count for index, endpoint in enumerate(self.all)}
        return sorted(self.all, key=lambda e: (max(0.0, e.aside_until - now), e.in_flight, rank[id(e)]))


def _bare(url: str) -> str:
    return url.rpartition("@")[2].partition("?")[0]


def _basic(user: str | None, password: str | None) -> str:
    return "Basic " + b64encode(f"{user or ''}:{password or ''}".encode()).decode() if user or password else ""


def parsed(body: bytes) -> Any:
    """Read the JSON of an answer, also JSON that orjson refuses (half an emoji at the end of a cut answer, NaN).

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        import json

        return without_surrogates(json.loads(body))


def unreadable(body: bytes) -> str:
    """Describe an answer that has no known form: empty, no JSON, or JSON of another shape; with its first 200 bytes."""
    if not body.strip():
        return "the answer is empty"
    start = body[:200].lstrip().lower()
    try:
        parsed(body)
    except (ValueError, RecursionError):
        what = "is not JSON"
        if start.startswith((b"data:", b"event:", b": ")):
            what = "is a stream of events, which was not requested (turn streaming off at the server or proxy)"
        elif start.startswith(b"<"):
            what = "is a web page and not JSON (is base_url the address of the API?)"
    else:
        what = "has an unexpected form (is base_url the address of this API?)"
    return f"the answer {what}: {body[:200].decode('utf-8', 'replace')}"
