"""`view`: the list of runs with scores, progress and cost, and their reports, which are made again while a run goes on.

A report is loaded into a frame by a ticket that is good once: the frame cannot leave this server, reach the list or the key, or
navigate the tab. A report that is a folder may load its files by the same ticket, and nothing else. Nothing is written into
the runs folder.

A page asks for its files when they are looked at, which may be hours later; it has no key, since it may come from anybody.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from titjudge.core.errors import DataError, UserError
from titjudge.core.run_records import StoredRun
from titjudge.core.types import Json
from titjudge.web import PageAddress
from titjudge.web.http_guard import POLICY, App, json_response, read_json
from titjudge.web.page_app import json_of, keyed_route, page_app, serve_page, single_key
from titjudge.web.view import PORT
from titjudge.web.view.run_state import RUNNING, Identity, RunState, identity
from titjudge.web.view.runs import TYPES, Runs, read_file

_PAGE_SECONDS = 60.0  # in which a page must be opened
_FILES_SECONDS = 24 * 3600.0  # without a look, after which its files are closed


@dataclass(slots=True)
class _Ticket:
    """The reports that a ticket opens.

    Attributes:
        runs: Ids of the runs whose report may be opened; none once it was.
        until: When the ticket ends, by the clock.
        folder: The folder whose files may be read; None before the page is opened, and if it needs none.
    """

    runs: tuple[str, ...]
    until: float
    folder: Path | None = None


class Tickets:
    """The tickets that are out. Methods are called from one thread.

    Args:
        clock: Tells the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[str, _Ticket] = {}

    def give(self, runs: Sequence[str]) -> str:
        """Make a ticket for the report of runs."""
        self._tickets = {name: ticket for name, ticket in self._tickets.items() if ticket.until > self._clock()}
        name = secrets.token_urlsafe(24)
        self._tickets[name] = _Ticket(tuple(runs), self._clock() + _PAGE_SECONDS)
        return name

    def take(self, name: str) -> tuple[str, ...]:
        """Return the runs whose report a ticket opens, once; none if it opens nothing."""
        ticket = self._standing(name)
        if ticket is None:
            return ()
        runs, ticket.runs = ticket.runs, ()
        return runs

    def keep(self, name: str, folder: Path) -> None:
        """Let a ticket that was taken open the files of a folder from now on."""
        if (ticket := self._standing(name)) is not None:
            ticket.folder, ticket.until = folder, self._clock() + _FILES_SECONDS

    def folder(self, name: str) -> Path | None:
        """Return the folder whose files a ticket opens; None if it opens none."""
        ticket = self._standing(name)
        if ticket is None or ticket.folder is None:
            return None
        ticket.until = self._clock() + _FILES_SECONDS
        return ticket.folder

    def _standing(self, name: str) -> _Ticket | None:
        ticket = self._tickets.get(name)
        return ticket if ticket is not None and ticket.until > self._clock() else None


_STATIC = Path(__file__).parent / "static"
_STATIC_FILES = tuple("view.css shared.js view.js framed.js".split())
# A report may come from anybody: it gets a separate origin, without access to the network or to other pages.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; frame-ancestors 'self'"
)
_FOLDER_POLICY = _REPORT_POLICY.replace("img-src", "img-src 'self'").replace("script-src", "script-src 'self'")
_FRAME_POLICY = f"{POLICY}; frame-src 'self'"
_WATCHED = ("scores.jsonl", "results.json")  # files of a run whose change makes a made report old
_LIVE = 500  # images that the report of a running run lists, so that it is made in seconds


def serve_view(
    runs: Path,
    *,
    open_run: Callable[[Path], StoredRun],
    at: PageAddress,
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the page of a runs folder (or of one run) until Ctrl-C.

    Args:
        runs: Folder with runs, up to three folders deep; it may be empty.
        open_run: Opens a run folder, to make reports of it.
        at: Its address.
        ready: Called with the link once the server listens.

    Raises:
        UserError: No such folder, or the address cannot be used.
    """
    if not runs.is_dir():
        raise UserError(f"{runs}: no such folder. Give a folder of runs")
    key = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix="titjudge-view-") as place:
        app = build_app(runs, key, MadeReports(Path(place), open_run), at)
        serve_page(app, [f"#{key}"], at, PORT, ready)


def build_app(runs: Path, key: str, made_reports: MadeReports, at: PageAddress) -> App:
    """Make the page as an ASGI application; `key` opens it."""
    from starlette.routing import Route

    page, opened_by, refusal = (
        _ViewEndpoints(Runs(runs, made_reports.open_run), made_reports),
        single_key(key),
        "open the link that view printed",
    )
    files = {"/": _STATIC / "view.html", **{f"/{name}": _STATIC / name for name in _STATIC_FILES}}
    routes = [
        Route("/report.html", page.frame),
        keyed_route("/api/runs", page.list, opened_by, refusal=refusal),
        keyed_route("/api/run", page.run, opened_by, refusal=refusal),
        keyed_route("/api/ticket", page.ticket, opened_by, method="POST", refusal=refusal),
        Route("/report/{ticket:str}/", page.report),
        Route("/report/{ticket:str}/files/{name:path}", page.file),
    ]
    return page_app(files, routes, at)


class MadeReports:
    """Reports in a separate folder; the run folders are only read.

    Args:
        place: The folder for the reports.
        open_run: Opens a run folder for reading.
    """

    def __init__(self, place: Path, open_run: Callable[[Path], StoredRun]) -> None:
        self._place, self.open_run = place, open_run
        self._made: dict[tuple[Path, ...], tuple[list[Identity], Path]] = {}
        self._lock = threading.Lock()

    def report(self, folders: Sequence[Path], most: int | None = None) -> Path:
        """Make the report of runs, or return the one that was made since they last changed.

        Args:
            folders: The run folders.
            most: Maximum number of images to list; None for the default of a report.

        Raises:
            DataError: A folder is not a run, or is damaged.
        """
        from titjudge.report import write_report

        now = [identity(folder / name) for folder in folders for name in _WATCHED]
        with self._lock:  # one at a time: it takes seconds of all processors
            before, file = self._made.get(tuple(folders), ([], self._place / f"{len(self._made)}.html"))
            if before != now:
                write_report([self.open_run(folder) for folder in folders], file, most=most)
                self._made[tuple(folders)] = now, file
        return file


class _ViewEndpoints:
    """The endpoints of the pages; each is called with the request."""

    def __init__(self, runs: Runs, made_reports: MadeReports) -> None:
        self._runs, self._made = runs, made_reports
        self._tickets = Tickets()

    async def frame(self, request: Any) -> Any:
        """Serve the page that loads a report into a frame; it contains nothing secret."""
        from starlette.responses import Response

        content = (_STATIC / "report.html").read_bytes()
        return Response(content, media_type="text/html", headers={"content-security-policy": _FRAME_POLICY})

    async def list(self, request: Any, person: str) -> Any:
        return await json_of(self._listed)

    def _listed(self) -> Json:
        return {"root": self._runs.root.resolve().name, "runs": [_record(state) for state in self._runs.states()]}

    async def run(self, request: Any, person: str) -> Any:
        """Describe one run (`run`, quoted as in the list)."""
        return await json_of(self._described, _id(request.query_params.get("run")))

    def _described(self, name: str) -> Json:
        state = self._runs.state(name)
        if state is None:
            raise DataError("there is no such run here. Reload the list of runs")
        return _record(state)

    async def ticket(self, request: Any, person: str) -> Any:
        """Give a ticket for the report of `{"runs": [ID, ...]}`, quoted as in the list; a missing report is made first."""
        from starlette.concurrency import run_in_threadpool

        body = await read_json(request)
        runs = body.get("runs") if isinstance(body, dict) else None
        if not isinstance(runs, list) or not 1 <= len(runs) <= 2 or not all(isinstance(run, str) for run in runs):
            raise DataError(f"'runs' of the body must have one or two texts, not {runs!r:.80}")
        names = tuple(map(_id, runs))
        await run_in_threadpool(self._report, names)
        return json_response({"ticket": self._tickets.give(names)})

    async def report(self, request: Any) -> Any:
        """Send the report that a ticket opens, with a policy that keeps it from the network and from this page."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import FileResponse, PlainTextResponse

        ticket = request.path_params["ticket"]
        names = self._tickets.take(ticket)
        if not names:
            return PlainTextResponse("Open the report from the list.", 401)
        file = await run_in_threadpool(self._report, names)
        in_folder = file.name == "index.html"
        if in_folder:
            self._tickets.keep(ticket, file.parent)
        policy = _FOLDER_POLICY if in_folder else _REPORT_POLICY
        headers = {"content-security-policy": policy, "x-frame-options": "SAMEORIGIN"}
        return FileResponse(file, media_type="text/html", headers=headers)

    async def file(self, request: Any) -> Any:
        """Send a file that the page of a report folder loads; the frame has a separate origin, so its request has no key."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import PlainTextResponse, Response

        folder, name = self._tickets.folder(request.path_params["ticket"]), request.path_params["name"]
        if folder is None:
            return PlainTextResponse("Open the report from the list.", 401)
        content = await run_in_threadpool(read_file, folder, name)
        if content is None:
            return PlainTextResponse("There is no such file in this report.", 404)
        headers = {"cross-origin-resource-policy": "cross-origin", "cache-control": "private, max-age=3600"}
        return Response(content, media_type=TYPES[Path(name).suffix], headers=headers)

    def _report(self, names: Sequence[str]) -> Path:
        """Find the report of a run; make the report of a running run, of one without a report, and of several runs.

        Raises:
            DataError: There is no such run, or it is damaged.
        """
        folders = [self._folder(name) for name in names]
        states = [self._runs.state(name) for name in names]
        running = any(state is not None and state.status == RUNNING for state in states)
        if len(names) == 1 and not running and (stored := self._runs.report(names[0])):
            return stored
        return self._made.report(folders, _LIVE if running else None)

    def _folder(self, name: str) -> Path:
        folder = self._runs.folders().get(name)
        if folder is None:
            raise DataError("there is no such run here. Reload the list of runs")
        return folder


def _record(state: RunState) -> Json:
    derived = {"cap": state.cap, "judged_nothing": state.judged_nothing, "means": state.means}
    record: Json = _text(asdict(state) | derived)
    return record | {"href": quote(state.id, errors="surrogateescape")}


def _id(quoted: str | None) -> str:
    return unquote(quoted or "", errors="surrogateescape")


def _text(value: Any) -> Any:
    """Make all text in a JSON value UTF-8: names of files may have other bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_text(key): _text(member) for key, member in value.items()}
    return [_text(member) for member in value] if isinstance(value, list | tuple) else value
