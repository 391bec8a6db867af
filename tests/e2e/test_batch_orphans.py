"""What batch jobs of an earlier session hold is paid, whether anybody asks for it again or not: it counts against the cap."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer, Plan, full_jobs
from PIL import Image
from servers import Scripted, Seen

from titjudge.core.config import load_config
from titjudge.core.types import Status
from titjudge.providers.batch import provider
from titjudge.runs.run_folder import RunFolder
from titjudge.runs.session import Outcome, Session, Watcher

ITEMS = 6
GOOD = json.dumps({"score": 7, "reason": "because"})
PRICE = (100 * 1000 + 20 * 1000) / 1e6  # USD: what the server bills for a line

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")


def answer(seen: Seen) -> Scripted:
    return Scripted(GOOD, usage={"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(provider, "BatchTiming", provider.BatchTiming)  # put back in the end
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


def judged(tmp_path: Path, watcher: Watcher | None = None, *, cap: float, **limits: Any) -> Outcome:
    idle = 600 if watcher else 0.05  # what is interrupted sends one full job, however slowly its requests come
    limits = {"max_cost": cap, "batch": True, "batch_poll": 0.02, "batch_idle": idle, **limits}
    role = {"model": "openai/gpt-4o", "max_tokens": 100}
    settings = {
        "data": tmp_path / "data", "metrics": ["lmm-score"], "captioner": role, "judge": role, "out": tmp_path / "run",
        "cache": tmp_path / "cache", "report": False, "prices": {"gpt-4o": {"input": 1000, "output": 1000}},
        "limits": limits,
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
    assert outcome.results["spent"] == pytest.approx(ITEMS * PRICE)
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
