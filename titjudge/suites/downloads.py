"""Download files over HTTP: resumed where they broke, several at once, moved into place only when they are what they should be.

`huggingface_hub` could do this for the hub; its release 1.33 throws a broken file away when the command ends, and sends a token on to
huggingface.co when a mirror redirects there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from titjudge.core.errors import DataError, UserError
from titjudge.core.redaction import one_line

_AT_ONCE = 8
_TRIES = 5
_PASSING = {408, 425, 429, 500, 502, 503, 504}
PAUSE = 1.0
"""Seconds before the first repetition; doubled each time."""
_LONGEST_WAIT = 60.0  # seconds that a server may ask to wait before it is asked again
_TIMEOUT = httpx.Timeout(30)
_TELL_EVERY = 5.0  # seconds
_NAMED = 200  # of more files than these only their number is told
PARTS = ".parts"
"""Folder of files that have not come whole."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to download.

    Attributes:
        place: Where it goes.
        checksum: Its SHA-256, or the id that git gives it (40 digits).
        size: Its bytes, where they are known.
    """

    url: str
    place: Path
    checksum: str
    size: int | None = None


class Unavailable(UserError):
    """A server does not give a file; `status` is its HTTP status, 0 where there was no reply."""

    def __init__(self, url: str, reason: str, status: int = 0) -> None:
        self.url, self.reason, self.status = url, reason, status
        super().__init__(f"{url} cannot be had ({reason})")


def checksum_of(path: Path, like: str) -> str:
    """Compute the checksum of a file: as git's id where `like` has 40 digits, else its SHA-256."""
    with path.open("rb") as file:
        if len(like) != 40:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while block := file.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


class Downloads:
    """An HTTP client for files; use it as a context.

    Args:
        token: Sent as a bearer token to the hosts that are asked, never to another that they redirect to.
    """

    def __init__(self, token: str = "") -> None:
        headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT, follow_redirects=True)
        self._stop = threading.Event()
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def json(self, url: str) -> Any:
        """Get a JSON document.

        Raises:
            Unavailable: The server does not give it, or something else.
        """

        def get() -> Any:
            reply = self._client.get(url)
            reply.raise_for_status()
            return reply.json()

        try:
            return self._repeated(url, get)
        except ValueError as error:
            raise Unavailable(url, "the reply is not JSON") from error

    def files(self, wanted: list[Wanted], folder: Path, say: Callable[[str], None]) -> None:
        """Download files, some at once. What came whole stays when one fails, and a file in part is gone on with next time.

        Args:
            wanted: The files.
            folder: Where parts are kept until they are whole.
            say: Told of each file that came, or every few seconds how far it is.

        Raises:
            Unavailable: A server does not give a file.
            DataError: What came is not the file: it is not written.
            UserError: The disk has no room for them.
        """
        total = sum(each.size or 0 for each in wanted)
        parts = folder / PARTS
        parts.mkdir(parents=True, exist_ok=True)
        self._bytes = _held(parts)
        if total - self._bytes > (free := shutil.disk_usage(folder).free):
            raise UserError(f"{folder}: {total:,} bytes are to come and {free:,} are free")
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            tell = say if len(wanted) <= _NAMED else lambda line: None
            waiting: set[Future[None]] = {pool.submit(self._whole, each, parts, tell) for each in wanted}
            while waiting:
                done, waiting = wait(waiting, _TELL_EVERY, FIRST_EXCEPTION)
                for each in done:
                    each.result()
                if waiting:
                    of = f" of {total:,}" if total else ""
                    say(f"{len(wanted) - len(waiting):,} of {len(wanted):,} files, {self._bytes:,}{of} bytes")
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            with contextlib.suppress(OSError):  # it still has parts
                parts.rmdir()

    def _whole(self, wanted: Wanted, parts: Path, say: Callable[[str], None]) -> None:
        part = parts / f"{wanted.checksum}.{hashlib.sha256(str(wanted.place).encode()).hexdigest()[:8]}"
        self._repeated(wanted.url, lambda: self._continue(wanted, part))
        if checksum_of(part, wanted.checksum) != wanted.checksum:
            size = part.stat().st_size
            part.unlink()
            expected = f", expected {wanted.size:,}" if wanted.size not in (None, size) else ""
            raise DataError(
                f"what came is another file than was pinned ({size:,} bytes{expected}): not written", wanted.place
            )
        wanted.place.parent.mkdir(parents=True, exist_ok=True)
        size = part.stat().st_size
        os.replace(part, wanted.place)
        say(f"{wanted.place} ({size:,} bytes)")

    def _continue(self, wanted: Wanted, part: Path) -> None:
        """Get what is missing of a file, or all of it where the server gives no parts."""
        here = part.stat().st_size if part.exists() else 0
        if here and here == wanted.size:
            return
        with self._client.stream("GET", wanted.url, headers={"Range": f"bytes={here}-"} if here else {}) as reply:
            if reply.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # nothing is missing, says the server; the checksum decides
            reply.raise_for_status()
            goes_on = reply.headers.get("Content-Range", "").startswith(f"bytes {here}-")
            with part.open("ab" if reply.status_code == httpx.codes.PARTIAL_CONTENT and goes_on else "wb") as file:
                for chunk in reply.iter_raw():
                    if self._stop.is_set():
                        raise _Stopped
                    file.write(chunk)
                    self._bytes += len(chunk)
                    if wanted.size is not None and file.tell() > wanted.size:
                        return  # it is another file

    def _repeated(self, url: str, ask: Callable[[], Any]) -> Any:
        """Ask until there is an answer, a few times where it failed for a while only."""
        for tried in range(1, _TRIES + 1):
            try:
                return ask()
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status not in _PASSING or tried == _TRIES:
                    raise Unavailable(url, f"HTTP {status} {error.response.reason_phrase}".strip(), status) from None
                pause = _asked(error.response.headers, PAUSE * 2 ** (tried - 1))
            except httpx.TransportError as error:
                if tried == _TRIES or isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
                    raise Unavailable(url, one_line(str(error)) or type(error).__name__) from None
                pause = PAUSE * 2 ** (tried - 1)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise Unavailable(url, one_line(str(error)) or type(error).__name__) from None
            if self._stop.wait(pause):
                raise _Stopped
        raise AssertionError("the last try raises")


class _Stopped(Exception):
    """Another file failed, or the command was interrupted."""


def _asked(headers: Mapping[str, str], otherwise: float) -> float:
    """Read how long a server asks to wait, in seconds."""
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdigit() else otherwise


def _held(parts: Path) -> int:
    return sum(path.stat().st_size for path in parts.iterdir())
