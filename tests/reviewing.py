"""A small set of prompts to review, and `prompts review` as a process of its own, for tests."""

import contextlib
import http.client
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from builders import write_lines
from commands import start

UNIQUE = "unique at a cosine of 0.85"
SHORT = {
    "prompt_id": "t1",
    "prompt": "Two red cubes stand on a wooden table",
    "type": "attribute and number",
    "concepts": ["red cubes", "wooden table"],
    "questions": ["Are the cubes red?", "Is it raining?"],
    "gold_answers": ["yes", "no"],
    "checks": ["every concept kept", "answers hold for the text", UNIQUE],
    "provenance": {"models": {"judge": "openai/gpt-4o"}},
}
GRAPH = {
    "prompt_id": "g1",
    "prompt": "A grey cat sleeps on the stone wall of an old garden",
    "interval": "5-20",
    "graph": {
        "entities": ["cat", "wall"],
        "attributes": [["cat", "grey"], ["wall", "stone"]],
        "relations": [["cat", "sleeps on", "wall"]],
    },
    "checks": ["words in the interval", "entities in the words of the prompt", "refined", UNIQUE],
}
HOSTILE = {
    "prompt_id": "<b>h</b>",
    "prompt": "<script>window.hacked = 1</script> \u202ertl",
    "theme": "<img src=x onerror=1>",
}


def make_set(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "set.jsonl"
    write_lines(path, *lines or (SHORT, GRAPH, HOSTILE))
    return path


class Reviewing:
    def __init__(self, path: Path, *flags: str) -> None:
        self.process = start(path.parent, "prompts", "review", path.name, "--port", "0", *flags)
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        assert self.link, self.process.communicate()[1]
        where = urlsplit(self.link.rpartition(" ")[2])
        self.port, self.key = where.port, where.fragment

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self.key}", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            reply = connection.getresponse()
            content = reply.read()
            is_json = reply.getheader("content-type", "").startswith("application/json")
            return reply.status, json.loads(content) if is_json else content

    def decide(self, at: int, decision: str, **more: Any) -> tuple[int, Any]:
        seen = self.ask("GET", f"/api/prompt?at={at}")[1]["seen"]
        return self.ask("POST", "/api/decide", {"at": at, "seen": seen, "decision": decision, **more})


@contextlib.contextmanager
def reviewing(path: Path, *flags: str) -> Iterator[Reviewing]:
    served = Reviewing(path, *flags)
    with served.process:
        try:
            yield served
        finally:
            served.process.send_signal(signal.SIGKILL)
