"""Batch jobs at half price: a slow provider around a real one. Metrics do not know.

What is asked together goes out together, as one job of OpenAI's or Google's batch service, and each request waits for
its answer for as long as the job takes (the services promise a day). Which requests are in which job is on disk before a
job exists, so the process may die or be stopped at any time: the same command collects what is done, waits for what is
live, and sends only what is in no job. See `batch_jobs` for the queue, `batch_log` for the files, `batch_wires` for the
services.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.keys import request_key
from titjudge.core.types import Failure, FailureKind, Reply, Request, Status
from titjudge.providers.base import Provider
from titjudge.providers.batch.queue import AGAIN, BatchQueue, BatchTiming
from titjudge.providers.batch.service import BatchService
from titjudge.providers.hosted.azure import Azure
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.wrapper import WrappedProvider

__all__ = ["Batch", "BatchTiming", "Batches", "folder_name", "live_jobs"]

FLAG = "batch"  # flag of a reply that came from a batch job


def _quiet(text: str) -> None:
    return None


class Batch(WrappedProvider):
    """Answers through the batch jobs of a hosted provider.

    Args:
        real: OpenAI (or a server that speaks its Files and Batches) or Gemini; it makes the bodies, reads the answers
            and classifies the failures. With several addresses, the first is used.
        folder: where the jobs of this model are written down; one process and one model at a time.
        poll_seconds: between looks at live jobs.
        idle_seconds: a job is sent when nothing new was asked for so long, or when it is full.
        settle_seconds: a job that was begun, and that the provider does not list after so long, was never created.
        gone_seconds: a job that the provider has not known for so long is given up.
        max_requests, max_bytes: size of a job [default: the provider's: OpenAI 50,000 and 200 MB, Gemini 2 GB].
        say: gets a line whenever a job is submitted or done.
        queue: shared with another provider object of the same model (see `Batches`).

    Raises:
        ConfigError: no batch service is known for `real`, or a size is not positive.
    """

    is_batch = True

    def __init__(
        self,
        real: Provider,
        folder: Path,
        *,
        poll_seconds: float = 30.0,
        idle_seconds: float = 2.0,
        settle_seconds: float = 60.0,
        gone_seconds: float = 300.0,
        max_requests: int | None = None,
        max_bytes: int | None = None,
        say: Callable[[str], None] = _quiet,
        queue: BatchQueue | None = None,
    ) -> None:
        if any(size is not None and size < 1 for size in (max_requests, max_bytes)):
            raise ConfigError("the size of a batch job is at least 1")
        super().__init__(real)
        self.account = f"batch|{real.account}"
        self.capabilities = replace(real.capabilities, in_flight=None)
        pace = BatchTiming(poll_seconds, idle_seconds, settle_seconds, gone_seconds, max_requests, max_bytes)
        self.queue = queue or BatchQueue(batch_service_for(real), folder, _label(real), pace, say)

    async def complete(self, request: Request) -> Reply:
        """Wait for the answer of a batch job.

        Raises:
            Unanswered: Sessions before this one had no answer that can be used, as often as is paid for.
            ProviderFailure, TransportError: this request, or the job it was in, failed; see `classify`.
            CancelledError: the provider was left while this waited.
        """
        key = request_key(request)
        tools = bool(request.tools)
        if self.queue.given_up(key):
            raise Unanswered(
                Status.FAILED, "its batch answers could not be used (asked twice): --retry-failed asks again"
            )
        found = None
        try:
            found = await self.queue.ask(key, request)
            schema_in_words = found.job.in_prompt and request.schema is not None
            reply = self.queue.service.read(found.line, in_prompt=schema_in_words, tools=tools)
        except ProviderFailure as error:
            if not error.failure.answered:
                raise
            self.queue.log.note_unusable(key)
            if found is not None:
                self.queue.log.note_taken(found.job, key, final=True)
            if self.queue.log.unusable[key] <= AGAIN:
                raise
            why = f"{error.failure.message} (asked twice)"
            raise _final(error.failure, why) from None
        finally:
            if tools:  # the answer may say that none are called here
                self.capabilities = replace(self.capabilities, tools=self.queue.service.native_tools)
        usable = reply.status is Status.OK or reply.first_token is not None  # an answer of one token is cut, and whole
        self.queue.log.note_taken(found.job, key, final=not usable)
        return replace(reply, endpoint=self.queue.service.address, flags=(*reply.flags, FLAG))

    def classify(self, error: Exception) -> Failure:
        """Classify as the real provider does, but for what may have been billed.

        A job that may have been begun is found again, and its answers are paid when they are handed over. Only what a job has
        ended with may be lost.
        """
        failure = self.real.classify(error)
        return replace(failure, maybe_billed=failure.answered and failure.usage is None)

    def leave(self) -> None:
        """Stop waiting at once; jobs go on at the provider, and the next run collects them."""
        self.queue.leave()

    async def aclose(self) -> None:
        await self.queue.aclose()
        await self.real.aclose()


class Batches:
    """Puts the hosted providers of one run into batch jobs: one queue, and one folder below `folder`, for each model.

    Args: as `Batch`. `again`: also what earlier sessions have asked in vain as often as is paid for.
    """

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None] = _quiet,
        pace: BatchTiming | None = None,
        again: bool = False,
    ) -> None:
        self.folder, self._say, self._pace, self._again = folder, say, pace or BatchTiming(), again
        self._queues: dict[str, BatchQueue] = {}

    def wrap(self, real: Provider) -> Provider:
        """`real` in batch jobs; a provider that costs nothing stays as it is.

        Raises:
            ConfigError: no batch service is known for it.
        """
        if real.local:
            return real
        name = folder_name(real)
        if name not in self._queues:
            self._queues[name] = BatchQueue(
                batch_service_for(real), self.folder / name, _label(real), self._pace, self._say, again=self._again
            )
        return Batch(real, self.folder / name, queue=self._queues[name])


def folder_name(real: Provider) -> str:
    """Name of the folder for a model's jobs: readable, and different for each provider, address and model."""
    identity = f"{real.name}|{real.base_url}|{real.model}"
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{real.name}-{real.model}")[:60].strip("-.")
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def live_jobs(folder: Path) -> int:
    """How many jobs below a run's batch folder were begun and have not ended, as far as its files say."""
    from titjudge.providers.batch.journal import JobJournal

    count = 0
    for each in sorted(folder.glob("*/jobs.jsonl")):
        log = JobJournal(each.parent)
        count += len(log.those("live")) + len(log.those("unsure"))
        log.close()
    return count


def _final(failure: Failure, why: str) -> ProviderFailure:
    """Make the same failure one after which the question is not asked again."""
    return ProviderFailure(
        FailureKind.REJECTED, why, usage=failure.usage, maybe_billed=failure.maybe_billed, answered=True
    )


def _label(real: Provider) -> str:
    return f"{real.name}/{real.model}"


def batch_service_for(real: Provider) -> BatchService:
    """Make the batch service of a provider.

    Raises:
        ConfigError: it has none that is spoken here.
    """
    if isinstance(real, Azure) or (isinstance(real, Gemini) and real.vertex):
        raise ConfigError(f"batch jobs go to OpenAI and the Gemini API, not to {real.base_url}: leave out --batch")
    if isinstance(real, OpenAI):
        from titjudge.providers.batch.openai import OpenAIBatches

        return OpenAIBatches(real)
    if isinstance(real, Gemini):
        from titjudge.providers.batch.gemini import GeminiBatches

        return GeminiBatches(real)
    raise ConfigError(f"there are no batch jobs for {real.name}: only for openai and gemini; leave out --batch")
