"""Answers of many tasks in one transaction: on disk when `put` returns, and never lost when something goes wrong."""

from __future__ import annotations

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
