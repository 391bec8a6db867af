"""The files of batch jobs, and what wraps what."""

import asyncio
from pathlib import Path

import pytest

from titjudge.core.errors import CacheWriteError, ConfigError, DataError
from titjudge.core.serialization import request_key
from titjudge.core.types import FailureKind, Message, Request
from titjudge.providers import ProviderSettings
from titjudge.providers.batch.journal import JobJournal, ResultLine
from titjudge.providers.batch.provider import Batches, BatchProvider, batch_service_for, folder_name, live_jobs
from titjudge.providers.batch.queue import BatchQueue, BatchTiming
from titjudge.providers.fake import Fake
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.http import TimedOut
from titjudge.providers.hosted.openai import OpenAI


def line(key: str, good: bool = True) -> ResultLine:
    return ResultLine(key, good, b'{"says":"%s"}' % key.encode())


def states(log: JobJournal) -> dict[str, str]:
    return {tag: job.state for tag, job in log.jobs.items()}


def test_a_job_from_intent_to_answers_survives_reading_again(tmp_path: Path) -> None:
    log = JobJournal(tmp_path)
    for tag in ("t1", "t2", "t3"):
        log.intent(tag, [f"{tag}-a", f"{tag}-b"], "file", False)
    log.job("t1", "id1")
    log.job("t2", "id2")
    log.done("t1", "completed", [line("t1-a"), line("t1-b", good=False)])
    for each in (log, JobJournal(tmp_path)):
        assert states(each) == {"t1": "done", "t2": "live", "t3": "unsure"}
        assert each.holder("t1-a") is None
        assert each.holder("t2-b") is each.jobs["t2"]
        assert each.holder("t3-a") is None
        assert "t1-a" in each
        assert "t1-b" not in each
        job, content = each.take("t1-a") or (None, None)
        assert job is each.jobs["t1"]
        assert content == {"says": "t1-a"}
        assert each.take("t1-a") is None


def test_a_key_belongs_to_the_last_job_it_went_into(tmp_path: Path) -> None:
    log = JobJournal(tmp_path)
    log.intent("t1", ["a"], "file", False)
    log.void("t1", "refused")
    log.intent("t2", ["a"], "file", True)
    log.job("t2", "id2")
    holder = JobJournal(tmp_path).holder("a")
    assert holder is not None
    assert (holder.tag, holder.id, holder.in_prompt) == ("t2", "id2", True)


def test_a_line_cut_by_a_kill_is_dropped_and_a_damaged_one_named(tmp_path: Path) -> None:
    log = JobJournal(tmp_path)
    log.intent("t1", ["a"], "file", False)
    file = tmp_path / "jobs.jsonl"
    file.write_bytes(file.read_bytes() + b'{"event":"job","tag":"t1","i')
    assert states(JobJournal(tmp_path)) == {"t1": "unsure"}
    file.write_bytes(b"garbage\n" + file.read_bytes())
    with pytest.raises(DataError, match=r"jobs\.jsonl:1"):
        JobJournal(tmp_path)


def test_damaged_answers_count_as_absent(tmp_path: Path) -> None:
    log = JobJournal(tmp_path)
    log.intent("t1", ["a", "b"], "file", False)
    log.job("t1", "id")
    log.done("t1", "completed", [line("a"), line("b")])
    file = tmp_path / "t1.answers.jsonl"
    file.write_bytes(b"\xff\xfe" + file.read_bytes()[2:])
    again = JobJournal(tmp_path)
    assert "a" not in again
    assert again.take("b") is not None


def test_leftovers_of_a_killed_upload_are_removed(tmp_path: Path) -> None:
    (tmp_path / "t9.part").write_text("half a job")
    JobJournal(tmp_path)
    assert not (tmp_path / "t9.part").exists()


def test_a_full_disk_is_said_before_a_job_exists(tmp_path: Path) -> None:
    log = JobJournal(tmp_path)
    log._file._file = -1
    with pytest.raises(CacheWriteError):
        log.intent("t1", ["a"], "file", False)
    assert log.jobs == {}


def test_answers_on_a_full_disk_leave_the_job_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JobJournal(tmp_path)
    log.intent("t1", ["a"], "file", False)
    log.job("t1", "id")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CacheWriteError, match="No space"):
        log.done("t1", "completed", [line("a")])
    assert states(JobJournal(tmp_path)) == {"t1": "live"}


def test_live_jobs_are_counted_for_a_run_that_goes_on_without_them(tmp_path: Path) -> None:
    assert live_jobs(tmp_path) == 0
    for name in ("one", "two"):
        log = JobJournal(tmp_path / name)
        log.intent("t1", ["a"], "file", False)
        log.intent("t2", ["b"], "file", False)
        log.job("t2", "id")
        log.intent("t3", ["c"], "file", False)
        log.void("t3", "refused")
        log.close()
    assert live_jobs(tmp_path) == 4


# ---------------------------------------------------------------------- what wraps what


def hosted(model: str = "gpt-4o", url: str = "http://127.0.0.1:9/v1") -> OpenAI:
    return OpenAI(ProviderSettings(model, base_url=url))


def test_one_model_has_one_desk_and_another_has_its_own(tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    first, second, third = (batches.wrap(real) for real in (hosted(), hosted(), hosted("gpt-4o-mini")))
    assert isinstance(first, BatchProvider)
    assert isinstance(second, BatchProvider)
    assert isinstance(third, BatchProvider)
    assert first.queue is second.queue
    assert third.queue is not first.queue
    assert first.queue.folder != third.queue.folder


def test_what_costs_nothing_stays_as_it_is_and_what_has_no_jobs_is_refused(tmp_path: Path) -> None:
    from titjudge.providers import Capabilities

    local = Fake()
    assert Batches(tmp_path).wrap(local) is local
    with pytest.raises(ConfigError, match="only gemini and openai"):
        Batches(tmp_path).wrap(Fake(capabilities=Capabilities()))
    with pytest.raises(ConfigError, match="at least 1"):
        BatchTiming(max_requests=0)
    assert not any(tmp_path.iterdir())


def test_folders_are_apart_and_safe() -> None:
    names = {
        folder_name(hosted(model, url))
        for model in ("gpt-4o", "../../x", "a/b:c d")
        for url in ("http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1")
    }
    assert len(names) == 6
    assert all(Path(name).name == name for name in names)


def test_a_batch_is_its_provider_to_the_cache_and_the_engine(tmp_path: Path) -> None:
    real = Gemini(ProviderSettings("gemini-2.5-pro", base_url="http://127.0.0.1:9"))
    batch = Batches(tmp_path).wrap(real)
    assert (batch.name, batch.version, batch.base_url) == (real.name, real.version, real.base_url)
    assert batch.account != real.account
    assert batch.capabilities == real.capabilities
    request = Request(real.name, real.model, (Message("user", ("x",)),), {"max_tokens": 10}, base_url=real.base_url)
    assert batch.usage_bound(request) == real.usage_bound(request)
    assert request_key(request).startswith("ask:")


def test_nothing_is_lost_to_a_timeout(tmp_path: Path) -> None:
    batch = Batches(tmp_path).wrap(hosted())
    failure = batch.classify(TimedOut("no answer"))
    assert failure.kind is FailureKind.RETRY
    assert not failure.maybe_billed


@pytest.mark.slow
def test_a_full_disk_reaches_whoever_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from batch_server import BatchServer

    with BatchServer() as server:
        real = hosted(url=server.openai)

        async def main() -> None:
            batch = BatchProvider(
                real, BatchQueue(batch_service_for(real), tmp_path, BatchTiming(poll=0.01, idle=0.01))
            )
            _ = batch.queue.journal
            monkeypatch.setattr(batch.queue.journal._file, "_file", -1)
            request = Request("openai", "gpt-4o", (Message("user", ("x",)),), base_url=real.base_url)
            with pytest.raises(CacheWriteError):
                await batch.complete(request)
            monkeypatch.undo()
            await batch.aclose()

        asyncio.run(main())
        assert server.jobs == {}
