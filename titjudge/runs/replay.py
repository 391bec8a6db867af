"""A run's own answers in the place of its models: metrics are computed again, and nothing is asked.

Every metric goes through the same engine as in the run. A stand-in for each model looks up the question among the stored
ones: first by the key of the whole request, then, where the adapter or the model that made the key is not here, by what
was said (messages with image hashes, model, sample, attempt). A question that is not on file has no answer (missing).
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from titjudge.core import containers
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import DataError, Unanswered
from titjudge.core.images import ImageFiles, Shown
from titjudge.core.keys import content_key, request_key
from titjudge.core.prompts import PromptLibrary
from titjudge.core.run_records import Manifest
from titjudge.core.serialization import checksum_differs, embedding_from, reply_from, request_record
from titjudge.core.types import Embedding, ImageFile, Reply, Request, Status
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers import Capabilities, Embedder, Provider, WrappedProvider, make_provider

Complain = Callable[[str, str, str, str], None]  # kind, where, what, item
_SAID = ("messages", "model", "sample", "attempt")
_SAME = ("messages", "model", "sample", "attempt", "params", "provider")
UNSEALED = "its content does not fit its seal"
_REQUIRED = ("key", "item", *_SAME, "text", "status", "usage")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a record stands in its file, and what a choice between several needs to know."""

    at: int
    length: int
    line: int
    key: str
    item: str
    ok: bool


class _Lines:
    """Records of a JSONL file, read again when they are needed: a long run does not have to fit into memory."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._open = os.open(file, os.O_RDONLY) if file.is_file() else None

    def __iter__(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield line number, offset, length, content."""
        if self._open is None:
            return
        at = 0
        with self.file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and line.endswith(b"\n"):
                    yield number, at, len(line), line
                at += len(line)

    def read(self, place: _Place) -> dict[str, Any]:
        assert self._open is not None
        found: dict[str, Any] = orjson.loads(os.pread(self._open, place.length, place.at))
        return found

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None


def parsed(line: bytes, required: Sequence[str]) -> dict[str, Any] | str:
    """Parse a line to its object, or say what is wrong with it."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"not a JSON object ({error})"
    if not isinstance(record, dict):
        return "not a JSON object"
    absent = [name for name in required if name not in record]
    return f"the key '{absent[0]}' is missing" if absent else record


class Stored:
    """The answers and vectors of a run folder, by key and by content.

    Args:
        complain: told of every line that is damaged and of every question that is not what its key says.

    `wanted` (keys) and `item` narrow a choice between several answers to one question; `missed` counts questions
    without an answer and `used` the keys given out, both since `begin`.
    """

    def __init__(self, folder: Path, complain: Complain) -> None:
        self._replies, self._vectors = _Lines(folder / "replies.jsonl"), _Lines(folder / "vectors.jsonl")
        self._complain = complain
        self._by_key: dict[str, list[_Place]] = {}
        self._by_content: dict[str, list[_Place]] = {}
        self._by_text: dict[str, list[_Place]] = {}
        self.keys: set[str] = set()
        self.answers = self.vectors = self.matched_by_text = 0
        self.with_tools: set[str] = set()  # models that were offered tools
        self.begin("", frozenset())
        self._index_replies()
        self._index_vectors()

    def begin(self, item: str, wanted: frozenset[str]) -> None:
        """Begin an item: what follows is asked for it, whose stored score names these keys."""
        self.item, self.wanted = item, wanted
        self.missed = 0
        self.used: set[str] = set()

    def close(self) -> None:
        self._replies.close()
        self._vectors.close()

    def _index_replies(self) -> None:
        for number, at, length, line in self._replies:
            record = parsed(line, _REQUIRED)
            problem = record if isinstance(record, str) else _unreadable(record)
            if isinstance(record, str) or problem:
                self._complain("line", f"replies.jsonl:{number}", str(problem), _item_in(line))
                continue
            if checksum_differs(record):
                self._complain("line", f"replies.jsonl:{number}", UNSEALED, record["item"])
            place = _Place(at, length, number, record["key"], record["item"], record["status"] == Status.OK)
            self._by_key.setdefault(place.key, []).append(place)
            self._by_content.setdefault(_content(record), []).append(place)
            self.keys.add(place.key)
            self.answers += 1
            if "tools" in record:
                self.with_tools.add(record["model"])

    def _index_vectors(self) -> None:
        for number, at, length, line in self._vectors:
            record = parsed(line, ("key", "text", "vector", "used", "total"))
            if isinstance(record, str):
                self._complain("line", f"vectors.jsonl:{number}", record, "")
                continue
            if checksum_differs(record):
                self._complain("line", f"vectors.jsonl:{number}", UNSEALED, "")
            place = _Place(at, length, number, record["key"], "", True)
            self._by_text.setdefault(content_key("text", record["text"]), []).append(place)
            self.keys.add(place.key)
            self.vectors += 1

    def reply(self, request: Request) -> Reply:
        """Find the stored answer to a request.

        Raises:
            Unanswered: none is on file.
        """
        record = request_record(request)
        places = self._by_key.get(request_key(request), [])
        if not places:
            places = self._by_content.get(_content(record), [])
            self.matched_by_text += bool(places)
        if not places:
            self.missed += 1
            raise Unanswered(Status.MISSING, f"no answer to {request.template} is on file")
        place = self._choose(places)
        found = self._replies.read(place)
        if place.key == request_key(request):
            changed = [name for name in _SAME if found[name] != _json(record[name])]
            if changed:
                what = f"the stored question is not the one its key stands for ({', '.join(changed)} differ)"
                self._complain("question", f"replies.jsonl:{place.line}", what, place.item)
        self.used.add(place.key)
        reply = reply_from(found)
        return replace(reply, status=Status.OK) if reply.status is Status.UNPARSED else reply

    def vector(self, text: str) -> Embedding:
        """Find the stored vector of a text.

        Raises:
            Unanswered: none is on file.
        """
        places = self._by_text.get(content_key("text", text), [])
        if not places:
            self.missed += 1
            raise Unanswered(Status.MISSING, "no vector of a text is on file")
        place = self._choose(places)
        found = self._vectors.read(place)
        try:
            base64.b64decode(found["vector"], validate=True)
            vector = embedding_from(found)
        except (TypeError, ValueError) as error:
            self._complain("line", f"vectors.jsonl:{place.line}", f"not a vector ({error})", self.item)
            raise Unanswered(Status.MISSING, "the vector of a text is damaged") from error
        self.used.add(place.key)
        return vector

    def _choose(self, places: Sequence[_Place]) -> _Place:
        """Choose among several answers to one question: one the score names, this item's last one, else the last good one."""
        named = [place for place in places if place.key in self.wanted] or places
        own = [place for place in named if place.item == self.item]
        good = [place for place in named if place.ok]
        return (own or good or named)[-1]

    def ended_as(self, keys: Sequence[str], status: Status) -> bool:
        """Tell whether an answer with this status is on file under one of the keys."""
        places = (place for key in keys for place in self._by_key.get(key, ()))
        return any(self._replies.read(place)["status"] == status for place in places)

    def pictures_of(self, keys: Sequence[str]) -> Shown:
        """List what the questions under these keys showed."""
        shown = []
        for key in keys:
            for place in self._by_key.get(key, ())[:1]:
                messages = self._replies.read(place)["messages"]
                shown.append([part["image"] for turn in messages for part in turn if isinstance(part, dict)])
        return Shown.of([hashes for hashes in shown if hashes])


def _unreadable(record: Mapping[str, Any]) -> str:
    try:
        reply_from(record)
        return "" if isinstance(record["text"], str) else "its text is no text"
    except (KeyError, TypeError, ValueError) as error:
        return f"not an answer ({error})"


def _item_in(line: bytes) -> str:
    """Find the item that a damaged line belongs to, where that can still be read."""
    found = re.search(rb'"item":"((?:[^"\\]|\\.)*)"', line)
    return found[1].decode(errors="replace") if found else ""


def _content(record: Mapping[str, Any]) -> str:
    said = {name: record[name] for name in _SAID}
    return content_key("said", said | ({"choices": record["choices"]} if "choices" in record else {}))


def _json(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


class _NotHere(Provider):
    """In the place of a provider that is not installed here, or whose weights are elsewhere."""

    capabilities = Capabilities(probabilities=True)

    def __init__(self, config: RoleConfig) -> None:
        self.name = config.provider

    async def complete(self, request: Request) -> Reply:
        raise NotImplementedError


class StoredModel(WrappedProvider):
    """Stands in for a provider: its name and its ways of asking, the run's own answers.

    Where the provider cannot be made, questions are found by what was said.
    """

    def __init__(self, config: RoleConfig, stored: Stored, base_url: str | None, timeout: float) -> None:
        try:
            super().__init__(make_provider(config.provider, config.settings(timeout)))
        except Exception:
            super().__init__(_NotHere(config))
        self._stored = stored
        self.base_url = self.base_url if base_url is None else base_url
        tools = config.model_name in stored.with_tools
        self.capabilities = replace(self.capabilities, local=True, cache=True, tools=tools)

    @property
    def here(self) -> bool:
        return not isinstance(self.real, _NotHere)

    @property
    def is_free(self) -> bool:
        return True

    async def complete(self, request: Request) -> Reply:
        return self._stored.reply(request)


class StoredEmbedder(Embedder):
    """Stands in for an embedder: the run's own vectors, by text."""

    def __init__(self, config: RoleConfig, stored: Stored) -> None:
        self.name = config.model
        self.identity: Mapping[str, Any] = {"stored": config.model}
        self._stored = stored

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        return [self._stored.vector(text) for text in texts]


class StoredPictures(ImageFiles):
    """Images as they were judged: one that has changed is named, one that is not here is known by its hash alone."""

    def __init__(self, complain: Complain) -> None:
        super().__init__()
        self._complain = complain
        self.item = ""
        self.expected: dict[Path, Shown] = {}
        self._counted: set[Path] = set()
        self.seen = self.absent = 0

    def count(self, path: Path) -> None:
        """Count an image among those checked, or among those that are not here; once."""
        if path not in self._counted:
            self._counted.add(path)
            there = containers.exists(path)
            self.seen += there
            self.absent += not there

    async def open(self, path: Path) -> ImageFile:
        shown = self.expected.get(path, Shown())
        try:
            picture = await super().open(path)
        except DataError as error:
            if shown.own is None:
                raise
            if containers.exists(path):
                self._changed(path, shown, str(error))
            return ImageFile(shown.own, "", 0, 0, path, _nothing)
        if shown.all and picture.sha256 not in shown.all:
            self._changed(path, shown, f"its SHA-256 is {picture.sha256[:16]}")
            return replace(picture, sha256=shown.own) if shown.own else picture
        return picture

    def _changed(self, path: Path, shown: Shown, now: str) -> None:
        judged = f" (SHA-256 {shown.own[:16]})" if shown.own else ""
        self._complain("picture", str(path), f"the image is not the one that was judged{judged}: {now}", self.item)


def _nothing() -> bytes:
    raise DataError("the image is not here")


def replaying(
    config: RunConfig, manifest: Manifest, library: PromptLibrary, stored: Stored, pictures: StoredPictures
) -> Engine:
    """Make the engine of a run, with its own answers in the place of its models."""
    addresses = {record.model: record.base_url for record in manifest.roles.values()}

    def make(role: RoleConfig) -> Any:
        label = f"{role.provider}/{role.model_name}" if role.model_name else role.provider
        address = None if role.base_url else addresses.get(label)
        return StoredModel(role, stored, address, config.limits.timeout)

    roles = Roles(config, make=make, embedder=lambda role: StoredEmbedder(role, stored))
    engine = Engine(roles, library)
    engine.images = pictures
    return engine
