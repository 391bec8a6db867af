"""`label`: serve the page where people answer, and the page of the organiser.

Every annotator has a personal link, whose key is their token.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from titjudge.apps.label import PORT, Rules
from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.forms import collect, form_of, mode_of
from titjudge.apps.label.questions import ANNOTATOR, ExportRules
from titjudge.apps.label.service import Service, Stale
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError, UserError, must_be
from titjudge.core.tables import Table, text_of
from titjudge.data.images import ImageFiles
from titjudge.stats.people.votes import PANEL
from titjudge.web import PageAddress
from titjudge.web.http_guard import App, json_response, read_json
from titjudge.web.page_app import json_of, keyed_route, page_app, serve_page, single_key

STATIC = Path(__file__).parent / "static"
_log = logging.getLogger("titjudge.apps.label")


def serve_label(
    data: Path,
    *,
    annotators: int | Sequence[str] | None,
    store: Path,
    rules: Rules,
    at: PageAddress,
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the labelling page until Ctrl-C. Images that are left out are logged as warnings of `titjudge.apps.label`.

    Args:
        data: A data folder or manifest (`titjudge.suites.folder`). The page can read no file outside it.
        annotators: How many people vote, 1 to 1000, or their names; each gets a link, which stays the same after a
            restart. With an open link the maximum number of people, or None for no maximum: a pair should then have a vote
            of each person who votes.
        store: The SQLite file of the votes; an existing one is continued.
        rules: How people are asked.
        at: Address of the page. Beyond loopback everyone who has a link can vote.
        ready: Called once the server listens, with the links of the annotators (or the one for everyone) and, as the
            last, the link of the organiser.

    Raises:
        UserError: The store or the address cannot be used.
        DataError: The data cannot be used.
    """
    dataset = _reported(form_of(rules.mode).load(data, rules.gold))
    with contextlib.closing(Store(store)) as answers:
        begun = answers.setting("plan")
        if begun and rules.mode != (before := mode_of(begun)):
            raise UserError(
                f"{store} was started with --mode {before}, not {rules.mode}. Use --mode {before}, or another --store"
            )
        form = form_of(rules.mode, rules.plan or begun, both_bad=rules.both_bad)
        service = Service(
            dataset,
            answers,
            form,
            annotators=annotators,
            open_link=rules.open_link,
            seed=rules.seed,
            gold_share=rules.gold_share,
            gold_least=rules.gold_least,
            votes=rules.votes,
        )
        _serve(service, at, ready)


def serve_experts(
    data: Path,
    *,
    store: Path,
    experts: int = PANEL,
    annotators: int | None = None,
    at: PageAddress,
    ready: Callable[[list[str], int], None] | None = None,
) -> None:
    """Serve the items that the votes leave open, as `label export` lists them, for experts to decide, until Ctrl-C.

    Args:
        data: The data folder or manifest that was labelled.
        store: The SQLite file of the votes; the votes of the experts are added to it.
        experts: How many experts there are; each gets a link.
        annotators: How many votes an item should have, as in `export_labels`.
        at: Address of the page.
        ready: Called with the links and the number of open items once the server listens.

    Raises:
        UserError: There is no such store, no item is open, or the address cannot be used.
        DataError: The data cannot be used.
    """
    labelling = collect(store)
    dataset = _reported(labelling.form.load(data))
    with contextlib.closing(Store(store)) as answers:
        form = labelling.form.for_experts(labelling, dataset, annotators)
        service = Service(dataset, answers, form, annotators=experts, seed=labelling.seed)
        _serve(service, at, None if ready is None else lambda links: ready(links, form.open))


def _reported(dataset: LabelingData) -> LabelingData:
    """Warn of each image that is left out."""
    for problem in dataset.problems:
        _log.warning("left out: %s", problem)
    return dataset


def _serve(service: Service, at: PageAddress, ready: Callable[[list[str]], None] | None) -> None:
    links = [f"#{service.token(name)}" for name in service.names]
    if service.seats:
        links = [f"join.html#{service.open_token}"]
    if service.form.role == ANNOTATOR:
        links.append(f"organiser.html#{service.organiser_token}")
    serve_page(build_app(service, at), links, at, PORT, ready)


def build_app(service: Service, at: PageAddress) -> App:
    """Make the pages of annotators and organiser, and their endpoints, as an ASGI application."""
    page, organiser = _LabelEndpoints(service), Organiser(service)
    names = ["label.css", "page.js", f"{service.form.page}.js", "organiser.html", "organiser.css", "organiser.js"]
    names += ["join.html", "join.js"] if service.seats else []
    files: dict[str, Path | str] = {f"/{name}": STATIC / name for name in names}
    files["/"] = rendered(f"{service.form.page}.html", page=service.form.page)

    async def overview(request: Any, person: str) -> Any:
        return await json_of(organiser.overview)

    routes = [
        keyed_route("/api/state", page.state, service.annotator),
        keyed_route("/api/image/{code:str}", page.image, service.annotator),
        keyed_route("/api/vote", page.vote, service.annotator, method="POST"),
        keyed_route("/api/undo", page.undo, service.annotator, method="POST"),
        keyed_route("/api/overview", overview, single_key(service.organiser_token)),
    ]
    if service.seats:
        routes.append(keyed_route("/api/join", page.join, single_key(service.open_token), method="POST"))
    return page_app(files, routes, at)


class _LabelEndpoints:
    """The endpoints; each is called with the request and the name of the annotator."""

    def __init__(self, service: Service) -> None:
        self._service, self._images = service, ImageFiles()

    async def state(self, request: Any, annotator: str) -> Any:
        return await self._answer(self._service.state, annotator)

    async def vote(self, request: Any, annotator: str) -> Any:
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("question"), str) or "answer" not in body:
            raise DataError(must_be("a vote", "a JSON object with question and answer", body))
        values = (body.get(key) for key in ("answer", "duration_ms", "note"))
        return await self._answer(self._service.vote, annotator, body["question"], *values)

    async def undo(self, request: Any, annotator: str) -> Any:
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("question"), str):
            raise DataError(must_be("the body", "a JSON object with question", body))
        return await self._answer(self._service.undo, annotator, body["question"])

    async def join(self, request: Any, person: str) -> Any:
        body = await read_json(request)
        if not isinstance(body, dict) or not all(isinstance(body.get(key, ""), str) for key in ("name", "key")):
            raise DataError(must_be("the body", "a JSON object with the texts name and key", body))
        join = partial(self._service.join, sure=body.get("sure") is True)
        return await json_of(join, body.get("name", ""), body.get("key", ""))

    async def _answer(self, method: Callable[..., dict[str, Any]], annotator: str, *arguments: Any) -> Any:
        from starlette.concurrency import run_in_threadpool

        try:
            return await json_of(method, annotator, *arguments)
        except Stale:
            return json_response(await run_in_threadpool(self._service.state, annotator), 409)

    async def image(self, request: Any, annotator: str) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import Response

        code = request.path_params["code"]
        try:
            path = self._service.image(code)
            if path is None:
                return json_response({"error": "no such image"}, 404)
            image = await self._images.open(path)
            content = await run_in_threadpool(image.load)
        except DataError as error:
            _log.warning("not shown any more: %s", error)
            await run_in_threadpool(self._service.drop, code, error.message)
            return json_response({"error": "this image cannot be shown"}, 422)
        headers = {"cache-control": "private, max-age=86400", "content-disposition": "inline"}
        return Response(content, media_type=image.media_type, headers=headers)


def rendered(name: str, **values: Any) -> str:
    """Render a file of `static` by Jinja, with values in `[[ ]]`; they are escaped, and each that it names must be given."""
    import jinja2

    environment = jinja2.Environment(
        variable_start_string="[[",
        variable_end_string="]]",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FileSystemLoader(STATIC),
    )
    return environment.get_template(name).render(values)


_EVERY = 20.0  # seconds between two computations of the tables: the pages of annotators wait for the same processor


class Organiser:
    """Describes a labelling for its organiser. Methods may be called from any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tables: list[dict[str, Any]] = []
        self._why_none = ""
        self._computed = 0.0
        self._row = -1
        self._lock = threading.Lock()

    def overview(self) -> dict[str, Any]:
        """Return `people` (the progress), and `tables` as `label export` prints them, or `no_tables`, why there are none.

        `seats` is how many people may come by an open link; 0 if everyone has a personal link.
        """
        with self._lock:
            self._compute()
            return {
                "people": [asdict(progress) for progress in self._service.progress()],
                "seats": self._service.seats,
                "tables": self._tables,
                "no_tables": self._why_none,
                "export": f"python cli.py label export {self._service.store.path} labelled",
            }

    def _compute(self) -> None:
        """Compute the tables again, if there are new answers and the last time was `_EVERY` seconds ago."""
        row, _ = self._service.store.prompts_after(0)
        if row == self._row or (time.monotonic() - self._computed < _EVERY and self._row >= 0):
            return
        try:
            labelling = collect(self._service.store.path)
            self._tables = [_table_json(table) for table in labelling.form.export(labelling, ExportRules()).tables]
            self._why_none = ""
        except UserError as error:  # there is no answer yet that counts
            self._tables, self._why_none = [], str(error)
        self._row, self._computed = row, time.monotonic()


def _table_json(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": list(table.columns),
        "rows": [[text_of(value) for value in row] for row in table.rows],
        "notes": list(table.notes),
    }
