"""Export the questions of a run, import answers, and run metrics with substitutes for models.

`FileAnswers`, for `answers import` and `recording`, answers from a file. Caching, schemas and follow-up questions remain
the engine's.

An export writes the questions that a run would ask now: an OpenAI batch, or plain lines for people and other models. Its engine
gives no answer, so an item's second question appears only once the first is answered. If every model is `recorded`, the
questions without a recorded answer are written as plain lines.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import orjson

from titjudge.core import registry, structured_output
from titjudge.core.answer_probabilities import FirstToken
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError, DataError, Unanswered, UserError, must_be
from titjudge.core.files import scan_jsonl
from titjudge.core.serialization import request_key, request_record, without_surrogates
from titjudge.core.types import Embedding, ImageFile, Json, Reply, Request, Status, Values
from titjudge.engine.cache import AnswerCache, open_cache
from titjudge.engine.pipeline import Engine, PendingQuestion
from titjudge.engine.roles import ProviderRole
from titjudge.engine.scoring import Panel
from titjudge.metrics.agent.looks import Origin, origin
from titjudge.providers import Embedder, Provider, ProviderSettings, WrappedProvider, make_provider
from titjudge.providers.batch.openai import openai_line
from titjudge.providers.hosted import Answer, AskedFor, ProviderFailure
from titjudge.providers.hosted.openai import OpenAI
from titjudge.runs.loop import RunLoop
from titjudge.runs.open_run import open_engine
from titjudge.runs.session import Session

Journal = Callable[[str, Json], None]


@dataclass(slots=True)
class AskedQuestion:
    """A question that was asked on a walk.

    Attributes:
        template: The name of its prompt template.
        items: Ids of the items that it is about.
        parts: Cut-out parts of images, by the hash of the sent image.
        problem: Why its answer does not fit the schema; empty if it does.
    """

    template: str
    items: dict[str, None] = field(default_factory=dict)
    parts: dict[str, Origin] = field(default_factory=dict)
    problem: str = ""

    def refusal(self, reason: str = "") -> str:
        """Write for which item and template the answer cannot be used, and why."""
        why = self.problem or reason or "it does not contain the question"
        return f"{next(iter(self.items))}, {self.template}: {why}"


def only_recorded(session: Session) -> bool:
    """Return True if every model that the metrics of a run ask is `recorded`, except detectors that `walk` asks itself."""
    roles = [session.config.role(name) for name in session.resolved.models if name != "embedder"]
    others = [role for role in roles if role is None or not is_detector_here(session.config, role)]
    return bool(others) and all(role is not None and role.provider == "recorded" for role in others)


def is_detector_here(config: RunConfig, role: RoleConfig) -> bool:
    """Return True if a role is a detector of this machine: it answers itself, as no one else can replace it in a file."""
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
        cache: Keeps the answers.
        seen: Is filled with every question that is asked, by its key.
        stand_in: Makes the substitute that answers instead of a provider. A detector of this machine answers itself.
        journal: Called with the records of the engine.
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
    """Replace the embedder without vectors: texts are embedded by the run itself."""

    name = "none"

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        raise Unanswered(Status.MISSING, "the file has no vectors")


def import_answers(session: Session, file: Path) -> ImportedAnswers:
    """Put the answers in `file` into the cache, where `judge` finds them.

    A line is one of an OpenAI batch's output (`custom_id`, `response`, `error`) or simply
    `{"custom_id": KEY, "text": "..."}`; the key `answer` means the same as `text`, and its value may be a JSON object.

    Raises:
        DataError: The file cannot be read.
        ConfigError: All models are `recorded`, whose answers are not cached.
    """
    if only_recorded(session):
        raise ConfigError("recorded answers are stored with the data, not in the cache. Use `answers record`")
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
            raise Unanswered(Status.MISSING, "the file has no answer")
        self._used.add(key)
        if self._answers[key].tool_calls and not request.tools:
            raise Unanswered(Status.UNPARSED, "the answer calls tools, but the request offered none")
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

    A line has `custom_id` (the key of the answer in the cache), `method`, `url` and `body`. All lines of an item are
    adjacent; items come in an order drawn from their ids, which reveals nothing about them. A file beyond the limits goes
    on in NAME-2.jsonl, NAME-3.jsonl, ... With nothing to ask the file is empty.

    If all models are `recorded`, a line has `custom_id`, `item` (and `items`, if several share it), `template`,
    `images` (paths), `question` and, for a structured answer, its JSON `schema`. A part of an image is a data URL, or a
    file in the folder `crops`, and has `part_of` (path) and `box` (left, top, right, bottom in fractions; of several images
    `boxes`, null for a whole one). If only some models are `recorded`, the questions to those are left out.

    Raises:
        UserError: The file cannot be written.
    """
    writer = SplitJsonlWriter(out, max_requests, max_bytes)
    plain = only_recorded(session)
    seen: dict[str, AskedQuestion] = {}
    order = {item.id: sha256(item.id.encode()).digest() for item in session.items()}

    def rank(key: str) -> tuple[bytes, str, str]:
        """Return the sort key of a question: items in random order, questions of one item together."""
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
    finally:
        writer.drop()


class _ExportingEngine(NotingEngine):
    """An engine that writes open questions down, and asks nothing; recordings and detectors of this machine answer.

    Args:
        writer: The file.
        crops: The folder for parts of images; without it they are in the lines.
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
            UserError: The model has request settings, but they are for another vendor.
        """
        if role.name not in self._chats:
            real, settings = (
                role.provider,
                ProviderSettings(role.model or role.provider.name, base_url="http://localhost"),
            )
            if real.extra_body and not isinstance(real, OpenAI):
                raise UserError(
                    f"{role.config.model}: options.body cannot be used in a batch file of OpenAI. Remove it"
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
            content = (
                f"{origin(image.path)} {image.sha256}"  # parts of two images never share a name, even if they are equal
            )
            file = self._crops / f"{sha256(content.encode()).hexdigest()[:32]}{image.path.suffix}"
            file.write_bytes(image.load())
            return str(file)
        return f"data:{image.media_type};base64,{base64.b64encode(image.load()).decode()}"


IMPORTED = "imported"  # flag of an answer that came from a file
Rank = tuple[bytes, str, str]


@dataclass(slots=True)
class Exported:
    """What `export` wrote.

    Attributes:
        requests: How many questions.
        files: The files; one empty file if there is nothing to ask.
    """

    requests: int = 0
    files: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class ImportedAnswers:
    """The result of importing the lines of an answer file.

    Attributes:
        imported: Number of answers that were stored.
        already: Number of answers to questions that had one.
        unusable: Key and reason of each line without an answer that fits.
        unknown: Keys of answers to questions that this run does not ask, or not yet.
        bad: Malformed lines, each with file and line.
    """

    imported: int = 0
    already: int = 0
    unusable: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


class SplitJsonlWriter:
    """Collects lines in any order in a temporary file, and writes them sorted to files of limited size.

    Args:
        out: The first file; further ones are NAME-2.jsonl, NAME-3.jsonl, ...
        most: Maximum number of lines of a file.
        most_bytes: Most bytes of a file.
    """

    def __init__(self, out: Path, most: int, most_bytes: int) -> None:
        if out.is_dir():
            raise ConfigError(f"--out {out} is a folder. Give a file")
        self.out, self._most, self._most_bytes = out, most, most_bytes
        self._places: dict[str, tuple[int, int]] = {}
        self._spool: Any = None
        self._size = 0
        self._parts: list[tuple[Path, Path]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def put(self, key: str, line: bytes) -> None:
        if self._spool is None:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._spool = tempfile.TemporaryFile(dir=self.out.parent)  # noqa: SIM115
        self._spool.write(line)
        self._places[key] = (self._size, len(line))
        self._size += len(line)

    def finish(self, rank: Callable[[str], Rank], ready: Callable[[str, bytes], bytes]) -> Exported:
        """Write the files, with lines sorted by the rank of their key, each passed through `ready`.

        Further files of an earlier export, whose questions are no longer asked, are removed.
        """
        lines = 0
        with contextlib.ExitStack() as files:
            file = files.enter_context(self._next())
            for key in sorted(self._places, key=rank):
                offset, length = self._places[key]
                self._spool.seek(offset)
                line = ready(key, self._spool.read(length))
                if lines and (lines >= self._most or file.tell() + len(line) > self._most_bytes):
                    file, lines = files.enter_context(self._next()), 0
                file.write(line)
                lines += 1
        for new, target in self._parts:
            new.replace(target)
        exported = Exported(len(self._places), [target for _, target in self._parts])
        further = map(self._part, itertools.count(len(self._parts) + 1))
        for stale in itertools.takewhile(_questions, further):
            stale.unlink()
        self._parts = []
        return exported

    def _part(self, number: int) -> Path:
        return self.out if number == 1 else self.out.with_name(f"{self.out.stem}-{number}{self.out.suffix}")

    def _next(self) -> Any:
        target = self._part(len(self._parts) + 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        self._parts.append((new, target))
        return new.open("wb")

    def drop(self) -> None:
        """Remove what was not finished."""
        if self._spool is not None:
            self._spool.close()
        for new, _ in self._parts:
            new.unlink(missing_ok=True)


def _questions(file: Path) -> bool:
    """Return True if the first line of a file is an exported question."""
    if not file.is_file():
        return False
    with file.open("rb") as lines:
        return lines.readline().startswith(b'{"custom_id":')


def boxes_of(boxes: Sequence[list[float] | None]) -> Json:
    """Write the places of the parts of images in a question: `box` of one image, `boxes` of several; nothing of whole ones."""
    if not any(boxes):
        return {}
    return {"box": boxes[0]} if len(boxes) == 1 else {"boxes": list(boxes)}


def question_text(messages: Sequence[Any]) -> str:
    """Join the texts of the messages of a `request_record`."""
    return "\n\n".join(part for _, *parts in messages for part in parts if isinstance(part, str)).strip()


def read_answers(files: Sequence[Path], result: ImportedAnswers) -> dict[str, Reply]:
    """Read the first good answer to each key; other lines, and second answers that differ, are noted in `result`."""
    answers: dict[str, Reply] = {}
    for file in files:
        for key, reply in _read(file, result):
            if key not in answers or answers[key].status is not Status.OK:
                answers[key] = reply
            elif reply.status is Status.OK and reply.text != answers[key].text:
                result.bad.append(f"{file}: {key} is answered twice; the first answer counts")
    result.unusable = [(key, reason) for key, reason in dict(result.unusable).items() if key not in answers]
    return answers


def _read(file: Path, result: ImportedAnswers) -> list[tuple[str, Reply]]:
    """Read key and reply of every line with an answer; the others are noted in `result`."""
    reader = OpenAI(ProviderSettings("imported", base_url="http://localhost"))
    answers: list[tuple[str, Reply]] = []
    for number, record in scan_jsonl(file):
        if isinstance(record, DataError):
            result.bad.append(str(record))
            continue
        key = record.get("custom_id")
        if not isinstance(key, str) or not (_answer_key(record) or "response" in record or record.get("error")):
            problem = must_be("the line", 'like {"custom_id": KEY, "text": "..."}, or of the output of a batch', record)
            result.bad.append(str(DataError(problem, file, number)))
            continue
        key = f"ask:{key}" if re.fullmatch(r"[0-9a-f]{64}", key) else key
        try:
            reply = _reply(reader, record)
        except (ProviderFailure, ValueError, TypeError, LookupError, AttributeError) as error:
            result.unusable.append((key, str(error) or type(error).__name__))
            continue
        answers.append((key, replace(reply, endpoint=f"file {file.name}", flags=(*reply.flags, IMPORTED))))
    return answers


def _reply(reader: OpenAI, record: Values) -> Reply:
    """Parse the reply in a line.

    Raises:
        ProviderFailure, ValueError: There is none. Malformed content may raise other built-in errors.
    """
    if name := _answer_key(record):
        text = record[name]
        if isinstance(text, dict | list):  # a JSON answer that is not encoded as a string
            text = orjson.dumps(text).decode()
        if not isinstance(text, str):
            raise ValueError(must_be(f"'{name}'", "a text", text))
        first = FirstToken.read(record["first_token"]) if "first_token" in record else None
        if not (text.strip() or first):
            raise ValueError(f"'{name}' is empty. Write the answer")
        version = str(record.get("model") or "")
        return Reply(without_surrogates(text), finish_reason="stop", model_version=version, first_token=first)
    response = record.get("response")
    if not response:
        raise ValueError(f"no answer: {_message(record.get('error'))}")
    status = int(response.get("status_code") or 200)
    if not 200 <= status < 300:
        raise ValueError(f"no answer: HTTP {status}: {_message(response.get('body'))}")
    return reader.read_reply(Answer(200, {}, orjson.dumps(response["body"])), AskedFor(tools=True))


def _answer_key(record: Values) -> str:
    """Return the key of the answer: `text`, or `answer` as in a recording; empty if there is neither."""
    return next((name for name in ("text", "answer") if name in record), "")


def _message(error: Any) -> str:
    while isinstance(error, Mapping):
        error = error.get("message") or error.get("error") or error.get("code")
    return " ".join(str(error or "no reason given").split())[:200]
