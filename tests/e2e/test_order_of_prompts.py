"""A run that ends early has judged the same prompts of all generators, whatever the order of the data."""

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from builders import png, read_lines, write_lines

from tests.kit import Scripted, Seen, Server
from titjudge import Judge
from titjudge.core.config import RunConfig, load_config
from titjudge.core.errors import FatalProviderError
from titjudge.engine.pipeline import Engine
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session, Watcher

PROMPTS, GENERATORS = 40, ("candidate", "release")
ROLE = {"model": "openai/m", "max_tokens": 100}
ANSWER = '{"missing": [], "contradicted": [], "reason": "because", "score": %d}'
PRICE = {"m": {"input": 0.0, "output": 10_000.0}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two generators, listed one after the other."""
    return written(tmp_path / "data", GENERATORS, PROMPTS)


def written(folder: Path, generators: Sequence[str], prompts: int) -> Path:
    listed = [
        {"image": f"{g}/{n}.png", "prompt_id": f"p{n}", "generator": g} for g in generators for n in range(prompts)
    ]
    for number, record in enumerate(listed):
        png(folder / record["image"], (number % 256, 30, 90 + number // 256))
    write_lines(folder / "images.jsonl", *listed)
    write_lines(folder / "prompts.jsonl", *({"prompt_id": f"p{n}", "prompt": f"{n} cubes"} for n in range(prompts)))
    return folder


def configured(data: Path, server: Server, **changes: object) -> RunConfig:
    role = {**ROLE, "base_url": server.url}
    made = {
        "data": data, "metrics": ["lmm-score"], "captioner": role, "prices": PRICE, "report": False,
        "cache": str(data.parent / "cache"), "out": str(data.parent / "out"), "limits": {"concurrency": 4, "max_cost": 8.0},
    }  # fmt: skip
    return load_config(None, {**made, **changes})


def asked(server: Server) -> list[int]:
    """Return the number of each prompt, in the order of the requests."""
    return [int(re.search(r"(\d+) cubes", request.text)[1]) for request in server.requests]  # type: ignore[index]


def test_a_cap_buys_whole_prompts(data: Path) -> None:
    with Server() as server:
        outcome = Session(configured(data, server)).run()
    run = RunFolder(outcome.folder)
    prompts = {item.id: item.prompt_id for item in run.judged()}
    counts = Counter(prompts[item] for (item, _), score in run.scores().items() if score.value is not None)
    assert outcome.status == "incomplete: budget"
    assert 5 < len(counts) < PROMPTS
    assert sum(count == 2 for count in counts.values()) >= 0.9 * (counts.total() // 2)


def test_the_rows_do_not_choose_the_prompts(data: Path) -> None:
    """The order of the prompts is random and depends on their ids alone."""
    orders = []
    for reverse in (False, True):
        rows = read_lines(data / "images.jsonl")
        write_lines(data / "images.jsonl", *sorted(rows, key=lambda row: row["image"], reverse=reverse))
        changes = {"limits": {"concurrency": 1}, "cache": str(data.parent / f"cache{reverse}")}
        with Server() as server:
            Session(configured(data, server, out=str(data.parent / f"out{reverse}"), **changes)).run()
        orders.append(asked(server))
    assert orders[0] == orders[1]
    assert orders[0][::2] == orders[0][1::2] != sorted(orders[0][::2])


def test_a_cap_in_python_buys_whole_prompts(data: Path) -> None:
    """Descriptions are paid only of images whose judgement can be paid, too."""
    pairs = [(data / g / f"{n}.png", f"{n} cubes") for g in GENERATORS for n in range(PROMPTS)]
    with Server() as server:
        role = {**ROLE, "base_url": server.url}
        limits = {"limits": {"concurrency": 4}, "cache": str(data.parent / "cache"), "prices": PRICE, "max_cost": 12.0}
        with Judge("tit-llm", captioner=role, judge=role, **limits) as judge:
            scores = judge.score_many(pairs)
    counts = Counter(prompt for (_, prompt), score in zip(pairs, scores, strict=True) if score.value is not None)
    assert {str(score.status) for score in scores} == {"ok", "budget"}
    assert 5 < len(counts) < PROMPTS
    assert 2 * counts.total() >= 0.9 * len(server.requests)
    assert sum(count == 2 for count in counts.values()) >= 0.9 * (counts.total() // 2)


def test_python_works_by_prompt_and_returns_the_order_of_the_input(data: Path) -> None:
    pairs = [(data / g / f"{n}.png", f"{n} cubes") for g in GENERATORS for n in range(PROMPTS)]
    with Server() as server:
        limits = {"limits": {"concurrency": 1}, "cache": str(data.parent / "cache"), "prices": PRICE}
        with Judge("lmm-score", captioner={**ROLE, "base_url": server.url}, **limits) as judge:
            scores = judge.score_many(pairs)
    assert asked(server)[::2] == asked(server)[1::2]
    assert [score.prompt for score in scores] == [prompt for _, prompt in pairs]


def test_an_outage_ends_a_run_that_says_how_it_goes_on(data: Path) -> None:
    """It has judged the same prompts of both generators, and the same command asks for the rest alone."""
    good, most = 0, 21

    def failing(seen: Seen) -> Scripted:
        nonlocal good
        if good >= most:
            return Scripted(status=503, body={"error": {"message": "away"}})
        good += 1
        return Scripted(f'{{"reason": "because", "score": {good}}}')

    with Server(failing) as server:
        config = configured(data, server, limits={"concurrency": 4, "patience": 1})
        with pytest.raises(FatalProviderError, match=r"no answer for 1 seconds.* run the command again$"):
            Session(config).run()
        run = RunFolder(data.parent / "out")
        counts = Counter({item.id: item.prompt_id for item in run.judged()}[item] for item, _ in run.scores())
        assert sum(count == 2 for count in counts.values()) >= 9
        most = 1000
        assert Session(config).run().status == "complete"
    assert good == 2 * PROMPTS


@pytest.mark.parametrize(("flight", "good"), [(1, 50), (4, 50), (8, 100)])
def test_an_outage_leaves_few_paid_answers_of_prompts_without_all_scores(data: Path, flight: int, good: int) -> None:
    """Comparisons of begun prompts are sent before descriptions of others: 64 images may be under way."""
    requests = count(1)

    def failing(seen: Seen) -> Scripted:
        number = next(requests)
        if number > good:
            return Scripted(status=503, body={"error": {"message": "away"}})
        return Scripted(ANSWER % (number % 100), latency=0.02 * flight)  # the client is faster than the server

    with Server(failing) as server, pytest.raises(FatalProviderError, match="no answer for 1 seconds"):
        Session(both(data, server, flight, patience=1)).run()
    run = RunFolder(data.parent / "out")
    prompts = {item.id: item.prompt_id for item in run.judged()}
    counts = Counter(prompts[item] for (item, _), score in run.scores().items() if score.value is not None)
    assert good - 4 * sum(count == 2 for count in counts.values()) <= 4 * flight + 4


class Stopped(Watcher):
    """Reports when the run has noticed Ctrl-C."""

    def __init__(self) -> None:
        self.noticed = threading.Event()

    def say(self, line: str) -> None:
        if line.startswith("stopping"):
            self.noticed.set()


def both(data: Path, server: Server, flight: int, **limits: object) -> RunConfig:
    """Two requests per image: a description, and its comparison with the prompt."""
    judge = {**ROLE, "base_url": server.url}
    return configured(data, server, metrics=["tit-llm"], judge=judge, limits={"concurrency": flight, **limits})


def complete(data: Path) -> int:
    """Count the prompts of which each image has a score."""
    run = RunFolder(data.parent / "out")
    prompts = {item.id: item.prompt_id for item in run.judged()}
    return sum(count == 2 for count in Counter(prompts[item] for item, _ in run.scores()).values())


@pytest.mark.parametrize(("flight", "pressed"), [(1, 3), (4, 21), (4, 66), (32, 2), (32, 40), (32, 75)])
def test_ctrl_c_leaves_whole_prompts(data: Path, flight: int, pressed: int) -> None:
    """Prompts that are begun get the rest of their answers; no other prompt is begun."""
    watcher, requests = Stopped(), count(1)

    def answer(seen: Seen) -> str:
        number = next(requests)
        if number == pressed:
            os.kill(os.getpid(), signal.SIGINT)
            watcher.noticed.wait(30)
        return ANSWER % (number % 100)

    with Server(answer) as server:
        outcome = Session(both(data, server, flight)).run(watcher)
    assert outcome.status == "incomplete: interrupted"
    assert complete(data) == len(server.requests) / 4
    assert pressed <= len(server.requests) <= pressed + 4 * flight + 4


@pytest.mark.parametrize("after", [None, 100.0])
def test_ctrl_c_ends_a_run_as_soon_as_nothing_can_be_sent(data: Path, after: float | None) -> None:
    """With the last request the run is complete; if the server asks to wait for longer than the grace, it stops."""
    watcher, requests, pressed = Stopped(), count(1), 4 * PROMPTS if after is None else 30

    def answer(seen: Seen) -> Scripted | str:
        number = next(requests)
        if number == pressed:
            os.kill(os.getpid(), signal.SIGINT)
            watcher.noticed.wait(30)
        if after and number >= pressed:
            return Scripted(status=429, headers={"retry-after": str(after)}, body={"error": {"message": "slow"}})
        return ANSWER % (number % 100)

    started = time.monotonic()
    with Server(answer) as server:
        outcome = Session(both(data, server, 4)).run(watcher)
    assert outcome.status == ("complete" if after is None else "incomplete: interrupted")
    assert time.monotonic() - started < 20


def test_ctrl_c_begins_the_images_that_a_begun_prompt_lacks(tmp_path: Path) -> None:
    """A prompt has more images than a run works on at a time."""
    watcher, requests, many = Stopped(), count(1), 70

    def answer(seen: Seen) -> str:
        if next(requests) == many + 1:
            os.kill(os.getpid(), signal.SIGINT)
            watcher.noticed.wait(30)
        return ANSWER % 50

    data = written(tmp_path / "data", [f"g{n}" for n in range(many)], 3)
    with Server(answer) as server:
        Session(configured(data, server, limits={"concurrency": 1})).run(watcher)
    assert len(server.requests) == 2 * many


def test_no_prompt_is_begun_while_the_judge_does_not_answer(data: Path) -> None:
    described = list[int]()

    def answer(seen: Seen) -> Scripted | str:
        if len(described) >= 20 and "cubes" in seen.text:
            described.append(0)
            return Scripted(status=503, body={"error": {"message": "away"}})
        described.append("cubes" not in seen.text)
        return ANSWER % (len(described) % 100)

    with Server(answer) as server, pytest.raises(FatalProviderError, match="no answer for 1 seconds"):
        Session(both(data, server, 4, patience=1)).run()
    assert sum(described[20:]) <= 16
    assert complete(data) >= 3


def test_ctrl_c_awaits_an_answer_that_no_score_waits_for_any_more(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison is asked in both orders at once: an empty account ends the run while the other answer is on its way."""
    watcher, orders, land = Stopped(), count(), Engine.land

    async def stopped(engine: Engine) -> object:
        if engine.sender.fatal and not watcher.noticed.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        return await land(engine)

    def answer(seen: Seen) -> Scripted:
        if next(orders) == 0:
            return Scripted(status=429, body={"error": {"code": "insufficient_quota", "message": "no credit"}})
        return Scripted('{"reason": "because", "better": "first"}', latency=1.0)

    monkeypatch.setattr(Engine, "land", stopped)
    changes = {"metrics": ["pairwise"], "captioner": None, "limits": {"concurrency": 2}}
    with Server(answer) as server, pytest.raises(FatalProviderError, match="no credit"):
        Session(configured(data, server, **changes, judge={**ROLE, "base_url": server.url})).run(watcher)
    assert watcher.noticed.is_set()
    assert len(list(RunFolder(data.parent / "out").replies())) == 1


def test_a_refused_key_names_its_variable(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    refusal = Scripted(status=401, body={"error": {"message": "Invalid API key"}})
    with (
        Server(lambda seen: refusal) as server,
        pytest.raises(FatalProviderError, match="no key was sent: set OPENAI_API_KEY"),
    ):
        Session(configured(data, server)).run()
