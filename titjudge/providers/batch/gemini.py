"""The Gemini API's batches as a `BatchService`. Jobs are always given as files, whose lines carry keys."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.serialization import json_bytes
from titjudge.core.types import FailureKind, Reply, Request
from titjudge.providers.base import Headers
from titjudge.providers.batch.service import BatchService, JobStatus
from titjudge.providers.hosted import http
from titjudge.providers.hosted.base import AskedFor
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.sdk import gemini_client

# google.rpc.Code to HTTP (github.com/googleapis/googleapis, google/rpc/code.proto)
_HTTP_STATUS = {
    1: 499, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429,
    9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 16: 401,
}  # fmt: skip


class GeminiBatches(BatchService[Gemini]):
    """The Gemini API's Files and `batchGenerateContent`."""

    max_requests = 50_000  # no limit is documented
    max_bytes = 2_000_000_000
    key_field = "key"
    in_order = True

    def _connect(self, headers: Headers, timeout: float, web: Any) -> Any:
        return gemini_client(self.address, headers, timeout, web)

    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes:
        body = await self.real.body(request, in_prompt=in_prompt)
        return orjson.dumps({"key": key, "request": body}, option=orjson.OPT_APPEND_NEWLINE)

    async def upload(self, path: Path, tag: str) -> str:
        config = {"display_name": tag, "mime_type": "application/jsonl"}
        uploaded = await self._call(self.sdk.aio.files.upload(file=str(path), config=config))
        return self.identified(uploaded.name)

    async def create(self, source: str, tag: str) -> str:
        config = {"display_name": tag}
        job = await self._call(self.sdk.aio.batches.create(model=self.real.model, src=source, config=config))
        return self.identified(job.name)

    async def _listed(self, tags: Mapping[str, str], since: float) -> AsyncIterator[tuple[str, Any]]:
        async for job in await self.sdk.aio.batches.list(config={"page_size": 100}):
            yield job.display_name, job.name

    async def status(self, job_id: str) -> JobStatus:
        job = await self._call(self.sdk.aio.batches.get(name=job_id), of_job=True)
        state = str(getattr(job.state, "name", job.state) or "").removeprefix("JOB_STATE_").lower()
        complete = state in ("succeeded", "partially_succeeded")
        ended = complete or state in ("failed", "cancelled", "expired")
        file = job.dest.file_name if job.dest is not None else None
        return JobStatus(ended, state, (file,) if file and ended else (), complete=complete)

    async def _download(self, file: str) -> bytes:
        content: bytes = await self.sdk.aio.files.download(file=file)
        return content

    def _holds_answer(self, line: Any) -> bool:
        return isinstance(line.get("response"), Mapping)

    def read(self, line: Any, *, in_prompt: bool, tools: bool = False) -> Reply:
        if self._holds_answer(line):
            answer = http.Answer(200, {}, json_bytes(line["response"]))
            return self.real.read_reply(answer, AskedFor(tools=tools, in_prompt=in_prompt))
        error = line.get("error") or line.get("status")
        if not isinstance(error, Mapping):
            raise self.unreadable(line)
        code = error.get("code")
        status = code if isinstance(code, int) else -1  # a code of google.rpc.Code, or of HTTP
        status = status if status >= 400 else _HTTP_STATUS.get(status, 500)
        raise self.real.read_error(http.Answer(status, {}, json_bytes({"error": dict(error)})), AskedFor(tools=tools))

    def rejection(self, code: str, message: str) -> ProviderFailure:
        return self.real.failure(FailureKind.RETRY, f"the batch job failed: {code} {message}".strip())

    def _http_answer(self, error: Exception) -> http.Answer | None:
        from google.genai import errors

        if not isinstance(error, errors.APIError):
            return None
        details = error.details if isinstance(error.details, Mapping) else {"message": str(error.details)}
        body = details if isinstance(details.get("error"), Mapping) else {"error": details}
        headers = getattr(error.response, "headers", None) or {}
        return http.Answer(int(error.code or 500), headers, json.dumps(body, default=str).encode())
