"""Two-stage runs through batch jobs: with the engine alone, and as a shell would start them."""

import asyncio
import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import batch_server
import commands
import pytest
from answers import verdict
from batch_server import BatchServer, Plan
from builders import described_images

from tests.kit import Scripted, Seen
from titjudge.cli.judge import judge
from titjudge.core import registry
from titjudge.core.config import RoleConfig, RunConfig
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Score
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.providers.batch import provider
from titjudge.providers.batch.provider import Batches, BatchTiming
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.loop import RunLoop
from titjudge.suites.folder import Folder

WIRED = any(option.name == "batch" for option in judge.params)
VERDICT = verdict(61)

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
cli_only = pytest.mark.skipif(not WIRED, reason="judge has no --batch yet")


def good(seen: Seen) -> str:
    return "A description." if seen.images else VERDICT


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return described_images(tmp_path / "data", 6, "a red cube, number {number}")


# ---------------------------------------------------------------------- the engine


FULL = {"idle": 600.0, "max_requests": 6}  # jobs are sent when they are full, however slowly the requests come


@dataclass
class Session:
    data: Path
    server: BatchServer
    model: str = "openai/gpt-4o"

    def run(self, until: Callable[[Engine, list[Score]], bool] | None = None, **pace: float) -> list[Score]:
        """Judge everything; or stop, as one Ctrl-C does, when `until` holds."""
        return asyncio.run(
            self._run(until, BatchTiming(**{"poll": 0.02, "idle": 0.05, "settle": 0.0, "gone": 0.0, **pace}))
        )  # type: ignore[arg-type]

    async def _run(self, until: Callable[[Engine, list[Score]], bool] | None, pace: BatchTiming) -> list[Score]:
        address = self.server.openai if self.model.startswith("openai") else self.server.url
        role = RoleConfig(model=self.model, base_url=address)
        config = RunConfig(data=self.data, captioner=role, judge=role, limits={"concurrency": 4096})  # type: ignore[arg-type]
        batches = Batches(self.data.parent / "run" / "batches", pace=pace)

        def make(which: RoleConfig) -> Any:
            return batches.wrap(registry.load("providers", which.provider)(which.settings(60)))

        cache = AnswerCache(self.data.parent / "cache")
        engine = Engine(Roles(config, make=make), PromptLibrary(None), cache)
        scores: list[Score] = []
        metrics = {"tit-llm": registry.load("metrics", "tit-llm")}
        loop = RunLoop(engine, metrics, on_score=lambda score, of: scores.append(score), in_flight=64)
        task = asyncio.ensure_future(loop.run(Folder().load(self.data)))
        while until is not None and not until(engine, scores):
            await asyncio.sleep(0.005)
        if until is not None:
            loop.close("interrupted")
            for each in engine.roles.open():
                each.provider.leave()  # type: ignore[attr-defined]
        try:
            await asyncio.wait_for(task, 120)
        finally:
            await engine.aclose()
            cache.close()
        return scores


@pytest.mark.parametrize("model", ["openai/gpt-4o", "gemini/gemini-2.5-pro"])
def test_the_second_stage_is_submitted_as_the_first_returns(data: Path, model: str) -> None:
    with BatchServer(good) as server:
        scores = Session(data, server, model).run(**FULL)
        assert [score.value for score in scores] == [61] * 6
        assert [len(server.keys_of(job)) for job in server.jobs.values()] == [6, 6]
        assert [bool(line.images) for line in server.lines] == [True] * 6 + [False] * 6
        assert server.paid() == 12
        assert server.count("openai") == server.count("gemini") == 0


def test_what_fails_in_a_job_goes_into_the_next_and_only_that(data: Path) -> None:
    failing = iter([Scripted.fault(500), Scripted.fault(503)])
    with BatchServer(lambda seen: next(failing, None) or good(seen)) as server:
        server.plans += [Plan(), Plan(end="expired", answered=3)]
        scores = Session(data, server).run()
        assert [score.value for score in scores] == [61] * 6
        assert server.paid() == 12
        assert max(server.good.values()) == 1


def test_stopped_and_started_again_nothing_is_asked_twice(data: Path) -> None:
    with BatchServer(good) as server:
        session = Session(data, server)
        server.held = True
        assert session.run(lambda engine, scores: server.times("GET /v1/batches/") > 0, **FULL) == []
        server.held = False
        server.plans += [Plan(polls=10**9)]
        assert session.run(lambda engine, scores: len(server.jobs) == 2, **FULL) == []
        for job in server.jobs.values():
            job.plan.polls = 1
        assert [score.value for score in session.run(**FULL)] == [61] * 6
        assert len(server.jobs) == 2
        assert server.paid() == 12


def test_a_wrong_key_ends_the_run(data: Path) -> None:
    from titjudge.core.errors import FatalProviderError

    with BatchServer(good) as server:
        server.faults.append(("POST /v1/files", Scripted.fault("bad_key")))
        with pytest.raises(FatalProviderError):
            Session(data, server).run()
        assert server.jobs == {}


# ---------------------------------------------------------------------- the command


COMMAND = ("judge", "--data", "data", "--metric", "tit-llm", "--batch", "--config", "run.yaml", "--json", "out.json")


FULL_JOBS = """
from batch_server import full_jobs
from titjudge.cli import main
full_jobs(6)
main()
"""


@pytest.fixture
def full_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a job when it holds the requests of all six images."""
    monkeypatch.setattr(provider, "BatchTiming", provider.BatchTiming)  # put back in the end
    batch_server.full_jobs(6)


def hosted(folder: Path, server: BatchServer, idle: float) -> dict[str, str]:
    """Also writes the configuration that COMMAND names."""
    (folder / "run.yaml").write_text(json.dumps({"limits": {"batch_poll": 0.05, "batch_idle": idle}, "report": False}))
    openai = {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": server.openai}
    return {**openai, "GEMINI_API_KEY": "AIza-test-0123456789", "GOOGLE_GEMINI_BASE_URL": server.url}


def judged(folder: Path, *arguments: str, server: BatchServer, code: int = 0, idle: float = 600) -> str:
    return commands.cli(folder, *COMMAND, *arguments, code=code, **hosted(folder, server, idle))


def start(folder: Path, *arguments: str, server: BatchServer) -> commands.Started:
    return commands.start(folder, *COMMAND, *arguments, script=FULL_JOBS, **hosted(folder, server, 600))


def finished(process: commands.Started, code: int = 0) -> str:
    with process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out + err


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@cli_only
@pytest.mark.usefixtures("full_jobs")
@pytest.mark.parametrize("vendor", ["openai", "gemini"])
def test_judge_in_batches_costs_what_the_user_says_it_does(tmp_path: Path, data: Path, vendor: str) -> None:
    with BatchServer(good) as server:
        model = {"openai": "gpt-4o", "gemini": "gemini-2.5-pro"}[vendor]
        out = judged(tmp_path, "--provider", vendor, "--price", f"{model}=2,10", server=server)
        found = json.loads((tmp_path / "out.json").read_text())
        assert found["metrics"]["tit-llm"]["coverage"] == 1
        assert len(server.jobs) == 2
        assert server.paid() == 12
        assert server.count(vendor) == 0
        assert "submitted" in out
        assert "6 of 6 answered" in out
        batched = found["spent"]
    replies = [
        json.loads(line) for path in tmp_path.glob("runs/*/replies.jsonl") for line in path.read_text().splitlines()
    ]
    assert all(reply["flags"] == ["batch"] for reply in replies)
    tokens = [reply["usage"] for reply in replies]
    listed = sum(2 * each[0] + 10 * each[1] for each in tokens) / 1e6
    assert batched == pytest.approx(listed, abs=2e-6)  # this server is not the vendor's: nobody promised half


@cli_only
def test_the_cap_counts_batch_prices(tmp_path: Path, data: Path) -> None:
    with BatchServer(good) as server:
        arguments = ("--provider", "openai/gpt-4o", "--price", "gpt-4o=1000,1000", "--max-cost")
        judged(tmp_path, *arguments, "0", server=server, code=3, idle=0.3)
        assert server.jobs == {}
        judged(tmp_path, *arguments, "12", server=server, code=3, idle=0.3)
        found = json.loads((tmp_path / "out.json").read_text())
        assert 0 < found["spent"] <= 12
        judged(tmp_path, *arguments, "1000", server=server, idle=0.3)
        assert max(server.good.values()) == 1
        assert server.paid() == 12


@pytest.mark.slow
@cli_only
@pytest.mark.usefixtures("full_jobs")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("stage", [1, 2])
def test_killed_while_a_job_is_live_the_same_command_collects_it(
    tmp_path: Path, data: Path, number: signal.Signals, stage: int
) -> None:
    with BatchServer(good) as server:
        server.plans += [Plan(polls=1 if stage == 2 else 10**9), Plan(polls=10**9)]
        process = start(tmp_path, "--provider", "openai/gpt-4o", server=server)
        wait_for(lambda: len(server.jobs) == stage and server.jobs[f"batch_{stage - 1}"].looks > 1)
        process.send_signal(number)
        out = finished(process, -signal.SIGKILL if number == signal.SIGKILL else 130)
        if number == signal.SIGINT:
            assert "stopping: the batch jobs go on (run the command again" in out
        for job in server.jobs.values():
            job.plan.polls = 1
        server.plans.clear()
        (folder,) = (tmp_path / "runs").iterdir()
        known = RunFolder(folder).money()  # of what is in the jobs, too: it will be billed, whoever comes for it
        assert known.requests == 6 * stage
        assert len(known.in_jobs) == 6
        judged(tmp_path, "--provider", "openai/gpt-4o", server=server)
        assert len(server.jobs) == 2
        assert server.paid() == 12
        money = RunFolder(folder).money()
        assert (money.requests, money.uncertain) == (12, 0.0)
        assert money.spent == pytest.approx(money.list_cost)
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["metrics"]["tit-llm"]["coverage"] == 1


@pytest.mark.slow
@cli_only
@pytest.mark.usefixtures("full_jobs")
def test_killed_while_the_job_is_created(tmp_path: Path, data: Path) -> None:
    with BatchServer(good) as server:
        server.plans.append(Plan(create=Scripted.fault("hang")))
        process = start(tmp_path, "--provider", "openai/gpt-4o", server=server)
        wait_for(server.created.is_set)
        process.kill()
        finished(process, -signal.SIGKILL)
        out = judged(tmp_path, "--provider", "openai/gpt-4o", server=server)
        assert "found job batch_0" in out
        assert len(server.jobs) == 2
        assert server.paid() == 12
