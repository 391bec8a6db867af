"""`view`: running and finished runs, their progress, what they spent, and their reports.

The link holds a key; opening it sets a cookie (HttpOnly, SameSite=Strict) that the reports need, too, and that other
users of the machine do not have. Nothing is written; there is no request but GET.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.web.http_guard import App, Guard, address, listen, run, static
from titjudge.web.view.runs import Runs

_STATIC = Path(__file__).parent / "static"
# A report may come from anybody: a page of its own origin, which reaches no network and not the pages around it.
_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


PORT = 8766


def serve_view(
    runs: Path, host: str = "127.0.0.1", port: int | None = 0, ready: Callable[[list[str]], None] | None = None
) -> None:
    """Serve the view of a runs folder (or of one run) until Ctrl-C.

    Args:
        runs: Where runs are, up to three folders deep; it may still be empty.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, None the usual one where it is free.
        ready: Called with the link once the server listens.

    Raises:
        UserError: No such folder, or the address cannot be used.
    """
    if not runs.is_dir():
        raise UserError(f"{runs}: no such folder of runs")
    sock = listen(host, port, PORT)
    key = secrets.token_urlsafe(24)
    if ready is not None:
        ready([f"{address(host, sock)}/open?key={key}"])
    run(build_app(runs, key, host=host, cookie=f"titjudge-view-{sock.getsockname()[1]}"), sock)


def build_app(runs: Path, key: str, *, host: str = "127.0.0.1", cookie: str = "titjudge-view") -> App:
    """Make the view as an ASGI application; `key` opens it."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    page = _Page(Runs(runs), key, cookie)
    return Guard(
        Starlette(
            routes=[
                Route("/open", page.open),
                Route("/", page.file("view.html")),
                Route("/view.css", page.file("view.css")),
                Route("/view.js", page.file("view.js")),
                Route("/api/runs", page.list),
                Route("/runs/{name:path}/report.html", page.report),
            ]
        ),
        host,
    )


class _Page:
    def __init__(self, runs: Runs, key: str, cookie: str) -> None:
        self._runs, self._key, self._cookie = runs, key, cookie

    def _is_known(self, key: str) -> bool:
        return hmac.compare_digest(key.encode("utf-8", "replace"), self._key.encode())

    def _is_open(self, request: Any) -> bool:
        return self._is_known(request.cookies.get(self._cookie, ""))

    async def open(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, RedirectResponse

        if not self._is_known(request.query_params.get("key", "")):
            return PlainTextResponse("This link is out of date: use the one that `view` printed.", 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie, self._key, httponly=True, samesite="strict")
        return response

    def file(self, name: str) -> Callable[[Any], Any]:
        return lambda request: static(_STATIC, name)

    async def list(self, request: Any) -> Any:
        import orjson
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import Response

        if not self._is_open(request):
            return Response(b'{"error": "open the link that view printed"}', 401, media_type="application/json")
        states = await run_in_threadpool(self._runs.states)
        content = orjson.dumps({"root": self._runs.root.resolve().name, "runs": [_record(state) for state in states]})
        return Response(content, media_type="application/json")

    async def report(self, request: Any) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import FileResponse, PlainTextResponse

        if not self._is_open(request):
            return PlainTextResponse("Open the link that `view` printed.", 401)
        file = await run_in_threadpool(self._runs.report, request.path_params["name"])
        if file is None:
            return PlainTextResponse("No such report.", 404)
        return FileResponse(file, media_type="text/html", headers={"content-security-policy": _POLICY})


def _record(state: Any) -> dict[str, Any]:
    from urllib.parse import quote

    record = {key: _text(value) for key, value in asdict(state).items()}
    record["href"] = f"runs/{quote(state.id, errors='surrogateescape')}/report.html" if state.report else None
    return record


def _text(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
