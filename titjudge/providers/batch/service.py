"""The common part of the batch services of OpenAI and Google: upload a file, create a job, ask for its state, download answers.

Sources: "Batch API" (platform.openai.com/docs/guides/batch, /docs/api-reference/batch) and "Batch API" (ai.google.dev/
gemini-api/docs/batch-api). Everything goes through the vendors' SDKs with SDK retries switched off: creating a job is not
repeatable (an SDK that tries twice pays twice), and looking at one is repeated by the queue's polls. The hosted provider
writes the bodies of requests and reads the replies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from titjudge.core.errors import TitjudgeError
from titjudge.core.serialization import json_bytes
from titjudge.core.types import FailureKind, Reply, Request
from titjudge.providers.base import Headers
from titjudge.providers.batch.journal import BatchJob, ResultLine
from titjudge.providers.hosted import http
from titjudge.providers.hosted.base import Hosted
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.sdk import careful_client, lost

T = TypeVar("T")
H = TypeVar("H", bound=Hosted)
MIN_TRANSFER_TIMEOUT = 600.0  # seconds at least for moving a file
LONGEST_FILE = 2**30  # bytes of a file of answers, decompressed
_UPLOAD_HOSTS = ".googleapis.com"  # Google names the address of an upload in an answer
_HTTP_LIBRARIES = ("aiohttp", "httpx", "httpx2", "httpcore2")


class JobNotFound(Exception):
    """The provider knows no such job, or its answers have been deleted."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as the provider reports it.

    Attributes:
        ended: Nothing more will happen to it.
        state: The provider's own word.
        files: Ids of the files of its answers.
        errors: Errors of the job itself, as (line from 1 or None, code, message).
        queue_full: It was refused because too much is queued already; it may pass later.
        complete: A request without a line in its answers was worked off all the same, and may be billed.
    """

    ended: bool
    state: str
    files: tuple[str, ...] = ()
    errors: tuple[tuple[int | None, str, str], ...] = ()
    queue_full: bool = False
    complete: bool = False


class BatchService(ABC, Generic[H]):
    """One batch service, for one model. Methods that send raise what the provider's `classify` knows.

    Args:
        real: The hosted provider whose requests go into jobs; of several addresses the first is used.
    """

    max_requests: int
    """Maximum number of lines of a job."""
    max_bytes: int
    """Largest file of a job."""
    key_field: str
    """The field of a line of answers with the key of its request."""
    in_order: bool = False
    """A line of answers without a key belongs to the request in the same line."""

    def __init__(self, real: H) -> None:
        self.real = real
        self.label = f"{real.name}/{real.model}"
        self._endpoint = real.endpoints.all[0]
        self.address = self._endpoint.identity
        self._sdk: Any = None
        self._http: Any = None

    # -- the parts that differ between services ---------------------------------------------------------------------------

    @abstractmethod
    def _connect(self, headers: Headers, timeout: float, web: Any) -> Any:
        """Make the SDK's client, over the HTTP client `web`."""

    @abstractmethod
    async def line(self, key: str, request: Request, *, in_prompt: bool) -> bytes:
        """Write the line of a request for the file of a job; with `in_prompt` its schema is asked for in words."""

    @abstractmethod
    async def upload(self, path: Path, tag: str) -> str:
        """Upload the file of a job and return its id."""

    @abstractmethod
    async def create(self, source: str, tag: str) -> str:
        """Create a job from an uploaded file and return its id."""

    @abstractmethod
    def _listed(self, tags: Mapping[str, str], since: float) -> AsyncIterator[tuple[str, Any]]:
        """Yield tag and id of the jobs of the account, down to those created before `since`; see `find`."""

    @abstractmethod
    async def status(self, job_id: str) -> JobStatus:
        """Request the state of a job.

        Raises:
            JobNotFound: The provider does not know it.
        """

    @abstractmethod
    async def _download(self, file: str) -> bytes: ...

    @abstractmethod
    def _holds_answer(self, line: Any) -> bool:
        """Return True if a line of answers contains an answer, not an error."""

    @abstractmethod
    def read(self, line: Any, *, in_prompt: bool, tools: bool = False) -> Reply:
        """Read the reply in a line of answers.

        Raises:
            ProviderFailure: The line contains none.
        """

    @abstractmethod
    def rejection(self, code: str, message: str) -> ProviderFailure:
        """Make the failure of a request whose job was refused."""

    @abstractmethod
    def _http_answer(self, error: Exception) -> http.Answer | None:
        """Find the HTTP answer behind an exception of the SDK; None if there was none."""

    # -- what all do alike -----------------------------------------------------------------------------------------

    @property
    def sdk(self) -> Any:
        """The SDK's client, made when it is first needed."""
        if self._sdk is None:
            headers = self.real.headers_for(self._endpoint)
            timeout = max(MIN_TRANSFER_TIMEOUT, self.real.settings.timeout)
            self._http = careful_client(
                self.address, timeout, LONGEST_FILE, lambda other: other.endswith(_UPLOAD_HOSTS)
            )
            self._sdk = self._connect(headers, timeout, self._http)
        return self._sdk

    async def find(self, tags: Mapping[str, str], since: float) -> dict[str, str]:
        """Find the jobs of `tags` (tag to uploaded file) created after `since` (seconds since 1970): tag to job id."""

        async def walk() -> dict[str, str]:
            jobs: dict[str, str] = {}
            async for tag, ident in self._listed(tags, since):
                if tag in tags:
                    jobs[tag] = self.identified(ident)
                if len(jobs) == len(tags):
                    break
            return jobs

        return await self._call(walk())

    async def answers(self, job: BatchJob, status: JobStatus) -> tuple[list[ResultLine], bool]:
        """Download the lines of answers of a job.

        Returns:
            The lines, and whether the files are whole: each request of a complete job has a line, and each file of another job has
            lines of the job alone. A gateway may send a page, an error or nothing with a status of success: that may pass.

        Raises:
            JobNotFound: A file of answers is gone.
        """
        lines: list[ResultLine] = []
        is_whole = True
        for file in status.files:
            content = await self._call(self._download(file), of_job=True)
            read = list(self._result_lines(content, job.keys))
            lines += filter(None, read)
            is_whole = is_whole and bool(read) and None not in read
        return lines, {line.key for line in lines} >= set(job.keys) if status.complete else is_whole

    def _result_lines(self, content: bytes, keys: Sequence[str]) -> Iterator[ResultLine | None]:
        """Read the lines of a file of answers; None for what is not a line of one of `keys`."""
        expected_keys = set(keys)
        for number, raw in enumerate(filter(bytes.strip, content.removeprefix(BOM_UTF8).splitlines())):
            try:
                line = http.parsed(raw)
                key = line.get(self.key_field)
                if key is None and self.in_order and number < len(keys):
                    key = keys[number] if self._holds_answer(line) or len(keys) > 1 else None
                is_ours = key in expected_keys
            except (ValueError, TypeError, AttributeError, RecursionError):
                is_ours = False
            yield ResultLine(key, self._holds_answer(line), json_bytes(line)) if is_ours else None

    async def _call(self, call: Awaitable[T], *, of_job: bool = False) -> T:
        """Await a call of the SDK and translate its exceptions.

        Args:
            call: The call.
            of_job: It is about one job or its files, so that a 404 means `JobNotFound` and not that nothing will ever pass.
        """
        try:
            return await call
        except (TitjudgeError, ProviderFailure, http.TransportError):
            raise
        except Exception as error:
            if of_job and 404 in (getattr(error, "status_code", None), getattr(error, "code", None)):
                raise JobNotFound(str(error)) from None
            raise self._translated(error) from None

    def identified(self, ident: Any) -> str:
        """Check the id that the provider gave to a file or a job.

        Raises:
            ProviderFailure: It is none: a job may have been created all the same.
        """
        if isinstance(ident, str) and ident:
            return ident
        raise self.real.failure(FailureKind.RETRY, f"{self.address}: the answer has no id")

    def unreadable(self, line: Any) -> ProviderFailure:
        """Make the failure of a line of answers that is in no known form."""
        return self.real.unusable(f"the batch answer cannot be read: {str(line)[:200]}")

    def _translated(self, error: Exception) -> Exception:
        answer = self._http_answer(error)
        if answer is not None:
            return self.real.read_error(answer)
        for cause in (error, error.__cause__):
            library = type(cause).__module__.partition(".")[0]
            if isinstance(cause, OSError | http.TransportError) or library in _HTTP_LIBRARIES:
                return lost(error, self.address)
        return self.real.failure(FailureKind.RETRY, f"{self.address}: {type(error).__name__}: {error}")

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        if self._http is not None:
            await self._http.aclose()
            self._sdk = self._http = None
