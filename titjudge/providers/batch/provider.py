"""Answer requests by batch jobs, at half price: a provider around a hosted one, whose answers take up to a day.

Requests that come together go out together, as one job of OpenAI's or Google's batch service, and each waits for its
answer for as long as the job takes (the services promise a day). Which requests are in which job is on disk before a job
exists, so the process may die or be stopped at any time: run the command again, and it collects finished jobs, waits for
live ones, and sends only requests that are in no job. `queue.py` has the queue, `journal.py` the files, `service.py` the
services.
"""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core import registry
from titjudge.core.errors import ConfigError, Unanswered
from titjudge.core.serialization import request_key
from titjudge.core.types import Failure, FailureKind, Reply, Request, Status
from titjudge.providers.base import Provider, WrappedProvider
from titjudge.providers.batch.journal import JobJournal
from titjudge.providers.batch.queue import MAX_RESENDS, BatchQueue, BatchTiming
from titjudge.providers.batch.service import BatchService
from titjudge.providers.hosted.failures import ProviderFailure

__all__ = ["BatchProvider", "BatchTiming", "Batches", "folder_name", "live_jobs"]

FLAG = "batch"  # flag of a reply that came from a batch job


class BatchProvider(WrappedProvider):
    """Answers through the batch jobs of a hosted provider.

    Args:
        real: OpenAI (or a server that speaks its Files and Batches) or Gemini; it makes the bodies, reads the answers
            and classifies the failures.
        queue: The jobs of this model.
    """

    is_batch = True

    def __init__(self, real: Provider, queue: BatchQueue) -> None:
        super().__init__(real)
        self.account = f"batch|{real.account}"
        self.capabilities = replace(real.capabilities, in_flight=None)
        self.queue = queue

    async def complete(self, request: Request) -> Reply:
        """Wait for the answer of a batch job.

        Raises:
            Unanswered: Earlier sessions sent the request as often as is paid for, and no answer could be used.
            ProviderFailure: This request, or the job it was in, failed; see `classify`.
            TransportError: The job could not be sent.
            CancelledError: The provider was left while this waited.
        """
        key = request_key(request)
        tools = bool(request.tools)
        if self.queue.given_up(key):
            raise Unanswered(
                Status.FAILED, "two batch answers could not be used; --retry-failed sends the request again"
            )
        answer = None
        try:
            answer = await self.queue.ask(key, request)
            in_prompt = answer.job.in_prompt and request.schema is not None
            reply = self.queue.service.read(answer.line, in_prompt=in_prompt, tools=tools)
        except ProviderFailure as error:
            # The job had hours: no patience for its line.
            if answer is not None and error.failure.kind is FailureKind.LATER:
                error.failure = replace(error.failure, kind=FailureKind.RETRY)
            if answer is not None and error.failure.maybe_billed and not error.failure.answered:
                raise _GatewayGaveUp(error.failure) from None
            if not error.failure.answered:
                raise
            self.queue.journal.note_unusable(key)
            if answer is not None:
                self.queue.journal.note_taken(answer.job, key, final=True)
            if self.queue.journal.unusable[key] <= MAX_RESENDS:
                raise
            raise _not_to_be_resent(error.failure) from None
        finally:
            if tools:  # the answer may report that the model calls none
                self.capabilities = replace(self.capabilities, tools=self.queue.service.real.capabilities.tools)
        # An answer of one token is cut, and complete.
        usable = reply.status is Status.OK or reply.first_token is not None
        self.queue.journal.note_taken(answer.job, key, final=not usable)
        return replace(reply, endpoint=self.queue.service.address, flags=(*reply.flags, FLAG))

    def classify(self, error: Exception) -> Failure:
        """Classify as the real provider does, except for requests that may have been billed.

        Requests in a live job, or in one that may have been created, stay open in the ledger (`in_job`) and are paid when
        the answers are handed over. Only the answers of a job that has ended may be lost.
        """
        failure = self.real.classify(error)
        if isinstance(error, _GatewayGaveUp):
            return failure
        return replace(failure, maybe_billed=failure.answered and failure.usage is None)

    def in_job(self, request: Request) -> bool:
        return self.queue.journal.in_job(request_key(request))

    def leave(self) -> None:
        """Stop waiting at once; jobs go on at the provider, and the next run collects them."""
        self.queue.leave()

    async def aclose(self) -> None:
        await self.queue.aclose()
        await self.real.aclose()


class _GatewayGaveUp(ProviderFailure):
    """A line of a finished job that a gateway stopped waiting for (408, 502, 504): as live, it may be billed."""


class Batches:
    """Puts the hosted providers of one run into batch jobs: one queue, and one folder below `folder`, for each model.

    Args: as `BatchQueue`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None] = lambda line: None,
        pace: BatchTiming | None = None,
        again: bool = False,
    ) -> None:
        self.folder, self._say, self._timing, self._again = folder, say, pace or BatchTiming(), again
        self._queues: dict[str, BatchQueue] = {}

    def wrap(self, real: Provider) -> Provider:
        """Put a provider into batch jobs; one that costs nothing stays as it is.

        Raises:
            ConfigError: It has no batch service that is known here.
        """
        if real.direct:
            return real
        name = folder_name(real)
        if name not in self._queues:
            service = batch_service_for(real)
            self._queues[name] = BatchQueue(service, self.folder / name, self._timing, self._say, again=self._again)
        return BatchProvider(real, self._queues[name])


def folder_name(real: Provider) -> str:
    """Name the folder of a model's jobs: readable, and different for each provider, address and model."""
    identity = f"{real.name}|{real.base_url}|{real.model}"
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{real.name}-{real.model}")[:60].strip("-.")
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def live_jobs(folder: Path) -> int:
    """Count the jobs below a run's batch folder that were begun and have not ended, according to its files."""
    count = 0
    for file in folder.glob("*/jobs.jsonl"):
        journal = JobJournal(file.parent)
        count += len(journal.in_state("live", "unsure"))
        journal.close()
    return count


def _not_to_be_resent(failure: Failure) -> ProviderFailure:
    """Return the failure as one after which the question is not asked again."""
    message = f"{failure.message} (asked twice)"
    return ProviderFailure(replace(failure, kind=FailureKind.REJECTED, message=message, retry_after=None))


def batch_service_for(real: Provider) -> BatchService[Any]:
    """Make the batch service of a provider.

    Raises:
        ConfigError: It has none that is known here.
    """
    own = "batch_service" in vars(type(real))  # a vendor of the same wire does not inherit the jobs of another
    named = getattr(real, "batch_service", "") if own else ""
    if not named:
        names = [n for n in registry.names("providers") if vars(registry.provider_class(n)).get("batch_service")]
        where = real.base_url or real.name
        raise ConfigError(f"{where} has no batch jobs, only {' and '.join(names)}. Remove --batch")
    module, _, kind = named.partition(":")
    service: BatchService[Any] = getattr(importlib.import_module(module), kind)(real)
    return service
