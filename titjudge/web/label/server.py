"""`label`: the page where people vote.

Every annotator has a personal link; its token stands behind `#`, which no browser sends anywhere, and travels as a
header. There is no cookie, so a page of another site has nothing to ride on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.stats.votes import PANEL
from titjudge.web.http_guard import App, Guard, address, listen, read_json, run, static
from titjudge.web.label.collected import collect
from titjudge.web.label.dataset import load_material
from titjudge.web.label.element_service import ElementService
from titjudge.web.label.elements import find_elements
from titjudge.web.label.reliability import LEAST, read_known
from titjudge.web.label.service import AnnotationService, LabelingService, Stale
from titjudge.web.label.store import Store

PORT = 8765
_log = logging.getLogger("titjudge.web.label")
_STATIC = Path(__file__).parent / "static"


def serve_label(
    data: Path,
    *,
    annotators: int,
    host: str = "127.0.0.1",
    port: int | None = 0,
    store: Path,
    mode: str = "pairs",
    plan: str = "merge",
    enough: int = 0,
    gold: Path | None = None,
    gold_share: float | None = None,
    gold_least: float = LEAST,
    seed: int = 0,
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the labelling page until Ctrl-C. Inputs left out are logged as warnings of `titjudge.web.label`.

    Args:
        data: A data folder or manifest (`titjudge.suites.folder`). Nothing outside it is read for the page.
        annotators: How many people vote, 1 to 1000; each gets a link of their own, the same after every restart.
        host: Address to listen on. Off loopback everyone who has a link can vote.
        port: Port to listen on; 0 takes a free one, None the usual one where it is free.
        store: The SQLite file of the votes; made when absent, gone on with when there.
        mode: `pairs`, or what is marked of single images: `yes-no`, `facets`, `graph`, `rating`.
        plan: Of pairs: `merge` (merge sort over the images of a prompt) or `all` (all pairs).
        enough: An item is asked until so many people have answered, or fewer where that settles it; 0: everybody is asked.
        gold: Pairs with known answers (as `pairs.jsonl`), or elements whose value is known (image, element, value), mixed in
            as attention checks.
        gold_share: Share of checks among the questions, at most a third; None: about 1 in 12, more where there is little to ask.
        gold_least: An annotator whose share of checks that are right is certainly lower is asked no more.
        seed: Decides orders and sides; recorded in the store.
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
        voting: AnnotationService
        if pairs:
            voting = LabelingService(material, votes, plan=plan, **rules)
        else:
            voting = ElementService(material, votes, elements, mode=mode, **rules)
        _serve(voting, host, port, ready)


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
    """Serve what is open, as `label export` tells it now, for experts to decide, until Ctrl-C.

    Args:
        data: What was labelled.
        store: The SQLite file of the votes; the experts' votes are added to it.
        experts: How many experts there are; each gets a link of their own.
        annotators: How many votes an item should have, as in `export_labels`.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, None the usual one where it is free.
        ready: Called with the links, and the number of open items, once the server listens.

    Raises:
        UserError: There is no such store, nothing is open in it, or the address cannot be used.
        DataError: The data cannot be used.
    """
    from titjudge.web.label.experts import ExpertElements, ExpertPairs

    collected = collect(store)
    material = load_material(data, least=2 if collected.of_pairs else 1)
    elements = {} if collected.of_pairs else find_elements(material, collected.plan)
    for problem in material.problems:
        _log.warning("left out: %s", problem)
    with contextlib.closing(Store(store)) as votes:
        voting: ExpertPairs | ExpertElements
        if collected.of_pairs:
            voting = ExpertPairs(material, votes, collected, experts=experts, annotators=annotators)
        else:
            voting = ExpertElements(material, votes, elements, collected, experts=experts, annotators=annotators)
        _serve(voting, host, port, None if ready is None else lambda links: ready(links, voting.open))


def _serve(voting: AnnotationService, host: str, port: int | None, ready: Callable[[list[str]], None] | None) -> None:
    sock = listen(host, port, PORT)
    if ready is not None:
        ready([f"{address(host, sock)}/#{voting.token(name)}" for name in voting.names])
    run(build_app(voting, host), sock)


def build_app(voting: AnnotationService, host: str = "127.0.0.1") -> App:
    """Make the page and its four endpoints as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    page = _Page(voting)
    return Guard(
        Starlette(
            routes=[
                Route("/", page.file(f"{voting.page}.html")),
                *(Route(f"/{name}", page.file(name)) for name in ("label.css", "page.js", f"{voting.page}.js")),
                Route("/api/state", page.state),
                Route("/api/image/{code:str}", page.image),
                Route("/api/vote", page.vote, methods=["POST"]),
                Route("/api/undo", page.undo, methods=["POST"]),
            ]
        ),
        host,
    )


class _Page:
    def __init__(self, voting: AnnotationService) -> None:
        from titjudge.core.images import ImageFiles

        self._voting = voting
        self._pictures = ImageFiles()

    def file(self, name: str) -> Callable[[Any], Any]:
        return lambda request: static(_STATIC, name)

    def _who(self, request: Any) -> str | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return self._voting.annotator(token.strip()) if scheme.lower() == "bearer" else None

    async def state(self, request: Any) -> Any:
        who = self._who(request)
        return _unknown() if who is None else await self._answer(self._voting.state, who)

    async def vote(self, request: Any) -> Any:
        who = self._who(request)
        if who is None:
            return _unknown()
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("question"), str) or "answer" not in body:
            return _json({"error": "a vote is a JSON object with question and answer"}, 400)
        given = (body.get(key) for key in ("answer", "duration_ms", "note"))
        return await self._answer(self._voting.vote, who, body["question"], *given)

    async def undo(self, request: Any) -> Any:
        who = self._who(request)
        if who is None:
            return _unknown()
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("question"), str):
            return _json({"error": "an undo is a JSON object with question"}, 400)
        return await self._answer(self._voting.undo, who, body["question"])

    async def _answer(self, method: Callable[..., dict[str, Any]], who: str, *arguments: Any) -> Any:
        from starlette.concurrency import run_in_threadpool

        try:
            return _json(await run_in_threadpool(method, who, *arguments))
        except Stale:
            return _json(await run_in_threadpool(self._voting.state, who), 409)
        except DataError as error:
            return _json({"error": error.message}, 400)

    async def image(self, request: Any) -> Any:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import Response

        if self._who(request) is None:
            return _unknown()
        code = request.path_params["code"]
        try:
            path = self._voting.image(code)
            if path is None:
                return _json({"error": "no such image"}, 404)
            picture = await self._pictures.open(path)
            content = await run_in_threadpool(picture.load)
        except DataError as error:
            _log.warning("not shown any more: %s", error)
            await run_in_threadpool(self._voting.drop, code, error.message)
            return _json({"error": "this image cannot be shown"}, 422)
        headers = {"cache-control": "private, max-age=86400", "content-disposition": "inline"}
        return Response(content, media_type=picture.media_type, headers=headers)


def _json(content: Any, status: int = 200) -> Any:
    import orjson
    from starlette.responses import Response

    return Response(orjson.dumps(content), status, media_type="application/json")


def _unknown() -> Any:
    return _json({"error": "this link is not known here"}, 401)
