"""The checks in front of every page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from titjudge.web.http_guard import Guard


def status(host: str, url: str, header: str, origin: str = "") -> int:
    """Ask a guarded page that listens on `host`; return the status of its answer."""
    sent: list[Any] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", header.encode()), *([(b"origin", origin.encode())] if origin else [])]
    scope = {"type": "http", "method": "POST" if origin else "GET", "headers": headers}
    asyncio.run(Guard(page, host, url)(scope, None, send))  # type: ignore[arg-type]
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_page_answers_under_the_name_by_which_a_tunnel_is_reached_and_no_other(host: str) -> None:
    url = "https://Label.example.org/room"
    assert status(host, url, "label.example.org") == 200
    assert status(host, url, "label.example.org", origin="https://label.example.org") == 200
    assert status(host, url, "label.example.org", origin="https://other.example.org") == 403
    assert status(host, url, "other.example.org") == 403
    assert status(host, "", "label.example.org") == 403
    assert status(host, "", "localhost:8765") == 200
