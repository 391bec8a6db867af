"""How the batch services of OpenAI and Google are spoken to: files, jobs, and the lines of both.

Sources: "Batch API" (platform.openai.com/docs/guides/batch, /docs/api-reference/batch) and "Batch API" (ai.google.dev/
gemini-api/docs/batch-api). The SDKs carry everything here, with their own retries off: creating a job is not repeatable
(an SDK that tries twice pays twice), and looking at one is repeated by the polls. Bodies and answers are the adapters'.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

import orjson

from titjudge.errors import ConfigError, TitjudgeError
from titjudge.providers import Provider
from titjudge.providers import http as wire
from titjudge.providers.batch_log import Line
from titjudge.providers.faults import ProviderFailure, one_line
from titjudge.providers.google import Gemini
from titjudge.providers.hosted import Hosted
from titjudge.providers.openai import IN_PROMPT, OpenAI
from titjudge.types import FailureKind, Reply, Request

T = TypeVar("T")
TAG = "titjudge"  # key of the tag in OpenAI's metadata
_LONG = 600.0  # seconds at least for moving a file
_SLACK = 3600.0  # seconds by which the clocks of this machine and the provider may differ


class Gone(Exception):
    """The provider knows no such job, or its answers have been deleted."""


@dataclass(frozen=True, slots=True)
class Look:
    """A job as the provider sees it. `word` is the provider's own; `files` hold its answers; `errors` are those of the
    job itself, as (line from 1 or None, code, message); `crowded`: too much is queued already, try later."""

    id: str
    ended: bool
    word: str
    files: tuple[str, ...] = ()
    errors: tuple[tuple[int | None, str, str], ...] = ()
    crowded: bool = False


class Wire(Protocol):
    """One batch service, for one model. Methods that talk raise what the adapter's `classify` knows."""

    most_requests: int
    most_bytes: int
    address: str

    @property
    def native_schema(self) -> bool: ...

    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes: ...

    async def upload(self, path: Path, tag: str) -> str: ...

    async def create(self, source: str, tag: str) -> str: ...

    async def find(self, tags: Mapping[str, str], since: float) -> dict[str, str]:
        """Tag to job id, for those of `tags` (tag to uploaded file) that have a job created after `since`."""
        ...

    async def look(self, ident: str) -> Look: ...

    async def answers(self, look: Look, keys: Sequence[str]) -> list[Line]: ...

    def read(self, line: Any, *, in_prompt: bool) -> Reply:
        """The reply in a line.

        Raises:
            ProviderFailure: it holds none.
        """
        ...

    def rejection(self, code: str, message: str) -> ProviderFailure: ...

    async def aclose(self) -> None: ...


def wire_of(real: Provider) -> Wire:
    """The batch service of a provider.

    Raises:
        ConfigError: it has none that is spoken here.
    """
    if isinstance(real, OpenAI):
        return OpenAIBatches(real)
    if isinstance(real, Gemini):
        return GeminiBatches(real)
    raise ConfigError(f"there are no batch jobs for {real.name}: only for openai and gemini; leave out --batch")


class _Service:
    """What both services share."""

    def __init__(self, real: Hosted) -> None:
        self._hosted = real
        self._endpoint = real.endpoints.all[0]
        self.address = self._endpoint.identity

    @property
    def native_schema(self) -> bool:
        return self._hosted.native_schema

    def _translated(self, error: Exception) -> Exception:
        raise NotImplementedError

    async def _call(self, doing: Awaitable[T]) -> T:
        """Await a call of the SDK; its exceptions become ours."""
        try:
            return await doing
        except (TitjudgeError, ProviderFailure, wire.TransportError, Gone):
            raise
        except Exception as error:
            raise self._translated(error) from None

    def _lost(self, error: Exception) -> Exception:
        """What is behind an exception that is not an HTTP status."""
        text = one_line(f"{self.address}: {error or type(error).__name__}", [self._hosted._key])
        cause = error.__cause__ or error
        if type(cause).__name__ in ("ConnectError", "ClientConnectorError", "ConnectionRefusedError"):
            return wire.Unreachable(text)
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return wire.TimedOut(text)
        return wire.Dropped(text)

    def _garbled(self, line: Any) -> ProviderFailure:
        return self._hosted._failure(FailureKind.RETRY, f"the batch answer cannot be read: {str(line)[:200]}")


class OpenAIBatches(_Service):
    """OpenAI's Files and Batches, and servers that speak them."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def __init__(self, real: OpenAI) -> None:
        super().__init__(real)
        self.real = real
        self._made: Any = None

    def _client(self) -> Any:
        if self._made is None:
            import openai

            headers: dict[str, Any] = dict(self.real._headers_for(self._endpoint))
            for name in ("OpenAI-Organization", "OpenAI-Project"):
                headers.setdefault(name, openai.Omit())  # the SDK would send the environment's to any host
            self._made = openai.AsyncOpenAI(
                api_key=self.real._key or "none",
                base_url=self._endpoint.identity,
                default_headers=headers,
                default_query=dict(parse_qsl(self._endpoint.query.removeprefix("?"))),
                max_retries=0,
                timeout=max(_LONG, self.real.settings.timeout),
            )
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

    async def look(self, ident: str) -> Look:
        batch = await self._call(_known(self._client().batches.retrieve(ident)))
        listed = (batch.errors.data if batch.errors else None) or []
        errors = tuple((each.line, each.code or "", each.message or "") for each in listed)
        return Look(
            ident,
            batch.status in ("completed", "failed", "expired", "cancelled"),
            batch.status,
            tuple(each for each in (batch.output_file_id, batch.error_file_id) if each),
            errors,
            any(code == "token_limit_exceeded" for _, code, _ in errors),
        )

    async def answers(self, look: Look, keys: Sequence[str]) -> list[Line]:
        lines: list[Line] = []
        for file in look.files:
            content = await self._call(_known(self._client().files.content(file)))
            lines += _lines(content.content, "custom_id", self._good, keys, ordered=False)
        return lines

    @staticmethod
    def _good(line: Any) -> bool:
        response = line.get("response")
        return isinstance(response, Mapping) and 200 <= int(response.get("status_code") or 0) < 300

    def read(self, line: Any, *, in_prompt: bool) -> Reply:
        try:
            response, error = line.get("response"), line.get("error") or {}
            if not response:
                code, message = str(error.get("code") or "no answer"), str(error.get("message") or "")
                raise self.real._failure(FailureKind.RETRY, f"{code}: {message}")
            answer = wire.Answer(int(response["status_code"]), {}, orjson.dumps(response["body"]))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._garbled(line) from None
        if not 200 <= answer.status < 300:
            raise self.real._refusal_of(answer, native=not in_prompt)
        return self.real._reply(answer, IN_PROMPT if in_prompt else "")

    def rejection(self, code: str, message: str) -> ProviderFailure:
        """The failure of a request whose job was refused."""
        body = orjson.dumps({"error": {"message": f"{code}: {message}", "code": code}})
        return self.real._refusal_of(wire.Answer(400, {}, body), native=False)

    def _translated(self, error: Exception) -> Exception:
        import openai

        if isinstance(error, openai.APIStatusError):
            response = error.response
            return self.real._refusal_of(
                wire.Answer(response.status_code, response.headers, response.content), native=False
            )
        if isinstance(error, openai.APIConnectionError | OSError):
            return self._lost(error)
        return self.real._failure(FailureKind.RETRY, f"{self.address}: {type(error).__name__}: {error}")

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.close()
            self._made = None


class GeminiBatches(_Service):
    """The Gemini API's Files and `batchGenerateContent`. Jobs are always given as files, which carry keys."""

    most_requests = 50_000  # no limit is documented
    most_bytes = 2_000_000_000

    def __init__(self, real: Gemini) -> None:
        super().__init__(real)
        self.real = real
        self._made: Any = None

    def _client(self) -> Any:
        if self._made is None:
            from google import genai

            headers = dict(self.real._headers_for(self._endpoint))
            headers.pop("x-goog-api-key", None)
            versioned = re.search(r"/(v\d\w*)$", self.address)
            # held whole: a client that is only held by its `aio` part closes itself
            self._made = genai.Client(
                vertexai=False,
                api_key=self.real._key or "none",
                http_options=genai.types.HttpOptions(
                    base_url=self.address[: versioned.start()] if versioned else self.address,
                    api_version=versioned.group(1) if versioned else "v1beta",
                    timeout=int(max(_LONG, self.real.settings.timeout) * 1000),
                    headers=headers or None,
                ),
            )
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

    async def look(self, ident: str) -> Look:
        job = await self._call(_known(self._client().aio.batches.get(name=ident)))
        word = str(getattr(job.state, "name", job.state) or "").removeprefix("JOB_STATE_").lower()
        ended = word in ("succeeded", "failed", "cancelled", "expired", "partially_succeeded")
        file = job.dest.file_name if job.dest is not None else None
        return Look(ident, ended, word, (file,) if file and ended else ())

    async def answers(self, look: Look, keys: Sequence[str]) -> list[Line]:
        lines: list[Line] = []
        for file in look.files:
            content = await self._call(_known(self._client().aio.files.download(file=file)))
            lines += _lines(content, "key", self._good, keys, ordered=True)
        return lines

    @staticmethod
    def _good(line: Any) -> bool:
        return isinstance(line.get("response"), Mapping)

    def read(self, line: Any, *, in_prompt: bool) -> Reply:
        if self._good(line):
            answer = wire.Answer(200, {}, orjson.dumps(line["response"]))
            return self.real._reply(answer, IN_PROMPT if in_prompt else "")
        error = line.get("error") or line.get("status")
        if not isinstance(error, Mapping):
            raise self._garbled(line)
        code = error.get("code")
        # codes in a file are those of google.rpc.Code or HTTP's
        status = (
            code if isinstance(code, int) and code >= 400 else _GRPC.get(code if isinstance(code, int) else -1, 500)
        )
        raise self.real._error_of(wire.Answer(status, {}, orjson.dumps({"error": dict(error)})))

    def rejection(self, code: str, message: str) -> ProviderFailure:
        """The failure of a request whose job was refused."""
        return self.real._failure(FailureKind.RETRY, f"the batch job failed: {code} {message}".strip())

    def _translated(self, error: Exception) -> Exception:
        from google.genai import errors

        if isinstance(error, errors.APIError):
            details = error.details if isinstance(error.details, Mapping) else {"message": str(error.details)}
            body = details if isinstance(details.get("error"), Mapping) else {"error": details}
            headers = getattr(error.response, "headers", None) or {}
            return self.real._error_of(wire.Answer(int(error.code or 500), headers, orjson.dumps(body, default=str)))
        outer = type(error).__module__.partition(".")[0]
        if isinstance(error, OSError | asyncio.TimeoutError) or outer in ("aiohttp", "httpx", "httpx2", "httpcore2"):
            return self._lost(error)
        return self.real._failure(FailureKind.RETRY, f"{self.address}: {type(error).__name__}: {error}")

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aio.aclose()
            self._made.close()
            self._made = None


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


async def openai_line(real: OpenAI, key: str, request: Request, *, in_prompt: bool = False) -> bytes:
    """One line of an OpenAI batch file."""
    body = await real.body(request, in_prompt=in_prompt)
    record = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


async def _known(doing: Awaitable[T]) -> T:
    """A 404 means that it is gone, not that no request will ever pass."""
    try:
        return await doing
    except Exception as error:
        if 404 in (getattr(error, "status_code", None), getattr(error, "code", None)):
            raise Gone(str(error)) from None
        raise


def _lines(content: bytes, name: str, good: Any, keys: Collection[str], *, ordered: bool) -> Iterable[Line]:
    """The lines of an answer file that belong to the job; without keys in them, they go by their order."""
    in_order = list(keys)
    known = set(in_order)
    number = -1
    for raw in content.splitlines():
        if not raw.strip():
            continue
        number += 1
        try:
            line = orjson.loads(raw)
            key = line.get(name)
            if key is None and ordered and number < len(in_order):
                key = in_order[number]
            if key in known:
                yield Line(key, good(line), raw)
        except (ValueError, TypeError, AttributeError):
            continue
