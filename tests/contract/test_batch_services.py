"""Both batch services behind one spec: what goes wrong with a job, and that nothing is paid twice because of it."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Plan

from tests.kit import Scripted, Seen
from titjudge.core.serialization import request_key
from titjudge.core.types import FailureKind, Message, ProviderSettings, Reply, Request, Status
from titjudge.providers.batch.provider import BatchProvider, batch_service_for
from titjudge.providers.batch.queue import BatchQueue, BatchTiming
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI

pytestmark = [
    pytest.mark.slow,  # many in all, each of them short
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer", "minimum": 0}}, "required": ["score"]}


class BaseBatchService:
    """One service on a loopback server, and sessions with it."""

    def __init__(self, server: BatchServer, kind: str, folder: Path) -> None:
        self.server, self.kind, self.folder = server, kind, folder
        self.said: list[str] = []

    def real(self) -> OpenAI | Gemini:
        if self.kind == "openai":
            return OpenAI(ProviderSettings("gpt-4o", base_url=self.server.openai))
        return Gemini(ProviderSettings("gemini-2.5-pro", base_url=self.server.url))

    def batch(self, **more: Any) -> BatchProvider:
        timing = BatchTiming(**{"poll": 0.01, "idle": 0.02, "settle": 0.0, "gone": 0.0, **more})
        real = self.real()
        return BatchProvider(real, BatchQueue(batch_service_for(real), self.folder, timing, self.said.append))

    def request(self, number: int, **more: Any) -> Request:
        real = self.real()
        text = Message("user", (f"question {number}",))
        return Request(real.name, real.model, (text,), {"max_tokens": 50}, base_url=real.base_url, **more)

    def requests(self, count: int) -> list[Request]:
        return [self.request(number) for number in range(count)]

    def session(
        self, work: Callable[[BatchProvider], Coroutine[Any, Any, Any]], *, close: bool = True, **more: Any
    ) -> Any:
        """Run `work` in an event loop of its own. Without `close` the provider is abandoned, as by kill -9."""

        async def main() -> Any:
            batch = self.batch(**more)
            try:
                return await asyncio.wait_for(work(batch), 120)
            finally:
                if close:
                    await batch.aclose()
                else:  # a dead process holds no sockets, either
                    assert batch.queue._task is not None
                    batch.queue._task.cancel()
                    await asyncio.gather(batch.queue._task, return_exceptions=True)
                    await batch.queue.service.aclose()

        return asyncio.run(main())

    def ask(self, requests: list[Request], **more: Any) -> list[Any]:
        """Replies and exceptions, in order."""

        async def work(batch: BatchProvider) -> Any:
            return await asyncio.gather(*(batch.complete(each) for each in requests), return_exceptions=True)

        found: list[Any] = self.session(work, **more)
        return found

    def abandon(self, requests: list[Request], until: Callable[[], bool], **more: Any) -> None:
        """Ask, and die once `until` holds."""

        async def work(batch: BatchProvider) -> None:
            for each in requests:
                _tasks.add(asyncio.ensure_future(batch.complete(each)))
            while not until():
                await asyncio.sleep(0.005)

        _tasks: set[Any] = set()
        self.session(work, close=False, **more)

    def kinds(self, found: list[Any]) -> list[Any]:
        """Status of a reply, kind of a failure."""
        real = self.real()
        return [each.status if isinstance(each, Reply) else real.classify(each).kind for each in found]

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in (self.folder / "jobs.jsonl").read_text().splitlines()]


@pytest.fixture(params=["openai", "gemini"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseBatchService]:
    with BatchServer() as server:
        yield BaseBatchService(server, request.param, tmp_path / "jobs")


CREATE = {"openai": "POST /v1/batches", "gemini": ":batchGenerateContent"}
LOOK = {"openai": "GET /v1/batches/", "gemini": "GET /v1beta/batches/"}


def test_what_is_asked_together_is_one_job(service: BaseBatchService) -> None:
    requests = service.requests(5)
    replies = service.ask(requests)
    assert service.kinds(replies) == [Status.OK] * 5
    assert len({reply.text for reply in replies}) == 5
    (job,) = service.server.jobs.values()
    assert service.server.keys_of(job) == [request_key(each) for each in requests]
    first = replies[0]
    assert first.flags == ("batch",)
    assert first.usage.input > 0
    assert first.usage.output > 0
    assert first.model_version in ("gpt-4o@fp_1", "gemini-2.5-pro-001")
    assert first.endpoint == service.real().endpoints.all[0].identity
    assert "submitted, 5 requests" in service.said[0]
    assert "5 of 5 answered" in service.said[1]


def test_a_line_of_a_job_is_what_would_have_been_sent(service: BaseBatchService) -> None:
    request = service.request(1, schema=SCHEMA, schema_name="Verdict")
    service.ask([request])
    (job,) = service.server.jobs.values()
    (line,) = service.server.source_of(job)

    async def body() -> Any:
        import orjson

        return json.loads(orjson.dumps(await service.real().body(request)))

    assert (line.get("body") or line["request"]) == asyncio.run(body())
    assert line.get("url", "/v1/chat/completions") == "/v1/chat/completions"


def test_the_intent_is_on_disk_before_the_job_and_the_id_before_it_counts(service: BaseBatchService) -> None:
    at_creation: list[list[str]] = []
    new = service.server._new

    def spy(*arguments: Any) -> Any:
        at_creation.append(service.events())
        return new(*arguments)

    service.server._new = spy  # type: ignore[method-assign]
    service.ask(service.requests(2))
    assert at_creation == [["intent"]]
    assert service.events()[:3] == ["intent", "job", "done"]


def test_killed_while_a_job_is_being_created_it_is_found_again(service: BaseBatchService) -> None:
    service.server.plans.append(Plan(create=Scripted.fault("hang")))
    requests = service.requests(3)
    service.abandon(requests, service.server.created.is_set)
    assert service.events() == ["intent"]
    assert service.kinds(service.ask(requests, settle=60)) == [Status.OK] * 3
    assert len(service.server.jobs) == 1
    assert service.server.paid() == 3
    assert any("found job" in line for line in service.said)


def test_killed_before_the_job_was_created_it_is_sent_again(service: BaseBatchService) -> None:
    service.server.plans.append(Plan(create=Scripted.fault("hang"), created=False))
    requests = service.requests(3)
    service.abandon(requests, service.server.created.is_set)
    assert service.kinds(service.ask(requests)) == [Status.OK] * 3
    assert service.events()[:2] == ["intent", "void"]
    assert service.server.paid() == 3


@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize("status", [500, 503])
def test_a_creation_that_fails_at_the_server_is_looked_for_before_it_is_repeated(
    service: BaseBatchService, created: bool, status: int
) -> None:
    service.server.plans.append(Plan(create=Scripted.fault(status), created=created))
    requests = service.requests(2)

    async def work(batch: BatchProvider) -> list[Any]:
        first = await asyncio.gather(*map(batch.complete, requests), return_exceptions=True)
        return [first, await asyncio.gather(*map(batch.complete, requests))]

    first, second = service.session(work)
    assert service.kinds(first) == [FailureKind.RETRY if status == 500 else FailureKind.LATER] * 2
    assert service.kinds(second) == [Status.OK] * 2
    assert service.server.paid() == 2
    assert service.server.times(CREATE[service.kind]) == (1 if created else 2)


@pytest.mark.parametrize(
    ("fault", "kind"), [(429, FailureKind.RATE_LIMIT), (401, FailureKind.FATAL), (400, FailureKind.REJECTED)]
)
def test_a_refused_creation_is_classified_and_leaves_nothing_to_look_for(
    service: BaseBatchService, fault: int, kind: FailureKind
) -> None:
    service.server.plans.append(
        Plan(create=Scripted(status=fault, body={"error": {"message": "no", "code": fault}}), created=False)
    )
    assert service.kinds(service.ask(service.requests(2))) == [kind] * 2
    assert service.events() == ["intent", "void"]


def test_killed_while_a_job_is_live_it_is_waited_for(service: BaseBatchService) -> None:
    service.server.held = True
    requests = service.requests(4)
    service.abandon(requests[:3], lambda: service.server.times(LOOK[service.kind]) > 0)
    assert service.events() == ["intent", "job"]
    service.server.held = False
    assert service.kinds(service.ask(requests)) == [Status.OK] * 4
    first, second = service.server.jobs.values()
    assert len(service.server.keys_of(first)) == 3
    assert service.server.keys_of(second) == [request_key(requests[3])]
    assert service.server.paid() == 4


def test_killed_after_the_answers_came_nothing_is_asked_at_all(service: BaseBatchService) -> None:
    requests = service.requests(3)
    service.abandon(requests, lambda: "done" in (service.events() if (service.folder / "jobs.jsonl").exists() else []))
    asked = service.server.count()
    assert service.kinds(service.ask(requests)) == [Status.OK] * 3
    assert service.server.count() == asked


def test_answers_killed_between_download_and_their_note_are_collected_again(service: BaseBatchService) -> None:
    requests = service.requests(3)
    service.abandon(requests, lambda: "done" in (service.events() if (service.folder / "jobs.jsonl").exists() else []))
    log = service.folder / "jobs.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]) + '{"event":"do')
    assert service.kinds(service.ask(requests)) == [Status.OK] * 3
    assert service.server.paid() == 3
    assert len(service.server.jobs) == 1


def test_a_refusal_that_was_handed_over_is_asked_anew_by_the_next_run(service: BaseBatchService) -> None:
    service.server.answer = lambda seen: Scripted.fault("refusal")
    request = service.request(1)
    assert service.kinds(service.ask([request])) == [Status.REFUSED]
    service.server.answer = lambda seen: "a good answer"
    assert service.kinds(service.ask([request])) == [Status.OK]
    assert len(service.server.jobs) == 2


def test_an_answer_nobody_could_read_is_asked_anew_the_second_time(service: BaseBatchService) -> None:
    for jobs in (1, 1, 2, 2, 3):
        assert service.kinds(service.ask([service.request(1)])) == [Status.OK]
        assert len(service.server.jobs) == jobs


def test_partial_failures_come_back_one_by_one_and_only_they_go_again(service: BaseBatchService) -> None:
    worked: list[Seen] = []

    def answer(seen: Seen) -> Scripted | None:
        worked.append(seen)
        faults: dict[str, str | int] = {"1": 500, "2": 429, "3": 400, "4": "refusal", "5": "length"}
        fault = faults.get(seen.text.split()[-1]) if len(worked) <= 7 else None
        return Scripted.fault(fault) if fault is not None else None

    service.server.answer = answer
    requests = service.requests(7)

    async def work(batch: BatchProvider) -> list[Any]:
        first = await asyncio.gather(*map(batch.complete, requests), return_exceptions=True)
        again = [
            requests[number] for number, kind in enumerate(service.kinds(first)) if kind in ("retry", "rate_limit")
        ]
        return [first, await asyncio.gather(*map(batch.complete, again))]

    first, second = service.session(work)
    assert service.kinds(first) == [
        Status.OK,
        FailureKind.RETRY,
        FailureKind.RATE_LIMIT,
        FailureKind.REJECTED,
        Status.REFUSED,
        Status.TRUNCATED,
        Status.OK,
    ]
    assert service.kinds(second) == [Status.OK] * 2
    _, again = service.server.jobs.values()
    assert service.server.keys_of(again) == [request_key(requests[1]), request_key(requests[2])]
    assert max(service.server.good.values()) == 1


def test_a_parameter_that_the_lines_of_a_job_were_refused_for_is_not_in_the_next_job(service: BaseBatchService) -> None:
    message = "Unsupported value: 'temperature' does not support 0 with this model."

    def answer(seen: Seen) -> Scripted | None:
        sent = json.loads(seen.raw)
        refused = "temperature" in sent | sent.get("generationConfig", {})
        return Scripted(status=400, body={"error": {"message": message, "code": 400}}) if refused else None

    service.server.answer = answer
    requests = [replace(each, params={**each.params, "temperature": 0}) for each in service.requests(3)]

    async def work(batch: BatchProvider) -> list[Any]:
        first = await asyncio.gather(*map(batch.complete, requests), return_exceptions=True)
        assert batch.refused == {"temperature"}
        return [first, await asyncio.gather(*map(batch.complete, requests))]

    first, second = service.session(work)
    assert service.kinds(first) == [FailureKind.RETRY] * 3
    assert service.kinds(second) == [Status.OK] * 3
    assert max(service.server.good.values()) == 1


def test_a_line_that_says_later_is_not_put_into_jobs_for_as_long_as_patience_lasts(service: BaseBatchService) -> None:
    service.server.answer = lambda seen: Scripted.fault(503)
    assert service.kinds(service.ask(service.requests(2))) == [FailureKind.RETRY] * 2


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_of_a_job_that_ends_early_only_the_missing_go_again(service: BaseBatchService, end: str) -> None:
    service.server.plans.append(Plan(end=end, answered=2))
    requests = service.requests(5)
    first = service.ask(requests)
    assert service.kinds(first) == [Status.OK] * 2 + [FailureKind.RETRY] * 3
    assert end in str(first[4])
    assert service.kinds(service.ask(requests)) == [Status.OK] * 5
    _, again = service.server.jobs.values()
    assert service.server.keys_of(again) == [request_key(each) for each in requests[2:]]
    assert max(service.server.good.values()) == 1


def test_a_failed_job_fails_its_requests_and_no_others(service: BaseBatchService) -> None:
    service.server.plans.append(
        Plan(end="failed", errors=[{"code": "invalid_json_line", "message": "bad", "line": None}])
    )
    kinds = service.kinds(service.ask(service.requests(4), max_requests=3))
    expected = FailureKind.REJECTED if service.kind == "openai" else FailureKind.RETRY
    assert kinds == [expected] * 3 + [Status.OK]


def test_a_job_the_provider_forgot_is_sent_again(service: BaseBatchService) -> None:
    service.server.held = True
    requests = service.requests(2)
    service.abandon(requests, lambda: service.server.times(LOOK[service.kind]) > 0)
    service.server.held = False
    service.server.forgotten = set(service.server.jobs)

    async def work(batch: BatchProvider) -> list[Any]:
        first = await asyncio.gather(*map(batch.complete, requests), return_exceptions=True)
        return [first, await asyncio.gather(*map(batch.complete, requests))]

    first, second = service.session(work)
    assert service.kinds(first) == [FailureKind.RETRY] * 2
    assert [service.batch().classify(each).maybe_billed for each in first] == [True] * 2  # the job may have been billed
    assert service.kinds(second) == [Status.OK] * 2


def test_sizes_make_several_jobs(service: BaseBatchService) -> None:
    assert service.kinds(service.ask(service.requests(5), max_requests=2)) == [Status.OK] * 5
    assert sorted(len(service.server.keys_of(job)) for job in service.server.jobs.values()) == [1, 2, 2]


def test_bytes_make_several_jobs_and_one_that_is_too_large_fails_alone(service: BaseBatchService) -> None:
    requests = service.requests(4)
    big = service.request(0, sample=1)
    parts = (Message("user", ("x" * 2000,)),)
    from dataclasses import replace

    found = service.ask([*requests, replace(big, messages=parts)], max_bytes=700)
    assert service.kinds(found[:4]) == [Status.OK] * 4
    assert "2" in str(found[4])
    assert len(service.server.jobs) >= 2
    assert all(len(service.server.files[job.source]) <= 700 for job in service.server.jobs.values())


def test_a_look_that_fails_is_repeated(service: BaseBatchService) -> None:
    for fault in (Scripted.fault(503), Scripted.fault("drop_before"), Scripted.fault(429)):
        service.server.faults.append((LOOK[service.kind], fault))
    assert service.kinds(service.ask(service.requests(2))) == [Status.OK] * 2
    assert service.server.paid() == 2
    assert any("trying again" in line for line in service.said)


def test_a_key_that_is_not_accepted_any_more_ends_the_waiting(service: BaseBatchService) -> None:
    service.server.faults.append((LOOK[service.kind], Scripted.fault("bad_key")))
    found = service.ask(service.requests(3))
    assert service.kinds(found) == [FailureKind.FATAL] * 3
    assert service.events() == ["intent", "job"]
    assert service.kinds(service.ask(service.requests(3))) == [Status.OK] * 3
    assert len(service.server.jobs) == 1


def test_an_upload_that_fails_is_an_ordinary_failure(service: BaseBatchService) -> None:
    part = {"openai": "POST /v1/files", "gemini": "POST /upload/v1beta/files"}[service.kind]
    service.server.faults.append((part, Scripted.fault(503)))
    found = service.ask(service.requests(2))
    assert service.kinds(found) == [FailureKind.LATER] * 2
    assert not list(service.folder.glob("*.part"))
    assert service.events() == []


def test_leaving_stops_the_waiting_and_not_the_job(service: BaseBatchService) -> None:
    service.server.held = True
    requests = service.requests(3)

    async def work(batch: BatchProvider) -> Any:
        tasks = [asyncio.ensure_future(batch.complete(each)) for each in requests]
        while service.server.times(LOOK[service.kind]) == 0:
            await asyncio.sleep(0.005)
        batch.leave()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(each, asyncio.CancelledError) for each in service.session(work))
    assert any("run the command again" in line for line in service.said)
    service.server.held = False
    assert service.kinds(service.ask(requests)) == [Status.OK] * 3
    assert len(service.server.jobs) == 1


def test_what_is_asked_while_a_job_is_live_goes_into_the_next(service: BaseBatchService) -> None:
    requests = service.requests(4)
    service.server.held = True

    async def work(batch: BatchProvider) -> Any:
        tasks = [asyncio.ensure_future(batch.complete(each)) for each in requests[:2]]
        while not service.server.jobs:
            await asyncio.sleep(0.005)
        tasks += [asyncio.ensure_future(batch.complete(each)) for each in requests[2:]]
        while len(service.server.jobs) < 2:
            await asyncio.sleep(0.005)
        service.server.held = False
        return await asyncio.gather(*tasks)

    assert service.kinds(service.session(work)) == [Status.OK] * 4
    assert service.server.paid() == 4


def test_the_key_is_written_nowhere(service: BaseBatchService, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-abcdef0123456789"
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, secret)
    service.server.faults.append((LOOK[service.kind], Scripted(status=500, body={"error": {"message": secret}})))
    found = service.ask(service.requests(2))
    assert service.kinds(found) == [Status.OK] * 2
    assert all(secret in str(seen.headers) for seen in service.server.requests if "/upload/here" not in seen.path)
    assert secret not in "\n".join(service.said)
    for path in service.folder.rglob("*"):
        assert secret not in path.read_text()


def test_a_server_without_json_schemas_is_asked_in_words_by_the_next_job(tmp_path: Path) -> None:
    with BatchServer(lambda seen: Scripted.fault("no_schema") if seen.schema else '{"score": 3}') as server:
        service = BaseBatchService(server, "openai", tmp_path)
        request = service.request(1, schema=SCHEMA, schema_name="Verdict")

        async def work(batch: BatchProvider) -> Any:
            (first,) = await asyncio.gather(batch.complete(request), return_exceptions=True)
            return [first, await batch.complete(request)]

        first, second = service.session(work)
        assert service.kinds([first, second]) == [FailureKind.RETRY, Status.OK]
        assert set(second.flags) == {"schema-in-prompt", "batch"}


def test_lines_the_provider_rejects_are_named_and_the_others_go_again(tmp_path: Path) -> None:
    with BatchServer() as server:
        service = BaseBatchService(server, "openai", tmp_path)
        errors = [{"code": "invalid_value", "message": "no such detail", "line": 2}]
        server.plans.append(Plan(end="failed", errors=errors))
        found = service.ask(service.requests(3))
        assert service.kinds(found) == [FailureKind.RETRY, FailureKind.REJECTED, FailureKind.RETRY]
        assert "no such detail" in str(found[1])


def test_a_full_queue_makes_smaller_jobs(tmp_path: Path) -> None:
    with BatchServer() as server:
        service = BaseBatchService(server, "openai", tmp_path)
        full = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}]
        server.plans.append(Plan(end="failed", errors=full))
        assert service.kinds(service.ask(service.requests(4))) == [Status.OK] * 4
        assert [len(server.keys_of(job)) for job in server.jobs.values()] == [4, 2, 2]
        assert server.paid() == 4
        assert any("queue is full" in line for line in service.said)


def test_a_full_queue_waits_for_our_own_jobs(tmp_path: Path) -> None:
    with BatchServer() as server:
        service = BaseBatchService(server, "openai", tmp_path)
        full = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}]
        server.plans += [Plan(polls=20), Plan(end="failed", errors=full)]
        assert service.kinds(service.ask(service.requests(6), max_requests=3)) == [Status.OK] * 6
        assert [len(server.keys_of(job)) for job in server.jobs.values()] == [3, 3, 3]
        first, _, third = server.jobs.values()
        assert first.ended
        assert server.paid() == 6
        assert third.ended
