"""OpenAI's Files and Batches as a `BatchService`."""

from __future__ import annotations

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
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.hosted.sdk import openai_client

TAG = "titjudge"  # key of the tag in a batch's metadata
_SLACK = 3600.0  # seconds by which the clocks of this machine and the provider may differ


class OpenAIBatches(BatchService[OpenAI]):
    """OpenAI's Files and Batches, and servers that speak them."""

    max_requests = 50_000
    max_bytes = 200_000_000
    key_field = "custom_id"

    def _connect(self, headers: Headers, timeout: float, web: Any) -> Any:
        return openai_client(self._endpoint.url(""), headers, timeout, web)

    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes:
        return await openai_line(self.real, key, request, in_prompt=in_prompt)

    async def upload(self, path: Path, tag: str) -> str:
        with path.open("rb") as file:
            uploaded = await self._call(self.sdk.files.create(file=(f"{tag}.jsonl", file), purpose="batch"))
        return self.identified(uploaded.id)

    async def create(self, source: str, tag: str) -> str:
        call = self.sdk.batches.create(
            input_file_id=source, endpoint="/v1/chat/completions", completion_window="24h", metadata={TAG: tag}
        )
        return self.identified((await self._call(call)).id)

    async def _listed(self, tags: Mapping[str, str], since: float) -> AsyncIterator[tuple[str, Any]]:
        by_source = {source: tag for tag, source in tags.items()}
        async for batch in self.sdk.batches.list(limit=100):  # newest first
            yield (batch.metadata or {}).get(TAG) or by_source.get(batch.input_file_id, ""), batch.id
            if batch.created_at < since - _SLACK:
                return

    async def status(self, job_id: str) -> JobStatus:
        batch = await self._call(self.sdk.batches.retrieve(job_id), of_job=True)
        listed = (batch.errors.data if batch.errors else None) or []
        errors = tuple((error.line, error.code or "", error.message or "") for error in listed)
        files = tuple(filter(None, (batch.output_file_id, batch.error_file_id)))
        return JobStatus(
            ended=batch.status in ("completed", "failed", "expired", "cancelled"),
            state=batch.status,
            files=files,
            errors=errors,
            queue_full=any(code == "token_limit_exceeded" for _, code, _ in errors),
            # a job that ended early names each request that it did not work off
            complete=batch.status == "completed" or (batch.status in ("expired", "cancelled") and bool(files)),
        )

    async def _download(self, file: str) -> bytes:
        content: bytes = (await self.sdk.files.content(file)).content
        return content

    def _holds_answer(self, line: Any) -> bool:
        response = line.get("response")
        return isinstance(response, Mapping) and 200 <= int(response.get("status_code") or 0) < 300

    def read(self, line: Any, *, in_prompt: bool, tools: bool = False) -> Reply:
        try:
            response, error = line.get("response"), line.get("error") or {}
            if not response:
                code, message = str(error.get("code") or "no answer"), str(error.get("message") or "")
                raise self.real.failure(FailureKind.RETRY, f"{code}: {message}")
            answer = http.Answer(int(response["status_code"]), {}, json_bytes(response["body"]))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self.unreadable(line) from None
        asked = AskedFor(schema=not in_prompt, tools=tools, in_prompt=in_prompt)
        if not answer.is_success:
            raise self.real.read_error(answer, asked)
        return self.real.read_reply(answer, asked)

    def rejection(self, code: str, message: str) -> ProviderFailure:
        body = json_bytes({"error": {"message": f"{code}: {message}", "code": code}})
        return self.real.read_error(http.Answer(400, {}, body))

    def _http_answer(self, error: Exception) -> http.Answer | None:
        import openai

        if not isinstance(error, openai.APIStatusError):
            return None
        response = error.response
        return http.Answer(response.status_code, response.headers, response.content)


async def openai_line(real: OpenAI, key: str, request: Request, *, in_prompt: bool = False) -> bytes:
    """Write one line of an OpenAI batch file."""
    body = await real.body(request, in_prompt=in_prompt)
    record = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
