"""A loopback server that speaks the OpenAI, Gemini and Anthropic wire formats, and fails where a test says so.

    with Server() as server:                                   # http://127.0.0.1:PORT, stops by itself
        OpenAI(ProviderSettings("gpt-4o", base_url=server.openai))
        server.script(Scripted.fault("429", retry_after=2), "a red apple")    # the next two answers
    assert server.count() == 2

What it answers: the next entry of `script`, else what `handler(seen)` returns, else text made from a hash of the
request (an instance of the schema where one is asked for, also in words). An entry is a `Scripted`, or a str (the text of an answer).
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.kit.wires import (
    ANSWERS,
    HTML,
    Scripted,
    Seen,
    dump,
    embeddings,
    error,
    models,
    openai_answer,
    read,
    text_for,
)

Handler = Callable[[Seen], "Scripted | str | None"]


class Server:
    """A loopback server, as a context manager.

    Args:
        handler: Answers a request: a Scripted, the text of an answer, or None for the usual one.
        latency: Seconds before each answer.
        cached_tokens: Tokens of the prompt that each usage says were read from a cache.
        reasoning_tokens: Tokens that each usage says were thought.

    Attributes:
        requests: What came, in order.
        answered: How many whole answers were handed to the socket.
        answers_left: Further answers wait until there are more.
        connections: Those that were opened, each with its task and its writer.
        in_flight: Requests that have no answer yet.
        most_in_flight: The most of them at any time.
        port: Where it listens.
    """

    def __init__(
        self, handler: Handler | None = None, *, latency: float = 0.0, cached_tokens: int = 0, reasoning_tokens: int = 0
    ) -> None:
        self.handler, self.latency = handler, latency
        self.cached_tokens, self.reasoning_tokens = cached_tokens, reasoning_tokens
        self.requests: list[Seen] = []
        self.answered = 0
        self.answers_left = math.inf
        self.connections: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []
        self.in_flight = self.most_in_flight = 0
        self.port = 0
        self._queue: deque[Scripted | str] = deque()
        self._counts = Counter[bytes]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="loopback-server", daemon=True)
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        """`base_url` for the clients of Gemini and Anthropic."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai(self) -> str:
        """`base_url` for OpenAI clients."""
        return f"{self.url}/v1"

    def script(self, *answers: Scripted | str) -> None:
        """Add answers for the next requests, in order."""
        self._queue.extend(answers)

    def count(self, test: Callable[[Seen], bool] | str | None = None) -> int:
        """Count the requests that came: all, those to an api, or those for which `test` holds."""
        return sum(test(request) if callable(test) else test in (None, request.api) for request in self.requests)

    @property
    def last(self) -> Seen:
        """The request that came last."""
        return self.requests[-1]

    def __enter__(self) -> Server:
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError("the loopback server does not start")
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        """Serve on the event loop of the server's thread until the loop is stopped."""
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", self.port, limit=2**26)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            self._loop.remove_reader(server.sockets[0].fileno())
            self._loop.run_until_complete(self._close())
            server.close()
            self._loop.close()

    async def _close(self) -> None:
        """Close each connection, also one that was accepted a moment ago or still has bytes to send."""
        for _ in range(3):  # an accepted connection gets its transport in the next turns of the loop
            await asyncio.sleep(0)
        for task, writer in self.connections:
            task.cancel()
            writer.transport.abort()
            await asyncio.wait([task])

    # ------------------------------------------------------------------ HTTP

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append((self._loop.create_task(self._connection(reader, writer)), writer))

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the server stops
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read a request of a connection and answer it; returns whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        raw = await _body(reader, headers)
        request = read(method, path, headers, raw)
        self._counts[request.digest] += 1
        request = replace(request, nth=self._counts[request.digest])
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request, writer)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: Seen, writer: asyncio.StreamWriter) -> bool:
        """Send the scripted answer to a request, or break off as it says; returns whether the connection goes on."""
        answer = self._queue.popleft() if self._queue else self.handler and self.handler(request)
        scripted = Scripted(answer) if isinstance(answer, str) else answer or Scripted()
        scripted = scripted if isinstance(scripted, Scripted) else Scripted(**vars(scripted))
        if scripted.kind == "hang":
            await asyncio.sleep(3600)
        await asyncio.sleep(scripted.latency or self.latency)
        while self.answers_left <= 0:
            await asyncio.sleep(0.005)
        self.answers_left -= 1
        deadline = self._loop.time() + 60
        while self.most_in_flight < scripted.together and self._loop.time() < deadline:
            await asyncio.sleep(0.005)
        if scripted.kind == "drop_before":
            return _reset(writer)
        status, body = self._written(request, scripted)
        kind = "text/html" if body.startswith(b"<") else "application/json"
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in {"x-request-id": "req_1", **scripted.headers}.items()]
        if half := scripted.kind == "drop_after":
            body = body[: len(body) // 2]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        if half:
            await asyncio.sleep(0.02)
            return _reset(writer)
        self.answered += 1
        return True

    def _written(self, request: Seen, scripted: Scripted) -> tuple[int, bytes]:
        """Make the status and the body of an answer."""
        status = scripted.status
        if (body := scripted.body) is not None:
            return status, body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else dump(body)
        if scripted.kind == "html":
            return status, HTML
        if scripted.kind == "bad_key" and request.api == "gemini":
            status = 400
        if status >= 400:
            return status, dump(error(request, status, scripted))
        if request.api in ("embeddings", "models"):
            return status, dump(embeddings(request) if request.api == "embeddings" else models())
        text = scripted.text if scripted.text is not None else text_for(request)
        body = dump(ANSWERS.get(request.api, openai_answer)(request, text, scripted, self))
        return status, body[: len(body) // 2] if scripted.kind == "malformed" else body


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    chunks = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(chunks)


def _reset(writer: asyncio.StreamWriter) -> bool:
    """Close with RST rather than FIN."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False
