"""Export the questions of a run, import answers, and run metrics with stand-ins for models.

`FileAnswers`, for `batch import` and `recording`, answers from a file. Caching, schemas and follow-up questions remain the engine's.

An export writes the questions that a run would ask now: an OpenAI batch, or plain lines for people and other models. Its engine
gives no answer, so an item's second question appears only once the first is answered. If every model is `recorded`, the
questions without a recorded answer are written as plain lines.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import orjson

from titjudge.core import registry, structured_output
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError, Unanswered, UserError
from titjudge.core.serialization import request_key, request_record
from titjudge.core.types import Embedding, ImageFile, Json, Reply, Request, Status
from titjudge.engine.cache import AnswerCache, open_cache
from titjudge.engine.pipeline import Engine, PendingQuestion
from titjudge.engine.roles import ProviderRole
from titjudge.engine.scoring import Panel
from titjudge.metrics.agent.looks import Origin, origin
from titjudge.providers import Embedder, Provider, ProviderSettings, WrappedProvider, make_provider
from titjudge.providers.batch.openai import openai_line
from titjudge.providers.hosted.openai import OpenAI
from titjudge.runs.loop import RunLoop
from titjudge.runs.offline.files import (
    IMPORTED,
    Exported,
    ImportedAnswers,
    SplitJsonlWriter,
    boxes_of,
    question_text,
    read_answers,
)
from titjudge.runs.open_run import open_engine
from titjudge.runs.session import Session

Journal = Callable[[str, Json], None]


@dataclass(slots=True)
class AskedQuestion:
    """A question that was asked on a walk.

    Attributes:
        template: The name of its prompt template.
        items: Ids of the items that it is about.
        parts: Cut-out parts of images, by the hash of what is sent.
        problem: Why its answer does not fit the schema; empty where it does.
    """

    template: str
    items: dict[str, None] = field(default_factory=dict)
    parts: dict[str, Origin] = field(default_factory=dict)
    problem: str = ""

    def refusal(self, reason: str = "") -> str:
        """Say for which item and template the answer cannot be used, and why."""
        why = self.problem or reason or "it does not say what was asked"
        return f"{next(iter(self.items))}, {self.template}: {why}"


def only_recorded(session: Session) -> bool:
    """Tell whether every model that the metrics of a run ask is `recorded`, but for those that `walk` asks itself."""
    roles = [session.config.role(name) for name in session.resolved.models if name != "embedder"]
    others = [role for role in roles if role is None or not is_detector_here(session.config, role)]
    return bool(others) and all(role is not None and role.provider == "recorded" for role in others)


def is_detector_here(config: RunConfig, role: RoleConfig) -> bool:
    """Tell whether a role is a detector of this machine: it answers itself, as nobody else can take its place in a file."""
    return role == config.detector and registry.uses_device(role.provider)


async def walk(
    session: Session,
    cache: AnswerCache,
    seen: dict[str, AskedQuestion],
    stand_in: Callable[[Provider], Provider] = lambda real: real,
    journal: Journal | None = None,
    kind: Callable[..., Engine] | None = None,
) -> None:
    """Score every item by every metric that asks a model.

    Args:
        session: The run.
        cache: Where answers are kept.
        seen: Is filled with every question that is asked, by its key.
        stand_in: Makes what answers in place of a provider. A detector of this machine answers itself.
        journal: Called with what the engine notes.
        kind: Makes the engine.
    """
    config = session.config

    def make(role: RoleConfig) -> Provider:
        settings = config.settings_of(role)
        if role.provider == "recorded":  # the recording may be missing or empty as yet
            settings = replace(settings, options={**settings.options, "new": True})
        provider = make_provider(role.provider, settings)
        return provider if is_detector_here(config, role) else stand_in(provider)

    metrics = {name: metric for name, metric in session.metrics.items() if set(metric.roles) - {"embedder"}}
    async with open_engine(
        config,
        cache,
        make=make,
        embedder=lambda _: _NoEmbedder(),
        recorded=session.resolved.roles,
        kind=kind or partial(NotingEngine, seen),
        journal=journal,
        failed="drop",
    ) as engine:
        loop = RunLoop(
            engine, metrics, panel=Panel.from_config(config), on_score=lambda score, digest: None, in_flight=16
        )
        await loop.run(session.items())


class NotingEngine(Engine):
    """An engine that notes every question, also one that several items share."""

    def __init__(self, seen: dict[str, AskedQuestion], *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._seen = seen

    async def answer(self, role: Any, request: Request, *rest: Any) -> Reply:
        key = request_key(request)
        question = self._seen.setdefault(key, AskedQuestion(request.template))
        question.items[request.item_id] = None
        for image in request.images:
            if (part := origin(image.path)) is not None:
                question.parts[image.sha256] = part
        return await super().answer(role, request, *rest)

    async def _repair(self, question: PendingQuestion, reply: Reply) -> Reply:
        schema = question.reading.schema
        if schema is not None and not question.request.attempt:
            self._seen[question.key].problem = structured_output.problem(reply.text, schema)
        return await super()._repair(question, reply)


class _NoEmbedder(Embedder):
    """Stands in for the embedder, and has no vectors: texts are embedded by the run itself."""

    name = "none"

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        raise Unanswered(Status.MISSING, "no vectors here")


def import_answers(session: Session, file: Path) -> ImportedAnswers:
    """Put the answers in `file` into the cache, where `judge` finds them.

    A line is one of an OpenAI batch's output (`custom_id`, `response`, `error`) or simply
    `{"custom_id": KEY, "text": "..."}`; the key `answer` means the same as `text`, and its value may be a JSON object.

    Raises:
        DataError: The file cannot be read.
        ConfigError: All models are `recorded`, whose answers are not cached.
    """
    if only_recorded(session):
        raise ConfigError("recorded answers lie beside the data, not in the cache: `batch record` takes them")
    result = ImportedAnswers()
    answers = read_answers([file], result)
    used: set[str] = set()
    seen: dict[str, AskedQuestion] = {}

    def stand_in(real: Provider) -> Provider:
        return FileAnswers(real, answers, used) if real.capabilities.cache else real  # recorded answers are at hand

    with open_cache(session.config.cache) as cache:
        asyncio.run(walk(session, cache, seen, stand_in))
        stored = {key: cache.get(key) for key in answers}
    result.unusable = [(key, seen[key].refusal(why) if key in seen else why) for key, why in result.unusable]
    for key, reply in answers.items():
        cached = stored[key]
        if key in used:
            if cached is not None and IMPORTED in cached["flags"] and cached["text"] == reply.text:
                result.imported += 1
            else:
                result.unusable.append((key, seen[key].refusal(reply.reason)))
        elif cached is not None:
            result.already += 1
        else:
            result.unknown.append(key)
    return result


class FileAnswers(WrappedProvider):
    """Gives answers from a file, and adds their keys to `used`; `recorded` answers of the real provider come first or last."""

    def __init__(
        self,
        real: Provider,
        answers: Mapping[str, Reply],
        used: set[str],
        *,
        recorded: Literal["no", "first", "last"] = "no",
    ) -> None:
        super().__init__(real)
        self._answers, self._used, self._recorded = answers, used, recorded

    async def complete(self, request: Request) -> Reply:
        key = request_key(request)
        if self._recorded == "first":
            with contextlib.suppress(Unanswered):
                return await self.real.complete(request)
        if key not in self._answers:
            if self._recorded == "last":
                return await self.real.complete(request)
            raise Unanswered(Status.MISSING, "no answer in the file")
        self._used.add(key)
        if self._answers[key].tool_calls and not request.tools:
            raise Unanswered(Status.UNPARSED, "the answer calls tools, and none were offered")
        return self._answers[key]


MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000  # limits of an OpenAI batch file
_OPEN = (Status.FAILED, "exported, not asked")  # as an outage: no metric asks what builds on this answer


def export(
    session: Session,
    out: Path,
    *,
    crops: Path | None = None,
    max_requests: int = MOST_REQUESTS,
    max_bytes: int = MOST_BYTES,
) -> Exported:
    """Write the requests that a run of `session` would send now as OpenAI batch JSONL, each once; nothing is sent.

    A line has `custom_id` (the key of the answer in the cache), `method`, `url` and `body`. All lines of an item stand
    together; items come in an order drawn from their ids, which tells nothing of what the data know of them. A file beyond the limits goes on in NAME-2.jsonl, NAME-3.jsonl, ... With nothing to ask the file is empty.

    Where all models are `recorded` a line has `custom_id`, `item` (and `items`, where several share it), `template`,
    `images` (paths), `question` and, for a structured answer, its JSON `schema`. A part of an image is a data URL, or a
    file in the folder `crops`, and has `part_of` (path) and `box` (left, top, right, bottom in fractions; of several images
    `boxes`, null for a whole one). Where only some
    models are `recorded` the questions to those are left out.

    Raises:
        UserError: The file cannot be written.
    """
    writer = SplitJsonlWriter(out, max_requests, max_bytes)
    plain = only_recorded(session)
    seen: dict[str, AskedQuestion] = {}
    order = {item.id: sha256(item.id.encode()).digest() for item in session.items()}

    def rank(key: str) -> tuple[bytes, str, str]:
        """Return the sort key of a question: items in random order, those of one item together."""
        return min(map(order.__getitem__, seen[key].items)), seen[key].template, key

    def ready(key: str, line: bytes) -> bytes:
        """Name every item that a question is about in its line."""
        if not plain:
            return line
        items = sorted(seen[key].items, key=order.__getitem__)
        record = {name: items[0] if name == "item" else value for name, value in orjson.loads(line).items()}
        return orjson.dumps(record | ({"items": items} if items[1:] else {}), option=orjson.OPT_APPEND_NEWLINE)

    try:
        with open_cache(session.config.cache) as cache:
            asyncio.run(walk(session, cache, seen, kind=partial(_ExportingEngine, writer, crops, plain, seen)))
        return writer.finish(rank, ready)
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}") from error
    finally:
        writer.drop()


class _ExportingEngine(NotingEngine):
    """An engine that writes open questions down, and asks nothing; recordings and detectors of this machine answer.

    Args:
        writer: The file.
        crops: Where parts of images are written; without it they stand in the lines.
        plain: Whether people answer.
        *rest, **named: The arguments of `NotingEngine`.
    """

    def __init__(self, writer: SplitJsonlWriter, crops: Path | None, plain: bool, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._writer, self._crops, self._plain = writer, crops, plain
        self._chats: dict[str, OpenAI] = {}

    async def _send(self, question: PendingQuestion) -> Reply:
        role, key, request = question.role, question.key, question.request
        here = is_detector_here(self.roles.config, role.config)
        if here or not role.provider.capabilities.cache:
            try:
                return await super()._send(question)
            except Unanswered:
                if here or not self._plain:
                    raise
        if key not in self._writer and not (self._plain and request.attempt):
            line = self._plain_line(key, request) if self._plain else await self._batch_line(key, role, request)
            self._writer.put(key, line)
        raise Unanswered(*_OPEN)

    async def _batch_line(self, key: str, role: ProviderRole, request: Request) -> bytes:
        """Write a question as a line of an OpenAI batch.

        Raises:
            UserError: The model has settings for its own requests, which are those of another vendor.
        """
        if role.name not in self._chats:
            real, settings = (
                role.provider,
                ProviderSettings(role.model or role.provider.name, base_url="http://localhost"),
            )
            if real.extra_body and not isinstance(real, OpenAI):
                raise UserError(
                    f"{role.config.model}: options.body is for its own requests, and a batch file of OpenAI has none of them"
                )
            self._chats[role.name] = real if isinstance(real, OpenAI) else OpenAI(settings)
        chat = self._chats[role.name]
        return await openai_line(chat, key, request, in_prompt=request.schema is not None and not chat.native_schema)

    def _plain_line(self, key: str, request: Request) -> bytes:
        line: Json = {
            "custom_id": key,
            "item": request.item_id,
            "template": request.template,
            "images": [self._place(image) for image in request.images],
            "question": question_text(request_record(request)["messages"]),
        }
        parts = [origin(image.path) for image in request.images]
        if whole := next((str(part.image) for part in parts if part), ""):
            line |= {"part_of": whole, **boxes_of([list(part.box) if part else None for part in parts])}
        more = {"schema": request.schema, "choices": request.choices}
        line |= {name: value for name, value in more.items() if value}
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def _place(self, image: ImageFile) -> str:
        """Return the path of an image; a temporary one is copied to the folder of crops, or becomes a data URL."""
        data = self.roles.config.data
        home = (data if data is None or data.is_dir() else data.parent) or Path()
        if image.path.resolve().is_relative_to(home.resolve()):
            return str(image.path)
        if self._crops is not None:
            self._crops.mkdir(parents=True, exist_ok=True)
            file = self._crops / f"{image.sha256[:32]}{image.path.suffix}"
            file.write_bytes(image.load())
            return str(file)
        return f"data:{image.media_type};base64,{base64.b64encode(image.load()).decode()}"
