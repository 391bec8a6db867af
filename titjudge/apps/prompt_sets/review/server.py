"""`review-prompts`: serve the page where people accept, edit or reject prompts.

As on the labelling page, the key is the fragment of the link (after `#`), which browsers do not send, and is sent as a
header.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import titjudge.apps.label as label
from titjudge.apps.prompt_sets.review.decisions import Review
from titjudge.core.errors import DataError
from titjudge.web.http_guard import (
    App,
    Guard,
    address,
    bearer_token,
    json_response,
    listen,
    read_json,
    run,
    same,
    static_routes,
)

PORT = 8767
_STATIC = Path(__file__).parent / "static"
_LABEL_CSS = Path(label.__file__).parent / "static" / "label.css"


def serve_review(
    review: Review,
    *,
    reviewer: str,
    host: str = "127.0.0.1",
    port: int | None = 0,
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the review of a set of prompts until Ctrl-C.

    Args:
        review: The set and its decisions.
        reviewer: The name under which decisions are recorded.
        host: Address to listen on. Beyond loopback everyone who has the link can decide.
        port: Port to listen on; 0 takes a free one, None the usual one if it is free.
        ready: Called with the link once the server listens.

    Raises:
        UserError: The address cannot be used.
    """
    sock = listen(host, port, PORT)
    key = secrets.token_urlsafe(24)
    if ready is not None:
        ready([f"{address(host, sock)}/#{key}"])
    run(build_app(review, key, reviewer=reviewer, host=host), sock)


def build_app(review: Review, key: str, *, reviewer: str, host: str = "127.0.0.1") -> App:
    """Make the page and its two endpoints as an ASGI application; `key` opens it."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    page = _Page(review, key, reviewer)
    files = {"/": "review.html", "/review.css": "review.css", "/review.js": "review.js"}
    routes = [
        *static_routes({path: _STATIC / name for path, name in files.items()} | {"/label.css": _LABEL_CSS}),
        Route("/api/prompt", page.prompt),
        Route("/api/decide", page.decide, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), host)


class _Page:
    def __init__(self, review: Review, key: str, reviewer: str) -> None:
        self._review, self._key, self._reviewer = review, key, reviewer

    async def prompt(self, request: Any) -> Any:
        at = request.query_params.get("at", "")
        return await self._answer(request, self._review.show, int(at) if at.isdecimal() and len(at) < 10 else None)

    async def decide(self, request: Any) -> Any:
        body = await read_json(request)
        return await self._answer(request, self._decide, body)

    def _decide(self, body: Any) -> dict[str, Any]:
        given = body if isinstance(body, dict) else {}
        at, texts = given.get("at"), {key: given.get(key, "") for key in ("seen", "decision", "reason", "text")}
        if type(at) is not int or not 0 <= at < len(self._review.lines):
            raise DataError("a decision is a JSON object with at, seen, decision, and reason or text")
        if not all(isinstance(text, str) for text in texts.values()):
            raise DataError("seen, decision, reason and text are texts")
        self._review.decide(at, texts.pop("seen"), texts.pop("decision"), self._reviewer, **texts)
        return self._review.show(at)

    async def _answer(self, request: Any, method: Callable[..., dict[str, Any]], *arguments: Any) -> Any:
        from starlette.concurrency import run_in_threadpool

        if not same(self._key, bearer_token(request)):
            return json_response({"error": "this link is not known here"}, 401)
        try:
            return json_response(await run_in_threadpool(method, *arguments))
        except DataError as error:
            return json_response({"error": error.message}, 400)
        except OSError as error:
            return json_response({"error": f"not stored: {error.strerror or error}"}, 507)
