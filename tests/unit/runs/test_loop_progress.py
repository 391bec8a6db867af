"""What a run that goes on counts: answers, how many are likely to come, and items; and that the embedder is loaded meanwhile."""

import os
import re
import signal
import threading
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import described_images

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import RunConfig, load_config
from titjudge.core.types import Embedding
from titjudge.providers.local.sentence_transformers import SentenceTransformers
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.loop import Progress
from titjudge.runs.session import Session, Watcher


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")


def config(folder: Path, server: Server, *metrics: str, images: int = 6, **more: Any) -> RunConfig:
    data = described_images(folder / "data", images)
    prices = {"gpt-4o": {"input": 1, "output": 1}}
    models = {"captioner": "openai/gpt-4o", "judge": "openai/gpt-4o", "base_url": server.openai, "prices": prices}
    places = {"data": data, "out": folder / "run", "cache": folder / "cache", "report": False}
    return load_config(None, {"metrics": list(metrics), **models, **places, **more})


class Watched(Watcher):
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.last, self.expected, self.waits = Progress(), set[int | None](), set[str]()

    def show(self, progress: Progress, engine: Any) -> None:
        self.last = progress
        self.expected.add(progress.expected)
        self.waits.update(re.sub(r"\d+", "#", line) for line in progress.waits)


def test_answers_that_metrics_share_count_once_and_all_that_are_expected_come(tmp_path: Path) -> None:
    watched = Watched()
    with Server() as server:
        Session(config(tmp_path, server, "tit-llm", "self-eval")).run(watched)
        asked = server.count()
    assert watched.last.answers == watched.last.expected == asked
    assert watched.last.planned == asked / 6
    assert watched.expected <= {None, asked}  # before the plan nobody knows
    assert (watched.last.done, watched.last.judged) == (6, 6)


def test_a_question_that_is_not_answered_is_not_waited_for(tmp_path: Path) -> None:
    def refused(seen: Seen) -> Scripted | None:
        return Scripted.fault("refusal") if "thing 3" in seen.text else None

    watched = Watched()
    with Server(refused) as server:
        Session(config(tmp_path, server, "lmm-score")).run(watched)
    assert (watched.last.answers, watched.last.expected, watched.last.failed) == (6, 6, 1)


def test_what_judged_items_asked_says_what_the_others_will() -> None:
    planned = Progress(total=100, begun=4, done=2, answers=7, answers_of_judged=5, planned=2.0)
    assert planned.expected == 5 + 2 * 98
    measured = Progress(total=100, begun=30, done=20, answers=100, answers_of_judged=80, planned=2.0)
    assert measured.expected == 80 + 4 * 80
    assert Progress(total=100).expected is None
    at_the_end = Progress(total=10, begun=10, done=9, answers=40, answers_of_judged=27, planned=3.0)
    assert at_the_end.expected == 40  # what has come was expected


def test_after_ctrl_c_each_description_that_is_paid_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(Watched):
        def say(self, line: str) -> None:
            if line.startswith("stopping"):
                stopped.set()

    stopped, seen_requests = threading.Event(), count(1)

    def answer(seen: Seen) -> str:
        """Press Ctrl-C while descriptions are there and none is embedded."""
        if next(seen_requests) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return "a description"

    def run(self: Any, texts: list[str]) -> list[Embedding]:
        stopped.wait(30)
        return [Embedding(np.array([1.0], dtype=np.float32), 1, 1) for _ in texts]

    monkeypatch.setattr(SentenceTransformers, "load", lambda self: None)
    monkeypatch.setattr(SentenceTransformers, "_run", run)
    with Server(answer) as server:
        outcome = Session(config(tmp_path, server, "tit", images=40, limits={"concurrency": 2})).run(Stopped())
        asked = server.count()
    scores = RunFolder(outcome.folder).scores()
    assert outcome.status == "incomplete: interrupted"
    assert 6 <= asked < 40
    assert sum(score.value is not None for score in scores.values()) == asked


def test_what_waits_is_told_with_the_reason_and_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate limit, an attempt after a fault, and an embedder that loads."""
    answered, loaded = count(1), threading.Event()

    def answer(seen: Seen) -> Scripted | str:
        number = next(answered)
        return (
            Scripted.fault(429, retry_after=2)
            if number <= 3
            else Scripted.fault(500)
            if number <= 6
            else "a description"
        )

    def run(self: Any, texts: list[str]) -> list[Embedding]:
        return [Embedding(np.array([1.0], dtype=np.float32), 1, 1) for _ in texts]

    class Released(Watched):
        def show(self, progress: Progress, engine: Any) -> None:
            super().show(progress, engine)
            if any("embedder is loading" in line for line in progress.waits):
                loaded.set()

    watched = Released()
    monkeypatch.setattr(SentenceTransformers, "load", lambda self: loaded.wait(30))
    monkeypatch.setattr(SentenceTransformers, "_run", lambda self, texts: loaded.wait(30) and run(self, texts))
    with Server(answer) as server:
        Session(config(tmp_path, server, "tit", limits={"concurrency": 2})).run(watched)
    assert loaded.is_set()
    assert "# to be asked again in at most # s" in watched.waits
    assert "rate limit of openai/gpt-#o: # waiting, the next in # s" in watched.waits
    assert watched.last.by_metric == {"tit": 6}
    assert watched.last.waits == ["computing tables and report"]


def test_after_the_cap_what_the_cache_answers_is_scored_all_the_same(tmp_path: Path) -> None:
    with Server(lambda seen: '{"reason": "r", "score": 50}') as server:
        Session(config(tmp_path, server, "lmm-score", images=30, limit=20)).run()
        capped = {"limits": {"max_cost": 1e-9}, "out": tmp_path / "capped"}
        watched = Watched()
        outcome = Session(config(tmp_path, server, "lmm-score", images=30, **capped)).run(watched)
        assert server.count() == 20
    scores = RunFolder(outcome.folder).scores()
    assert outcome.status == "incomplete: budget"
    assert sum(score.value is not None for score in scores.values()) == watched.last.done == 20


def test_the_embedder_is_loaded_after_the_first_answer_while_others_are_on_their_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, answered, when_answered = threading.Event(), list[str](), list[bool]()

    async def embed(self: Any, texts: list[str]) -> list[Embedding]:
        return [Embedding(np.array([1.0], dtype=np.float32), 1, 1) for _ in texts]

    def answer(seen: Seen) -> str:
        answered.append("a description")
        if len(answered) > 1:  # the first answer shows that the key is right, so that it pays to load
            when_answered.append(loaded.wait(60))
        return "a description"

    monkeypatch.setattr(SentenceTransformers, "load", lambda self: loaded.set())
    monkeypatch.setattr(SentenceTransformers, "embed", embed)
    with Server(answer) as server:
        Session(config(tmp_path, server, "tit", images=2, limits={"concurrency": 1})).run()
        assert when_answered == [True]
        loaded.clear()
        Session(config(tmp_path, server, "tit", images=2, out=tmp_path / "again")).run()
    assert not loaded.is_set()  # every answer is in the cache: nothing is sent, and nothing need be embedded
