"""`label`: serve the page where people vote.

Every annotator has a personal link. Its token is the fragment (after `#`), which browsers do not send, and is sent as a
header. Without a cookie, no page of another site can make requests in the name of an annotator.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from titjudge.apps.label.collected import collect
from titjudge.apps.label.dataset import load_material
from titjudge.apps.label.element_service import ElementService
from titjudge.apps.label.elements import find_elements
from titjudge.apps.label.reliability import LEAST, read_known
from titjudge.apps.label.service import AnnotationService, LabelingService, Stale
from titjudge.apps.label.store import Store
from titjudge.core.errors import DataError
from titjudge.stats.people.votes import PANEL
from titjudge.web.http_guard import (
    App,
    Guard,
    address,
    bearer_token,
    json_response,
    listen,
    read_json,
    run,
    static_routes,
)

PORT = 8765
_log = logging.getLogger("titjudge.apps.label")
_STATIC = Path(__file__).parent / "static"


def serve_label(
    data: Path,
    *,
    annotators: int,
    host: str = "127.0.0.1",
    port: int | None = 0,
    store: Path,
    mode: str = "pairs",
    plan: str | None = None,
    both_bad: bool = True,
    enough: int = 0,
    gold: Path | None = None,
    gold_share: float | None = None,
    gold_least: float = LEAST,
    seed: int = 0,
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the labelling page until Ctrl-C. Images that are left out are logged as warnings of `titjudge.apps.label`.

    Args:
        data: A data folder or manifest (`titjudge.suites.folder`). The page can read no file outside it.
        annotators: How many people vote, 1 to 1000; each gets a link, which stays the same after a restart.
        host: Address to listen on. Beyond loopback everyone who has a link can vote.
        port: Port to listen on; 0 takes a free one, None the usual one if it is free.
        store: The SQLite file of the votes; an existing one is continued.
        mode: `pairs`, or what is marked in single images: `yes-no`, `facets`, `graph`, `rating`.
        plan: Which pairs are asked: `all`, or `merge` (merge sort over the images of a prompt); None: as the store was begun,
            and all in a new one.
        both_bad: Whether "both bad" is an answer, beside left, right and tie.
        enough: Stop asking about an item after so many answers, or once fewer settle it; 0: ask everybody.
        gold: Attention checks to mix in: pairs with known answers (as `pairs.jsonl`), or elements with known values (image,
            element, value).
        gold_share: Share of checks among the questions, at most a third; None: about 1 in 12, more if there are few questions.
        gold_least: Stop asking an annotator whose share of right checks is certainly lower.
        seed: Seed of orders and sides; recorded in the store.
        ready: Called with the links once the server listens.

    Raises:
        UserError: The store or the address cannot be used.
        DataError: The data cannot be used.
    """
    pairs = mode == "pairs"
    material = load_material(data, gold if pairs else None, least=2 if pairs else 1)
    elements = {} if pairs else find_elements(material, mode)
    if gold is not None and not pairs:
        material.known = read_known(gold, elements)
    for problem in material.problems:
        _log.warning("left out: %s", problem)
    with contextlib.closing(Store(store)) as votes:
        rules: dict[str, Any] = {
            "annotators": annotators,
            "seed": seed,
            "gold_share": gold_share,
            "gold_least": gold_least,
            "votes": enough,
        }
        service: AnnotationService
        if pairs:
            plan = plan or votes.setting("plan") or "all"
            service = LabelingService(material, votes, plan=plan, both_bad=both_bad, **rules)
        else:
            service = ElementService(material, votes, elements, mode=mode, **rules)
        _serve(service, host, port, ready)


def serve_experts(
    data: Path,
    *,
    store: Path,
    experts: int = PANEL,
    annotators: int | None = None,
    host: str = "127.0.0.1",
    port: int | None = 0,
    ready: Callable[[list[str], int], None] | None = None,
) -> None:
    """Serve the items that the votes leave open, as `label export` lists them, for experts to decide, until Ctrl-C.

    Args:
        data: The data folder or manifest that was labelled.
        store: The SQLite file of the votes; the votes of the experts are added to it.
        experts: How many experts there are; each gets a link.
        annotators: How many votes an item should have, as in `export_labels`.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, None the usual one if it is free.
        ready: Called with the links and the number of open items once the server listens.

    Raises:
        UserError: There is no such store, no item is open, or the address cannot be used.
        DataError: The data cannot be used.
    """
    from titjudge.apps.label.experts import ExpertElements, ExpertPairs

    collected = collect(store)
    material = load_material(data, least=2 if collected.of_pairs else 1)
    elements = {} if collected.of_pairs else find_elements(material, collected.plan)
    for problem in material.problems:
        _log.warning("left out: %s", problem)
    with contextlib.closing(Store(store)) as votes:
        service: ExpertPairs | ExpertElements
        if collected.of_pairs:
            service = ExpertPairs(material, votes, collected, experts=experts, annotators=annotators)
        else:
            service = ExpertElements(material, votes, elements, collected, experts=experts, annotators=annotators)
        _serve(service, host, port, None if ready is None else lambda links: ready(links, service.open))


def _serve(service: AnnotationService, host: str, port: int | None, ready: Callable[[list[str]], None] | None) -> None:
    sock = listen(host, port, PORT)
    if ready is not None:
        ready([f"{address(host, sock)}/#{service.token(name)}" for name in service.names])
    run(build_app(service, host), sock)


def build_app(service: AnnotationService, host: str = "127.0.0.1") -> App:
    """Make the page and its four endpoints as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    page = _Page(service)
    names = ("label.css", "page.js", f"{service.page}.js")
    files = {"/": _STATIC / f"{service.page}.html", **{f"/{name}": _STATIC / name for name in names}}
    routes = [
        *static_routes(files),
        Route("/api/state", page.handler(page.state)),
        Route("/api/image/{code:str}", page.handler(page.image)),
        Route("/api/vote", page.handler(page.vote), methods=["POST"]),
        Route("/api/undo", page.handler(page.undo), methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), host)


class _Page:
    """The endpoints; each is called with the request and the name of the annotator."""

    def __init__(self, service: AnnotationService) -> None:
        from titjudge.data.images import ImageFiles

        self._service = service
        self._images = ImageFiles()

    def handler(self, endpoint: Callable[[Any, str], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Make the function of a route, which answers requests of annotators only."""

        async def handle(request: Any) -> Any:
            annotator = self._service.annotator(bearer_token(request))
            if annotator is None:
                return json_response({"error": "this link is not known here"}, 401)
            return await endpoint(request, annotator)

        return handle

    async def state(self, request: Any, annotator: str) -> Any:
        return await self._answer(self._service.state, annotator)

    async def vote(self, request: Any, annotator: str) -> Any:
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("question"), str) or "answer" not in body:
            return json_response({"error": "a vote is a JSON object with question and answer"}, 400)
        values = (body.get(key) for key in ("answer", "duration_ms", "note"))
        return await self._answer(self._service.vote, annotator, body["question"], *values)

    async def undo(self, request: Any, annotator: str) -> Any:
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("question"), str):
            return json_response({"error": "an undo is a JSON object with question"}, 400)
        return await self._answer(self._service.undo, annotator, body["question"])

    async def _answer(self, method: Callable[..., dict[str, Any]], annotator: str, *arguments: Any) -> Any:
        from starlette.concurrency import run_in_threadpool

        try:
            return json_response(await run_in_threadpool(method, annotator, *arguments))
        except Stale:
            return json_response(await run_in_threadpool(self._service.state, annotator), 409)
        except DataError as error:
            return json_response({"error": error.message}, 400)

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
