"""A loopback server of batch services: OpenAI's Files and Batches, Gemini's Files and batches.

    with BatchServer() as server:
        Batches(folder).wrap(OpenAI(ProviderSettings("gpt-4o", base_url=server.openai)))
        server.plans.append(Plan(end="expired", answered=2))       # the next job to be created
    assert server.paid() == 3                                        # lines that were answered well

Nothing depends on the clock: a job ends when it has been looked at `polls` times. Each line is answered by `answer(seen)`
as `tests.kit.Server` would answer the same request (text, Scripted, None for the default).
"""

import json
import re
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.kit import Scripted, Seen, Server
from tests.kit.wires import ANSWERS, dump, error, read, text_for
from titjudge.providers.batch import provider

_NO_FILE = {"error": {"message": "No such File", "type": "invalid_request_error", "param": "id", "code": None}}


def full_jobs(requests: int) -> None:
    """From now on send a job when it holds so many requests, however slowly they come, and give up a job without waiting."""
    timing = provider.BatchTiming
    provider.BatchTiming = lambda *given: replace(timing(*given), max_requests=requests, gone=0.0)  # type: ignore[misc, assignment]


@dataclass
class Plan:
    """How a job goes. `end`: completed, expired, cancelled, failed; `answered`: how many lines are (None: all);
    `polls`: looks until it has ended; `errors`: of the job itself (OpenAI); `create`: the answer to its creation in place
    of the truth, which is created all the same when `created`."""

    end: str = "completed"
    answered: int | None = None
    polls: int = 1
    errors: list[dict[str, Any]] = field(default_factory=list)
    create: Scripted | None = None
    created: bool = True
    shuffle: bool = True


@dataclass
class Job:
    id: str
    source: str
    tag: str
    plan: Plan
    looks: int = 0
    ended: bool = False
    output: str = ""
    failures: str = ""


class BatchServer(Server):
    """See the module. `held`: while True no job ends, however often it is looked at."""

    def __init__(self, answer: Callable[[Seen], Scripted | str | None] | None = None, **more: Any) -> None:
        super().__init__(self._handle, **more)
        self.answer = answer or (lambda seen: None)
        self.plans: deque[Plan] = deque()
        self.jobs: dict[str, Job] = {}
        self.files: dict[str, bytes] = {}
        self.lines: list[Seen] = []  # every line that was worked on
        self.good: Counter[str] = Counter()  # key -> how often it was answered well, and so billed
        self.held = False
        self.faults: deque[tuple[str, Scripted]] = deque()  # (part of "METHOD path", answer): the next that fits, once
        self.forgotten: set[str] = set()
        self.created = threading.Event()

    def times(self, part: str) -> int:
        """How many requests had `part` in "METHOD path"."""
        return self.count(lambda seen: part in f"{seen.method} {seen.path}")

    def paid(self) -> int:
        return sum(self.good.values())

    def source_of(self, job: Job) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[job.source].splitlines() if line.strip()]

    def keys_of(self, job: Job) -> list[str]:
        return [line.get("custom_id") or line["key"] for line in self.source_of(job)]

    # -- routes ------------------------------------------------------------------------------------------------------

    def _handle(self, seen: Seen) -> Scripted | str | None:
        path = seen.path.partition("?")[0]
        for fault in self.faults:
            if fault[0] in f"{seen.method} {path}":
                self.faults.remove(fault)
                return fault[1]
        for pattern, route in (
            (r"/v1/files$", self._openai_upload),
            (r"/v1/files/([^/]+)/content$", self._content),
            (r"/v1/batches$", self._openai_batches),
            (r"/v1/batches/([^/]+)$", self._openai_look),
            (r"/upload/v1beta/files$", self._gemini_start),
            (r"/upload/here/(.+)$", self._gemini_upload),
            (r"/v1beta/models/[^/]+:batchGenerateContent$", self._gemini_create),
            (r"/v1beta/batches$", self._gemini_list),
            (r"/v1beta/batches/([^/]+)$", self._gemini_look),
            (r"/(?:download/)?v1beta/files/(.+):download$", self._content),
        ):
            if found := re.search(pattern, path):
                return route(seen, *found.groups())
        return self.answer(seen)

    def _store(self, content: bytes, name: str = "file") -> str:
        ident = f"{name}-{len(self.files)}"
        self.files[ident] = content
        return ident

    def _content(self, seen: Seen, ident: str) -> Scripted:
        if ident not in self.files:
            return Scripted(status=404, body=_NO_FILE)
        return Scripted(body=self.files[ident])

    def _new(self, source: str, tag: str) -> tuple[Job, Scripted | None]:
        plan = self.plans.popleft() if self.plans else Plan()
        job = Job(f"batch_{len(self.jobs)}", source, tag, plan)
        if plan.created:
            self.jobs[job.id] = job
        self.created.set()
        return job, plan.create

    def _looked_at(self, ident: str) -> Job | None:
        job = self.jobs.get(ident)
        if job is None or ident in self.forgotten:
            return None
        job.looks += 1
        if job.looks >= job.plan.polls and not self.held and not job.ended:
            self._finish(job)
        return job

    def _finish(self, job: Job) -> None:
        job.ended = True
        lines = self.source_of(job)
        most = 0 if job.plan.end == "failed" else len(lines) if job.plan.answered is None else job.plan.answered
        output, failures = [], []
        for line in lines[:most]:
            ok, record = self._worked(line)
            (output if ok or "key" in line else failures).append(record)
        if job.plan.end in ("expired", "cancelled"):
            for line in lines[most:]:
                if "custom_id" in line:
                    why = {"code": f"batch_{job.plan.end}", "message": "This request could not be executed in time."}
                    failures.append({"custom_id": line["custom_id"], "response": None, "error": why})
        if job.plan.shuffle:
            output.reverse()
        if output:
            job.output = self._store(b"\n".join(map(dump, output)) + b"\n", "output")
        if failures:
            job.failures = self._store(b"\n".join(map(dump, failures)), "failures")

    def _worked(self, line: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
        openai = "custom_id" in line
        key = line["custom_id"] if openai else line["key"]
        path = line["url"] if openai else "/v1beta/models/gemini-2.5-pro:generateContent"
        seen = read("POST", path, {}, dump(line["body"] if openai else line["request"]))
        self.lines.append(seen)
        answer = self.answer(seen)
        scripted = Scripted(answer) if isinstance(answer, str) else answer or Scripted()
        if scripted.status >= 400:
            body = scripted.body if isinstance(scripted.body, dict) else error(seen, scripted.status, scripted)
            if openai:
                return False, {
                    "custom_id": key,
                    "response": {"status_code": scripted.status, "body": body},
                    "error": None,
                }
            return False, {"key": key, "error": body["error"]}
        text = scripted.text if scripted.text is not None else text_for(seen)
        body = ANSWERS[seen.api](seen, text, scripted, self)
        self.good[key] += 1
        if openai:
            return True, {"custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}
        return True, {"key": key, "response": body}

    # -- OpenAI ------------------------------------------------------------------------------------------------------

    def _openai_upload(self, seen: Seen) -> Scripted:
        boundary = re.search(r'boundary="?([^";]+)', seen.headers["content-type"])
        assert boundary is not None
        content = b""
        for part in seen.raw.split(b"--" + boundary.group(1).encode()):
            head, _, body = part.partition(b"\r\n\r\n")
            if b"filename=" in head:
                content = body.removesuffix(b"\r\n")
        ident = self._store(content)
        made = {
            "id": ident,
            "object": "file",
            "bytes": len(content),
            "created_at": 1,
            "filename": "x",
            "purpose": "batch",
        }
        return Scripted(body={**made, "status": "processed"})

    def _openai_batches(self, seen: Seen) -> Scripted:
        if seen.method == "GET":
            listed = [self._openai_job(job) for job in reversed(self.jobs.values())]
            return Scripted(body={"object": "list", "data": listed, "has_more": False})
        job, instead = self._new(seen.body["input_file_id"], seen.body["metadata"]["titjudge"])
        return instead or Scripted(body=self._openai_job(job))

    def _openai_look(self, seen: Seen, ident: str) -> Scripted:
        job = self._looked_at(ident)
        if job is None:
            return Scripted(status=404, body={"error": {"message": f"No batch found with id '{ident}'."}})
        return Scripted(body=self._openai_job(job))

    def _openai_job(self, job: Job) -> dict[str, Any]:
        import time

        errors = {"object": "list", "data": job.plan.errors} if job.ended and job.plan.errors else None
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": job.source,
            "completion_window": "24h",
            "status": job.plan.end if job.ended else "in_progress",
            "created_at": int(time.time()),
            "output_file_id": job.output or None,
            "error_file_id": job.failures or None,
            "errors": errors,
            "metadata": {"titjudge": job.tag},
        }

    # -- Gemini ------------------------------------------------------------------------------------------------------

    def _gemini_start(self, seen: Seen) -> Scripted:
        return Scripted(body={}, headers={"X-Goog-Upload-URL": f"{self.url}/upload/here/{len(self.files)}"})

    def _gemini_upload(self, seen: Seen, number: str) -> Scripted:
        final = "finalize" in seen.headers["x-goog-upload-command"]
        ident = f"up-{number}"
        self.files[ident] = self.files.get(ident, b"") + seen.raw
        made = {"file": {"name": f"files/{ident}", "mimeType": "application/jsonl", "state": "ACTIVE"}}
        return Scripted(body=made, headers={"X-Goog-Upload-Status": "final" if final else "active"})

    def _gemini_create(self, seen: Seen) -> Scripted:
        batch = seen.body["batch"]
        job, instead = self._new(batch["inputConfig"]["fileName"].removeprefix("files/"), batch["displayName"])
        return instead or Scripted(body=self._gemini_job(job))

    def _gemini_list(self, seen: Seen) -> Scripted:
        return Scripted(body={"operations": [self._gemini_job(job) for job in self.jobs.values()]})

    def _gemini_look(self, seen: Seen, ident: str) -> Scripted:
        job = self._looked_at(ident)
        if job is None:
            return Scripted(status=404, body={"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}})
        return Scripted(body=self._gemini_job(job))

    def _gemini_job(self, job: Job) -> dict[str, Any]:
        word = {"completed": "SUCCEEDED"}.get(job.plan.end, job.plan.end.upper()) if job.ended else "RUNNING"
        facts: dict[str, Any] = {
            "displayName": job.tag,
            "state": f"BATCH_STATE_{word}",
            "model": "models/gemini-2.5-pro",
        }
        if job.output:
            facts["output"] = {"responsesFile": f"files/{job.output}"}
        return {"name": f"batches/{job.id}", "metadata": facts, "done": job.ended}
