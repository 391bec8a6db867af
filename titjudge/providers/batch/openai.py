"""OpenAI's Files and Batches; see `batch_wires`."""

from __future__ import annotations

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
from titjudge.providers.hosted.openai import IN_PROMPT, OpenAI
from titjudge.providers.hosted.sdk import lost, openai_client

TAG = "titjudge"  # key of the tag in a batch's metadata
_SLACK = 3600.0  # seconds by which the clocks of this machine and the provider may differ


class OpenAIBatches(BaseBatchService[OpenAI]):
    """OpenAI's Files and Batches, and servers that speak them."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def __init__(self, real: OpenAI) -> None:
        super().__init__(real)
        self._made: Any = None

    def _client(self) -> Any:
        if self._made is None:
            headers = self.real.headers_for(self._endpoint)
            seconds = max(MIN_TRANSFER_TIMEOUT, self.real.settings.timeout)
            self._made = openai_client(self._endpoint.url(""), headers, seconds, self._http(seconds))
        return self._made

    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes:
        return await openai_line(self.real, key, request, in_prompt=in_prompt)

    async def upload(self, path: Path, tag: str) -> str:
        with path.open("rb") as file:
            made = await self._call(self._client().files.create(file=(f"{tag}.jsonl", file), purpose="batch"))
        return str(made.id)

    async def create(self, source: str, tag: str) -> str:
        made = await self._call(
            self._client().batches.create(
                input_file_id=source, endpoint="/v1/chat/completions", completion_window="24h", metadata={TAG: tag}
            )
        )
        return str(made.id)

    async def find(self, tags: Mapping[str, str], since: float) -> dict[str, str]:
        async def walk() -> dict[str, str]:
            found: dict[str, str] = {}
            by_source = {source: tag for tag, source in tags.items()}
            async for batch in self._client().batches.list(limit=100):  # newest first
                tag = (batch.metadata or {}).get(TAG) or by_source.get(batch.input_file_id, "")
                if tag in tags:
                    found[tag] = str(batch.id)
                if len(found) == len(tags) or batch.created_at < since - _SLACK:
                    break
            return found

        return await self._call(walk())

    async def look(self, ident: str) -> JobStatus:
        batch = await self._call(known(self._client().batches.retrieve(ident)))
        listed = (batch.errors.data if batch.errors else None) or []
        errors = tuple((each.line, each.code or "", each.message or "") for each in listed)
        return JobStatus(
            ident,
            batch.status in ("completed", "failed", "expired", "cancelled"),
            batch.status,
            tuple(each for each in (batch.output_file_id, batch.error_file_id) if each),
            errors,
            any(code == "token_limit_exceeded" for _, code, _ in errors),
            batch.status == "completed",
        )

    async def answers(self, look: JobStatus, keys: Sequence[str]) -> list[ResultLine]:
        lines: list[ResultLine] = []
        for file in look.files:
            content = await self._call(known(self._client().files.content(file)))
            lines += parse_result_lines(content.content, "custom_id", self._good, keys, ordered=False)
        return lines

    @staticmethod
    def _good(line: Any) -> bool:
        response = line.get("response")
        return isinstance(response, Mapping) and 200 <= int(response.get("status_code") or 0) < 300

    def read(self, line: Any, *, in_prompt: bool, tools: bool = False) -> Reply:
        try:
            response, error = line.get("response"), line.get("error") or {}
            if not response:
                code, message = str(error.get("code") or "no answer"), str(error.get("message") or "")
                raise self.real.failure(FailureKind.RETRY, f"{code}: {message}")
            answer = http.Answer(int(response["status_code"]), {}, orjson.dumps(response["body"]))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._garbled(line) from None
        if not 200 <= answer.status < 300:
            raise self.real.read_error(answer, native=not in_prompt, tools=tools)
        return self.real.read_reply(answer, IN_PROMPT if in_prompt else "", tools=tools)

    def rejection(self, code: str, message: str) -> ProviderFailure:
        """Make the failure of a request whose job was refused."""
        body = orjson.dumps({"error": {"message": f"{code}: {message}", "code": code}})
        return self.real.read_error(http.Answer(400, {}, body), native=False)

    def _translated(self, error: Exception) -> Exception:
        import openai

        if isinstance(error, openai.APIStatusError):
            response = error.response
            return self.real.read_error(
                http.Answer(response.status_code, response.headers, response.content), native=False
            )
        if isinstance(error, openai.APIConnectionError | OSError):
            return lost(error, self.address)
        return self.real.failure(FailureKind.RETRY, f"{self.address}: {type(error).__name__}: {error}")

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.close()
            self._made = None


async def openai_line(real: OpenAI, key: str, request: Request, *, in_prompt: bool = False) -> bytes:
    """One line of an OpenAI batch file."""
    body = await real.body(request, in_prompt=in_prompt)
    record = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
