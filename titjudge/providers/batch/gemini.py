"""The Gemini API's batches; see `batch_wires`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.types import FailureKind, Reply, Request
from titjudge.providers.batch.journal import ResultLine
from titjudge.providers.batch.service import (
    MIN_TRANSFER_TIMEOUT,
    BaseBatchService,
    JobStatus,
    known,
    parse_result_lines,
)
from titjudge.providers.hosted import http
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import IN_PROMPT
from titjudge.providers.hosted.sdk import gemini_client, lost

# google.rpc.Code to HTTP (github.com/googleapis/googleapis, google/rpc/code.proto)
_GRPC = {
    1: 499,
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    13: 500,
    14: 503,
    16: 401,
}


class GeminiBatches(BaseBatchService[Gemini]):
    """The Gemini API's Files and `batchGenerateContent`. Jobs are always given as files, which carry keys."""

    most_requests = 50_000  # no limit is documented
    most_bytes = 2_000_000_000

    def __init__(self, real: Gemini) -> None:
        super().__init__(real)
        self._made: Any = None
        self._web: Any = None

    def _client(self) -> Any:
        if self._made is None:
            # held whole: a client that is only held by its `aio` part closes itself
            headers = self.real.headers_for(self._endpoint)
            seconds = max(MIN_TRANSFER_TIMEOUT, self.real.settings.timeout)
            self._web = self._http(seconds)
            self._made = gemini_client(self.address, headers, seconds, self._web)
        return self._made

    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes:
        body = await self.real.body(request, in_prompt=in_prompt)
        return orjson.dumps({"key": key, "request": body}, option=orjson.OPT_APPEND_NEWLINE)

    async def upload(self, path: Path, tag: str) -> str:
        made = await self._call(
            self._client().aio.files.upload(
                file=str(path), config={"display_name": tag, "mime_type": "application/jsonl"}
            )
        )
        return str(made.name)

    async def create(self, source: str, tag: str) -> str:
        made = await self._call(
            self._client().aio.batches.create(model=self.real.model, src=source, config={"display_name": tag})
        )
        return str(made.name)

    async def find(self, tags: Mapping[str, str], since: float) -> dict[str, str]:
        async def walk() -> dict[str, str]:
            found: dict[str, str] = {}
            async for job in await self._client().aio.batches.list(config={"page_size": 100}):
                if job.display_name in tags:
                    found[job.display_name] = str(job.name)
                if len(found) == len(tags):
                    break
            return found

        return await self._call(walk())

    async def look(self, ident: str) -> JobStatus:
        job = await self._call(known(self._client().aio.batches.get(name=ident)))
        word = str(getattr(job.state, "name", job.state) or "").removeprefix("JOB_STATE_").lower()
        ended = word in ("succeeded", "failed", "cancelled", "expired", "partially_succeeded")
        file = job.dest.file_name if job.dest is not None else None
        complete = word in ("succeeded", "partially_succeeded")
        return JobStatus(ident, ended, word, (file,) if file and ended else (), complete=complete)

    async def answers(self, look: JobStatus, keys: Sequence[str]) -> list[ResultLine]:
        lines: list[ResultLine] = []
        for file in look.files:
            content = await self._call(known(self._client().aio.files.download(file=file)))
            lines += parse_result_lines(content, "key", self._good, keys, ordered=True)
        return lines

    @staticmethod
    def _good(line: Any) -> bool:
        return isinstance(line.get("response"), Mapping)

    def read(self, line: Any, *, in_prompt: bool, tools: bool = False) -> Reply:
        if self._good(line):
            answer = http.Answer(200, {}, orjson.dumps(line["response"]))
            return self.real.read_reply(answer, IN_PROMPT if in_prompt else "", tools=tools)
        error = line.get("error") or line.get("status")
        if not isinstance(error, Mapping):
            raise self._garbled(line)
        code = error.get("code")
        # codes in a file are those of google.rpc.Code or HTTP's
        status = (
            code if isinstance(code, int) and code >= 400 else _GRPC.get(code if isinstance(code, int) else -1, 500)
        )
        raise self.real.read_error(http.Answer(status, {}, orjson.dumps({"error": dict(error)})), tools=tools)

    def rejection(self, code: str, message: str) -> ProviderFailure:
        """Make the failure of a request whose job was refused."""
        return self.real.failure(FailureKind.RETRY, f"the batch job failed: {code} {message}".strip())

    def _translated(self, error: Exception) -> Exception:
        from google.genai import errors

        if isinstance(error, errors.APIError):
            details = error.details if isinstance(error.details, Mapping) else {"message": str(error.details)}
            body = details if isinstance(details.get("error"), Mapping) else {"error": details}
            headers = getattr(error.response, "headers", None) or {}
            return self.real.read_error(http.Answer(int(error.code or 500), headers, orjson.dumps(body, default=str)))
        outer = type(error).__module__.partition(".")[0]
        if isinstance(error, OSError | asyncio.TimeoutError | http.TransportError) or outer in (
            "aiohttp",
            "httpx",
            "httpx2",
            "httpcore2",
        ):
            return lost(error, self.address)
        return self.real.failure(FailureKind.RETRY, f"{self.address}: {type(error).__name__}: {error}")

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aio.aclose()
            self._made.close()
            await self._web.aclose()
            self._made = None
