"""Answers of many tasks in one transaction: on disk when `put` returns, soon after `later`, never lost when something goes wrong."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from titjudge.core.errors import CacheWriteError
from titjudge.engine.cache import AnswerCache


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[AnswerCache]:
    opened = AnswerCache(tmp_path / "c")
    yield opened
    opened.close()


def on_disk(cache: AnswerCache) -> set[str]:
    """What a process that comes after a kill would find."""
    with sqlite3.connect(cache.folder / "cache.db") as other:
        return {key for (key,) in other.execute("select key from Cache")}


def test_what_many_tasks_put_is_on_disk_when_they_go_on(cache: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    transactions = []
    store = cache._store
    monkeypatch.setattr(cache, "_store", lambda rows: (transactions.append(len(rows)), store(rows)))

    async def one(number: int) -> None:
        await cache.put(f"ask:{number}", {"n": number})
        assert f"ask:{number}" in on_disk(cache)

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, range(50)))

    asyncio.run(all_of_them())
    assert transactions == [50]
    assert cache.get("ask:7") == {"n": 7}


def test_what_waits_to_be_written_is_found_already(cache: AnswerCache) -> None:
    async def run() -> None:
        writing = asyncio.create_task(cache.put("ask:1", {"n": 1}))
        await asyncio.sleep(0)
        assert cache.get("ask:1") == {"n": 1}
        await writing

    asyncio.run(run())


def test_closing_writes_what_waits_though_its_tasks_are_gone(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "c")

    async def killed() -> None:
        writing = asyncio.create_task(cache.put("ask:1", {"n": 1}))
        await asyncio.sleep(0)
        writing.cancel()

    asyncio.run(killed())
    assert on_disk(cache) == set()
    cache.close()
    assert on_disk(cache) == {"ask:1"}


def test_a_task_that_goes_away_takes_no_other_answer_with_it(cache: AnswerCache) -> None:
    async def run() -> None:
        first, second = (asyncio.create_task(cache.put(f"ask:{n}", {"n": n})) for n in (1, 2))
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(run())
    assert on_disk(cache) == {"ask:1", "ask:2"}


def test_one_cache_serves_one_event_loop_after_another(cache: AnswerCache) -> None:
    async def cut_short() -> None:
        writing = asyncio.create_task(cache.put("ask:1", {"n": 1}))
        await asyncio.sleep(0)
        writing.cancel()

    asyncio.run(cut_short())
    asyncio.run(asyncio.wait_for(cache.put("ask:2", {"n": 2}), 5))
    assert on_disk(cache) == {"ask:1", "ask:2"}


def test_everybody_who_waits_hears_of_a_full_disk(cache: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(cache._cache, "set", full)

    async def run() -> list[BaseException | None]:
        return await asyncio.gather(*(cache.put(f"ask:{n}", {}) for n in range(3)), return_exceptions=True)

    results = asyncio.run(run())
    assert len(results) == 3
    assert all(isinstance(each, CacheWriteError) and "disk is full" in str(each) for each in results)


def test_what_nobody_waits_for_is_found_at_once_and_written_in_one_transaction(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = []
    store = cache._store
    monkeypatch.setattr(cache, "_store", lambda rows: (transactions.append(len(rows)), store(rows)))

    async def run() -> None:
        for n in range(20):
            cache.later(f"ask:{n}", {"n": n})
        assert cache.get("ask:7") == {"n": 7}
        while not transactions:
            await asyncio.sleep(0.01)

    asyncio.run(run())
    assert transactions == [20]
    assert len(on_disk(cache)) == 20


def test_what_an_event_loop_left_is_written_by_the_next(cache: AnswerCache) -> None:
    async def leave() -> None:
        cache.later("ask:1", {"n": 1})

    async def go_on() -> None:
        cache.later("ask:2", {"n": 2})
        while len(on_disk(cache)) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(leave())
    asyncio.run(asyncio.wait_for(go_on(), 60))
    assert on_disk(cache) == {"ask:1", "ask:2"}


@pytest.mark.parametrize("how", ["get", "later", "flush"])
def test_a_full_disk_that_nobody_waited_for_is_told_next_and_once(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(cache._cache, "set", full)
            cache.later("ask:1", {})
            if how != "flush":
                cache._write_gathered()
            with pytest.raises(CacheWriteError, match="disk is full"):
                {"get": lambda: cache.get("x"), "later": lambda: cache.later("x", {}), "flush": cache.flush}[how]()
        assert cache.get("ask:1") is None

    asyncio.run(run())
