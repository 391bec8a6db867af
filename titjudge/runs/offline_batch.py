"""Offline batches: the questions of a run as a file, and answers from anywhere put where the run finds them.

Both walk the real metrics, as a run does. `export` seats a provider that writes down what it is asked and gives no
answer, so an item's second question appears once the first is answered. `import_answers` seats one that answers from the
file: what may be kept, what fits its schema and what follows from it are the engine's to decide, as ever.

Where every seat is `recorded`, `export` writes what is not recorded yet, for people and models that see the pictures
by themselves; `titjudge.runs.recording` takes the answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from titjudge.core import registry, structured_output
from titjudge.core.config import RoleConfig
from titjudge.core.errors import ConfigError, Unanswered, UserError
from titjudge.core.keys import request_key
from titjudge.core.serialization import request_record
from titjudge.core.types import Embedding, Failure, FailureKind, Picture, Reply, Request, Status, Usage
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.scoring import Panel
from titjudge.metrics.agent.crops import Origin, origin
from titjudge.providers import Capabilities, Provider, ProviderSettings
from titjudge.providers.batch.openai import openai_line
from titjudge.providers.hosted.openai import OpenAI
from titjudge.runs.loop import Loop
from titjudge.runs.offline_files import IMPORTED, Exported, Imported, Shelf, question_text, read_answers
from titjudge.runs.session import Session

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # of one OpenAI batch file
Journal = Callable[[str, dict[str, Any]], None]
_OPEN = (Status.FAILED, "exported, not asked")  # an outage: no metric goes on to questions that build on this answer


@dataclass(slots=True)
class Asked:
    """One question as it was met on a walk: who asked it, the parts of pictures it shows, and what was wrong with its answer."""

    template: str
    items: dict[str, None] = field(default_factory=dict)
    parts: dict[str, Origin] = field(default_factory=dict)  # by the hash of what is sent
    problem: str = ""

    def refusal(self, reason: str = "") -> str:
        """Why its answer is of no use, with an item and the template, so that people find it."""
        return (
            f"{next(iter(self.items))}, {self.template}: {self.problem or reason or 'it does not say what was asked'}"
        )


def export(
    session: Session,
    out: Path,
    *,
    crops: Path | None = None,
    max_requests: int = MOST_REQUESTS,
    max_bytes: int = MOST_BYTES,
) -> Exported:
    """Write the requests a run of `session` would send now as OpenAI batch JSONL, each once.

    A line has `custom_id` (the key of the answer in the cache), `method`, `url` and `body`. A file beyond the limits
    goes on in NAME-2.jsonl, NAME-3.jsonl, ... Lines stand in the order of the items. Nothing is sent; with nothing to
    ask the file is empty.
    Where all seats are `recorded` a line has `custom_id`, `item` (and `items`, where it is asked for several), `template`,
    `images` (paths), `question` and, for a structured answer, its JSON `schema`. A part of a picture is a data URL, or a
    file in the folder `crops`, and has `part_of` (path) and `box` (left, top, right, bottom in fractions). Beside
    another model's questions, those that are not recorded are left out.

    Raises:
        UserError: the file cannot be written.
    """
    shelf = Shelf(out, max_requests, max_bytes)
    plain = only_recorded(session)
    seen: dict[str, Asked] = {}
    order = {item.id: number for number, item in enumerate(session.items())}

    def rank(key: str) -> tuple[int, str, str]:
        return min(map(order.__getitem__, seen[key].items)), seen[key].template, key

    def ready(key: str, line: bytes) -> bytes:
        if not plain:
            return line
        items = sorted(seen[key].items, key=order.__getitem__)
        record = {name: items[0] if name == "item" else value for name, value in orjson.loads(line).items()}
        return orjson.dumps(record | ({"items": items} if items[1:] else {}), option=orjson.OPT_APPEND_NEWLINE)

    def seat(config: RoleConfig, real: Provider) -> Any:
        if real.capabilities.cache:
            return _Recorder(config, real, shelf)
        return _Plain(real, shelf, session.config.data, crops) if plain else real

    try:
        asyncio.run(walk(session, seat, seen=seen))
        return shelf.finish(rank, ready)
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}") from error
    finally:
        shelf.drop()


def import_answers(session: Session, file: Path) -> Imported:
    """Put the answers in `file` into the cache, from where `judge` takes them without any network.

    A line is one of an OpenAI batch's output (`custom_id`, `response`, `error`) or simply
    `{"custom_id": KEY, "text": "..."}` (`answer` is taken for `text`, and a JSON object for its text).

    Raises:
        DataError: the file cannot be read. ConfigError: all seats are `recorded`, which the cache keeps nothing of.
    """
    if only_recorded(session):
        raise ConfigError("recorded answers lie beside the data, not in the cache: `batch record` takes them")
    result = Imported()
    answers = read_answers([file], result)
    asked: set[str] = set()
    seen: dict[str, Asked] = {}
    asyncio.run(
        walk(session, lambda _, real: FromFile(real, answers, asked) if real.capabilities.cache else real, seen=seen)
    )  # recorded answers need no asking
    result.unusable = [(key, seen[key].refusal(why) if key in seen else why) for key, why in result.unusable]
    for key, reply in answers.items():
        kept = session.cache.get(key)
        if key in asked:
            if kept is not None and IMPORTED in kept["flags"] and kept["text"] == reply.text:
                result.imported += 1
            else:
                result.unusable.append((key, seen[key].refusal(reply.reason)))
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


async def walk(
    session: Session,
    seat: Callable[[RoleConfig, Provider], Any],
    journal: Journal | None = None,
    *,
    seen: dict[str, Asked],
) -> None:
    """Every item through every metric that asks a model, with `seat(config, real)` in place of each provider.

    `seen` is filled with every question that is asked, by its key.
    """
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
    engine = _Listening(
        seen,
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


class _Listening(Engine):
    """An engine that notes every question put to it, also one that is shared with another item."""

    def __init__(self, seen: dict[str, Asked], *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._seen = seen

    async def answer(self, role: Any, request: Request, **rest: Any) -> Reply:
        key = request_key(request)
        asked = self._seen.setdefault(key, Asked(request.template))
        asked.items[request.item_id] = None
        for picture in request.pictures:
            if (part := origin(picture.path)) is not None:
                asked.parts[picture.sha256] = part
        return await super().answer(role, request, **rest)

    async def _repair(self, role: Any, request: Request, reply: Reply, schema: Any, reservation: Any) -> Reply:
        if not request.attempt:
            self._seen[request_key(request)].problem = structured_output.problem(reply.text, schema)
        return await super()._repair(role, request, reply, schema, reservation)


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

    def __init__(self, config: RoleConfig, real: Provider, shelf: Shelf) -> None:
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
        if key not in self._shelf:
            words = request.schema is not None and not self._chat.native_schema
            self._shelf.put(key, await openai_line(self._chat, key, request, in_prompt=words))
        raise Unanswered(*_OPEN)


class _Plain(_Seat):
    """In the place of recorded answers: gives what is recorded and writes down what is not, for whoever can answer."""

    def __init__(self, real: Provider, shelf: Shelf, data: Path | None, crops: Path | None) -> None:
        super().__init__(real)
        self._shelf, self._data, self._crops = shelf, data, crops

    async def complete(self, request: Request) -> Reply:
        try:
            return await self.real.complete(request)
        except Unanswered:
            key = request_key(request)
            if key not in self._shelf and not request.attempt:
                self._shelf.put(key, orjson.dumps(self._line(key, request), option=orjson.OPT_APPEND_NEWLINE))
            raise Unanswered(*_OPEN) from None

    def _line(self, key: str, request: Request) -> dict[str, Any]:
        line: dict[str, Any] = {
            "custom_id": key,
            "item": request.item_id,
            "template": request.template,
            "images": [self._shown(picture) for picture in request.pictures],
            "question": question_text(request_record(request)["messages"]),
        }
        for part in filter(None, (origin(picture.path) for picture in request.pictures)):
            line |= {"part_of": str(part.image), "box": list(part.box)}
        return {**line, "schema": request.schema} if request.schema else line

    def _shown(self, picture: Picture) -> str:
        """The path of a picture; a part that was cut out of one is gone by the time anybody looks: its content."""
        home = (self._data if self._data is None or self._data.is_dir() else self._data.parent) or Path()
        if picture.path.resolve().is_relative_to(home.resolve()):
            return str(picture.path)
        if self._crops is not None:
            self._crops.mkdir(parents=True, exist_ok=True)
            file = self._crops / f"{picture.sha256[:32]}{picture.path.suffix}"
            file.write_bytes(picture.load())
            return str(file)
        return f"data:{picture.media_type};base64,{base64.b64encode(picture.load()).decode()}"


class FromFile(_Seat):
    """Answers from a file. `asked` are the keys used. What the real provider has `recorded` goes first, last, or not at
    all."""

    def __init__(
        self,
        real: Provider,
        answers: Mapping[str, Reply],
        asked: set[str],
        *,
        recorded: Literal["no", "first", "last"] = "no",
    ) -> None:
        super().__init__(real)
        self._answers, self._asked, self._recorded = answers, asked, recorded

    async def complete(self, request: Request) -> Reply:
        key = request_key(request)
        if self._recorded == "first":
            with contextlib.suppress(Unanswered):
                return await self.real.complete(request)
        if key not in self._answers:
            if self._recorded == "last":
                return await self.real.complete(request)
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
