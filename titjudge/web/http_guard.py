"""What both served pages share: who may ask (host, origin), what a browser may do (headers), and the socket.

The checks are one small ASGI layer in front of everything, so that no route can forget them.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from titjudge.core.errors import UserError

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


class Guard:
    """Refuses foreign hosts and cross-site writes, and adds the security headers.

    A page of another site can reach a local server through its own DNS name (rebinding); the Host header gives it
    away. On loopback only loopback names pass; elsewhere also `host` itself, this machine's name, and addresses,
    which nobody rebinds.
    """

    def __init__(self, app: App, host: str) -> None:
        self._app = app
        self._local = is_loopback(host)
        self._names = LOOPBACK if self._local else LOOPBACK | {host.lower(), socket.gethostname().lower()}

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
        if not self._known(headers.get("host", "")):
            return "This server does not answer under that name."
        if method not in ("GET", "HEAD"):
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc.lower() != headers["host"].lower():
                return "Requests of other sites are refused."
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                return "Requests of other sites are refused."
        return ""

    def _known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        return name in self._names or (not self._local and _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether a server that listens on `host` is reached from this machine only."""
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
    """Read the JSON body of a request, None when it is too long, of another type, or no JSON."""
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


def static(folder: Path, name: str) -> Any:
    """Make a response with a file of the package."""
    from starlette.responses import Response

    types = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
    return Response((folder / name).read_bytes(), media_type=types[Path(name).suffix])


def listen(host: str, port: int | None, usual: int = 0) -> socket.socket:
    """Open a listening socket; port 0 takes a free one, None the `usual` one, so that links outlive a restart, or else a free one.

    Raises:
        UserError: the address cannot be used.
    """
    if port is None:
        try:
            return listen(host, usual)
        except UserError:
            return listen(host, 0)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, else asyncio leaves TCP_NODELAY off
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except (OSError, OverflowError) as error:
        sock.close()
        raise UserError(f"cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}") from error
    return sock


def address(host: str, sock: socket.socket) -> str:
    """Make the URL under which people reach the socket."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{sock.getsockname()[1]}"


def moved(link: str, usual: int, asked: int | None) -> str:
    """Say where the usual port was taken; empty where it was not, or another was asked for."""
    if asked is not None or f":{usual}/" in link:
        return ""
    return f"port {usual} is taken, so these links hold only until it ends; --port N fixes one"


def run(app: App, sock: socket.socket, lifespan: Literal["on", "off"] = "off") -> None:
    """Serve until Ctrl-C or SIGTERM; with `lifespan` the application is told of the start and of the end."""
    import contextlib

    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan=lifespan, ws="none", server_header=False,
        timeout_keep_alive=30, timeout_graceful_shutdown=2, proxy_headers=False,
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt), sock:
        uvicorn.Server(config).run(sockets=[sock])
