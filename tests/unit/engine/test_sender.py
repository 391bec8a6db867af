"""Servers that go away and come back, and run folders that cannot be written."""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from gated import GatedFake

from titjudge.core.config import load_config
from titjudge.core.errors import (
    BudgetExhausted,
    CacheWriteError,
    ConfigError,
    DataError,
    FatalProviderError,
    Unanswered,
)
from titjudge.core.files import Appender
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import Embedding, Failure, FailureKind, Item, Reply, Request, Score, Usage
from titjudge.engine import sender
from titjudge.engine.ask import BoundAsk
from titjudge.engine.budget import Budget
from titjudge.engine.cache import AnswerCache
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Roles
from titjudge.engine.sender import Sender
from titjudge.metrics import metric
from titjudge.providers import Capabilities
from titjudge.providers.base import Embedder, note_sending
from titjudge.providers.hosted.failures import classify
from titjudge.providers.hosted.http import Unreachable
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.loop import RunLoop

PRICE = {"input": 1.0, "output": 1.0}  # USD per million tokens


class Hosted(GatedFake):
    def classify(self, error: Exception) -> Failure:
        return classify(error)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(sender: Sender, seconds: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(Sender, "_rest", at_once)


def build(
    tmp_path: Path, answers: Any, journal: Any = None, caps: dict[str, Any] | None = None
) -> tuple[Engine, Hosted]:
    fake = Hosted(None, answers, capabilities=Capabilities())
    config = load_config(
        None,
        {"captioner": "fake/m", "judge": "fake/m", "limits": {"concurrency": 4}, "prices": {"m": PRICE}},
    )
    engine = Engine(
        Roles(config, make=lambda _: fake),
        PromptLibrary(),
        AnswerCache(tmp_path / "cache"),
        Budget(**(caps or {})),
        journal=journal,
    )
    return engine, fake


async def ask(engine: Engine, prompt: str, role: str = "judge") -> Reply:
    return await BoundAsk(engine, Item("i", prompt, None, "g", "p"))(
        "tit/compare", role=role, prompt=prompt, description="d"
    )


class Outage:
    """Answers the first `before` requests, refuses the next `gone`, answers again."""

    def __init__(self, before: int, gone: int) -> None:
        self.before, self.gone, self.seen = before, gone, 0

    def __call__(self, request: Request) -> Any:
        self.seen += 1
        if self.before < self.seen <= self.before + self.gone:
            return Unreachable("cannot connect")
        return "fine"


def test_a_server_that_goes_away_and_comes_back_costs_no_answer(tmp_path: Path) -> None:
    async def work() -> list[Any]:
        engine, _ = build(tmp_path, Outage(1, 300))
        await ask(engine, "first", "captioner")  # the other role has had no answer yet
        found = await asyncio.gather(*(ask(engine, f"p{i}") for i in range(20)), return_exceptions=True)
        await engine.aclose()
        return found

    assert [getattr(each, "text", each) for each in asyncio.run(work())] == ["fine"] * 20


class Status(Exception):
    """An HTTP status as a provider would report it."""

    def __init__(self, kind: FailureKind, **more: Any) -> None:
        self.failure = Failure(kind, "HTTP", **more)
        super().__init__("HTTP")


class Web(Hosted):
    def classify(self, error: Exception) -> Failure:
        return error.failure if isinstance(error, Status) else classify(error)


def many(tmp_path: Path, answers: Any, count: int, known: dict[str, bool] | None = None) -> tuple[list[Any], int]:
    """What becomes of so many questions of different items; and how many requests went out."""

    async def work() -> tuple[list[Any], int]:
        fake = Web(None, answers, capabilities=Capabilities(), latency=0.001)
        config = load_config(None, {"judge": "fake/m", "limits": {"concurrency": 4}})
        engine = Engine(Roles(config, make=lambda _: fake), PromptLibrary(), known=known)

        async def one(number: int) -> Reply:
            who = Item(f"i{number}", f"p{number}", None, "g", "p")
            return await BoundAsk(engine, who)("tit/compare", role="judge", prompt=who.prompt, description="d")

        found = await asyncio.gather(*map(one, range(count)), return_exceptions=True)
        await engine.aclose()
        return found, len(fake.requests)

    return asyncio.run(work())


def only(number: int, error: Exception) -> Callable[[Request], Any]:
    return lambda request: error if f"p{number}\n" in request.messages[-1].text else "fine"


@pytest.mark.parametrize("first", [True, False])
def test_one_item_that_an_address_bars_is_that_items_failure(tmp_path: Path, first: bool) -> None:
    found, _ = many(tmp_path, only(0 if first else 17, Status(FailureKind.BARRED)), 30)
    assert [type(each) for each in found].count(Reply) == 29
    (failed,) = (each for each in found if not isinstance(each, Reply))
    assert isinstance(failed, Unanswered)
    assert failed.status == "failed"


def test_a_barred_item_alone_is_its_own_failure_where_others_were_answered_before(tmp_path: Path) -> None:
    found, _ = many(tmp_path, lambda _: Status(FailureKind.BARRED), 1, {"ask:" + "0" * 64: True})
    assert isinstance(found[0], Unanswered)
    found, _ = many(tmp_path, lambda _: Status(FailureKind.BARRED), 1)
    assert isinstance(found[0], FatalProviderError)


@pytest.mark.parametrize("answered", [0, 5])
def test_an_address_that_bars_everybody_ends_the_run(tmp_path: Path, answered: int) -> None:
    good = iter(["fine"] * answered)
    found, requests = many(tmp_path, lambda _: next(good, Status(FailureKind.BARRED)), 60)
    assert any(isinstance(each, FatalProviderError) for each in found)
    assert requests <= answered + 20


@pytest.mark.parametrize("kind", [FailureKind.RATE_LIMIT, FailureKind.LATER, FailureKind.RETRY])
def test_a_server_that_says_later_at_first_is_waited_for(tmp_path: Path, kind: FailureKind) -> None:
    seen = 0

    def later(request: Request) -> Any:
        nonlocal seen
        seen += 1
        return Status(kind) if seen <= 120 else "fine"

    found, _ = many(tmp_path, later, 60)
    assert {type(each) for each in found} == {Reply}


def test_refused_connections_end_a_run_soon_and_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_MAX_UNREACHABLE", -1.0)
    found, requests = many(tmp_path, lambda _: Unreachable("cannot connect to 127.0.0.1:9: refused"), 8)
    assert any("cannot connect to 127.0.0.1:9: refused" in str(each) for each in found)
    assert any(isinstance(each, FatalProviderError) for each in found)
    assert requests <= 8


def test_a_stopped_run_waits_for_no_retry_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(sender: Sender, seconds: float) -> None:
        raise AssertionError(f"it waits {seconds} s")

    monkeypatch.setattr(Sender, "_rest", never)

    async def work() -> None:
        engine, fake = build(tmp_path, lambda _: None)

        def limited(request: Request) -> Any:
            engine.stop()
            return Status(FailureKind.RATE_LIMIT, retry_after=25.0)

        fake._answer = limited
        fake.classify = lambda error: error.failure  # type: ignore[attr-defined, method-assign]
        with pytest.raises(sender.Interrupted):
            await ask(engine, "p")
        assert len(fake.requests) == 1
        await engine.aclose()

    asyncio.run(work())


def test_a_server_that_never_answered_is_given_up_after_few_requests(tmp_path: Path) -> None:
    async def work() -> None:
        engine, fake = build(tmp_path, Outage(0, 10_000))
        found = await asyncio.gather(*(ask(engine, f"p{i}") for i in range(100)), return_exceptions=True)
        assert any("no answer yet" in str(each) for each in found)
        assert len(fake.requests) <= 64 + 4
        await engine.aclose()

    asyncio.run(work())


@pytest.mark.parametrize("broken", ["bill", "reply"])
def test_a_run_folder_on_a_full_disk_loses_no_paid_answer(tmp_path: Path, broken: str) -> None:
    def journal(kind: str, record: dict[str, Any]) -> None:
        if kind == broken:
            raise OSError(errno.ENOSPC, "No space left on device", "run/x.jsonl")

    async def work() -> None:
        engine, fake = build(tmp_path, lambda request: "fine", journal)
        fake.latency = 0.02
        found = await asyncio.gather(*(ask(engine, f"p{i}") for i in range(12)), return_exceptions=True)
        assert engine.cache is not None
        assert len(engine.cache) == len(fake.requests)
        assert len(fake.requests) <= 5  # an answer is written down after the next request is out
        assert {type(each) for each in found} <= {Reply, CacheWriteError}
        assert any("run/x.jsonl" in str(each) for each in found)
        await engine.aclose()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("failure", "billed"),
    [
        (Failure(FailureKind.REJECTED, "empty", usage=Usage(), answered=True), False),
        (Failure(FailureKind.REJECTED, "half a body", answered=True), False),
        (Failure(FailureKind.REJECTED, "nobody knows", usage=Usage(), maybe_billed=True), False),
        (Failure(FailureKind.REJECTED, "empty", usage=Usage(input=7, output=2), answered=True), True),
    ],
)
def test_an_answer_that_cannot_be_used_and_does_not_say_its_cost_may_have_cost_the_most(
    tmp_path: Path, failure: Failure, billed: bool
) -> None:
    class Odd(Hosted):
        def classify(self, error: Exception) -> Failure:
            return failure

    async def work() -> list[dict[str, Any]]:
        bills: list[dict[str, Any]] = []
        fake = Odd(None, lambda request: ValueError("odd"), capabilities=Capabilities())
        config = load_config(None, {"captioner": "fake/m", "judge": "fake/m", "prices": {"m": PRICE}})
        engine = Engine(
            Roles(config, make=lambda _: fake),
            PromptLibrary(),
            journal=lambda kind, record: bills.append(record) if kind == "bill" else None,
        )
        with pytest.raises(Unanswered):
            await ask(engine, "p")
        await engine.aclose()
        return bills

    (bill,) = asyncio.run(work())
    assert (bill["cost"] > 0) == billed
    assert (bill["uncertain"] > 0) != billed


def test_a_line_that_does_not_fit_leaves_no_half_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = Appender(tmp_path / "lines.jsonl")
    out.add({"n": 1})
    write: Callable[[int, bytes], int] = os.write
    pieces = iter([5, None])

    def full(file: int, data: bytes) -> int:
        most = next(pieces)
        if most is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:most])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=r"lines\.jsonl"):
        out.add({"n": 2, "text": "long enough"})
    monkeypatch.undo()
    out.add({"n": 3})
    out.close()
    lines = (tmp_path / "lines.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["n"] for line in lines] == [1, 3]


@pytest.mark.parametrize("kind", ["bill", "reply", "vector"])
def test_what_is_paid_finds_room_on_a_full_disk_and_the_run_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.open(load_config(None, {"data": tmp_path}))
    add, spare = Appender.add, tmp_path / "run" / ".spare"
    assert spare.stat().st_size >= 2**20

    def full(appender: Appender, record: Any) -> None:
        if spare.exists():
            raise OSError(errno.ENOSPC, "No space left on device", str(appender.path))
        add(appender, record)

    monkeypatch.setattr(Appender, "add", full)
    bill = {"id": "a-1", "role": "judge", "cost": 0.5, "tokens": 7, "uncertain": 0.0}
    with pytest.raises(OSError, match="No space left"):
        folder.journal("sent", {"id": "a-2", "role": "judge", "worst": 1.0, "tokens": 9})
    assert spare.exists()  # nothing is given up for what has not been sent
    with pytest.raises(OSError, match="No space left"):
        folder.journal(kind, bill if kind == "bill" else {"key": "k", "attempt": 1})
    folder.journal("bill", bill)  # of a request that was on its way
    folder.close()
    assert folder.money().spent == (1.0 if kind == "bill" else 0.5)
    assert len(list((tmp_path / "run").glob("*.jsonl"))) == 4
    assert not spare.exists()


def test_the_next_request_goes_out_before_an_answer_is_worked_on(tmp_path: Path) -> None:
    events: list[str] = []

    def answer(request: Request) -> str:
        events.append("asked")
        return "fine"

    async def work() -> None:
        engine, _ = build(tmp_path, answer, lambda kind, record: events.append(kind))
        await asyncio.gather(*(ask(engine, f"p{i}") for i in range(8)))
        await engine.aclose()

    asyncio.run(work())
    assert events.count("asked") == events.count("bill") == events.count("reply") == 8
    for sent in range(5, 9):  # four slots: the n-th request goes out before the answer that made room is written down
        asked = [place for place, event in enumerate(events) if event == "asked"][sent - 1]
        assert events[:asked].count("bill") == events[:asked].count("reply") < sent - 3


def test_what_is_paid_is_written_down_also_when_it_is_stopped_at_that_moment(tmp_path: Path) -> None:
    lines: list[str] = []

    async def work() -> int:
        def journal(kind: str, record: dict[str, Any]) -> None:
            lines.append(kind)
            if kind == "bill":
                engine.killed = True
                for task in engine._flights.values():
                    task.cancel()

        engine, _ = build(tmp_path, lambda request: "fine", journal)
        await asyncio.gather(*(ask(engine, f"p{i}") for i in range(8)), return_exceptions=True)
        await engine.aclose()
        assert engine.cache is not None
        engine.cache.close()
        return len(AnswerCache(tmp_path / "cache"))

    kept = asyncio.run(work())
    assert kept == lines.count("bill") == lines.count("reply") > 0


def test_a_score_that_cannot_be_written_ends_the_run_as_a_full_disk(tmp_path: Path) -> None:
    @metric("m", roles=("judge",), range=(0, 1))
    async def mark(who: Item, ask: Any) -> Score:
        return Score.of(1.0)

    def full(score: Score, of: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "run/scores.jsonl")

    async def work() -> str:
        engine, _ = build(tmp_path, lambda request: "fine")
        status = await RunLoop(engine, {"m": mark}, on_score=full, in_flight=2).run([Item("i", "p", None, "g", "p")])
        await engine.aclose()
        return status

    assert asyncio.run(work()).startswith("incomplete: disk (the run folder cannot be written: No space left")


def test_a_cache_on_a_full_disk_ends_the_run_though_no_answer_waited_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @metric("m", roles=("judge",), range=(0, 1))
    async def asking(who: Item, ask: Any) -> Score:
        await ask("tit/compare", role="judge", prompt="p", description="d")
        return Score.of(1.0)

    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def work() -> tuple[str, list[Score]]:
        engine, _ = build(tmp_path, lambda request: "fine", lambda kind, record: None)
        assert engine.cache is not None
        monkeypatch.setattr(engine.cache._cache, "set", full)
        scores: list[Score] = []
        loop = RunLoop(engine, {"m": asking}, on_score=lambda score, of: scores.append(score), in_flight=2)
        status = await loop.run([Item("i", "p", None, "g", "p")])
        await engine.aclose()
        return status, scores

    status, scores = asyncio.run(work())
    assert status.startswith("incomplete: disk (an answer cannot be written to the cache")
    assert [score.value for score in scores] == [1.0]  # it is paid, and the journal has it


@pytest.mark.parametrize("twice", [False, True])
def test_what_comes_before_the_items_is_interrupted_as_they_are(tmp_path: Path, twice: bool) -> None:
    lines: list[str] = []

    async def work() -> tuple[str, int]:
        engine, fake = build(tmp_path, lambda request: "fine", lambda kind, record: lines.append(kind))
        fake.gate = asyncio.Event()  # nothing is answered before the keys are pressed, and what is killed never
        loop = RunLoop(engine, {}, on_score=lambda score, of: None, in_flight=2)

        async def canaries() -> None:
            await asyncio.gather(*(ask(engine, f"p{i}") for i in range(20)))

        async def press() -> None:
            while len(fake.requests) < 3:
                await asyncio.sleep(0)
            loop.close("interrupted")
            if twice:
                loop.kill()
            elif fake.gate:
                fake.gate.set()

        pressed = asyncio.create_task(press())
        await loop.aside(canaries())
        status = await loop.run([])
        await asyncio.gather(pressed, engine.aclose())
        return status, len(fake.requests)

    status, requests = asyncio.run(work())
    assert status == "incomplete: interrupted"
    assert requests <= 4
    assert lines.count("sent") == requests
    assert lines.count("reply") == (0 if twice else requests)


def opened(folder: Path) -> RunFolder:
    found = RunFolder(folder)
    found.open(load_config(None, {"captioner": "fake/m", "judge": "fake/m"}))
    return found


def test_what_is_out_when_a_run_is_killed_may_have_been_billed(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")

    async def work() -> float:
        engine, fake = build(tmp_path, lambda request: "fine", folder.journal, {"max_cost": 1.0})
        await ask(engine, "answered")
        fake.latency = 60.0
        waiting = [asyncio.create_task(ask(engine, f"p{i}")) for i in range(3)]
        while len(fake.requests) < 4:
            await asyncio.sleep(0.001)
        as_kill_minus_9_leaves_it = folder.money()
        assert as_kill_minus_9_leaves_it.spent > 0
        assert as_kill_minus_9_leaves_it.requests == 4
        assert as_kill_minus_9_leaves_it.uncertain_tokens > 0
        engine.killed = True  # Ctrl-C twice
        for task in waiting:
            task.cancel()
        await engine.aclose()
        assert folder.money().uncertain == pytest.approx(as_kill_minus_9_leaves_it.uncertain)
        assert engine.budget.reserved == 0
        return engine.budget.uncertain

    uncertain = asyncio.run(work())
    assert uncertain == pytest.approx(folder.money().uncertain)
    assert uncertain > 0
    folder.close()


def test_a_job_restarted_in_a_loop_reaches_its_cap(tmp_path: Path) -> None:
    sent = 0

    async def session(folder: RunFolder) -> None:
        nonlocal sent
        engine, fake = build(tmp_path, lambda request: "fine", folder.journal, {"max_requests": 10})
        engine.budget.resume(folder.money())
        fake.latency = 60.0
        tasks = [asyncio.create_task(ask(engine, f"p{i}")) for i in range(4)]
        for _ in range(50):
            await asyncio.sleep(0)
        sent += len(fake.requests)
        engine.killed = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.aclose()

    for _ in range(6):
        folder = opened(tmp_path / "run")
        asyncio.run(session(folder))
        folder.close()
    assert sent == 10


def test_a_bill_that_settles_no_request_counts(tmp_path: Path) -> None:
    lines = [{"role": "judge", "cost": 0.5, "tokens": 10, "uncertain": 0.0}]
    lines += [{"role": "judge", "cost": 0.0, "tokens": 0, "uncertain": 0.25}]
    (tmp_path / "billing.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    money = RunFolder(tmp_path).money()
    assert (money.spent, money.uncertain, money.requests, money.tokens) == (0.5, 0.25, 2, 10)


def test_a_request_that_cannot_be_written_down_is_not_sent(tmp_path: Path) -> None:
    def journal(kind: str, record: dict[str, Any]) -> None:
        if kind == "sent":
            raise OSError(errno.ENOSPC, "No space left on device", "run/x.jsonl")

    async def work() -> None:
        engine, fake = build(tmp_path, lambda request: "fine", journal)
        with pytest.raises(CacheWriteError, match=r"run/x\.jsonl cannot be written"):
            await ask(engine, "p")
        assert fake.requests == []
        assert engine.budget.reserved == 0
        await engine.aclose()

    asyncio.run(work())


def test_a_request_that_was_not_sent_after_all_leaves_no_open_entry(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")

    async def work() -> None:
        engine, _ = build(tmp_path, lambda request: DataError("the picture has gone"), folder.journal)
        with pytest.raises(Unanswered, match="the picture has gone"):
            await ask(engine, "p")
        await engine.aclose()

    asyncio.run(work())
    money = folder.money()
    assert (money.requests, money.uncertain, money.uncertain_tokens) == (0, 0.0, 0)
    folder.close()


@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize(
    "error", [ConfigError("odd"), DataError("odd"), KeyError("odd"), ValueError("odd"), OSError(5, "odd")]
)
def test_whatever_ends_a_request_that_went_out_it_may_be_billed(tmp_path: Path, error: Exception, sent: bool) -> None:
    folder = opened(tmp_path / "run")

    def answer(request: Request) -> Exception:
        if sent:
            note_sending()
        return error

    async def work() -> None:
        engine, _ = build(tmp_path, answer, folder.journal, {"max_requests": 1})
        with pytest.raises(Exception):  # noqa: B017
            await ask(engine, "p")
        assert engine.budget.uncertain == folder.money().uncertain
        await engine.aclose()

    asyncio.run(work())
    known_unsent = not sent and isinstance(error, ConfigError | DataError)
    assert (folder.money().uncertain > 0, folder.money().requests) == (not known_unsent, int(not known_unsent))
    folder.close()


@pytest.mark.parametrize("concurrency", [1, 4])
def test_after_an_answer_that_passes_the_cap_nothing_is_sent_that_waits_for_a_slot(
    tmp_path: Path, concurrency: int
) -> None:
    async def work() -> None:
        engine, fake = build(
            tmp_path, lambda request: Reply("fine", usage=Usage(9, 9, cost=0.6)), caps={"max_cost": 0.5}
        )
        engine.roles["judge"].limiter.concurrency = engine.roles["judge"].limiter.limit = concurrency
        fake.latency = 0.001
        outcomes = await asyncio.gather(*(ask(engine, f"p{i}") for i in range(12)), return_exceptions=True)
        assert sum(isinstance(outcome, BudgetExhausted) for outcome in outcomes) == 12 - concurrency
        assert len(fake.requests) == concurrency
        await engine.aclose()

    asyncio.run(work())


def test_nothing_happens_between_a_bill_and_the_answer_it_is_for(tmp_path: Path) -> None:
    """A kill in between would lose what is booked as paid."""
    seen: list[str] = []

    def journal(kind: str, record: dict[str, Any]) -> None:
        seen.append(kind)
        if kind == "bill":
            asyncio.get_running_loop().call_soon(seen.append, "something else")

    async def work() -> None:
        engine, fake = build(tmp_path, lambda request: "fine", journal)
        fake.latency = 0.001
        await asyncio.gather(*(ask(engine, f"p{i}") for i in range(12)))  # of which four are out at a time
        await engine.aclose()

    asyncio.run(work())
    after = [seen[i + 1] for i, kind in enumerate(seen) if kind == "bill"]
    assert after == ["reply"] * 12


def test_nothing_happens_between_a_bill_and_its_vector(tmp_path: Path) -> None:
    seen: list[str] = []

    def journal(kind: str, record: dict[str, Any]) -> None:
        seen.append(kind)
        if kind == "bill":
            asyncio.get_running_loop().call_soon(seen.append, "something else")

    class Vectors(Embedder):
        name, identity, max_tokens, local = "e/m", {"model": "m"}, 100, False

        async def embed(self, texts: Sequence[str]) -> list[Embedding]:
            return [Embedding(np.ones(1, dtype="float32"), 1, 1, 1) for _ in texts]

    async def work() -> None:
        config = load_config(None, {"embedder": "openai/m", "prices": {"m": PRICE}})
        roles = Roles(config, embedder=lambda _: Vectors())
        engine = Engine(roles, PromptLibrary(), AnswerCache(tmp_path / "cache"), journal=journal)
        await engine.embed(["one", "two", "three"])
        await engine.aclose()

    asyncio.run(work())
    after = [seen[i + 1] for i, kind in enumerate(seen) if kind == "bill"]
    assert after == ["vector"] * 3
    assert seen.count("vector") == 3
