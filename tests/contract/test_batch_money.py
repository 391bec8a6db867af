"""What batch jobs cost when their answers cannot be had or read, and where their requests may go."""

import asyncio
import gzip
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Plan
from test_batch_services import LOOK, BaseBatchService

from tests.kit import Scripted, Server
from tests.kit.wires import HTML
from titjudge.core.errors import Unanswered
from titjudge.core.types import Failure, FailureKind, Reply, Status
from titjudge.providers.batch.provider import Batches, BatchProvider, folder_name
from titjudge.providers.batch.queue import BatchTiming

pytestmark = [
    pytest.mark.slow,  # many in all, each of them short
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]
CONTENT = {"openai": "/content", "gemini": ":download"}
UPLOAD = {"openai": "POST /v1/files", "gemini": "POST /upload/v1beta/files"}
NOT_FOUND = Scripted(status=404, body={"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}})


@pytest.fixture(params=["openai", "gemini"])
def service(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BaseBatchService]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-nobody")
    with BatchServer() as server:
        yield BaseBatchService(server, request.param, tmp_path / "jobs")


def test_a_404_that_passes_costs_nothing(service: BaseBatchService) -> None:
    service.server.plans.append(Plan(polls=2))
    service.server.faults += [(LOOK[service.kind], NOT_FOUND), (CONTENT[service.kind], NOT_FOUND)]
    found = service.ask(service.requests(4))
    assert service.kinds(found) == [Status.OK] * 4
    assert (service.server.paid(), len(service.server.jobs)) == (4, 1)
    assert any("looking again" in line for line in service.said)
    assert service.events().count("void") == 0


@pytest.mark.parametrize("body", [b"", HTML, b'{"custom_id": "ask:1"', b"\x80\x81" * 500, b"[" * 50_000])
def test_answers_that_cannot_be_read_are_billed_and_asked_for_once_more(service: BaseBatchService, body: bytes) -> None:
    service.server.faults += [(CONTENT[service.kind], Scripted(body=body))] * 3 * 2  # three downloads of each job
    requests = service.requests(3)

    async def work(batch: BatchProvider) -> list[Any]:
        rounds = []
        for _ in range(2):
            found = await asyncio.gather(*map(batch.complete, requests), return_exceptions=True)
            rounds.append([batch.classify(each) for each in found if isinstance(each, Exception)])
        return rounds

    first, second = service.session(work)
    assert [(each.kind, each.maybe_billed, each.answered) for each in first] == [(FailureKind.RETRY, True, True)] * 3
    assert [(each.kind, each.maybe_billed) for each in second] == [(FailureKind.REJECTED, True)] * 3
    assert len(service.server.jobs) == 2
    later = service.ask(requests)  # another process
    assert [type(each) for each in later] == [Unanswered] * 3
    assert len(service.server.jobs) == 2


@pytest.mark.parametrize("body", [b" ", HTML, b'{"error": {"message": "later"}}', b"half", b"null\n[1]", "fewer lines"])
@pytest.mark.parametrize("count", [1, 4])
def test_a_file_that_is_not_a_result_is_downloaded_again_before_anything_is_sent(
    service: BaseBatchService, body: bytes | str, count: int
) -> None:
    if isinstance(body, str):
        finish = service.server._finish

        def cut(job: Any) -> None:
            finish(job)
            whole = service.server.files[job.output].splitlines()
            service.server.faults.append((CONTENT[service.kind], Scripted(body=b"\n".join(whole[1:]))))
            service.server.files[job.output] = b"\xef\xbb\xbf" + b"\r\n".join(whole)

        service.server._finish = cut  # type: ignore[method-assign]
    else:
        service.server.faults += [(CONTENT[service.kind], Scripted(body=body))] * 2
    assert service.kinds(service.ask(service.requests(count), gone=60.0)) == [Status.OK] * count
    assert (service.server.paid(), len(service.server.jobs)) == (count, 1)


def test_a_kill_between_both_tries_does_not_make_a_third(service: BaseBatchService) -> None:
    requests = service.requests(2)
    for jobs in (1, 2, 2):
        service.server.faults += [(CONTENT[service.kind], Scripted(body=HTML))] * 3
        assert not any(isinstance(each, Reply) for each in service.ask(requests))
        assert len(service.server.jobs) == jobs
        service.server.faults.clear()


def test_retry_failed_asks_for_what_was_given_up(service: BaseBatchService) -> None:
    requests = service.requests(2)
    for _ in range(2):
        service.server.faults += [(CONTENT[service.kind], Scripted(body=HTML))] * 3
        service.ask(requests)
    place = service.folder.parent
    real = service.real()
    service.folder.rename(place / folder_name(real))
    pace = BatchTiming(poll=0.01, idle=0.01, settle=0.0, gone=0.0)

    async def work(again: bool) -> list[Any]:
        provider = Batches(place, pace=pace, again=again).wrap(service.real())
        try:
            return await asyncio.gather(*map(provider.complete, requests), return_exceptions=True)
        finally:
            await provider.aclose()

    assert [type(each) for each in asyncio.run(work(False))] == [Unanswered] * 2
    assert service.kinds(asyncio.run(work(True))) == [Status.OK] * 2


def test_a_line_that_cannot_be_read_may_have_been_billed(service: BaseBatchService) -> None:
    def broken(job: Any) -> bytes:
        lines = [json.loads(line) for line in service.server.files[job.output].splitlines()]
        for line in lines:
            if service.kind == "openai":
                line["response"]["body"] = [1]
            else:
                line["response"] = {"candidates": 7}
        return b"\n".join(json.dumps(line).encode() for line in lines)

    finish = service.server._finish
    service.server._finish = lambda job: (finish(job), service.server.files.update({job.output: broken(job)}))[0]  # type: ignore[method-assign]
    found = service.ask(service.requests(2))
    batch = service.batch()
    assert [(batch.classify(each).maybe_billed, batch.classify(each).answered) for each in found] == [(True, True)] * 2


def test_lines_that_a_job_leaves_out_are_told_to_whoever_asks_next(service: BaseBatchService) -> None:
    requests = service.requests(3)
    service.server.plans.append(Plan(polls=10**9, answered=1))
    service.abandon(requests, lambda: any(job.looks for job in service.server.jobs.values()))
    for job in service.server.jobs.values():
        job.plan.polls = 1
    assert service.kinds(service.ask([service.request(9)])) == [
        Status.OK
    ]  # this session collects, and asks other things
    first = service.ask(requests)
    batch = service.batch()
    left_out = [batch.classify(each) for each in first if isinstance(each, Exception)]
    assert [(each.kind, each.maybe_billed, each.answered) for each in left_out] == [(FailureKind.RETRY, True, True)] * 2
    assert service.kinds(service.ask(requests[1:])) == [Status.OK] * 2
    assert [len(service.server.keys_of(job)) for job in service.server.jobs.values()] == [3, 1, 2]


@pytest.mark.parametrize("created", [True, False])
def test_a_job_without_an_id_is_looked_for_by_its_tag(service: BaseBatchService, created: bool) -> None:
    nameless = Scripted(body={"id": None, "name": None, "metadata": {}})
    service.server.plans.append(Plan(create=nameless, created=created))
    requests = service.requests(2)
    assert service.kinds(service.ask(requests)) == [FailureKind.RETRY] * 2
    assert service.kinds(service.ask(requests)) == [Status.OK] * 2
    assert len(service.server.jobs) == 1
    assert any("that an earlier try created" in line for line in service.said) == created


class _Plain(socketserver.BaseRequestHandler):
    """Answers whatever comes, without TLS."""

    def handle(self) -> None:
        self.request.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")


def test_a_server_without_tls_is_named_at_once(service: BaseBatchService) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Plain) as plain:
        threading.Thread(target=plain.serve_forever, daemon=True).start()
        real = service.real()
        base = f"https://127.0.0.1:{plain.server_address[1]}" + ("/v1" if service.kind == "openai" else "")
        moved: Any = type(real)(replace(real.settings, base_url=base))
        service.real = lambda: moved  # type: ignore[method-assign]
        found = service.ask(service.requests(2))
        plain.shutdown()
    assert service.kinds(found) == [FailureKind.FATAL] * 2
    assert all("SSL" in str(each) for each in found)


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("step", ["upload", "look", "content"])
def test_no_redirect_is_followed(service: BaseBatchService, status: int, step: str) -> None:
    where = {"upload": UPLOAD, "look": LOOK, "content": CONTENT}[step][service.kind]
    with Server() as other:
        moved = Scripted(status=status, headers={"Location": f"{other.url}/v1/elsewhere"}, body=b"")
        service.server.faults.append((where, moved))
        found = service.ask(service.requests(1))
        assert other.count() == 0
    assert service.kinds(found) == [FailureKind.FATAL]


def test_an_upload_goes_to_no_other_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-nobody")
    with BatchServer() as server, Server() as other:
        service = BaseBatchService(server, "gemini", tmp_path / "jobs")
        elsewhere = f"{other.url.replace('127.0.0.1', 'localhost')}/upload/here/0"
        server.faults.append((UPLOAD["gemini"], Scripted(body={}, headers={"X-Goog-Upload-URL": elsewhere})))
        found = service.ask(service.requests(1))
        assert other.count() == 0
    assert service.kinds(found) == [FailureKind.FATAL]


def test_a_file_of_answers_is_read_up_to_a_limit(service: BaseBatchService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titjudge.providers.batch.service.LONGEST_FILE", 2**20)
    bomb = Scripted(body=gzip.compress(b" " * 2**24), headers={"Content-Encoding": "gzip"})
    service.server.faults += [(CONTENT[service.kind], bomb)] * 2
    found = service.ask(service.requests(2))
    assert service.kinds(found) == [Status.OK] * 2  # the third download was a good one
    assert any("longer than 1 MB" in line for line in service.said)


def test_odd_looks_between_do_not_begin_the_wait_for_a_result_anew(service: BaseBatchService) -> None:
    look, looks = getattr(service.server, f"_{service.kind}_look"), 0

    def odd_at_times(seen: Any, ident: str) -> Any:
        nonlocal looks
        looks += 1
        return (
            look(seen, ident) if looks % 2 else Scripted(body={"id": ident, "name": ident, "status": "?", "state": "?"})
        )

    setattr(service.server, f"_{service.kind}_look", odd_at_times)
    service.server.faults += [(CONTENT[service.kind], Scripted(body=HTML))] * 500

    async def work(batch: BatchProvider) -> Failure:
        with pytest.raises(Exception) as caught:
            await asyncio.wait_for(batch.complete(service.request(1)), 10)
        return batch.classify(caught.value)

    found = service.session(work)
    assert (found.maybe_billed, found.answered) == (True, True)
    assert looks < 20
