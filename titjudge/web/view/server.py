"""`view`: running and finished runs, their progress and cost, and their reports.

A report is loaded into a frame by a ticket that is good once: the frame cannot leave this server, reach the list or the key, or
navigate the tab. Nothing is written.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from titjudge.core.errors import DataError, UserError
from titjudge.web.http_guard import POLICY, App, json_response, read_json
from titjudge.web.page_app import json_of, keyed_route, page_app, serve_page, single_key
from titjudge.web.view import PORT
from titjudge.web.view.runs import Runs

_STATIC = Path(__file__).parent / "static"
_STATIC_FILES = ("view.css", "view.js", "framed.js")
# A report may come from anybody: it gets an origin of its own, without access to the network or to other pages.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; frame-ancestors 'self'"
)
_FRAME_POLICY = f"{POLICY}; frame-src 'self'"
_TICKET_SECONDS = 60.0


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
    key = secrets.token_urlsafe(24)
    serve_page(build_app(runs, key, host=host), [key], host, port, PORT, ready)


def build_app(runs: Path, key: str, *, host: str = "127.0.0.1") -> App:
    """Make the page as an ASGI application; `key` opens it."""
    from starlette.routing import Route

    page, known, refusal = _Page(Runs(runs)), single_key(key), "open the link that view printed"
    files = {"/": _STATIC / "view.html", **{f"/{name}": _STATIC / name for name in _STATIC_FILES}}
    routes = [
        Route("/report.html", page.frame),
        keyed_route("/api/runs", page.list, known, refusal=refusal),
        keyed_route("/api/ticket", page.ticket, known, method="POST", refusal=refusal),
        Route("/report/{ticket:str}", page.report),
    ]
    return page_app(files, routes, host)


class _Page:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._tickets: dict[str, tuple[str, float]] = {}  # to the id of a run, and until when

    async def frame(self, request: Any) -> Any:
        """Serve the page that loads a report into a frame; it holds nothing secret."""
        from starlette.responses import Response

        content = (_STATIC / "report.html").read_bytes()
        return Response(content, media_type="text/html", headers={"content-security-policy": _FRAME_POLICY})

    async def list(self, request: Any, person: str) -> Any:
        return await json_of(self._listed)

    def _listed(self) -> dict[str, Any]:
        return {"root": self._runs.root.resolve().name, "runs": [_record(state) for state in self._runs.states()]}

    async def ticket(self, request: Any, person: str) -> Any:
        """Give a ticket for the report of a run, `{"run": ID}`, quoted as in the list."""
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("run"), str):
            raise DataError("a JSON object with run is needed")
        now = time.monotonic()
        self._tickets = {ticket: known for ticket, known in self._tickets.items() if known[1] > now}
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = unquote(body["run"], errors="surrogateescape"), now + _TICKET_SECONDS
        return json_response({"ticket": ticket})

    async def report(self, request: Any) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import FileResponse, PlainTextResponse

        run_id, until = self._tickets.pop(request.path_params["ticket"], ("", 0.0))
        if until < time.monotonic():
            return PlainTextResponse("Open the report from the list.", 401)
        file = await run_in_threadpool(self._runs.report, run_id)
        if file is None:
            return PlainTextResponse("No such report.", 404)
        headers = {"content-security-policy": _REPORT_POLICY, "x-frame-options": "SAMEORIGIN"}
        return FileResponse(file, media_type="text/html", headers=headers)


def _record(state: Any) -> dict[str, Any]:
    record = {key: _text(value) for key, value in asdict(state).items()}
    record["href"] = quote(state.id, errors="surrogateescape") if state.report else None
    return record


def _text(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
