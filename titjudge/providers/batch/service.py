"""How a batch service is spoken to: files, jobs, lines; what `batch_openai` and `batch_google` have in common.

Sources: "Batch API" (platform.openai.com/docs/guides/batch, /docs/api-reference/batch) and "Batch API" (ai.google.dev/
gemini-api/docs/batch-api). The SDKs carry everything here, with their own retries off: creating a job is not repeatable
(an SDK that tries twice pays twice), and looking at one is repeated by the polls. Bodies and answers are the adapters'.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson

from titjudge.core.errors import TitjudgeError
from titjudge.core.types import Reply, Request
from titjudge.providers.batch.journal import ResultLine
from titjudge.providers.hosted import http
from titjudge.providers.hosted.base import Hosted
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.sdk import careful_client

T = TypeVar("T")
H = TypeVar("H", bound=Hosted)
MIN_TRANSFER_TIMEOUT = 600.0  # seconds at least for moving a file
LONGEST_FILE = 2**30  # bytes of a file of answers, decompressed
_GOOGLE = ".googleapis.com"


class JobNotFound(Exception):
    """The provider knows no such job, or its answers have been deleted."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as the provider sees it.

    `word` is the provider's own; `files` hold its answers; `errors` are those of the
    job itself, as (line from 1 or None, code, message); `crowded`: too much is queued already, try later; `complete`: it
    has worked through its lines, so that each is billed.
    """

    id: str
    ended: bool
    word: str
    files: tuple[str, ...] = ()
    errors: tuple[tuple[int | None, str, str], ...] = ()
    crowded: bool = False
    complete: bool = False


class BatchService(Protocol):
    """One batch service, for one model. Methods that talk raise what the adapter's `classify` knows."""

    most_requests: int
    most_bytes: int
    address: str

    @property
    def native_schema(self) -> bool: ...

    @property
    def native_tools(self) -> bool: ...

    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes: ...

    async def upload(self, path: Path, tag: str) -> str: ...

    async def create(self, source: str, tag: str) -> str: ...

    async def find(self, tags: Mapping[str, str], since: float) -> dict[str, str]:
        """Tag to job id, for those of `tags` (tag to uploaded file) that have a job created after `since`."""
        ...

    async def look(self, ident: str) -> JobStatus: ...

    async def answers(self, look: JobStatus, keys: Sequence[str]) -> list[ResultLine]: ...

    def read(self, line: Any, *, in_prompt: bool, tools: bool = False) -> Reply:
        """Read the reply in a line.

        Raises:
            ProviderFailure: it holds none.
        """
        ...

    def rejection(self, code: str, message: str) -> ProviderFailure: ...

    async def aclose(self) -> None: ...


class BaseBatchService(Generic[H]):
    """What both services share."""

    def __init__(self, real: H) -> None:
        self.real = real
        self._endpoint = real.endpoints.all[0]
        self.address = self._endpoint.identity

    @property
    def native_schema(self) -> bool:
        return self.real.native_schema

    @property
    def native_tools(self) -> bool:
        return self.real.capabilities.tools

    def _translated(self, error: Exception) -> Exception:
        raise NotImplementedError

    async def _call(self, doing: Awaitable[T]) -> T:
        """Await a call of the SDK; its exceptions become ours."""
        try:
            return await doing
        except (TitjudgeError, ProviderFailure, http.TransportError, JobNotFound):
            raise
        except Exception as error:
            raise self._translated(error) from None

    def _garbled(self, line: Any) -> ProviderFailure:
        return self.real.unusable(f"the batch answer cannot be read: {str(line)[:200]}")

    def _http(self, timeout: float) -> Any:
        """Make the HTTP client for an SDK; an upload may go to an address of Google's that was told."""
        return careful_client(self._endpoint.host, timeout, LONGEST_FILE, lambda host: host.endswith(_GOOGLE))


async def known(doing: Awaitable[T]) -> T:
    """Read a 404 as gone, not as a sign that no request will ever pass."""
    try:
        return await doing
    except Exception as error:
        if 404 in (getattr(error, "status_code", None), getattr(error, "code", None)):
            raise JobNotFound(str(error)) from None
        raise


def parse_result_lines(
    content: bytes, name: str, good: Any, keys: Collection[str], *, ordered: bool
) -> Iterable[ResultLine]:
    """Read the lines of an answer file that belong to the job; without keys in them, they go by their order."""
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
                yield ResultLine(key, good(line), raw)
        except (ValueError, TypeError, AttributeError):
            continue
