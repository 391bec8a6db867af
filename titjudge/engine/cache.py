"""Answers on disk. A diskcache that never unpickles, never evicts, and notices damage.

diskcache 5.6.3 unpickles rows that are marked so, even with its JSONDisk (CVE-2025-69872). Here every row that is not raw
bytes is refused. Each value has a checksum over itself and its key. A damaged value counts as absent and is requested
again, and the intact part of a damaged database is saved.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import diskcache
import orjson
from diskcache.core import MODE_BINARY, MODE_PICKLE, MODE_RAW

from titjudge.core.errors import CacheWriteError, UserError
from titjudge.core.paths import cache_folder
from titjudge.core.serialization import json_bytes
from titjudge.core.types import Json, Note

_NETWORK_FILE_SYSTEMS = set("nfs nfs4 cifs smb3 smbfs lustre beegfs fuse.sshfs 9p gpfs ceph".split())

T = TypeVar("T")
logger = logging.getLogger(__name__)

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}  # all other errors of SQLite may pass
_LOCK = ".damage.lock"
_WRITE_DELAY = 0.01  # seconds that `put` gathers
_LATER = 0.05  # seconds that `later` gathers; a kill in between loses nothing: a run's journal has each answer before the cache


class _RawDisk(diskcache.Disk):  # type: ignore[misc]
    """Stores bytes under text keys and reads nothing else; diskcache calls its four methods under these names."""

    def store(self, value: Any, read: bool, key: Any = None) -> Any:
        if not isinstance(value, bytes) or read:
            raise TypeError("the cache stores bytes")
        return super().store(value, False, key=key)

    def put(self, key: Any) -> Any:
        """Return how a key is written into the database: as it is, and marked as raw."""
        if not isinstance(key, str):
            raise TypeError("cache keys are text")
        return key, True

    def get(self, key: Any, raw: bool) -> Any:
        """Read a key from the database; diskcache would unpickle one that is not marked as raw."""
        if not raw or not isinstance(key, str):
            raise ValueError("a cache key that is not text is refused")
        return key

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        if mode not in (MODE_RAW, MODE_BINARY) or mode == MODE_PICKLE:
            raise ValueError("a cache row that is not raw bytes is refused")
        return super().fetch(mode, filename, value, False)


class AnswerCache:
    """JSON objects under text keys, safe for several processes of one machine at once.

    Attributes:
        network: The kind of network file system that the folder lies on; empty if it is local.

    Raises:
        UserError: The folder cannot be made or opened.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged = 0
        self.warnings: list[Note] = []
        self._gathered: dict[str, bytes] = {}  # entries of `put` and `later` that are not on disk yet
        self._waiting: list[asyncio.Future[None]] = []  # the callers of `put` that wait for them, all of one event loop
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop that will write what `later` was given
        self._failed: CacheWriteError | None = None  # why entries of `later`, whose callers do not wait, were lost
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.stat(folder).st_mode & 0o077 and os.stat(folder).st_uid == os.getuid():
                os.chmod(folder, 0o700)
            self._cache = self._open()
        except OSError as error:
            raise self._unusable(error.strerror) from error
        kind = _file_system(folder)
        self.network = kind if kind in _NETWORK_FILE_SYSTEMS else ""
        if self.network:
            line = f"the cache {folder} lies on a network file system ({kind}), where SQLite can lose data: use --set cache=DIR with a local folder"
            self.warnings.append(Note("cache_on_network", line))

    def _unusable(self, why: str | None) -> UserError:
        return UserError(
            f"the cache folder {self.folder} cannot be used ({why}). "
            'Name another with --set cache=DIR (in Python cache="DIR") or TITJUDGE_CACHE'
        )

    def _open(self) -> Any:
        """Open the database; a damaged one is replaced.

        Raises:
            UserError: It cannot be opened.
        """
        try:
            return self._database()
        except UnicodeDecodeError as error:
            return self._replace(error)
        except sqlite3.DatabaseError as error:
            if not _is_corruption(error):
                raise self._unusable(str(error)) from error
            return self._replace(error)
        except diskcache.Timeout as error:
            raise self._unusable("another process keeps it locked") from error

    def _database(self) -> Any:
        return diskcache.Cache(
            str(self.folder),
            disk=_RawDisk,
            eviction_policy="none",
            cull_limit=0,
            disk_min_file_size=2**20,
            sqlite_mmap_size=2**22,
            sqlite_cache_size=2**9,  # pages of 4 KiB: every key is read or written once
            timeout=60,
        )

    def _mended(self, use: Callable[[], T], failed: str = "cannot read the cache") -> T:
        """Use the database; if it is damaged, replace it first, and the second time even if SQLite's check finds no damage.

        Raises:
            CacheWriteError: It cannot be reached: locked, no memory, the disk.
        """
        try:
            for checked in (True, False):
                try:
                    return use()
                except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                    if not _is_corruption(error):
                        raise
                    self._cache.close()
                    self._cache = self._replace(error, checked=checked)
            return use()
        except (sqlite3.Error, diskcache.Timeout) as error:
            why = str(error) or "another process keeps it locked"
            raise CacheWriteError(f"{failed} {self.folder}: {why}. Choose another with --set cache=DIR") from error

    def _replace(self, error: Exception, *, checked: bool = True) -> Any:
        """Move a damaged database aside and begin a new one with every answer that can still be read; adds a warning.

        One process at a time does it, and if `checked` only if SQLite finds it damaged still: another may have replaced it
        meanwhile.
        """
        with (self.folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError):
                opened = self._database()
                if checked and _whole(opened):
                    return opened
                opened.close()
            return self._begin_anew(error)

    def _begin_anew(self, error: Exception) -> Any:
        """Move a damaged database into a separate folder, and copy its readable entries into a new one."""
        aside = self.folder / f"damaged-{time.time_ns()}-{os.getpid()}"
        aside.mkdir()
        for path in self.folder.glob("cache.db*"):
            path.rename(aside / path.name)
        fresh = self._database()
        saved = 0
        for key, raw in _readable(aside / "cache.db"):
            saved += bool(fresh.set(key, raw))
        line = f"the cache database in {self.folder} is damaged ({error}); it was moved to {aside.name}, and {saved} entries were saved"
        self.warnings.append(Note("cache_damaged", line))
        logger.warning("%s", line)
        return fresh

    def get(self, key: str) -> Json | None:
        """Get the stored object, or None when it is absent or damaged.

        Raises:
            CacheWriteError: The database cannot be reached (locked, no memory, disk): asking on could pay twice.
        """
        self._raise_failed()
        try:
            raw = self._gathered.get(key) or self._mended(lambda: self._cache.get(key))
        except (ValueError, OSError):
            self._damage(key)
            return None
        if raw is None:
            return None
        if not _checksum_ok(key, raw):
            self._damage(key)
            return None
        value = orjson.loads(raw[16:])
        return value if isinstance(value, dict) else None

    def _damage(self, key: str) -> None:
        self.damaged += 1
        logger.warning("the entry %(key)s of the cache is damaged: its question is asked again", {"key": key})

    def notes(self) -> list[Note]:
        """Return notes on the cache for the user, with the damage found so far."""
        if not self.damaged:
            return self.warnings
        rows = "1 answer was" if self.damaged == 1 else f"{self.damaged} answers were"
        line = f"{rows} damaged in the cache {self.folder}, and asked again"
        return [*self.warnings, Note("cached_answers_damaged", line)]

    def set(self, key: str, value: Json) -> None:
        """Store an object; it is on disk when this returns.

        Raises:
            CacheWriteError: The disk is full or the file cannot be written.
        """
        self._write({key: _packed(key, value)})

    async def put(self, key: str, value: Json) -> None:
        """Store like `set`, for many tasks at once: all values stored within some milliseconds share one transaction."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        if not self._waiting or self._waiting[0].get_loop() is not loop:
            self._waiting = []
            loop.call_later(_WRITE_DELAY, self._write_gathered)
        self._waiting.append(written)
        self._gathered[key] = _packed(key, value)
        await written

    def later(self, key: str, value: Json) -> None:
        """Store an object soon, without waiting: for what a kill cannot lose, as the run's journal has it too.

        `get` returns it at once.

        Raises:
            CacheWriteError: An earlier entry could not be written; the next `get` or `later` raises it.
        """
        self._raise_failed()
        loop = asyncio.get_running_loop()
        if not self._gathered or self._loop is not loop:
            self._loop = loop
            loop.call_later(_LATER, self._write_gathered)
        self._gathered[key] = _packed(key, value)

    def _raise_failed(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def flush(self) -> None:
        """Write what is still gathered.

        Raises:
            CacheWriteError: As `set`; or what was given to `later` could not be written.
        """
        self._write_gathered()
        self._raise_failed()

    def _write_gathered(self) -> None:
        """Write the entries of `put` and `later` in one transaction, and pass the outcome to the callers of `put`."""
        gathered, self._gathered = self._gathered, {}
        waiting, self._waiting = self._waiting, []
        failed: CacheWriteError | None = None
        try:
            if gathered:
                self._write(gathered)
        except CacheWriteError as error:
            failed = error
            if not waiting:
                self._failed = error
        for written in waiting:
            if written.done():  # its caller was cancelled
                continue
            if failed is None:
                written.set_result(None)
            else:
                written.set_exception(failed)

    def _write(self, rows: Mapping[str, bytes]) -> None:
        """Write entries in one transaction; a damaged database is replaced first.

        Raises:
            CacheWriteError: The disk is full, the file cannot be written, or another process keeps it locked.
        """
        failed = "an answer cannot be written to the cache"
        try:
            self._mended(lambda: self._store(rows), failed)
        except OSError as error:
            raise CacheWriteError(
                f"{failed} {self.folder}: {error}. Free space on its disk, then run the command again"
            ) from error

    def _store(self, rows: Mapping[str, bytes]) -> None:
        with self._cache.transact():
            for key, raw in rows.items():
                self._cache.set(key, raw)

    def keys(self) -> Iterator[str]:
        rows = self._mended(lambda: self._cache._sql("select key, raw from Cache order by key").fetchall())
        yield from (key for key, raw in rows if raw and isinstance(key, str))

    def __len__(self) -> int:
        return self._mended(lambda: len(self._cache))

    def size(self) -> int:
        """Bytes on disk."""
        return self._mended(lambda: int(self._cache.volume()))

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        return self._mended(lambda: int(self._cache.clear()))

    def close(self) -> None:
        """Write what is still gathered and let go of the database.

        Raises:
            CacheWriteError: As `flush`.
        """
        try:
            self.flush()
        finally:
            self._cache.close()


@contextlib.contextmanager
def open_cache(folder: Path | None) -> Iterator[AnswerCache]:
    """Open the cache in a folder, by default in the usual one.

    Raises:
        UserError: Its folder cannot be used.
    """
    with contextlib.closing(AnswerCache(cache_folder(folder))) as cache:
        yield cache


def _packed(key: str, value: Json) -> bytes:
    body = json_bytes(value)
    return _checksum(key, body) + body


def _checksum(key: str, body: bytes) -> bytes:
    """16 bytes. The key is part of it: a damaged index must not hand out another question's answer."""
    return hashlib.sha256(key.encode() + b"\0" + body).digest()[:16]


def _checksum_ok(key: str, raw: Any) -> bool:
    return isinstance(raw, bytes) and _checksum(key, raw[16:]) == raw[:16]


def _is_corruption(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Return True if an error means that the file is broken, and not just out of reach (UnicodeDecodeError: in an error's text)."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by Python's module itself: of a text column that is not UTF-8, for one
        return isinstance(error, UnicodeDecodeError) or "decode" in str(error).lower()
    return code & 0xFF in _DAMAGE or "no such column" in str(error) or "no such table" in str(error)


def _whole(opened: Any) -> bool:
    """Whether a database can be read from beginning to end, and its indexes with it.

    Raises:
        sqlite3.DatabaseError, UnicodeDecodeError: it cannot.
    """
    (verdict,) = opened._sql("pragma quick_check(1)").fetchone()
    rows = opened._sql("select key, raw, store_time, expire_time, access_time, tag, mode, filename, value from Cache")
    return verdict == "ok" and all(True for _ in rows)


def _readable(database: Path) -> Iterator[tuple[str, bytes]]:
    """Keys and values of a damaged database as far as SQLite still reads it, whole ones only; never unpickled."""
    for order in ("asc", "desc"):  # from both ends up to the damage
        try:
            with contextlib.closing(sqlite3.connect(database)) as opened:
                opened.text_factory = bytes
                for key, raw in opened.execute(f"select key, value from Cache order by rowid {order}"):
                    name = key.decode("utf-8", "replace") if isinstance(key, bytes) else ""
                    if _checksum_ok(name, raw):
                        yield name, raw
                return
        except (sqlite3.Error, UnicodeDecodeError):
            continue


def _file_system(folder: Path) -> str:
    """Find the type of the file system of `folder` in /proc/mounts; empty if there is no such file."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    path, best, kind = str(folder.resolve()), "", ""
    for line in mounts:
        fields = line.split()
        if len(fields) > 2:
            point = fields[1].replace("\\040", " ")
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
                best, kind = point, fields[2]
    return kind
