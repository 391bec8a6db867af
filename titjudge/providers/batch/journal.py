"""The files of a batch provider: the jobs with their requests, and the answers of the jobs.

jobs.jsonl          append-only; one event a line:
  intent            a tag that exists once in the world, the file that was uploaded, the keys of its requests
  job               the id the provider gave the job with that tag
  done              the job has ended and its answers lie in TAG.answers.jsonl
  void              there is no such job: it was never created, or the provider does not know it
                    (both with `lost`: keys that are billed, or may be, and have no answer)
  taken             keys whose answers were handed over; twice in the list means: for good
  unusable          keys that may have been billed for an answer that cannot be used
TAG.answers.jsonl   one line per request: its key, whether it has an answer, and the provider's line

An intent without an id is an orphan: its job may exist (the process died, or the connection broke, in between), so its
requests are sent again only once the provider has been asked for the tag.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from titjudge.core.errors import CacheWriteError, UserError, file_fault
from titjudge.core.files import Appender, read_jsonl


@dataclass(slots=True)
class BatchJob:
    """One batch job.

    Attributes:
        tag: Our name of it, which the provider keeps beside it.
        keys: The requests in it.
        source: Id of the file with its requests.
        in_prompt: Schemas were asked for in words.
        born: When it was begun, in seconds since 1970.
        id: The provider's name of it; empty until that is known.
        state: Unsure (begun, without an id), live, done or void.
    """

    tag: str
    keys: tuple[str, ...]
    source: str
    in_prompt: bool
    born: float
    id: str = ""
    state: str = "unsure"


@dataclass(frozen=True, slots=True)
class ResultLine:
    """One line of a job's answers.

    Attributes:
        key: The request that it answers.
        good: It contains an answer, and no error.
        content: JSON that can be read again.
    """

    key: str
    good: bool
    content: bytes


class Answered(NamedTuple):
    """A line of a job's answers, parsed, and the job."""

    job: BatchJob
    line: Any


class _Place(NamedTuple):
    """The place of the line of an answer: the job's file, and bytes in it."""

    tag: str
    offset: int
    length: int


class JobJournal:
    """The jobs of one model, read from `folder` and written there.

    Raises:
        UserError: The folder cannot be used. DataError: jobs.jsonl is damaged (names the line).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs: dict[str, BatchJob] = {}  # by tag
        self.unusable: Counter[str] = Counter()  # by key: answers that could not be used, over all sessions
        self._holders: dict[str, str] = {}  # key -> tag, for jobs that are unsure or live
        self._lost: dict[str, str] = {}  # key -> tag of the job that lost its answer, until that is noted as unusable
        self._answers: dict[str, _Place] = {}  # by key: answers that may still be handed over
        self._takes: Counter[tuple[str, str]] = Counter()  # by (tag, key): times handed over, of earlier sessions
        self._taken: dict[str, list[str]] = {}  # by tag: keys handed over in this session
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.part"):
                leftover.unlink()
            self._file = Appender(folder / "jobs.jsonl")
        except OSError as error:
            raise UserError(f"{folder}: {file_fault(error)}") from error
        for _, record in read_jsonl(folder / "jobs.jsonl", required=("event",)):
            self._read(record)
        for job in self.jobs.values():
            if job.state == "done":
                self._index(job)

    # -- what is known ---------------------------------------------------------------------------------------------

    def in_state(self, *states: str) -> list[BatchJob]:
        """List the jobs in one of some states, oldest first."""
        return [job for job in self.jobs.values() if job.state in states]

    def holder(self, key: str) -> BatchJob | None:
        """Find the live job that a request is in."""
        job = self.jobs.get(self._holders.get(key, ""))
        return job if job is not None and job.state == "live" else None

    def in_job(self, key: str) -> bool:
        """Whether a request is in a job that is live, or may have been created."""
        return key in self._holders

    def loser(self, key: str) -> BatchJob | None:
        """Return the ended job that has lost the answer to a request; None if no job has lost it, or the loss was reported."""
        return self.jobs.get(self._lost.get(key, ""))

    def take(self, key: str) -> Answered | None:
        """Return the answer that a job gave to a request, and count it as handed over; None when there is none."""
        place = self._answers.pop(key, None)
        if place is None:
            return None
        try:
            with self._answers_file(place.tag).open("rb") as file:
                file.seek(place.offset)
                record = orjson.loads(file.read(place.length))
        except (OSError, orjson.JSONDecodeError):
            return None
        return Answered(self.jobs[place.tag], record["line"])

    def __contains__(self, key: str) -> bool:
        """Whether an answer of a job to this request can be taken."""
        return key in self._answers

    # -- events ----------------------------------------------------------------------------------------------------

    def intent(self, tag: str, keys: Sequence[str], source: str, in_prompt: bool) -> None:
        """Note that a job is about to be created."""
        self._write(event="intent", tag=tag, source=source, in_prompt=in_prompt, time=time.time(), keys=list(keys))

    def job(self, tag: str, ident: str) -> None:
        """Note that the job exists."""
        self._write(event="job", tag=tag, id=ident)

    def void(self, tag: str, reason: str, lost: Sequence[str] = ()) -> None:
        """Note that there is no such job; `lost` as for `done`."""
        self._write(event="void", tag=tag, reason=reason, lost=list(lost))

    def done(self, tag: str, state: str, lines: Iterable[ResultLine], lost: Sequence[str] = ()) -> None:
        """Note that the job has ended; its answers are on disk before the event is.

        `lost`: the keys of requests that it has no line for although they may be billed.
        """
        target = self._answers_file(tag)
        part = target.with_suffix(".part")
        try:
            with part.open("wb") as file:
                for line in lines:
                    record = {"key": line.key, "good": line.good, "line": orjson.Fragment(line.content)}
                    file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
            part.replace(target)
        except OSError as error:
            raise CacheWriteError(
                f"the answers of a batch job cannot be written to {target}: {error}. Free space on its disk, then run the command again"
            ) from error
        self._write(event="done", tag=tag, state=state, lost=list(lost))
        self._index(self.jobs[tag])

    def note_taken(self, job: BatchJob, key: str, *, final: bool) -> None:
        """Note that an answer was handed over; on disk at `close`.

        A later session gets it again unless it was `final` (a refusal, as asking again is a new question) or was handed
        over twice, which means that it cannot be read. A process that dies notes nothing, so an answer that it had not put
        into the cache yet is handed over again.
        """
        self._taken.setdefault(job.tag, []).extend([key] * (2 if final else 1))

    def note_unusable(self, key: str) -> None:
        """Note that an answer that may have been billed cannot be used; on disk at once."""
        self._write(event="unusable", keys=[key])

    def close(self) -> None:
        """Write down which answers were handed over."""
        for tag, taken in self._taken.items():
            self._write(event="taken", tag=tag, keys=taken)
        self._taken = {}
        self._file.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _answers_file(self, tag: str) -> Path:
        return self.folder / f"{tag}.answers.jsonl"

    def _write(self, **record: Any) -> None:
        try:
            self._file.add(record)
        except OSError as error:
            raise CacheWriteError(
                f"{self._file.path} cannot be written: {error.strerror}. Free space on its disk, then run the command again"
            ) from error
        self._read(record)

    def _read(self, record: dict[str, Any]) -> None:
        """Apply one event of jobs.jsonl to the jobs in memory."""
        event, tag = record["event"], record.get("tag", "")
        if event == "intent":
            job = BatchJob(tag, tuple(record["keys"]), record["source"], record["in_prompt"], record["time"])
            self.jobs[tag] = job
            self._holders.update(dict.fromkeys(job.keys, tag))
        elif event == "taken":
            self._takes.update((tag, key) for key in record["keys"])
        elif event == "unusable":
            self.unusable.update(record["keys"])
            for key in record["keys"]:
                self._lost.pop(key, None)
        elif tag in self.jobs:
            job = self.jobs[tag]
            if event == "job":
                job.id, job.state = record["id"], "live"
            elif event in ("done", "void"):
                job.state = event
                self._lost.update(dict.fromkeys(record.get("lost", ()), tag))
                for key in job.keys:
                    if self._holders.get(key) == tag:
                        del self._holders[key]

    def _index(self, job: BatchJob) -> None:
        """Note the places of a job's answers that may still be handed over."""
        try:
            file = self._answers_file(job.tag).open("rb")
        except OSError:
            return
        with file:
            offset = 0
            for raw in file:
                try:
                    record = orjson.loads(raw)
                except orjson.JSONDecodeError:
                    record = {}
                if record.get("good") and self._takes[job.tag, record["key"]] < 2:
                    self._answers[record["key"]] = _Place(job.tag, offset, len(raw))
                offset += len(raw)
