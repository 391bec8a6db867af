"""A page on a local server: static files, endpoints that a key opens, and the link with the key.

The key is the fragment of the link (after `#`), which browsers do not send; the page sends it as a header. Without a cookie, no
page of another site can make requests in the name of a reader, and no other port of this machine gets the key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.web import PageAddress
from titjudge.web.http_guard import App, Guard, address, bearer_token, json_response, listen, run, same

Endpoint = Callable[[Any, str], Awaitable[Any]]
"""Answers a request of the person of this name."""
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


def page_app(files: Mapping[str, Path | str], routes: Sequence[Any], at: PageAddress) -> App:
    """Make a page as an ASGI application.

    Args:
        files: By the path of its address, a file, which is read again for each request, or the text of a page.
        routes: The other routes.
        at: Its address.
    """
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    def serve(file: Path | str) -> Callable[[Any], Any]:
        if isinstance(file, str):
            return lambda request: Response(file, media_type="text/html")
        return lambda request: Response(file.read_bytes(), media_type=_TYPES[file.suffix])

    return Guard(
        Starlette(routes=[*(Route(path, serve(file)) for path, file in files.items()), *routes]), at.host, at.url
    )


def keyed_route(
    path: str,
    endpoint: Endpoint,
    person: Callable[[str], str | None],
    *,
    method: str = "GET",
    refusal: str = "this link is not known here",
) -> Any:
    """Make a route that only a known key opens; a DataError becomes a refusal with its message.

    Args:
        path: Path of the address.
        endpoint: Answers the request.
        person: Returns whose key this is; None if it is unknown.
        method: GET or POST.
        refusal: The message for an unknown key.
    """
    from starlette.routing import Route

    async def handle(request: Any) -> Any:
        name = person(bearer_token(request))
        if name is None:
            return json_response({"error": refusal}, 401)
        try:
            return await endpoint(request, name)
        except DataError as error:
            return json_response({"error": error.message}, 400)

    return Route(path, handle, methods=[method])


def single_key(key: str, person: str = "") -> Callable[[str], str | None]:
    """Make the function that knows one key, the key of `person`."""
    return lambda token: person if same(key, token) else None


async def json_of(method: Callable[..., Any], *arguments: Any) -> Any:
    """Answer with the result of a method, as JSON; it runs in another thread."""
    from starlette.concurrency import run_in_threadpool

    return json_response(await run_in_threadpool(method, *arguments))


def serve_page(
    app: App,
    places: Sequence[str],
    at: PageAddress,
    usual: int,
    ready: Callable[[list[str]], None] | None,
) -> None:
    """Serve a page until Ctrl-C.

    Args:
        app: The page.
        places: The part after the address in each link: `#` and a key, with or without the name of a page before it.
        at: Its address. A tunnel or a proxy is set up for one port, so only this port can be used with a `url`.
        usual: The usual port.
        ready: Called with the links once the server listens.

    Raises:
        UserError: The address cannot be used.
    """
    sock = listen(at.host, usual if at.url and at.port is None else at.port, usual)
    if ready is not None:
        base = at.url.rstrip("/") or address(at.host, sock)
        ready([f"{base}/{place}" for place in places])
    run(app, sock)
