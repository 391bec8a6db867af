"""`review-prompts`: the page where people accept, edit or reject prompts.

The link's key stands behind `#`, which no browser sends anywhere, and travels as a header, as on the labelling page.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import titjudge.web.label as label
from titjudge.core.errors import DataError
from titjudge.web.http_guard import App, Guard, address, listen, read_json, run, static
from titjudge.web.review.decisions import Review

PORT = 8767
_STATIC = Path(__file__).parent / "static"
_LOOK = Path(label.__file__).parent / "static"  # one style sheet for the pages where people judge


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
        reviewer: The name that decisions are recorded under.
        host: Address to listen on. Off loopback everyone who has the link can decide.
        port: Port to listen on; 0 takes a free one, None the usual one where it is free.
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
    return Guard(
        Starlette(
            routes=[
                Route("/", page.file(_STATIC, "review.html")),
                Route("/label.css", page.file(_LOOK, "label.css")),
                Route("/review.css", page.file(_STATIC, "review.css")),
                Route("/review.js", page.file(_STATIC, "review.js")),
                Route("/api/prompt", page.prompt),
                Route("/api/decide", page.decide, methods=["POST"]),
            ]
        ),
        host,
    )


class _Page:
    def __init__(self, review: Review, key: str, reviewer: str) -> None:
        self._review, self._key, self._reviewer = review, key, reviewer

    def file(self, folder: Path, name: str) -> Callable[[Any], Any]:
        return lambda request: static(folder, name)

    def _is_open(self, request: Any) -> bool:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), self._key.encode())

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

        if not self._is_open(request):
            return _json({"error": "this link is not known here"}, 401)
        try:
            return _json(await run_in_threadpool(method, *arguments))
        except DataError as error:
            return _json({"error": error.message}, 400)
        except OSError as error:
            return _json({"error": f"not stored: {error.strerror or error}"}, 507)


def _json(content: Any, status: int = 200) -> Any:
    import orjson
    from starlette.responses import Response

    return Response(orjson.dumps(content), status, media_type="application/json")
