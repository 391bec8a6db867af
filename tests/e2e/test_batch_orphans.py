"""What batch jobs of an earlier session hold is paid, whether anybody asks for it again or not: it counts against the cap."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from batch_server import BatchServer, Job, Plan, full_jobs
from PIL import Image

from tests.kit import Scripted, Seen
from titjudge.core.config import load_config
from titjudge.core.errors import CacheWriteError, FatalProviderError
from titjudge.core.types import Status
from titjudge.providers.batch import provider
from titjudge.providers.batch.gemini import GeminiBatches
from titjudge.providers.batch.journal import JobJournal
from titjudge.providers.batch.openai import OpenAIBatches
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.outcome import Outcome
from titjudge.runs.session import Session, Watcher

ITEMS = 6
GOOD = json.dumps({"score": 7, "reason": "because"})
PRICE = (100 * 1000 + 20 * 1000) / 1e6  # USD: what the server bills for a line

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")


def answer(seen: Seen) -> Scripted:
    return Scripted(GOOD, usage={"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(provider, "BatchTiming", provider.BatchTiming)  # put back in the end
    monkeypatch.setenv("GEMINI_API_KEY", "key-of-nobody")
    full_jobs(ITEMS)
    with BatchServer(answer) as running:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", running.openai)
        yield running


def fill(data: Path, begin: int) -> None:
    """ITEMS images with prompts, in place of those that were there."""
    data.mkdir(exist_ok=True)
    for old in data.iterdir():
        old.unlink()
    for number in range(begin, begin + ITEMS):
        Image.new("RGB", (8, 8), (number, 1, 2)).save(data / f"{number}.png")
        (data / f"{number}.txt").write_text(f"a red cube, number {number}")


class Interrupting(Watcher):
    """Ctrl-C as soon as a job is with the provider: from then on the run is as a kill would leave it."""

    def say(self, line: str) -> None:
        if "submitted" in line:
            os.kill(os.getpid(), signal.SIGINT)


def judged(
    tmp_path: Path, watcher: Watcher | None = None, *, cap: float, role: dict[str, Any] | None = None, **limits: Any
) -> Outcome:
    idle = 600 if watcher else 0.05  # what is interrupted sends one full job, however slowly its requests come
    limits = {"max_cost": cap, "batch": True, "batch_poll": 0.02, "batch_idle": idle, **limits}
    role = role or {"model": "openai/gpt-4o", "max_tokens": 100}
    settings = {
        "data": tmp_path / "data", "metrics": ["lmm-score"], "captioner": role, "judge": role, "out": tmp_path / "run",
        "cache": tmp_path / "cache", "report": False, "limits": limits,
        "prices": {name: {"input": 1000, "output": 1000} for name in ("gpt-4o", "gemini-2.5-pro")},
    }  # fmt: skip
    return Session(load_config(None, settings)).run(watcher)


def finish_jobs(server: BatchServer) -> None:
    for job in server.jobs.values():
        job.plan.polls = 1


def scored(tmp_path: Path) -> list[Status]:
    return [score.status for score in RunFolder(tmp_path / "run").scores().values()]


def test_answers_that_nobody_takes_count_against_the_cap_of_later_sessions(tmp_path: Path, server: BatchServer) -> None:
    fill(tmp_path / "data", 0)
    server.plans.append(Plan(polls=10**9))
    first = judged(tmp_path, Interrupting(), cap=1000)
    worst = RunFolder(tmp_path / "run").used()["max_cost"]
    assert first.uncertain == pytest.approx(worst)
    finish_jobs(server)
    cap = worst * 1.4  # for two or three questions more, at their worst
    for begin in (100, 200, 300):  # other items each time: what was asked before is never asked again
        fill(tmp_path / "data", begin)
        judged(tmp_path, cap=cap)
        assert RunFolder(tmp_path / "run").used()["max_cost"] <= cap
    lines = sum(len(server.keys_of(job)) for job in server.jobs.values())
    assert lines > ITEMS
    assert lines * PRICE <= cap


@pytest.mark.parametrize("service", ["openai", "gemini"])
@pytest.mark.parametrize("batch", [True, False])
def test_a_job_that_nobody_asks_for_again_leaves_no_room_under_a_cap_that_it_fills(
    tmp_path: Path, server: BatchServer, service: str, batch: bool
) -> None:
    role = role_of(service, server)
    fill(tmp_path / "data", 0)
    server.plans.append(Plan(polls=10**9))
    judged(tmp_path, Interrupting(), cap=1000, role=role)
    worst = RunFolder(tmp_path / "run").used()["max_cost"]
    assert worst > 0
    finish_jobs(server)
    fill(tmp_path / "data", 100)  # other images: what the job holds is never asked for again
    later = judged(tmp_path, cap=worst * 1.01, role=role, batch=batch)
    assert later.status == "incomplete: budget"
    assert later.uncertain == pytest.approx(worst)
    assert RunFolder(tmp_path / "run").manifest().uncertain == pytest.approx(worst)
    assert sum(len(server.keys_of(job)) for job in server.jobs.values()) == ITEMS


def test_what_jobs_hold_is_collected_under_a_cap_without_room_for_it_a_second_time(
    tmp_path: Path, server: BatchServer
) -> None:
    fill(tmp_path / "data", 0)
    server.plans.append(Plan(polls=10**9))
    judged(tmp_path, Interrupting(), cap=1000)
    worst = RunFolder(tmp_path / "run").used()["max_cost"]
    finish_jobs(server)
    outcome = judged(tmp_path, cap=worst * 1.01)
    assert (outcome.status, outcome.uncertain) == ("complete", 0.0)
    assert scored(tmp_path) == [Status.OK] * ITEMS
    assert (len(server.jobs), server.paid()) == (1, ITEMS)
    assert outcome.results.spent == pytest.approx(ITEMS * PRICE)
    assert judged(tmp_path, cap=worst * 1.01).status == "complete"
    assert (len(server.jobs), server.paid()) == (1, ITEMS)


def test_requests_and_tokens_of_jobs_that_nobody_collects_count_too(tmp_path: Path, server: BatchServer) -> None:
    fill(tmp_path / "data", 0)
    server.plans.append(Plan(polls=10**9))
    judged(tmp_path, Interrupting(), cap=1000)
    finish_jobs(server)
    fill(tmp_path / "data", 100)
    outcome = judged(tmp_path, cap=1000, max_requests=ITEMS + 2)
    assert "requests reached" in outcome.reason
    assert sum(len(server.keys_of(job)) for job in server.jobs.values()) == ITEMS + 2


def role_of(service: str, server: BatchServer) -> dict[str, Any]:
    if service == "openai":
        return {"model": "openai/gpt-4o", "max_tokens": 100, "base_url": server.openai}
    return {"model": "gemini/gemini-2.5-pro", "max_tokens": 100, "thinking_budget": 0, "base_url": server.url}


def billed_by(server: BatchServer) -> float:
    """USD, once every job has ended."""
    server.held = False
    for job in server.jobs.values():
        server._looked_at(job.id)
    live = server.times("POST /v1/chat/completions") + server.times(":generateContent")
    return (len(server.lines) + live) * PRICE


def refused(status: int) -> Scripted:
    return Scripted(status=status, body={"error": {"code": status, "message": "no", "status": "X"}})


@pytest.mark.parametrize("service", ["openai", "gemini"])
@pytest.mark.parametrize("trouble", ["401", "403", "unforeseen", "disk"])
def test_a_live_job_stays_in_the_ledger_whatever_becomes_of_a_look_at_it(
    tmp_path: Path, server: BatchServer, service: str, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "data", 0)
    server.held = trouble != "disk"
    role = role_of(service, server)
    with monkeypatch.context() as patch, contextlib.suppress(FatalProviderError):
        if trouble == "unforeseen":
            kind = OpenAIBatches if service == "openai" else GeminiBatches
            patch.setattr(kind, "status", mock.Mock(side_effect=ZeroDivisionError))
        elif trouble == "disk":
            patch.setattr(JobJournal, "done", mock.Mock(side_effect=CacheWriteError("no space is left")))
        else:
            look = "GET /v1/batches/" if service == "openai" else "GET /v1beta/batches/"
            server.faults += [(look, refused(int(trouble)))] * 100
        judged(tmp_path, cap=1000, role=role)
    left = RunFolder(tmp_path / "run").money()
    assert (left.requests, left.spent, len(left.in_jobs)) == (ITEMS, 0.0, ITEMS)
    server.faults.clear()
    cap = left.uncertain * 1.5
    judged(tmp_path, cap=cap, role=role, batch=False)
    assert billed_by(server) <= RunFolder(tmp_path / "run").used()["max_cost"] <= cap
    assert judged(tmp_path, cap=1000, role=role).status == "complete"  # what the job holds can still be collected
    assert len(server.jobs) == 1


def test_lines_that_a_job_leaves_out_count_though_nobody_waited_for_them(tmp_path: Path, server: BatchServer) -> None:
    fill(tmp_path / "data", 0)
    server.plans.append(Plan(polls=10**9, answered=1))
    judged(tmp_path, Interrupting(), cap=1000)
    worst = RunFolder(tmp_path / "run").used()["max_cost"] / ITEMS
    finish_jobs(server)
    fill(tmp_path / "data", 100)
    judged(tmp_path, cap=1000)  # it collects the first job, and asks for nothing of it
    fill(tmp_path / "data", 0)
    assert judged(tmp_path, cap=1000).status == "complete"
    used = RunFolder(tmp_path / "run").money()
    assert used.uncertain == pytest.approx((ITEMS - 1) * worst)
    assert used.spent == pytest.approx(2 * ITEMS * PRICE)


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_a_line_that_a_job_which_ended_early_does_not_name_may_be_billed(
    tmp_path: Path, server: BatchServer, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenAI names each request that such a job did not work off: one in no file at all was, and is billed."""
    fill(tmp_path / "data", 0)
    finish = server._finish

    def leaving_one_out(job: Job) -> None:
        finish(job)
        if job.output and len(server.jobs) == 1:
            server.files[job.output] = b"\n".join(server.files[job.output].splitlines()[1:]) + b"\n"

    monkeypatch.setattr(server, "_finish", leaving_one_out)
    server.plans.append(Plan(end=end, answered=ITEMS - 1))
    assert judged(tmp_path, cap=1000).status == "complete"
    money = RunFolder(tmp_path / "run").money()
    assert money.spent + money.uncertain >= billed_by(server)
    assert money.uncertain > PRICE


def test_a_creation_that_may_have_been_stays_in_the_ledger(tmp_path: Path, server: BatchServer) -> None:
    fill(tmp_path / "data", 0)
    server.held = True
    server.plans.append(Plan(create=Scripted(status=500, body={"error": {"message": "no"}})))
    server.faults.append(("GET /v1/batches", refused(401)))
    with pytest.raises(FatalProviderError):
        judged(tmp_path, cap=1000)
    left = RunFolder(tmp_path / "run").money()
    assert (left.requests, left.spent, len(left.in_jobs)) == (ITEMS, 0.0, ITEMS)
    server.held = False
    assert judged(tmp_path, cap=1000).status == "complete"
    assert (len(server.jobs), RunFolder(tmp_path / "run").money().uncertain) == (1, 0.0)


@pytest.mark.parametrize("status", [408, 502, 504])
def test_a_line_that_a_gateway_gave_up_on_may_be_billed_as_a_live_request_may(
    tmp_path: Path, server: BatchServer, status: int
) -> None:
    fill(tmp_path / "data", 0)
    given_up: list[str] = []
    usual = server.answer

    def first_line_gives_up(seen: Seen) -> Scripted | str | None:
        given_up.append(seen.path)
        return Scripted(status=status, body={"error": {"message": "no"}}) if len(given_up) == 1 else usual(seen)

    server.answer = first_line_gives_up
    assert judged(tmp_path, cap=1000).status == "complete"
    money = RunFolder(tmp_path / "run").money()
    assert len(given_up) == ITEMS + 1
    assert money.spent == pytest.approx(ITEMS * PRICE)
    assert money.uncertain >= PRICE
