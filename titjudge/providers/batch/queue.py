"""The queue of one model's batch jobs: collects what is asked, sends it as jobs, looks at them, hands out the answers.

    ask ─> asked ── idle, or full ──> job (intent, then id, on disk) ─> waiting ── polls ──> ended ─> answers on disk ─> ask

One task does all of it, one step after the other, and lives only while somebody asks or waits. It may be killed at any
point: the next queue over the same folder goes on from what the log says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.errors import TitjudgeError
from titjudge.core.types import FailureKind, Request
from titjudge.providers.batch.journal import Job, JobJournal
from titjudge.providers.batch.service import BatchService, JobNotFound, JobStatus
from titjudge.providers.hosted.failures import ProviderFailure
from titjudge.providers.hosted.http import TransportError, Unreachable, Untrusted

logger = logging.getLogger(__name__)

_LINGER = 30  # times the idle time after which a trickle of requests is sent
AGAIN = 1  # times a question is sent again after an answer that cannot be used
_MISSES = 3  # polls in which a job must have been unknown
_LEAVE = 2.0  # seconds a step under way may take when the run ends


@dataclass(frozen=True, slots=True)
class Answered:
    """A line of a job's answers, parsed, and the job."""

    job: Job
    line: Any


@dataclass(slots=True)
class _Asked:
    request: Request
    futures: list[asyncio.Future[Answered]] = field(default_factory=list)

    def give(self, answer: Answered) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(answer)

    def fail(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def cancel(self) -> None:
        for future in self.futures:
            future.cancel()

    @property
    def gone(self) -> bool:
        return all(future.done() for future in self.futures)


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """Times of a batch queue, in seconds.

    `poll` between looks at live jobs; `idle` without a new request before a job is sent; `settle`
    before a job that cannot be found counts as never created; `gone` before a job, or its answers, that the provider says
    it does not know is given up (and three polls at least); None takes the provider's own limit of a job.
    """

    poll: float = 30.0
    idle: float = 2.0
    settle: float = 60.0
    gone: float = 300.0
    max_requests: int | None = None
    max_bytes: int | None = None


class BatchQueue:
    """See the module. One queue for one folder; use it inside one event loop."""

    def __init__(
        self,
        service: BatchService,
        folder: Path,
        label: str,
        pace: BatchTiming,
        say: Callable[[str], None],
        *,
        again: bool = False,
    ) -> None:
        self.service, self.folder, self.label, self.pace, self._again = service, folder, label, pace, again
        self.submitted = self.done = 0
        self._say = say
        self._log: JobJournal | None = None
        self._asked: dict[str, _Asked] = {}
        self._waiting: dict[str, _Asked] = {}
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._first = self._latest = self._poll_at = self._find_at = 0.0
        self._most = min(pace.max_requests or service.most_requests, service.most_requests)
        self._bytes = min(pace.max_bytes or service.most_bytes, service.most_bytes)
        self._crowded = False
        self._leaving = False
        self._complaint = ""
        self._missed: dict[str, list[float]] = {}  # when the provider said that it does not know a job

    @property
    def log(self) -> JobJournal:
        """The log, read at first use."""
        if self._log is None:
            self._log = JobJournal(self.folder)
            if self._again:
                self._log.unusable.clear()
            live, unsure = len(self._log.those("live")), len(self._log.those("unsure"))
            if live or unsure:
                self._tell(f"going on with {live + unsure} jobs of an earlier session")
        return self._log

    def _tell(self, text: str) -> None:
        logger.info("batch %(label)s: %(event)s", {"label": self.label, "event": text})
        self._say(f"batch {self.label}: {text}")

    async def ask(self, key: str, request: Request) -> Answered:
        """Get the answer of a job to a request; waits for as long as the provider takes.

        Raises:
            what the service raises, for this request or for its job; CancelledError: the queue was left.
        """
        if self._leaving:
            raise asyncio.CancelledError
        found = self.log.take(key)
        if found is not None:
            return Answered(*found)
        now = time.monotonic()
        where = self._waiting if self.log.holder(key) is not None else self._asked
        if where is self._asked:
            self._first = self._first if self._asked else now
            self._latest = now
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        where.setdefault(key, _Asked(request)).futures.append(future)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    def given_up(self, key: str) -> bool:
        """Whether a request that is in no job had its answers, none of which could be used."""
        return self.log.unusable[key] > AGAIN and key not in self.log and self.log.holder(key) is None

    def leave(self) -> None:
        """Stop waiting: everybody is sent away, nothing more is submitted. Jobs go on at the provider."""
        self._leaving = True
        live = len(self._log.those("live")) if self._log is not None and self._waiting else 0
        if live:
            self._tell(f"{live} jobs go on at the provider; the same command collects them")
        for asked in (*self._asked.values(), *self._waiting.values()):
            asked.cancel()
        self._asked.clear()
        self._waiting.clear()
        self._news.set()

    async def aclose(self) -> None:
        """Leave, let a step under way finish for a moment, and write down what was handed over."""
        if not self._leaving:
            self.leave()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_LEAVE)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._log is not None:
            self._log.close()
            self._log = None
        await self.service.aclose()

    # -- the task --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while self._asked or self._waiting:
                self._news.clear()
                if self.log.those("unsure") and time.monotonic() >= self._find_at:
                    await self._find()
                if self._ripe():
                    await self._submit()
                if self.log.those("live") and time.monotonic() >= self._poll_at:
                    await self._poll()
                await self._pause()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever it is, nobody may wait for ever
            for asked in (*self._asked.values(), *self._waiting.values()):
                asked.fail(error)
            self._asked.clear()
            self._waiting.clear()

    def _ripe(self) -> bool:
        """Whether a job should be sent now."""
        if not self._asked or self._leaving or self._held_back() or self.log.those("unsure"):
            return False
        now, idle = time.monotonic(), self.pace.idle
        return len(self._asked) >= self._most or now - self._latest >= idle or now - self._first >= idle * _LINGER

    def _held_back(self) -> bool:
        """Whether the account's queue is full and a live job of ours will make room in it."""
        return self._crowded and bool(self.log.those("live"))

    async def _pause(self) -> None:
        now = time.monotonic()
        until = [now + self.pace.poll]
        if self.log.those("live"):
            until.append(self._poll_at)
        if self.log.those("unsure"):
            until.append(self._find_at)
        elif self._asked and not self._held_back():
            idle = self.pace.idle
            until.append(now if self._ripe() else min(self._latest + idle, self._first + idle * _LINGER))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), max(0.0, min(until) - now))

    def _transient(self, error: Exception) -> bool:
        """Whether a look at the provider may be repeated at the next poll; says so once."""
        if isinstance(error, Untrusted) or not isinstance(error, ProviderFailure | TransportError):
            return False
        kind = error.failure.kind if isinstance(error, ProviderFailure) else FailureKind.RETRY
        if kind in (FailureKind.FATAL, FailureKind.BARRED):
            return False
        if str(error) != self._complaint:
            self._complaint = str(error)
            self._tell(f"{error}; trying again")
        return True

    # -- orphans ---------------------------------------------------------------------------------------------------

    async def _find(self) -> None:
        """Look for the jobs behind intents without an id."""
        unsure = self.log.those("unsure")
        try:
            found = await self.service.find({job.tag: job.source for job in unsure}, min(job.born for job in unsure))
        except Exception as error:
            if not self._transient(error):
                raise
            found = {}
            unsure = []
            self._find_at = time.monotonic() + self.pace.poll
        now = time.time()
        for job in unsure:
            if job.tag in found:
                self.log.job(job.tag, found[job.tag])
                self._tell(f"found job {job.id}, {len(job.keys)} requests, that an earlier try created")
                self._adopt(job)
                self._poll_at = 0.0
            elif abs(now - job.born) >= self.pace.settle:
                self.log.void(job.tag, "never created")
            else:
                wait = self.pace.settle - abs(now - job.born)
                self._find_at = time.monotonic() + max(0.01, min(wait, self.pace.poll))

    def _adopt(self, job: Job) -> None:
        """Whoever asks for what a job holds waits for that job."""
        for key in job.keys:
            asked = self._asked.pop(key, None)
            if asked is not None:
                self._waiting[key] = asked

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _submit(self) -> None:
        """Send one job with as much of what is asked as fits."""
        for key in [key for key, asked in self._asked.items() if asked.gone]:
            del self._asked[key]
        tag = f"titjudge-{uuid.uuid4().hex}"
        path = self.folder / f"{tag}.part"
        in_prompt = not self.service.native_schema
        try:
            keys = await self._write(path, list(islice(self._asked.items(), self._most)), in_prompt)
            if keys:
                await self._send(path, tag, keys, in_prompt)
        finally:
            path.unlink(missing_ok=True)

    async def _write(self, path: Path, entries: Iterable[tuple[str, _Asked]], in_prompt: bool) -> list[str]:
        """Write the lines of a job, up to the size limit; returns their keys."""
        keys: list[str] = []
        size = 0
        with path.open("wb") as file:
            for key, asked in entries:
                try:
                    line = await self.service.line(
                        key, asked.request, in_prompt=in_prompt and asked.request.schema is not None
                    )
                    if len(line) > self._bytes:
                        raise self.service.rejection("too_large", f"one request has {len(line)} bytes")
                except (TitjudgeError, ProviderFailure) as error:  # of this request alone: its image is gone, ...
                    self._fail([key], error)
                    continue
                if size + len(line) > self._bytes:
                    break
                file.write(line)
                keys.append(key)
                size += len(line)
                if not len(keys) % 256:
                    await asyncio.sleep(0)
        return keys

    async def _send(self, path: Path, tag: str, keys: list[str], in_prompt: bool) -> None:
        try:
            source = await self.service.upload(path, tag)
            if self._leaving:
                return
        except (ProviderFailure, TransportError) as error:
            return self._fail(keys, error)
        self.log.intent(tag, keys, source, in_prompt)
        try:
            ident = await self.service.create(source, tag)
        except (ProviderFailure, TransportError) as error:
            if _not_created(error):
                self.log.void(tag, str(error))
            else:
                self._find_at = 0.0
            return self._fail(keys, error)
        self.log.job(tag, ident)
        self._adopt(self.log.jobs[tag])
        self.submitted += 1
        if self.submitted == 1 or not self._poll_at:
            self._poll_at = time.monotonic() + self.pace.poll
        self._tell(f"job {ident} submitted, {len(keys)} requests; {self._standing()}")

    def _standing(self) -> str:
        return f"{len(self.log.those('live'))} jobs live, {self.done} done"

    def _fail(self, keys: Iterable[str], error: Exception) -> None:
        for key in keys:
            asked = self._asked.pop(key, None) or self._waiting.pop(key, None)
            if asked is not None:
                asked.fail(error)

    # -- collecting ------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        """Look at every live job; collect those that have ended."""
        self._poll_at = time.monotonic() + self.pace.poll
        for job in self.log.those("live"):
            if self._leaving:
                return
            try:
                look = await self.service.look(job.id)
                if look.ended:
                    await self._collect(job, look)
                self._missed.pop(job.tag, None)
            except JobNotFound:
                self._miss(job)
            except Exception as error:
                if not self._transient(error):
                    raise

    def _miss(self, job: Job) -> None:
        """Handle a job, or an answer, that the provider does not know.

        That may pass, and the job is paid all the same: it is given up only when it has been so for a while.
        """
        times = self._missed.setdefault(job.tag, [])
        times.append(time.monotonic())
        if len(times) < _MISSES or times[-1] - times[0] < self.pace.gone:
            if len(times) == 1:
                self._tell(f"job {job.id} is not known to the provider at the moment; looking again")
            return
        self.log.void(job.tag, "not known to the provider")
        self._tell(f"job {job.id} is gone; it may have been billed, and what it held is sent again")
        self._fail(job.keys, self._missing(job, "is not known to the provider", billed=True))

    async def _collect(self, job: Job, look: JobStatus) -> None:
        if look.crowded:
            return self._put_back(job)
        lines = await self.service.answers(look, job.keys)
        self.log.done(job.tag, look.word, lines)
        self._crowded = False
        self.done += 1
        good = sum(line.good for line in lines)
        self._tell(f"job {job.id} {look.word}, {good} of {len(job.keys)} answered; {self._standing()}")
        bad = {line.key: line for line in lines if not line.good}
        for number, key in enumerate(job.keys, 1):
            asked = self._waiting.pop(key, None)
            if asked is None:
                continue
            found = self.log.take(key)
            if found is not None:
                asked.give(Answered(*found))
            elif key in bad:
                asked.give(Answered(job, orjson.loads(bad[key].content)))
            else:
                asked.fail(self._reason(job, look, number))

    def _put_back(self, job: Job) -> None:
        """Handle an account that has too much queued: wait for another job to end, or send smaller ones."""
        self.log.void(job.tag, "too much is queued")
        for key in job.keys:
            asked = self._waiting.pop(key, None)
            if asked is not None and not asked.gone:
                self._asked[key] = asked
        self._crowded = bool(self.log.those("live"))
        if not self._crowded:
            if len(job.keys) == 1:
                return self._fail(job.keys, self.service.rejection("token_limit_exceeded", "one request is too much"))
            self._most = max(1, len(job.keys) // 2)
        then = "when another job has ended" if self._crowded else f"in jobs of {self._most}"
        self._tell(f"the account's queue is full; {len(job.keys)} requests go {then}")

    def _reason(self, job: Job, look: JobStatus, number: int) -> Exception:
        """Why the request in line `number` of a job has no answer."""
        own = [error for error in look.errors if error[0] == number]
        whole = [error for error in look.errors if error[0] is None]
        for _, code, message in own or (whole if look.word == "failed" else []):
            return self.service.rejection(code, message)
        if look.complete:
            return self._missing(job, f"ended ({look.word}) and has no answer to this request", billed=True)
        return self._missing(job, f"ended ({look.word}) before this request was answered")

    def _missing(self, job: Job, what: str, *, billed: bool = False) -> ProviderFailure:
        """There is no answer; `billed`: there may be a bill all the same."""
        return ProviderFailure(
            FailureKind.RETRY, f"the batch job {job.id} {what}", maybe_billed=billed, answered=billed
        )


def _not_created(error: Exception) -> bool:
    """Whether a failed creation has surely left no job behind."""
    if isinstance(error, ProviderFailure):
        return error.failure.kind is not FailureKind.RETRY
    return isinstance(error, Unreachable | Untrusted)
