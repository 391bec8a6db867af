"""Write the questions that a run would ask now to files: an OpenAI batch, or plain lines for people and other models.

The stand-in for each model writes down what it is asked and gives no answer, so an item's second question appears only once
the first is answered. Where every model is `recorded`, the questions without a recorded answer are written as plain lines.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.config import RoleConfig
from titjudge.core.errors import Unanswered, UserError
from titjudge.core.serialization import request_key, request_record
from titjudge.core.types import ImageFile, Reply, Request, Status
from titjudge.engine.cache import open_cache
from titjudge.metrics.agent.looks import origin
from titjudge.providers import Provider, ProviderSettings, WrappedProvider
from titjudge.providers.batch.openai import openai_line
from titjudge.providers.hosted.openai import OpenAI
from titjudge.runs.offline.batch import AskedQuestion, only_recorded, walk
from titjudge.runs.offline.files import Exported, SplitJsonlWriter, boxes_of, question_text
from titjudge.runs.session import Session

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

    def stand_in(config: RoleConfig, real: Provider) -> Provider:
        """Write the questions to a model; recorded answers are given where a model has them."""
        if real.capabilities.cache:
            return _BatchQuestionExporter(config, real, writer)
        return _PlainQuestionExporter(real, writer, session.config.data, crops) if plain else real

    try:
        with open_cache(session.config.cache) as cache:
            asyncio.run(walk(session, cache, stand_in, seen=seen))
        return writer.finish(rank, ready)
    except OSError as error:
        raise UserError(f"{out}: {error.strerror}") from error
    finally:
        writer.drop()


class _BatchQuestionExporter(WrappedProvider):
    """Writes every request as a line of an OpenAI batch."""

    def __init__(self, config: RoleConfig, real: Provider, writer: SplitJsonlWriter) -> None:
        super().__init__(real)
        if real.extra_body and not isinstance(real, OpenAI):
            raise UserError(
                f"{config.model}: options.body is for its own requests, and a batch file of OpenAI has none of them"
            )
        self.capabilities = replace(real.capabilities, direct=True)
        settings = ProviderSettings(config.model_name or real.name, base_url="http://localhost")
        self._chat = real if isinstance(real, OpenAI) else OpenAI(settings)
        self._writer = writer

    async def complete(self, request: Request) -> Reply:
        key = request_key(request)
        if key not in self._writer:
            in_prompt = request.schema is not None and not self._chat.native_schema
            self._writer.put(key, await openai_line(self._chat, key, request, in_prompt=in_prompt))
        raise Unanswered(*_OPEN)


class _PlainQuestionExporter(WrappedProvider):
    """Gives the recorded answers, and writes down the questions that have none."""

    def __init__(self, real: Provider, writer: SplitJsonlWriter, data: Path | None, crops: Path | None) -> None:
        super().__init__(real)
        self._writer, self._data, self._crops = writer, data, crops

    async def complete(self, request: Request) -> Reply:
        try:
            return await self.real.complete(request)
        except Unanswered:
            key = request_key(request)
            if key not in self._writer and not request.attempt:
                self._writer.put(key, orjson.dumps(self._line(key, request), option=orjson.OPT_APPEND_NEWLINE))
            raise Unanswered(*_OPEN) from None

    def _line(self, key: str, request: Request) -> dict[str, Any]:
        line: dict[str, Any] = {
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
        return line | {name: value for name, value in more.items() if value}

    def _place(self, image: ImageFile) -> str:
        """Return the path of an image; a temporary one is copied to the folder of crops, or becomes a data URL."""
        home = (self._data if self._data is None or self._data.is_dir() else self._data.parent) or Path()
        if image.path.resolve().is_relative_to(home.resolve()):
            return str(image.path)
        if self._crops is not None:
            self._crops.mkdir(parents=True, exist_ok=True)
            file = self._crops / f"{image.sha256[:32]}{image.path.suffix}"
            file.write_bytes(image.load())
            return str(file)
        return f"data:{image.media_type};base64,{base64.b64encode(image.load()).decode()}"
