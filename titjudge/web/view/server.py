"""`view`: running and finished runs, their progress and cost, and their reports.

The link contains a key; opening it sets a cookie (HttpOnly, SameSite=Strict), which every other request needs, reports
included, so that other users of the machine cannot read them. Nothing is written; all requests are GET.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.web.http_guard import App, Guard, address, json_response, listen, run, same, static_routes
from titjudge.web.view.runs import Runs

_STATIC = Path(__file__).parent / "static"
# A report may come from anybody: it gets an origin of its own, without access to the network or to other pages.
_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)


PORT = 8766


def serve_view(
    runs: Path, host: str = "127.0.0.1", port: int | None = 0, ready: Callable[[list[str]], None] | None = None
) -> None:
    """Serve the page of a runs folder (or of one run) until Ctrl-C.

    Args:
        runs: Folder with runs, up to three folders deep; it may be empty.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, None the usual one if it is free.
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
    """Make the page as an ASGI application; `key` opens it."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    page = _Page(Runs(runs), key, cookie)
    routes = [
        *static_routes({"/": _STATIC / "view.html", **{f"/{n}": _STATIC / n for n in ("view.css", "view.js")}}),
        Route("/open", page.open),
        Route("/api/runs", page.list),
        Route("/runs/{name:path}/report.html", page.report),
    ]
    return Guard(Starlette(routes=routes), host)


class _Page:
    def __init__(self, runs: Runs, key: str, cookie: str) -> None:
        self._runs, self._key, self._cookie = runs, key, cookie

    def _is_open(self, request: Any) -> bool:
        return same(self._key, request.cookies.get(self._cookie, ""))

    async def open(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, RedirectResponse

        if not same(self._key, request.query_params.get("key", "")):
            return PlainTextResponse("This link is out of date: use the one that `view` printed.", 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie, self._key, httponly=True, samesite="strict")
        return response

    async def list(self, request: Any) -> Any:
        from starlette.concurrency import run_in_threadpool

        if not self._is_open(request):
            return json_response({"error": "open the link that view printed"}, 401)
        states = await run_in_threadpool(self._runs.states)
        return json_response({"root": self._runs.root.resolve().name, "runs": [_record(state) for state in states]})

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
