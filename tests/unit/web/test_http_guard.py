"""The checks in front of every page."""

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


@pytest.mark.parametrize("passed_on", ["label.example.org", "127.0.0.1:8765", "localhost:8765"])
def test_a_page_behind_a_tunnel_takes_answers_from_its_own_address_and_no_other(passed_on: str) -> None:
    url = "https://Label.example.org/room"
    assert status("127.0.0.1", url, passed_on, origin="https://label.example.org") == 200
    for other in (
        "http://label.example.org",
        "https://label.example.org:8443",
        "https://label.example.org.evil.example",
        "https://evil.example",
        "http://127.0.0.1:8765",
        f"http://{passed_on}",
        "null",
    ):
        assert status("127.0.0.1", url, passed_on, origin=other) == 403, other
        assert status("127.0.0.1", url, "evil.example", origin="https://label.example.org") == 403


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://label.example.org:443", "https://label.example.org"),
        ("http://label.example.org:80/", "http://label.example.org"),
        ("https://label.example.org:8443", "https://label.example.org:8443"),
        ("http://[fd00::1]:8765", "http://[fd00::1]:8765"),
    ],
)
def test_the_port_that_a_scheme_has_anyway_is_left_out_as_browsers_do(url: str, origin: str) -> None:
    assert status("127.0.0.1", url, "127.0.0.1:8765", origin=origin) == 200


def test_without_an_address_of_its_own_a_page_takes_answers_from_the_name_it_was_asked_by() -> None:
    assert status("127.0.0.1", "", "127.0.0.1:8765", origin="http://127.0.0.1:8765") == 200
    assert status("127.0.0.1", "", "127.0.0.1:8765", origin="http://127.0.0.1:8766") == 403


@pytest.mark.parametrize("url", ["", "https://label.example.org"])
@pytest.mark.parametrize(
    "origin", ["http://[::1", "http://[x]", "http://host:99999", "https://\xe2\x84\x80.example", "[", "://"]
)
def test_a_broken_origin_is_another_site(url: str, origin: str) -> None:
    assert status("127.0.0.1", url, "localhost:8765", origin=origin) == 403
