"""The queue of one model's batch jobs: it collects requests, sends them as jobs, polls the jobs and hands out the answers.

    ask ─> unsent ── idle, or full ──> job (intent, then id, on disk) ─> in a job ── polls ──> ended ─> answers on disk ─> ask

One task does all of it, step by step, and lives only while a request waits. It may be killed at any point: the next queue
over the same folder continues from the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import ConfigError, TitjudgeError
from titjudge.core.types import Failure, FailureKind, Request
from titjudge.providers.batch.journal import Answered, BatchJob, JobJournal
from titjudge.providers.batch.service import BatchService, JobNotFound, JobStatus
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.http import TransportError, Unreachable, Untrusted

logger = logging.getLogger(__name__)

MAX_RESENDS = 1  # times a question is sent again after an answer that cannot be used
_MAX_IDLE_TIMES = 30  # if requests keep coming slowly, they are sent after this multiple of the idle time
_MIN_NOT_FOUND = 3  # number of polls that must find a job unknown before it is given up
_LAST_STEP = 2.0  # seconds that a step under way may take when the run ends


class _Pending:
    """A request, and the futures of all callers that wait for its answer."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.futures: list[asyncio.Future[Answered]] = []

    @property
    def waiting(self) -> list[asyncio.Future[Answered]]:
        return [future for future in self.futures if not future.done()]

    def resolve(self, answer: Answered) -> None:
        for future in self.waiting:
            future.set_result(answer)

    def fail(self, error: Exception) -> None:
        for future in self.waiting:
            future.set_exception(error)


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """Times in seconds, and sizes, of a batch queue.

    Attributes:
        poll: Time between two looks at live jobs.
        idle: Time without a new request after which a job is sent; a full one is sent at once.
        settle: Time after which a job that was begun, and cannot be found, counts as never created.
        gone: Time after which a job or its answers that the provider does not know are given up, after at least three polls.
        max_requests, max_bytes: The largest job; None for the provider's own limit.

    Raises:
        ConfigError: A size is not positive.
    """

    poll: float = 30.0
    idle: float = 2.0
    settle: float = 60.0
    gone: float = 300.0
    max_requests: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if any(size is not None and size < 1 for size in (self.max_requests, self.max_bytes)):
            raise ConfigError(
                f"max_requests and max_bytes of a batch job must be at least 1, not {self.max_requests} and {self.max_bytes}"
            )


class BatchQueue:
    """The batch jobs of one model, in one folder; for one event loop.

    Args:
        service: The provider's batch service.
        folder: The folder with the files of the jobs; one process at a time.
        timing: When jobs are sent, looked at and given up.
        say: Called with a line for people whenever a job is submitted or done.
        again: Also send questions to which earlier sessions got no usable answer as often as is paid for.
    """

    def __init__(
        self,
        service: BatchService[Any],
        folder: Path,
        timing: BatchTiming,
        say: Callable[[str], None] = lambda line: None,
        *,
        again: bool = False,
    ) -> None:
        self.service, self.folder, self.timing = service, folder, timing
        self.done = 0  # jobs
        self._say, self._again = say, again
        self._journal: JobJournal | None = None
        self._unsent: dict[str, _Pending] = {}
        self._in_jobs: dict[str, _Pending] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._first_unsent = self._last_unsent = 0.0  # time.monotonic() of the oldest and the newest unsent request
        self._poll_at = self._find_at = 0.0  # time.monotonic()
        self._max_requests = min(timing.max_requests or service.max_requests, service.max_requests)
        self._max_bytes = min(timing.max_bytes or service.max_bytes, service.max_bytes)
        self._queue_full = False
        self._leaving = False
        self._last_warning = ""
        self._missing: dict[tuple[str, str], list[float]] = {}  # by tag and missing part: since when

    @property
    def journal(self) -> JobJournal:
        """The journal on disk, read at first use."""
        if self._journal is None:
            self._journal = JobJournal(self.folder)
            if self._again:
                self._journal.unusable.clear()
            if unfinished := len(self._journal.in_state("live", "unsure")):
                self._report(f"going on with {unfinished} jobs of an earlier session")
        return self._journal

    def _report(self, event: str) -> None:
        logger.info("batch %(label)s: %(event)s", {"label": self.service.label, "event": event})
        self._say(f"batch {self.service.label}: {event}")

    async def ask(self, key: str, request: Request) -> Answered:
        """Wait for the answer of a job to a request, for as long as the provider takes.

        Raises:
            ProviderFailure, TransportError: The request, or the job it was in, failed.
            CancelledError: The queue was left.
        """
        if self._leaving:
            raise asyncio.CancelledError
        if (job := self.journal.loser(key)) is not None:  # the job ended while no caller waited
            raise _lost(job)
        answer = self.journal.take(key)
        if answer is not None:
            return answer
        if self.journal.holder(key) is not None:
            pending = self._in_jobs.setdefault(key, _Pending(request))
        else:
            self._last_unsent = time.monotonic()
            self._first_unsent = self._first_unsent if self._unsent else self._last_unsent
            pending = self._unsent.setdefault(key, _Pending(request))
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        pending.futures.append(future)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    def given_up(self, key: str) -> bool:
        """Whether a request that is in no job got as many answers as are paid for, none of them usable."""
        return self.journal.unusable[key] > MAX_RESENDS and key not in self.journal and self.journal.holder(key) is None

    def leave(self) -> None:
        """Cancel all waiting callers and submit nothing more. Jobs go on at the provider."""
        self._leaving = True
        live = len(self._journal.in_state("live")) if self._journal is not None and self._in_jobs else 0
        if live:
            self._report(f"{live} jobs continue at the provider. To collect them, run the command again")
        for pending in self._drop_all():
            for future in pending.futures:
                future.cancel()
        self._wake.set()

    def _drop_all(self) -> list[_Pending]:
        """Forget all pending requests and return them."""
        pending = [*self._unsent.values(), *self._in_jobs.values()]
        self._unsent.clear()
        self._in_jobs.clear()
        return pending

    async def aclose(self) -> None:
        """Leave, give a step under way a moment to finish, and write down which answers were handed over."""
        if not self._leaving:
            self.leave()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LAST_STEP)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        await self.service.aclose()

    # -- the task --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Find, submit and poll jobs until no request waits; an unexpected error fails all that wait."""
        try:
            while self._unsent or self._in_jobs:
                self._wake.clear()
                if self.journal.in_state("unsure") and time.monotonic() >= self._find_at:
                    await self._find_unsure()
                if self._should_submit():
                    await self._submit()
                if self.journal.in_state("live") and time.monotonic() >= self._poll_at:
                    await self._poll()
                await self._pause()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever it is, no caller may wait for ever
            for pending in self._drop_all():
                pending.fail(error)

    def _should_submit(self) -> bool:
        if not self._unsent or self._leaving or self._held_back() or self.journal.in_state("unsure"):
            return False
        return len(self._unsent) >= self._max_requests or time.monotonic() >= self._submit_at()

    def _submit_at(self) -> float:
        """Compute when unsent requests go out although they do not fill a job, by `time.monotonic()`."""
        idle = self.timing.idle
        return min(self._last_unsent + idle, self._first_unsent + idle * _MAX_IDLE_TIMES)

    def _held_back(self) -> bool:
        """Return True if the account's queue is full and a live job of this queue will leave it."""
        return self._queue_full and bool(self.journal.in_state("live"))

    async def _pause(self) -> None:
        """Wait for a new request, or for the next thing that is due."""
        now = time.monotonic()
        due = [now + self.timing.poll]
        if self.journal.in_state("live"):
            due.append(self._poll_at)
        if self.journal.in_state("unsure"):
            due.append(self._find_at)
        elif self._unsent and not self._held_back():
            due.append(now if self._should_submit() else self._submit_at())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), max(0.0, min(due) - now))

    def _is_transient(self, error: Exception) -> bool:
        """Whether a failed step may be repeated at the next poll; reports the failure, once."""
        if isinstance(error, Untrusted) or not isinstance(error, ProviderFailure | TransportError):
            return False
        kind = error.failure.kind if isinstance(error, ProviderFailure) else FailureKind.RETRY
        if kind in (FailureKind.FATAL, FailureKind.BARRED):
            return False
        if str(error) != self._last_warning:
            self._last_warning = str(error)
            self._report(f"{error}; trying again")
        return True

    # -- jobs that may or may not have been created ------------------------------------------------------------------

    async def _find_unsure(self) -> None:
        """Look for the jobs behind intents without an id."""
        unsure = self.journal.in_state("unsure")
        try:
            ids = await self.service.find({job.tag: job.source for job in unsure}, min(job.born for job in unsure))
        except Exception as error:
            if not self._is_transient(error):
                raise
            self._find_at = time.monotonic() + self.timing.poll
            return
        now = time.time()
        for job in unsure:
            missing_for = abs(now - job.born)
            if job.tag in ids:
                self.journal.job(job.tag, ids[job.tag])
                self._report(f"found job {job.id}, {len(job.keys)} requests, that an earlier try created")
                self._adopt(job)
                self._poll_at = 0.0
            elif missing_for >= self.timing.settle:
                self.journal.void(job.tag, "never created")
            else:
                self._find_at = time.monotonic() + max(0.01, min(self.timing.settle - missing_for, self.timing.poll))

    def _adopt(self, job: BatchJob) -> None:
        """Let the pending requests that are in a job wait for that job."""
        for key in job.keys:
            if key in self._unsent:
                self._in_jobs[key] = self._unsent.pop(key)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _submit(self) -> None:
        """Send one job with as many of the unsent requests as fit."""
        for key in [key for key, pending in self._unsent.items() if not pending.waiting]:
            del self._unsent[key]
        tag = f"titjudge-{uuid.uuid4().hex}"
        path = self.folder / f"{tag}.part"
        in_prompt = not self.service.real.native_schema
        try:
            keys = await self._write(path, list(islice(self._unsent.items(), self._max_requests)), in_prompt)
            if keys:
                await self._send(path, tag, keys, in_prompt)
        finally:
            path.unlink(missing_ok=True)

    async def _write(self, path: Path, entries: Iterable[tuple[str, _Pending]], in_prompt: bool) -> list[str]:
        """Write the lines of a job, up to the size limit, and return their keys."""
        keys: list[str] = []
        size = 0
        with path.open("wb") as file:
            for key, pending in entries:
                in_words = in_prompt and pending.request.schema is not None
                try:
                    line = await self.service.line(key, pending.request, in_prompt=in_words)
                    if len(line) > self._max_bytes:
                        raise self.service.rejection("too_large", f"one request has {len(line)} bytes")
                except (TitjudgeError, ProviderFailure) as error:  # of this request alone, as when its image is gone
                    self._fail([key], error)
                    continue
                if size + len(line) > self._max_bytes:
                    break
                file.write(line)
                keys.append(key)
                size += len(line)
                if not len(keys) % 256:
                    await asyncio.sleep(0)
        return keys

    async def _send(self, path: Path, tag: str, keys: list[str], in_prompt: bool) -> None:
        """Upload a file of requests and create its job, which is written down before and after."""
        try:
            source = await self.service.upload(path, tag)
            if self._leaving:
                return
        except (ProviderFailure, TransportError) as error:
            return self._fail(keys, error)
        self.journal.intent(tag, keys, source, in_prompt)
        try:
            job_id = await self.service.create(source, tag)
        except (ProviderFailure, TransportError) as error:
            if _surely_not_created(error):
                self.journal.void(tag, str(error))
            else:
                self._find_at = 0.0
            return self._fail(keys, error)
        self.journal.job(tag, job_id)
        self._adopt(self.journal.jobs[tag])
        self._poll_at = self._poll_at or time.monotonic() + self.timing.poll
        self._report(f"job {job_id} submitted, {len(keys)} requests; {self._progress()}")

    def _progress(self) -> str:
        return f"{len(self.journal.in_state('live'))} jobs live, {self.done} done"

    def _fail(self, keys: Iterable[str], error: Exception) -> None:
        for key in keys:
            pending = self._unsent.pop(key, None) or self._in_jobs.pop(key, None)
            if pending is not None:
                pending.fail(error)

    # -- collecting ------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        """Look at every live job and collect the ended ones."""
        self._poll_at = time.monotonic() + self.timing.poll
        for job in self.journal.in_state("live"):
            if self._leaving:
                return
            what = "is not known to the provider"
            try:
                status = await self.service.status(job.id)
                if not status.ended:
                    self._missing.pop((job.tag, what), None)
                    continue
                what = "has no answers"  # whatever state is reported from now on
                await self._collect(job, status)
            except JobNotFound:
                if self._waited_for(job, what):
                    self.journal.void(job.tag, "not known to the provider", lost=job.keys)
                    self._report(
                        f"job {job.id} no longer exists; it may have been billed, and its requests are sent again"
                    )
                    self._fail(job.keys, _lost(job))
            except Exception as error:
                if not self._is_transient(error):
                    raise

    def _waited_for(self, job: BatchJob, what: str) -> bool:
        """Note that a job or its answers are not available; returns whether that has lasted for `BatchTiming.gone`.

        It may pass, and the job is billed all the same.
        """
        times = self._missing.setdefault((job.tag, what), [])
        times.append(time.monotonic())
        if len(times) == 1:
            self._report(f"job {job.id} {what} at the moment; looking again")
        return len(times) >= _MIN_NOT_FOUND and times[-1] - times[0] >= self.timing.gone

    async def _collect(self, job: BatchJob, status: JobStatus) -> None:
        """Write down the answers of a job that has ended and hand them out; if they are not whole, only wait at first."""
        if status.queue_full:
            return self._put_back(job)
        lines, are_whole = await self.service.answers(job, status)
        if not are_whole and not self._waited_for(job, "has incomplete answers"):
            return
        answered_keys = {line.key for line in lines}
        unanswered = {
            key: self._why_unanswered(job, status, number)
            for number, key in enumerate(job.keys, 1)
            if key not in answered_keys
        }
        lost = [key for key, error in unanswered.items() if error.failure.maybe_billed]
        self.journal.done(job.tag, status.state, lines, lost)
        self._queue_full = False
        self.done += 1
        errors = {line.key: line for line in lines if not line.good}
        answered = sum(line.good for line in lines)
        self._report(f"job {job.id} {status.state}, {answered} of {len(job.keys)} answered; {self._progress()}")
        for key in job.keys:
            pending = self._in_jobs.pop(key, None)
            if pending is None:
                continue
            answer = self.journal.take(key)
            if answer is not None:
                pending.resolve(answer)
            elif key in errors:
                pending.resolve(Answered(job, orjson.loads(errors[key].content)))
            else:
                pending.fail(unanswered[key])

    def _put_back(self, job: BatchJob) -> None:
        """Take back a job refused as the account has too much queued: send it after another, or in smaller ones."""
        self.journal.void(job.tag, "too much is queued")
        for key in job.keys:
            pending = self._in_jobs.pop(key, None)
            if pending is not None and pending.waiting:
                self._unsent[key] = pending
        self._queue_full = bool(self.journal.in_state("live"))
        if not self._queue_full:
            if len(job.keys) == 1:
                return self._fail(job.keys, self.service.rejection("token_limit_exceeded", "one request is too much"))
            self._max_requests = max(1, len(job.keys) // 2)
        next_step = "when another job has ended" if self._queue_full else f"in jobs of {self._max_requests}"
        self._report(f"the account's queue is full; {len(job.keys)} requests go {next_step}")

    def _why_unanswered(self, job: BatchJob, status: JobStatus, number: int) -> ProviderFailure:
        """Find why the request in line `number` of a job has no answer."""
        of_line = [error for error in status.errors if error[0] == number]
        of_job = [error for error in status.errors if error[0] is None]
        for _, code, message in of_line or (of_job if status.state == "failed" else []):
            return self.service.rejection(code, message)
        if status.complete:
            return _lost(job)
        why = f"the batch job {job.id} ended ({status.state}) before this request was answered"
        return ProviderFailure(Failure(FailureKind.RETRY, why))


def _lost(job: BatchJob) -> ProviderFailure:
    """Make the failure of a request whose job ended, or is unknown, without an answer to it; it may be billed."""
    why = "ended and has no answer to this request" if job.state != "void" else "is not known to the provider"
    why = f"the batch job {job.id} {why}"
    return ProviderFailure(Failure(FailureKind.RETRY, why, maybe_billed=True, answered=True))


def _surely_not_created(error: Exception) -> bool:
    """Whether a failed creation has surely left no job behind."""
    if isinstance(error, ProviderFailure):
        return error.failure.kind not in (FailureKind.RETRY, FailureKind.LATER)
    return isinstance(error, Unreachable | Untrusted)
