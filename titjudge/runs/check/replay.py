"""Replay a run: its stored answers replace its models, so that metrics are computed again and no request is sent.

Every metric goes through the same engine as in the run. The stored answer to a request is looked up by the key of the
request, then, if the adapter or model that made the key is not installed, by its content (messages with image hashes,
model, sample, attempt). A request without a stored answer fails as missing.
"""

from __future__ import annotations

import base64
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import DataError, Unanswered
from titjudge.core.files import JsonlReader, has_lines, missing_key, raw_lines
from titjudge.core.run_records import Manifest
from titjudge.core.serialization import (
    checksum_differs,
    content_key,
    embedding_from,
    reply_from,
    request_key,
    request_record,
    short_digest,
)
from titjudge.core.types import Embedding, ImageFile, Json, ProviderSettings, Reply, Request, Status, Values
from titjudge.data import containers
from titjudge.data.images import ImageFiles, RequestImages
from titjudge.engine.pipeline import Engine
from titjudge.providers import Capabilities, Embedder, Provider, WrappedProvider, make_provider
from titjudge.runs.folder import journal
from titjudge.runs.open_run import open_engine

Complain = Callable[[str, str, str, str], None]  # kind, where, what, item
_CONTENT = ("messages", "model", "sample", "attempt")
_REQUEST = (*_CONTENT, "params", "provider")
_REPLY_KEYS = ("key", "item", *_REQUEST, "text", "status", "usage")
_VECTOR_KEYS = tuple("key text vector tokens_used tokens_total".split())
BAD_CHECKSUM = "its content does not fit its seal"


def checked_lines(file: Path, complain: Complain) -> Iterator[tuple[int, Json]]:
    """Read the valid records of a file with their offsets, and report the other lines and wrong checksums."""
    damage: dict[str, str] = {}
    for number, offset, record in journal.located(file, damage) if has_lines(file) else ():
        if checksum_differs(record):
            complain("line", f"{file.name}:{number}", BAD_CHECKSUM, str(record.get("item", "")))
        yield offset, record
    for where, what in damage.items():
        complain("line", where, what, "")


class _Records:
    """The records of a JSONL file by text keys. They are read again when they are needed: a long run need not fit into memory."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._reader = JsonlReader(file) if has_lines(file) else None
        self._offsets: dict[bytes, list[int]] = {}  # by digest of the key

    def add(self, key: str, offset: int) -> None:
        self._offsets.setdefault(short_digest(key.encode()), []).append(offset)

    def get(self, key: str) -> list[int]:
        """Return the offsets in the order of the file."""
        return self._offsets.get(short_digest(key.encode()), [])

    def read(self, offset: int) -> Json:
        assert self._reader is not None
        return self._reader.read_at(offset)

    def place(self, offset: int) -> str:
        """Name the file and the number of the line at an offset."""
        ends = accumulate(map(len, raw_lines(self.file)))
        return f"{self.file.name}:{next(number for number, end in enumerate(ends, 1) if end > offset)}"


class Stored:
    """The answers and vectors of a run folder, by key and by content.

    Args:
        folder: The run folder.
        complain: Called for every damaged line, and for every stored question that its key does not stand for.

    Attributes:
        missed: Questions without an answer since `begin`.
        used: Keys of the answers given since then.
        said: The texts of these answers.
        matched_by_content: Questions that were not found by their key.
        with_tools: Models that were offered tools.
    """

    def __init__(self, folder: Path, complain: Complain) -> None:
        self._replies, self._vectors = _Records(folder / "replies.jsonl"), _Records(folder / "vectors.jsonl")
        self._complain = complain
        self.answers = self.vectors = self.matched_by_content = 0
        self.with_tools: set[str] = set()
        self.begin("", frozenset())
        for offset, record in self._readable(complain):
            self._replies.add(record["key"], offset)
            self.answers += 1
            if "tools" in record:
                self.with_tools.add(record["model"])
        for offset, record in checked_lines(self._vectors.file, complain):
            if problem := missing_key(record, _VECTOR_KEYS):
                complain("line", self._vectors.place(offset), problem, "")
            else:
                self._vectors.add(record["key"], offset)
                self._vectors.add(content_key("text", record["text"]), offset)
                self.vectors += 1

    def _readable(self, complain: Complain) -> Iterator[tuple[int, Json]]:
        """Yield offset and content of the stored answers, and complain about the lines that are none."""
        for offset, record in checked_lines(self._replies.file, complain):
            try:
                if not (problem := missing_key(record, _REPLY_KEYS)):
                    reply_from(record)
            except (KeyError, TypeError, ValueError) as error:
                problem = f"not an answer ({error})"
            if problem:
                complain("line", self._replies.place(offset), problem, str(record.get("item", "")))
            else:
                yield offset, record

    def has(self, key: str) -> bool:
        """Return True if an answer or a vector is stored under a key."""
        return bool(self._replies.get(key) or self._vectors.get(key))

    @functools.cached_property
    def _by_content(self) -> _Records:
        """The answers by the content of the question, which is rarely needed."""
        records = _Records(self._replies.file)
        for offset, record in self._readable(lambda *problem: None):
            records.add(_content(record), offset)
        return records

    def begin(self, item: str, keys: frozenset[str]) -> None:
        """Begin an item; of several answers to a question, those under `keys` come first."""
        self.item, self.preferred_keys = item, keys
        self.missed = 0
        self.used: set[str] = set()
        self.said: list[str] = []

    def reply(self, request: Request) -> Reply:
        """Find the stored answer to a request.

        Raises:
            Unanswered: None is stored.
        """
        question, key = request_record(request), request_key(request)
        offsets = self._replies.get(key)
        if not offsets:
            offsets = self._by_content.get(_content(question))
            self.matched_by_content += bool(offsets)
        if not offsets:
            self.missed += 1
            raise Unanswered(Status.MISSING, f"no answer to {request.template} is on file")
        offset, record = self._choose(self._replies, offsets)
        if record["key"] == key:
            changed = [name for name in _REQUEST if record[name] != orjson.loads(orjson.dumps(question[name]))]
            if changed:
                what = f"the stored question is not the one its key stands for ({', '.join(changed)} differ)"
                self._complain("question", self._replies.place(offset), what, record["item"])
        self.used.add(record["key"])
        self.said.append(record["text"])
        reply = reply_from(record)
        return replace(reply, status=Status.OK) if reply.status is Status.UNPARSED else reply

    def vector(self, text: str) -> Embedding:
        """Find the stored vector of a text.

        Raises:
            Unanswered: None is stored.
        """
        offsets = self._vectors.get(content_key("text", text))
        if not offsets:
            self.missed += 1
            raise Unanswered(Status.MISSING, "the vector of a text is not stored")
        offset, record = self._choose(self._vectors, offsets)
        try:
            base64.b64decode(record["vector"], validate=True)
            vector = embedding_from(record)
        except (TypeError, ValueError) as error:
            self._complain("line", self._vectors.place(offset), f"not a vector ({error})", self.item)
            raise Unanswered(Status.MISSING, "the vector of a text is damaged") from error
        self.used.add(record["key"])
        return vector

    def _choose(self, lines: _Records, offsets: Sequence[int]) -> tuple[int, Json]:
        """Choose among several answers to one question: the score's answers, this item's, good ones; the last."""
        answers = [(offset, lines.read(offset)) for offset in offsets]
        candidates = [line for line in answers if line[1]["key"] in self.preferred_keys] or answers
        item_answers = [line for line in candidates if line[1].get("item", "") == self.item]
        good = [line for line in candidates if line[1].get("status", Status.OK) == Status.OK]
        return (item_answers or good or candidates)[-1]

    def ended_as(self, keys: Sequence[str], status: Status) -> bool:
        """Return True if an answer with this status is stored under one of the keys."""
        offsets = (offset for key in keys for offset in self._replies.get(key))
        return any(self._replies.read(offset)["status"] == status for offset in offsets)

    def images_of(self, keys: Sequence[str]) -> RequestImages:
        """List the images in the questions under these keys."""
        questions = []
        for key in keys:
            for offset in self._replies.get(key)[:1]:
                reply = self._replies.read(offset)
                hashes = [part["image"] for turn in reply["messages"] for part in turn if isinstance(part, dict)]
                questions.append((str(reply["template"]), hashes))
        return RequestImages.from_requests(questions)


def _content(record: Values) -> str:
    content = {name: record[name] for name in _CONTENT}
    return content_key("said", content | ({"choices": record["choices"]} if "choices" in record else {}))


class _Unavailable(Provider):
    """Replace a provider that is not installed, or whose weights are missing."""

    capabilities = Capabilities(probabilities=True)

    def __init__(self, config: RoleConfig) -> None:
        self.name = config.provider

    async def complete(self, request: Request) -> Reply:
        raise NotImplementedError


class StoredModel(WrappedProvider):
    """Replace a provider, with its name and capabilities, and return the run's stored answers.

    If the provider cannot be made, answers are found by the content of the request.
    """

    def __init__(self, role: RoleConfig, stored: Stored, base_url: str | None, settings: ProviderSettings) -> None:
        try:
            super().__init__(make_provider(role.provider, settings))
        except Exception:
            super().__init__(_Unavailable(role))
        self._stored = stored
        self.base_url = self.base_url if base_url is None else base_url
        tools = role.model_name in stored.with_tools
        self.capabilities = replace(self.capabilities, direct=True, cache=True, tools=tools)

    @property
    def is_free(self) -> bool:
        return True

    async def complete(self, request: Request) -> Reply:
        return self._stored.reply(request)


class StoredEmbedder(Embedder):
    """Replace an embedder, and return the run's stored vectors."""

    def __init__(self, config: RoleConfig, stored: Stored) -> None:
        self.name = config.model
        self.identity: Values = {"stored": config.model}
        self._stored = stored

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        return [self._stored.vector(text) for text in texts]


class StoredImages(ImageFiles):
    """Images as they were judged: a changed one is reported, and a missing one is known by its hash alone."""

    def __init__(self, complain: Complain) -> None:
        super().__init__()
        self._complain = complain
        self.item = ""
        self.expected: dict[Path, RequestImages] = {}
        self._counted: set[Path] = set()
        self.seen = self.absent = 0

    def count(self, path: Path) -> None:
        """Count an image once, as checked or as missing."""
        if path not in self._counted:
            self._counted.add(path)
            exists = containers.exists(path)
            self.seen += exists
            self.absent += not exists

    async def open(self, path: Path) -> ImageFile:
        expected = self.expected.get(path, RequestImages())
        try:
            image = await super().open(path)
        except DataError as error:
            if expected.judged is None:
                raise
            if containers.exists(path):
                self._changed(path, expected, str(error))
            return ImageFile(expected.judged, "", 0, 0, path, _missing_image)
        if expected.all and image.sha256 not in expected.all:
            self._changed(path, expected, f"its SHA-256 is {image.sha256[:16]}")
            return replace(image, sha256=expected.judged) if expected.judged else image
        return image

    def _changed(self, path: Path, expected: RequestImages, now: str) -> None:
        judged = f" (SHA-256 {expected.judged[:16]})" if expected.judged else ""
        self._complain("picture", str(path), f"the image is not the one that was judged{judged}: {now}", self.item)


def _missing_image() -> bytes:
    raise DataError("the image is missing. Restore it")


@contextlib.asynccontextmanager
async def replay_engine(
    config: RunConfig, manifest: Manifest, stored: Stored, images: StoredImages
) -> AsyncIterator[Engine]:
    """Open the models of a run, with its stored answers in their place."""
    addresses = {record.model: record.base_url for record in manifest.roles.values()}

    def make(role: RoleConfig) -> Any:
        address = None if role.base_url else addresses.get(role.label)
        return StoredModel(role, stored, address, config.settings_of(role))

    async with open_engine(config, make=make, embedder=lambda role: StoredEmbedder(role, stored)) as engine:
        engine.images = images
        yield engine
