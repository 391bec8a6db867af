"""A `Judge` outlives a wrong key, a caller that leaves and a fault in the code of a metric."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import png

from tests.kit import Scripted, Server
from titjudge import Item, Judge, Score
from titjudge.core import registry
from titjudge.core.errors import FatalProviderError
from titjudge.core.types import Ask, Cause, Status
from titjudge.engine import sender
from titjudge.metrics import metric

KEY = "sk-abcdefgh12345678"


def judging(server: Server, cache: Path) -> Judge:
    return Judge("lmm-score", captioner={"model": "openai/m", "base_url": server.openai}, cache=cache)


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    return [png(tmp_path / f"{number}.png", (number, 9, 9)) for number in range(8)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that are added to the time."""
    passed, now = [0.0], sender.time.monotonic
    monkeypatch.setattr(sender.time, "monotonic", lambda: now() + passed[0])
    return passed


def test_after_a_passing_401_the_next_score_is_asked(tmp_path: Path, images: list[Path]) -> None:
    with Server() as server, judging(server, tmp_path / "cache") as judge:
        server.script(Scripted.fault("bad_key"))
        with pytest.raises(FatalProviderError):
            judge.score(images[0], "a")
        assert [judge.score(image, "a").status for image in images[1:4]] == [Status.OK] * 3


def test_a_wrong_key_is_tried_less_and_less_often(tmp_path: Path, images: list[Path], clock: list[float]) -> None:
    with Server() as server, judging(server, tmp_path / "cache") as judge:
        assert judge.score(images[0], "a").status is Status.OK
        server.script(*[Scripted.fault("bad_key")] * 8)
        sent = []
        for wait in (0, 0, 0.5, 1, 1, 3.5, 100, 59, 3):
            clock[0] += wait
            before = server.count()
            with pytest.raises(FatalProviderError):
                judge.score(images[1], "a")
            sent.append(server.count() - before)
            assert judge.score(images[0], "a").status is Status.OK  # from the cache
        assert sent == [1, 1, 0, 1, 0, 1, 1, 1, 0]


def test_another_key_is_used_at_once(tmp_path: Path, images: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with Server() as server, judging(server, tmp_path / "cache") as judge:
        server.script(*[Scripted.fault("bad_key")] * 2)
        for _ in range(3):  # the last is not sent
            with pytest.raises(FatalProviderError):
                judge.score(images[1], "a")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
        assert judge.score(images[1], "a").status is Status.OK
        assert server.last.headers["authorization"] == "Bearer sk-right"


def test_a_caller_that_leaves_is_free_at_once_and_the_paid_answer_is_kept(tmp_path: Path, images: list[Path]) -> None:
    async def leave(server: Server) -> int:
        async with judging(server, tmp_path / "cache") as judge:
            task = asyncio.create_task(judge.ascore(images[0], "a"))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return server.answered

    with Server(latency=1.0) as server:
        assert asyncio.run(leave(server)) == 0  # free before the answer came
        assert server.answered == 1  # the judge waits for it when it is closed
        with judging(server, tmp_path / "cache") as judge:
            assert judge.score(images[0], "a").status is Status.OK
        assert server.count() == 1


def test_a_fault_in_the_code_of_a_metric_names_its_line(
    images: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @metric("faulty", roles=("captioner",), range=(0, 1))
    async def faulty(item: Item, ask: Ask) -> Score:
        parts: dict[str, Any] = {}
        return Score.of(parts["absent\n" + KEY])

    monkeypatch.setitem(registry.TABLES["metrics"], "faulty", f"{__name__}:faulty")
    monkeypatch.setattr(sys.modules[__name__], "faulty", faulty, raising=False)
    with caplog.at_level(logging.WARNING, "titjudge"), Judge("faulty", captioner="fake/x") as judge:
        score = judge.score(images[0], "a")
    assert (score.status, score.cause) == (Status.FAILED, Cause.REJECTED)
    assert score.reason.startswith("the metric could not use this item: KeyError: 'absent")
    assert "(runs/test_judge_recovers.py:" in score.reason
    assert KEY not in score.reason
    assert "\n" not in score.reason
    assert any(record.exc_info for record in caplog.records)
