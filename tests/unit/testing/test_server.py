"""The loopback server closes what it opened, whenever it stops."""

import gc
import socket
import sys
from contextlib import ExitStack

import pytest

from tests.kit.server import Server

REQUEST = b"POST /v1/x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("sent", [b"", REQUEST[:20], REQUEST], ids=["nothing", "half a request", "a request"])
def test_connections_of_the_last_moment_are_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    unclosed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: unclosed.append(found.exc_value))
    for _ in range(20):
        with ExitStack() as clients, Server() as server:
            for _ in range(6):
                clients.enter_context(socket.create_connection(("127.0.0.1", server.port))).sendall(sent)
        del server
    gc.collect()
    assert not unclosed
