"""Offline batches: the questions of a run as a file, and answers from anywhere put where the run finds them.

Both walk the real metrics, as a run does. `export` seats a provider that writes down what it is asked and gives no
answer, so an item's second question appears once the first is answered. `import_answers` seats one that answers from the
file: what may be kept, what fits its schema and what follows from it are the engine's to decide, as ever.

Where every seat is `recorded`, `export` writes what is not recorded yet, for people and models that see the pictures
by themselves; `titjudge.recording` takes the answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from titjudge import registry
from titjudge.config import RoleConfig
from titjudge.engine import Engine
from titjudge.errors import ConfigError, DataError, Unanswered, UserError
from titjudge.jsonl import scan_jsonl
from titjudge.keys import request_key
from titjudge.loop import Loop
from titjudge.panel import Panel
from titjudge.providers import Capabilities, Provider, ProviderSettings
from titjudge.providers import http as wire
from titjudge.providers.batch_openai import openai_line
from titjudge.providers.faults import ProviderFailure
from titjudge.providers.hosted import clean
from titjudge.providers.openai import OpenAI
from titjudge.records import request_record
from titjudge.roles import Roles
from titjudge.session import Session
from titjudge.types import Embedding, Failure, FailureKind, Picture, Reply, Request, Status, Usage

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # of one OpenAI batch file
Journal = Callable[[str, dict[str, Any]], None]
_OPEN = (Status.FAILED, "exported, not asked")  # an outage: no metric goes on to questions that build on this answer
IMPORTED = "imported"  # flag of an answer that came from a file


@dataclass(slots=True)
class Exported:
    """What `export` wrote."""

    requests: int = 0
    files: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class Imported:
    """What became of the lines of an answer file.

    `imported` answers are in the cache now; `already` lines have an answer there that is at least as good; `unusable`
    ones (key, reason) hold none, or one that does not say what was asked; `unknown` keys are no question of this run, or
    not yet; `bad` lines are named with file and line.
    """

    imported: int = 0
    already: int = 0
    unusable: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


def export(session: Session, out: Path, *, max_requests: int = MOST_REQUESTS, max_bytes: int = MOST_BYTES) -> Exported:
    """Write the requests a run of `session` would send now as OpenAI batch JSONL, each once.

    A line has `custom_id` (the key of the answer in the cache), `method`, `url` and `body`. A file beyond the limits
    goes on in NAME-2.jsonl, NAME-3.jsonl, ... Nothing is sent, and no file is written when there is nothing to ask.
    Where all seats are `recorded` a line has `custom_id`, `item`, `template`, `images` (paths; a data URL for a part of
    a picture), `question` and, for a structured answer, its JSON `schema`; beside another model's questions, those that
    are not recorded are left out.

    Raises:
        UserError: the file cannot be written.
    """
    shelf = _Shelf(out, max_requests, max_bytes)
    plain = only_recorded(session)

    def seat(config: RoleConfig, real: Provider) -> Any:
        if real.capabilities.cache:
            return _Recorder(config, real, shelf)
        return _Plain(real, shelf, session.config.data) if plain else real

    try:
        asyncio.run(walk(session, seat))
        return shelf.finish()
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}") from error
    finally:
        shelf.drop()


def import_answers(session: Session, file: Path) -> Imported:
    """Put the answers in `file` into the cache, from where `judge` takes them without any network.

    A line is one of an OpenAI batch's output (`custom_id`, `response`, `error`) or simply
    `{"custom_id": KEY, "text": "..."}`.

    Raises:
        DataError: the file cannot be read. ConfigError: all seats are `recorded`, which the cache keeps nothing of.
    """
    if only_recorded(session):
        raise ConfigError("recorded answers lie beside the data, not in the cache: `batch record` takes them")
    result = Imported()
    answers = read_answers([file], result)
    asked: set[str] = set()
    asyncio.run(
        walk(session, lambda _, real: FromFile(real, answers, asked) if real.capabilities.cache else real)
    )  # recorded answers need no asking
    for key, reply in answers.items():
        kept = session.cache.get(key)
        if key in asked:
            if kept is not None and IMPORTED in kept["flags"] and kept["text"] == reply.text:
                result.imported += 1
            else:
                result.unusable.append((key, reply.reason or "the answer does not fit what was asked"))
        elif kept is not None:
            result.already += 1
        else:
            result.unknown.append(key)
    return result


# ---------------------------------------------------------------------- the walk


def only_recorded(session: Session) -> bool:
    """Whether every model that the metrics of a run ask is `recorded`."""
    roles = {role for metric in session.metrics.values() for role in metric.roles} - {"embedder"}
    if "judge" in roles:
        roles.update(session.config.judge_roles)
    found = [session.config.role(role) for role in roles]
    return bool(found) and all(role is not None and role.provider == "recorded" for role in found)


async def walk(session: Session, seat: Callable[[RoleConfig, Provider], Any], journal: Journal | None = None) -> None:
    """Every item through every metric that asks a model, with `seat(config, real)` in place of each provider."""
    config = session.config

    def make(role: RoleConfig) -> Any:
        settings = role.settings(config.limits.timeout)
        if role.provider == "recorded":  # nothing need be recorded yet
            settings = replace(settings, options={**settings.options, "new": True})
        real: Provider = registry.load("providers", role.provider)(settings)
        return seat(role, real)

    metrics = {name: metric for name, metric in session.metrics.items() if set(metric.roles) - {"embedder"}}
    roles = Roles(config, make=make, embedder=lambda _: _NoEmbedder())
    roles.check_recordings(role for metric in metrics.values() for role in metric.roles)
    engine = Engine(
        roles,
        session.library,
        session.cache,
        protocol=config.protocol,
        journal=journal,
        lenient=config.lenient,
        failed="drop",
    )
    loop = Loop(engine, metrics, panel=Panel.of(config), on_score=lambda score, of: None, in_flight=16)
    try:
        await loop.run(session.items())
    finally:
        await engine.aclose()


class _Seat:
    """In a provider's place: its name and key, and none of its answers."""

    def __init__(self, real: Provider) -> None:
        self.real = real
        self.name, self.version, self.base_url, self.account = real.name, real.version, real.base_url, real.account
        self.free = real.capabilities.local
        self.capabilities: Capabilities = real.capabilities

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.REJECTED, str(error))

    def usage_bound(self, request: Request) -> Usage:
        return self.real.usage_bound(request)

    async def aclose(self) -> None:
        await self.real.aclose()


class _Recorder(_Seat):
    """Writes down what it is asked."""

    def __init__(self, config: RoleConfig, real: Provider, shelf: _Shelf) -> None:
        super().__init__(real)
        self.capabilities = replace(real.capabilities, local=True)  # no price, no slot, no second try
        chat = (
            real
            if isinstance(real, OpenAI)
            else OpenAI(ProviderSettings(config.model_name or real.name, base_url="http://localhost"))
        )
        self._chat, self._shelf = chat, shelf

    async def complete(self, request: Request) -> Reply:
        key = request_key(request)
        if key not in self._shelf.keys:
            self._shelf.keys.add(key)
            words = request.schema is not None and not self._chat.native_schema
            self._shelf.put(await openai_line(self._chat, key, request, in_prompt=words))
        raise Unanswered(*_OPEN)


class _Plain(_Seat):
    """In the place of recorded answers: gives what is recorded and writes down what is not, for whoever can answer."""

    def __init__(self, real: Provider, shelf: _Shelf, data: Path | None) -> None:
        super().__init__(real)
        self._shelf, self._data = shelf, data

    async def complete(self, request: Request) -> Reply:
        try:
            return await self.real.complete(request)
        except Unanswered:
            key = request_key(request)
            if key not in self._shelf.keys and not request.attempt:
                self._shelf.keys.add(key)
                self._shelf.put(orjson.dumps(self._line(key, request), option=orjson.OPT_APPEND_NEWLINE))
            raise Unanswered(*_OPEN) from None

    def _line(self, key: str, request: Request) -> dict[str, Any]:
        line = {
            "custom_id": key,
            "item": request.item_id,
            "template": request.template,
            "images": [self._shown(picture) for picture in request.pictures],
            "question": question_text(request_record(request)["messages"]),
        }
        return {**line, "schema": request.schema} if request.schema else line

    def _shown(self, picture: Picture) -> str:
        """The path of a picture; a part that was cut out of one is gone by the time anybody looks: its content."""
        home = (self._data if self._data is None or self._data.is_dir() else self._data.parent) or Path()
        if picture.path.resolve().is_relative_to(home.resolve()):
            return str(picture.path)
        return f"data:{picture.media_type};base64,{base64.b64encode(picture.load()).decode()}"


class FromFile(_Seat):
    """Answers from a file, once the real provider (if asked to, with `first`) has none. `asked` are the keys used."""

    def __init__(self, real: Provider, answers: Mapping[str, Reply], asked: set[str], *, first: bool = False) -> None:
        super().__init__(real)
        self._answers, self._asked, self._first = answers, asked, first

    async def complete(self, request: Request) -> Reply:
        key = request_key(request)
        if self._first:
            with contextlib.suppress(Unanswered):
                return await self.real.complete(request)
        if key not in self._answers:
            raise Unanswered(Status.MISSING, "no answer in the file")
        self._asked.add(key)
        if self._answers[key].tool_calls and not request.tools:
            raise Unanswered(Status.UNPARSED, "the answer calls tools, and none were offered")
        return self._answers[key]


class _NoEmbedder:
    """Vectors are made by the run itself."""

    name, max_tokens, local, free = "none", 0, True, True
    identity: Mapping[str, Any] = {"name": "none"}

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        raise Unanswered(Status.MISSING, "no vectors here")

    def classify(self, error: Exception) -> Failure:
        return Failure(FailureKind.REJECTED, str(error))

    async def aclose(self) -> None:
        return None


# ---------------------------------------------------------------------- files


class _Shelf:
    """The export files, written aside and put in place when all is done."""

    def __init__(self, out: Path, most: int, most_bytes: int) -> None:
        if out.is_dir():
            raise ConfigError(f"{out} is a folder: --out names a file")
        self.out, self._most, self._most_bytes = out, most, most_bytes
        self.keys: set[str] = set()
        self._file: Any = None
        self._parts: list[tuple[Path, Path]] = []
        self._count = self._lines = self._size = 0

    def put(self, line: bytes) -> None:
        if self._file is None or self._lines >= self._most or self._size + len(line) > self._most_bytes:
            self._next()
        self._file.write(line)
        self._lines += 1
        self._count += 1
        self._size += len(line)

    def _next(self) -> None:
        if self._file is not None:
            self._file.close()
        number = len(self._parts) + 1
        target = self.out if number == 1 else self.out.with_name(f"{self.out.stem}-{number}{self.out.suffix}")
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.new")
        self._file = aside.open("wb")
        self._parts.append((aside, target))
        self._lines = self._size = 0

    def finish(self) -> Exported:
        if self._file is not None:
            self._file.close()
            self._file = None
        for aside, target in self._parts:
            aside.replace(target)
        done = Exported(self._count, [target for _, target in self._parts])
        self._parts = []
        return done

    def drop(self) -> None:
        """Forget what was not finished."""
        if self._file is not None:
            self._file.close()
        for aside, _ in self._parts:
            aside.unlink(missing_ok=True)


def question_text(messages: Sequence[Any]) -> str:
    """The texts of a conversation as `records.request_record` has it, for people."""
    return "\n\n".join(part for _, *parts in messages for part in parts if isinstance(part, str)).strip()


def read_answers(files: Sequence[Path], result: Imported) -> dict[str, Reply]:
    """The first good answer to each key; lines without one, and a second one that differs, are noted in `result`."""
    answers: dict[str, Reply] = {}
    for file in files:
        for key, reply in _read(file, result):
            if key not in answers or answers[key].status is not Status.OK:
                answers[key] = reply
            elif reply.status is Status.OK and reply.text != answers[key].text:
                result.bad.append(f"{file}: {key} is answered twice; the first answer counts")
    result.unusable = [(key, reason) for key, reason in dict(result.unusable).items() if key not in answers]
    return answers


def _read(file: Path, result: Imported) -> list[tuple[str, Reply]]:
    """Key and reply of every line that holds an answer; the others are noted in `result`."""
    reader = OpenAI(ProviderSettings("imported", base_url="http://localhost"))
    found: list[tuple[str, Reply]] = []
    for number, record in scan_jsonl(file):
        if isinstance(record, DataError):
            result.bad.append(str(record))
            continue
        key = record.get("custom_id")
        if not isinstance(key, str) or not ("text" in record or "response" in record or record.get("error")):
            result.bad.append(str(DataError("expected custom_id, and text or response", file, number)))
            continue
        key = f"ask:{key}" if re.fullmatch(r"[0-9a-f]{64}", key) else key
        try:
            reply = _reply(reader, record)
        except (ProviderFailure, ValueError, TypeError, LookupError, AttributeError) as error:
            result.unusable.append((key, str(error) or type(error).__name__))
            continue
        found.append((key, reply.with_(endpoint=f"file {file.name}", flags=(*reply.flags, IMPORTED))))
    return found


def _reply(reader: OpenAI, record: Mapping[str, Any]) -> Reply:
    """The reply in a line.

    Raises:
        ProviderFailure, ValueError and what odd content makes Python raise: there is none.
    """
    if "text" in record:
        if not isinstance(record["text"], str) or not record["text"].strip():
            raise ValueError("the text is empty")
        return Reply(clean(record["text"]), finish="stop", model_version=str(record.get("model") or ""))
    response = record.get("response")
    if not response:
        raise ValueError(f"no answer: {_message(record.get('error'))}")
    status = int(response.get("status_code") or 200)
    if not 200 <= status < 300:
        raise ValueError(f"no answer: HTTP {status}: {_message(response.get('body'))}")
    return reader._reply(wire.Answer(200, {}, orjson.dumps(response["body"])), "", tools=True)


def _message(error: Any) -> str:
    while isinstance(error, Mapping):
        error = error.get("message") or error.get("error") or error.get("code")
    return " ".join(str(error or "no reason given").split())[:200]
