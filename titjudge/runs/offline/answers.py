"""Import answers from a file into the cache: each answers the request that it belongs to, as a model would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from titjudge.core.config import RoleConfig
from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.keys import request_key
from titjudge.core.types import Reply, Request, Status
from titjudge.engine.cache import open_cache
from titjudge.providers import Provider, WrappedProvider
from titjudge.runs.offline.batch import AskedQuestion, only_recorded, walk
from titjudge.runs.offline.files import IMPORTED, ImportedAnswers, read_answers
from titjudge.runs.session import Session


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
