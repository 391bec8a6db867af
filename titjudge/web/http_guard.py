"""The common parts of all servers: checks of host and origin, security headers, tokens, JSON, and the socket.

`Guard` is an ASGI layer in front of the whole application, so that no route can forget the checks.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal

from titjudge.core.errors import UserError
from titjudge.core.redaction import url_parts

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
MAX_BODY = 64 * 1024
_OTHER_SITE = "Requests of other sites are refused."
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?:(?P<name>[\w.-]+)|\[(?P<address>[\da-fA-F:.]+)\])(?::\d{1,5})?", re.ASCII)


class Guard:
    """Refuses unknown Host headers and cross-site writes, and adds security headers.

    A page of another site can reach a local server through a DNS name that it controls (DNS rebinding), which then is the Host
    header. A server on loopback accepts only loopback names; any other also accepts `host`, the name of this machine, and
    IP addresses, which cannot be rebound. Both accept the name in `url`, by which a tunnel or a proxy is reached.

    A browser names the site of the page that writes (Origin). It must be the site of `url`, whatever Host header the
    tunnel or proxy passes on; without `url`, the site of the Host header.
    """

    def __init__(self, app: App, host: str, url: str = "") -> None:
        self._app = app
        self._local = is_loopback(host)
        self._names = LOOPBACK if self._local else LOOPBACK | {host.lower(), socket.gethostname().lower()}
        if named := url_parts(url).hostname:
            self._names = self._names | {named}
        self._origin = _origin(url) if url else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        reason = self._refusal(scope["method"], headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {key for key, _ in message["headers"]}
                extra = (*_HEADERS, (b"content-security-policy", POLICY.encode()), (b"cache-control", b"no-store"))
                added = [pair for pair in extra if pair[0] not in present]
                kept = [(key, value) for key, value in message["headers"] if value != b""]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        if reason:
            await guarded({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await guarded({"type": "http.response.body", "body": reason.encode()})
        else:
            await self._app(scope, receive, guarded)

    def _refusal(self, method: str, headers: dict[str, str]) -> str:
        """Return why a request is refused: its Host is unknown, or another site writes; empty if it is not refused."""
        if not self._known(headers.get("host", "")):
            return "This server does not answer under that name."
        if method not in ("GET", "HEAD"):
            origin = headers.get("origin")
            if origin is not None and not self._own(origin, headers["host"]):
                return f"Answers are taken from {self._origin} only." if self._origin else _OTHER_SITE
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                return _OTHER_SITE
        return ""

    def _own(self, origin: str, host: str) -> bool:
        """Return True if a page of this server writes."""
        if self._origin:
            return origin.lower() == self._origin
        return url_parts(origin).netloc.lower() == host.lower()

    def _known(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        name = (match["name"] or match["address"]).lower() if match else ""
        return name in self._names or (not self._local and _is_address(name))


def _origin(url: str) -> str:
    """Write the site of an address as browsers do: without its path and the port that its scheme has anyway."""
    parts = url_parts(url)
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{name}{port}"


def is_loopback(host: str) -> bool:
    """Return True if a server that listens on `host` can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def read_json(request: Any) -> Any:
    """Read the JSON body of a request; None if it is too long, of another content type, or no JSON."""
    import orjson

    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def json_response(content: Any, status: int = 200) -> Any:
    import orjson
    from starlette.responses import Response

    return Response(orjson.dumps(content), status, media_type="application/json")


def bearer_token(request: Any) -> str:
    """Read the token of the Authorization header; empty if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def same(expected: str, received: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(expected.encode(), received.encode("utf-8", "replace"))


def listen(host: str, port: int | None, usual: int = 0) -> socket.socket:
    """Open a listening socket.

    Args:
        host: Address to listen on.
        port: 0 takes a free port; None takes `usual`, so that links stay valid after a restart, or a free port if it is taken.
        usual: The port that None stands for.

    Raises:
        UserError: The address cannot be used.
    """
    if port is None:
        try:
            return listen(host, usual)
        except UserError:
            return listen(host, 0)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without IPPROTO_TCP asyncio sets no TCP_NODELAY.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except (OSError, OverflowError) as error:
        sock.close()
        raise UserError(
            f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or 'a port must be from 0 to 65535'}. Choose another --host or --port"
        ) from error
    return sock


def address(host: str, sock: socket.socket) -> str:
    """Make the URL of a server on this socket."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{sock.getsockname()[1]}"


def run(app: App, sock: socket.socket, lifespan: Literal["on", "off"] = "off") -> None:
    """Serve until Ctrl-C or SIGTERM; with `lifespan` the application gets start and shutdown events."""
    import contextlib
    import logging

    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan=lifespan, ws="none", server_header=False,
        timeout_keep_alive=30, timeout_graceful_shutdown=2, proxy_headers=False,
    )  # fmt: skip
    # A second Ctrl-C cancels what the server still waits for; its traceback is not needed.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "CancelledError" not in record.getMessage())
    with contextlib.suppress(KeyboardInterrupt), sock:
        uvicorn.Server(config).run(sockets=[sock])
