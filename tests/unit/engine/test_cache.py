import os
import pickle
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import diskcache
import pytest

from titjudge.core.errors import CacheWriteError, UserError
from titjudge.core.serialization import reply_from, reply_record, request_key, request_record
from titjudge.core.types import ImageFile, Message, Reply, Request, Tool, ToolCall, ToolResult
from titjudge.engine.cache import AnswerCache


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[AnswerCache]:
    opened = AnswerCache(tmp_path / "c")
    yield opened
    opened.close()


def test_what_goes_in_comes_out_also_in_another_process(cache: AnswerCache) -> None:
    cache.set("ask:1", {"text": "ä 🍎", "n": 1.5})
    again = AnswerCache(cache.folder)
    assert again.get("ask:1") == {"text": "ä 🍎", "n": 1.5}
    assert again.get("ask:2") is None
    again.close()


class Canary:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("canary-was-executed",)


def test_a_planted_pickle_is_never_executed(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    cache.set("ask:1", {"a": 1})
    planted = sqlite3.connect(cache.folder / "cache.db")
    planted.execute("update Cache set mode = 4, value = ?", (pickle.dumps(Canary()),))
    planted.execute(
        "insert into Cache (key, raw, store_time, access_time, mode, value) values (?, 0, 0, 0, 4, ?)",
        (pickle.dumps(Canary()), pickle.dumps(Canary())),
    )
    planted.commit()
    planted.close()
    assert cache.get("ask:1") is None
    assert cache.damaged == 1
    assert list(cache.keys()) == ["ask:1"]
    assert not Path("canary-was-executed").exists()


def test_flipped_bytes_are_noticed_and_asked_anew(cache: AnswerCache) -> None:
    cache.set("ask:1", {"text": "the true answer"})
    flipped = sqlite3.connect(cache.folder / "cache.db")
    flipped.execute("update Cache set value = replace(cast(value as blob), cast('true' as blob), cast('fals' as blob))")
    flipped.commit()
    flipped.close()
    assert cache.get("ask:1") is None
    cache.set("ask:1", {"text": "again"})
    assert cache.get("ask:1") == {"text": "again"}


def test_a_database_that_is_not_one_is_put_aside_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "cache.db").write_bytes(os.urandom(5000))
    cache = AnswerCache(folder)
    assert cache.warnings
    assert cache.warnings[0].id == "cache_damaged"
    cache.set("ask:1", {"a": 1})
    assert cache.get("ask:1") == {"a": 1}
    cache.close()


def damaged(folder: Path, entries: int = 400) -> AnswerCache:
    """A cache with a page of zeros in its middle."""
    cache = AnswerCache(folder)
    for number in range(entries):
        cache.set(f"ask:{number:04}", {"text": f"answer {number}" * 30})
    cache.close()
    raw = bytearray((folder / "cache.db").read_bytes())
    middle = len(raw) // 2 // 4096 * 4096
    raw[middle : middle + 4096] = bytes(4096)
    (folder / "cache.db").write_bytes(raw)
    return AnswerCache(folder)


def test_what_is_whole_in_a_damaged_database_is_saved(tmp_path: Path) -> None:
    cache = damaged(tmp_path / "c")
    kept = [number for number in range(400) if cache.get(f"ask:{number:04}") == {"text": f"answer {number}" * 30}]
    assert 300 < len(kept) < 400
    assert "entries were saved" in cache.warnings[0]
    cache.close()


def test_an_answer_under_the_key_of_another_question_is_not_handed_out(cache: AnswerCache) -> None:
    cache.set("ask:1", {"text": "one"})
    cache.set("ask:2", {"text": "two"})
    crossed = sqlite3.connect(cache.folder / "cache.db")
    crossed.execute("update Cache set value = (select value from Cache where key = 'ask:2') where key = 'ask:1'")
    crossed.commit()
    crossed.close()
    assert cache.get("ask:1") is None
    assert cache.damaged == 1


def test_a_database_that_cannot_be_had_just_now_stays_where_it_is(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.set("ask:1", {"a": 1})

    def locked(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(cache._cache, "get", locked)
        with pytest.raises(CacheWriteError, match="locked"):
            cache.get("ask:1")
    assert not list(cache.folder.glob("damaged-*"))
    assert cache.get("ask:1") == {"a": 1}


def test_a_lock_that_is_held_for_a_minute_is_an_error_of_its_own(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*_: object, **__: object) -> None:
        raise diskcache.Timeout

    monkeypatch.setattr(cache._cache, "set", held)
    with pytest.raises(CacheWriteError, match="another process"):
        cache.set("ask:1", {"a": 1})


def test_flipped_bytes_anywhere_crash_nothing_and_invent_nothing(tmp_path: Path) -> None:
    whole = AnswerCache(tmp_path / "whole")
    for number in range(60):
        whole.set(f"ask:{number}", {"text": f"answer {number}" * 20})
    whole.close()
    raw = (tmp_path / "whole" / "cache.db").read_bytes()
    for seed in range(30):
        flips = random.Random(seed)
        broken = bytearray(raw)
        for _ in range(20):
            broken[flips.randrange(len(broken))] ^= 0xFF
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "cache.db").write_bytes(broken)
        cache = AnswerCache(folder)
        for number in range(60):
            assert cache.get(f"ask:{number}") in (None, {"text": f"answer {number}" * 20})
        cache.set("ask:new", {"a": seed})
        assert cache.get("ask:new") == {"a": seed}
        cache.close()


def test_nothing_is_evicted_and_the_folder_is_private(cache: AnswerCache) -> None:
    for number in range(300):
        cache.set(f"ask:{number}", {"text": "x" * 2000})
    assert len(cache) == 300
    assert cache._cache.eviction_policy == "none"
    assert os.stat(cache.folder).st_mode & 0o077 == 0


def test_a_full_disk_is_an_error_of_its_own(cache: AnswerCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(cache._cache, "set", full)
    with pytest.raises(CacheWriteError, match="disk is full"):
        cache.set("ask:1", {"a": 1})


def test_a_folder_that_cannot_be_is_the_persons_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="cannot be used"):
        AnswerCache(tmp_path / "file" / "cache")


PICTURE = ImageFile("a" * 64, "image/png", 4, 4, Path("a.png"), lambda: b"x")
REQUEST = Request(
    "openai", "gpt-4o", (Message("user", (PICTURE, "hello")),), {"max_tokens": 5, "temperature": 0}, None, "", "http://h/v1",
    role="judge", item_id="i",
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "gemini"},
        {"model": "gpt-4.1"},
        {"messages": (Message("user", (PICTURE, "hello!")),)},
        {"messages": (Message("user", ("hello", PICTURE)),)},
        {"messages": (Message("user", (replace(PICTURE, sha256="b" * 64), "hello")),)},
        {"params": {"max_tokens": 6, "temperature": 0}},
        {"params": {"max_tokens": 5}},
        {"schema": {"type": "object"}},
        {"base_url": "http://other/v1"},
        {"sample": 1},
        {"attempt": 1},
        {"adapter_version": 2},
    ],
)
def test_the_key_changes_with_everything_that_can_change_the_answer(change: dict[str, object]) -> None:
    assert request_key(replace(REQUEST, **change)) != request_key(REQUEST)


@pytest.mark.parametrize(
    "change",
    [{"role": "captioner"}, {"item_id": "j"}, {"template": "t"}, {"params": {"temperature": 0, "max_tokens": 5}},
     {"messages": (Message("user", (replace(PICTURE, path=Path("copy.png")), "hello")),)}],
)  # fmt: skip
def test_the_key_holds_nothing_else(change: dict[str, object]) -> None:
    assert request_key(replace(REQUEST, **change)) == request_key(REQUEST)


def test_the_key_of_a_request_without_tools_is_what_it_was() -> None:
    assert request_key(REQUEST) == "ask:d5df484e95d6122119f2dd53cbffda647ede30a2a2d023f6a20689df659e549f"
    assert (
        request_key(replace(REQUEST, schema={"type": "object"}, sample=2))
        == "ask:973974c59e892ddbebbe2111da33f7ce6d8d3d061c7457541a19bdfc285a6bfd"
    )


LOOK = Tool("look", "looks", {"type": "object", "properties": {}})
CALL = ToolCall("look", "{}", "call_1", "sig")
SAID = (
    *REQUEST.messages,
    Message("assistant", ("hm",), (CALL,)),
    Message("user", (), (), (ToolResult(CALL, "a cat"),)),
)
TALK = replace(REQUEST, messages=SAID, tools=(LOOK,))


@pytest.mark.parametrize(
    "change",
    [
        {"tools": ()},
        {"tools": (replace(LOOK, name="see"),)},
        {"tools": (replace(LOOK, description="sees"),)},
        {"tools": (replace(LOOK, parameters={"type": "object"}),)},
        {"tools": (LOOK, LOOK)},
        {"messages": (*SAID[:1], replace(SAID[1], calls=(replace(CALL, arguments='{"a":1}'),)), SAID[2])},
        {"messages": (*SAID[:1], replace(SAID[1], calls=(replace(CALL, signature=""),)), SAID[2])},
        {"messages": (*SAID[:2], replace(SAID[2], results=(ToolResult(CALL, "a dog"),)))},
    ],
)
def test_tools_calls_and_results_are_part_of_the_key(change: dict[str, object]) -> None:
    assert request_key(replace(TALK, **change)) != request_key(TALK)  # type: ignore[arg-type]
    assert request_key(replace(TALK)) == request_key(TALK)


def test_calls_survive_the_cache_and_old_entries_are_read_without_them(cache: AnswerCache) -> None:
    reply = Reply("", tool_calls=(CALL, ToolCall("look", "{bad")))
    cache.set("ask:1", reply_record(reply))
    kept = cache.get("ask:1")
    assert kept is not None
    assert reply_from(kept).tool_calls == reply.tool_calls
    plain = reply_record(Reply("a cat"))
    assert "tool_calls" not in plain
    assert reply_from(plain).tool_calls == ()


def test_a_request_record_shows_what_was_called_and_says_nothing_of_tools_where_there_are_none() -> None:
    assert "tools" not in request_record(REQUEST)
    record = request_record(TALK)
    assert record["tools"] == ["look"]
    assert record["messages"][1:] == [["assistant", "hm", "look({})"], ["user", "look: a cat"]]


def failing(code: int, message: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_SCHEMA,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_ERROR,
    ],
)
def test_a_race_for_the_lock_is_no_damage(cache: AnswerCache, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    cache.set("ask:1", {"a": 1})

    def race(*_: object, **__: object) -> None:
        raise failing(code, "locking protocol")

    with monkeypatch.context() as patch:
        patch.setattr(cache._cache, "get", race)
        with pytest.raises(CacheWriteError, match="locking protocol"):
            cache.get("ask:1")
    assert not list(cache.folder.glob("damaged-*"))
    assert cache.get("ask:1") == {"a": 1}


def test_a_whole_database_is_never_moved_away_from_those_who_use_it(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has put the damaged one aside, or it was none."""
    cache.set("ask:1", {"a": 1})
    other = AnswerCache(cache.folder)

    def damaged(*_: object, **__: object) -> None:
        raise failing(sqlite3.SQLITE_CORRUPT, "database disk image is malformed")

    monkeypatch.setattr(other._cache, "get", damaged)
    assert other.get("ask:1") == {"a": 1}
    assert not list(cache.folder.glob("damaged-*"))
    cache.set("ask:2", {"a": 2})
    assert other.get("ask:2") == {"a": 2}
    other.close()


def test_damaged_answers_are_counted_and_said(cache: AnswerCache) -> None:
    assert cache.notes() == []
    for number in range(3):
        cache.set(f"ask:{number}", {"text": "the true answer"})
    flipped = sqlite3.connect(cache.folder / "cache.db")
    flipped.execute("update Cache set value = x'00' where key != 'ask:0'")
    flipped.commit()
    flipped.close()
    assert [cache.get(f"ask:{number}") is None for number in range(3)] == [False, True, True]
    (note,) = cache.notes()
    assert "2 answers were damaged" in note


@pytest.mark.parametrize("error", [
    sqlite3.DatabaseError("database disk image is malformed"), sqlite3.OperationalError("no such column: mode"),
])  # fmt: skip
def test_damage_that_the_check_of_sqlite_does_not_find_is_mended_too(
    cache: AnswerCache, monkeypatch: pytest.MonkeyPatch, error: sqlite3.DatabaseError
) -> None:
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    cache.set("ask:1", {"a": 1})
    real, calls = diskcache.Cache.get, []

    def damaged(self: Any, key: str) -> Any:
        calls.append(key)
        if len(calls) < 3:
            raise error
        return real(self, key)

    monkeypatch.setattr(diskcache.Cache, "get", damaged)
    assert cache.get("ask:1") == {"a": 1}
    assert len(list(cache.folder.glob("damaged-*"))) == 1
    assert len(cache) == 1
