"""Run the metrics of a session with stand-ins for its models, for offline batches and recordings.

The stand-ins of `export` write down what is asked; `FileAnswers`, for `batch import` and `recording`, answers from a file.
Caching, schemas and follow-up questions remain the engine's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from titjudge.core import registry, structured_output
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.serialization import request_key
from titjudge.core.types import Embedding, Reply, Request, Status
from titjudge.engine.cache import AnswerCache, open_cache
from titjudge.engine.pipeline import Engine
from titjudge.engine.scoring import Panel
from titjudge.metrics.agent.looks import Origin, origin
from titjudge.providers import Embedder, Provider, WrappedProvider, make_provider
from titjudge.runs.loop import RunLoop
from titjudge.runs.offline.files import IMPORTED, ImportedAnswers, read_answers
from titjudge.runs.open_run import open_engine
from titjudge.runs.session import Session

Journal = Callable[[str, dict[str, Any]], None]


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
    others = [role for role in roles if role is None or not _is_detector_here(session.config, role)]
    return bool(others) and all(role is not None and role.provider == "recorded" for role in others)


def _is_detector_here(config: RunConfig, role: RoleConfig) -> bool:
    """Tell whether a role is a detector of this machine: it answers itself, as nobody else can take its place in a file."""
    return role == config.detector and registry.uses_device(role.provider)


async def walk(
    session: Session,
    cache: AnswerCache,
    stand_in: Callable[[RoleConfig, Provider], Provider],
    journal: Journal | None = None,
    *,
    seen: dict[str, AskedQuestion],
) -> None:
    """Score every item by every metric that asks a model, with `stand_in(config, real)` in place of each provider.

    A detector of this machine answers itself.

    `seen` is filled with every question that is asked, by its key.
    """
    config = session.config

    def make(role: RoleConfig) -> Provider:
        settings = config.settings_of(role)
        if role.provider == "recorded":  # the recording may be missing or empty as yet
            settings = replace(settings, options={**settings.options, "new": True})
        provider = make_provider(role.provider, settings)
        return provider if _is_detector_here(config, role) else stand_in(role, provider)

    metrics = {name: metric for name, metric in session.metrics.items() if set(metric.roles) - {"embedder"}}
    async with open_engine(
        config, cache, make=make, embedder=lambda _: _NoEmbedder(), recorded=session.resolved.roles,
        kind=partial(_NotingEngine, seen), journal=journal, failed="drop",
    ) as engine:  # fmt: skip
        loop = RunLoop(
            engine, metrics, panel=Panel.from_config(config), on_score=lambda score, digest: None, in_flight=16
        )
        await loop.run(session.items())


class _NotingEngine(Engine):
    """An engine that notes every question, also one that several items share."""

    def __init__(self, seen: dict[str, AskedQuestion], *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._seen = seen

    async def answer(self, role: Any, request: Request, **rest: Any) -> Reply:
        key = request_key(request)
        question = self._seen.setdefault(key, AskedQuestion(request.template))
        question.items[request.item_id] = None
        for image in request.images:
            if (part := origin(image.path)) is not None:
                question.parts[image.sha256] = part
        return await super().answer(role, request, **rest)

    async def _repair(self, role: Any, request: Request, reply: Reply, schema: Any, reservation: Any) -> Reply:
        if not request.attempt:
            self._seen[request_key(request)].problem = structured_output.problem(reply.text, schema)
        return await super()._repair(role, request, reply, schema, reservation)


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

    def stand_in(config: RoleConfig, real: Provider) -> Provider:
        return FileAnswers(real, answers, used) if real.capabilities.cache else real  # recorded answers are at hand

    with open_cache(session.config.cache) as cache:
        asyncio.run(walk(session, cache, stand_in, seen=seen))
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
