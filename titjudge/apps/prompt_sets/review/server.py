"""`review-prompts`: serve the page where people accept, edit or reject prompts."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import titjudge.apps.label as label
from titjudge.apps.prompt_sets.review import PORT
from titjudge.apps.prompt_sets.review.decisions import Review
from titjudge.core.errors import DataError
from titjudge.web.http_guard import App, json_response, read_json
from titjudge.web.page_app import json_of, keyed_route, page_app, serve_page, single_key

_STATIC = Path(__file__).parent / "static"
_LABEL_CSS = Path(label.__file__).parent / "static" / "label.css"


def serve_review(
    review: Review,
    *,
    reviewer: str,
    host: str = "127.0.0.1",
    port: int | None = 0,
    url: str = "",
    ready: Callable[[list[str]], None] | None = None,
) -> None:
    """Serve the review of a set of prompts until Ctrl-C.

    Args:
        review: The set and its decisions.
        reviewer: The name under which decisions are recorded.
        host: Address to listen on. Beyond loopback everyone who has the link can decide.
        port: Port to listen on; 0 takes a free one, None the usual one if it is free.
        url: The address by which others reach the page, through a tunnel or a proxy; empty where it is that of `host`.
        ready: Called with the link once the server listens.

    Raises:
        UserError: The address cannot be used.
    """
    key = secrets.token_urlsafe(24)
    app = build_app(review, key, reviewer=reviewer, host=host, url=url)
    serve_page(app, [f"#{key}"], host, port, PORT, ready, url=url)


def build_app(review: Review, key: str, *, reviewer: str, host: str = "127.0.0.1", url: str = "") -> App:
    """Make the page and its two endpoints as an ASGI application; `key` opens it."""
    page, keys = _Endpoints(review), single_key(key, reviewer)
    names = {"/": "review.html", "/review.css": "review.css", "/review.js": "review.js"}
    files = {path: _STATIC / name for path, name in names.items()} | {"/label.css": _LABEL_CSS}
    routes = [
        keyed_route("/api/prompt", page.prompt, keys),
        keyed_route("/api/decide", page.decide, keys, method="POST"),
    ]
    return page_app(files, routes, host, url)


class _Endpoints:
    """The endpoints; each is called with the request and the name of the reviewer."""

    def __init__(self, review: Review) -> None:
        self._review = review

    async def prompt(self, request: Any, reviewer: str) -> Any:
        place = request.query_params.get("at", "")
        return await json_of(self._review.show, int(place) if place.isdecimal() and len(place) < 10 else None)

    async def decide(self, request: Any, reviewer: str) -> Any:
        try:
            return await json_of(self._decide, await read_json(request), reviewer)
        except OSError as error:
            return json_response({"error": f"not stored: {error.strerror or error}"}, 507)

    def _decide(self, body: Any, reviewer: str) -> dict[str, Any]:
        fields = body if isinstance(body, dict) else {}
        place, texts = fields.get("at"), {key: fields.get(key, "") for key in ("seen", "decision", "reason", "text")}
        if type(place) is not int or not 0 <= place < len(self._review.lines):
            raise DataError("a decision is a JSON object with at, seen, decision, and reason or text")
        if not all(isinstance(text, str) for text in texts.values()):
            raise DataError("seen, decision, reason and text are texts")
        self._review.decide(place, texts.pop("seen"), texts.pop("decision"), reviewer, **texts)
        return self._review.show(place)
