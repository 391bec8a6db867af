"""Download files over HTTP, several at once: interrupted files are resumed, and a file is moved into place once its checksum fits.

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
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
_REPORT_EVERY = 5.0  # seconds
_NAMED = 200  # of more files than these only the number is reported
PARTS = ".parts"
"""Folder of incomplete files."""


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file to download.

    Attributes:
        place: Its destination.
        checksum: Its SHA-256, or the id that git gives it (40 digits).
        size: Its bytes, if known.
    """

    url: str
    place: Path
    checksum: str
    size: int | None = None


class Unavailable(UserError):
    """A file is not available from its server; `status` is the HTTP status, 0 if there was no reply."""

    def __init__(self, url: str, reason: str, status: int = 0) -> None:
        self.url, self.reason, self.status = url, reason, status
        super().__init__(f"{url} cannot be downloaded ({reason}). Check the connection, then run the command again")


def checksum_of(path: Path, like: str) -> str:
    """Compute the checksum of a file: as git's id if `like` has 40 digits, otherwise its SHA-256."""
    with path.open("rb") as file:
        if len(like) != 40:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        while block := file.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


class Downloads:
    """An HTTP client for files, to be closed.

    Args:
        token: A bearer token, which is sent to the hosts that are asked and never to hosts that they redirect to.

    Raises:
        UserError: A proxy in the environment cannot be used.
    """

    def __init__(self, token: str = "") -> None:
        headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            self._client = httpx.Client(headers=headers, timeout=_TIMEOUT, follow_redirects=True)
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # for example a SOCKS proxy
            names = ", ".join(sorted(name for name in os.environ if name.lower().endswith("_proxy")))
            raise UserError(
                f"{names}: downloads require an HTTP proxy: {one_line(str(error))}. Change or unset it"
            ) from None
        self._stop = threading.Event()
        self._bytes = 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def json(self, url: str) -> Any:
        """Get a JSON document.

        Raises:
            Unavailable: It is not available, or is not JSON.
        """

        def get() -> Any:
            reply = self._client.get(url)
            reply.raise_for_status()
            return reply.json()

        try:
            return self._repeated(url, get)
        except ValueError as error:
            raise Unavailable(url, "the reply is not JSON") from error

    def files(self, wanted: list[WantedFile], folder: Path, say: Callable[[str], None]) -> None:
        """Download files. When one fails, complete files stay, and the next call resumes the incomplete ones.

        Args:
            wanted: The files.
            folder: The folder for incomplete files.
            say: Called with a line for each file that is complete, and every few seconds one on the progress.

        Raises:
            Unavailable: A file is not available.
            DataError: The download is not the file; it is not written.
            UserError: The disk is too small for them.
        """
        total = sum(file.size or 0 for file in wanted)
        parts = folder / PARTS
        parts.mkdir(parents=True, exist_ok=True)
        self._bytes = sum(path.stat().st_size for path in parts.iterdir())
        if total - self._bytes > (free := shutil.disk_usage(folder).free):
            raise UserError(
                f"{folder}: the download has {total:,} bytes, but only {free:,} are free. Choose another -o FOLDER"
            )
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            report = say if len(wanted) <= _NAMED else lambda line: None
            waiting = {pool.submit(self._download, file, parts, report) for file in wanted}
            while waiting:
                done, waiting = wait(waiting, _REPORT_EVERY, FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if waiting:
                    of_total = f" of {total:,}" if total else ""
                    say(f"{len(wanted) - len(waiting):,} of {len(wanted):,} files, {self._bytes:,}{of_total} bytes")
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            with contextlib.suppress(OSError):  # not empty
                parts.rmdir()

    def _download(self, wanted: WantedFile, parts: Path, say: Callable[[str], None]) -> None:
        """Download a file into the folder of incomplete files, and move it into place once its checksum fits."""
        part = parts / f"{wanted.checksum}.{hashlib.sha256(str(wanted.place).encode()).hexdigest()[:8]}"
        self._repeated(wanted.url, lambda: self._resume(wanted, part))
        size = part.stat().st_size
        if checksum_of(part, wanted.checksum) != wanted.checksum:
            part.unlink()
            expected = f", expected {wanted.size:,}" if wanted.size not in (None, size) else ""
            raise DataError(
                f"the downloaded file differs from the pinned file ({size:,} bytes{expected}) and was not written. Try again",
                wanted.place,
            )
        wanted.place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, wanted.place)
        say(f"{wanted.place} ({size:,} bytes)")

    def _resume(self, wanted: WantedFile, part: Path) -> None:
        """Get the missing rest of a file, or all of it if the server knows no ranges."""
        here = part.stat().st_size if part.exists() else 0
        if here and here == wanted.size:
            return
        with self._client.stream("GET", wanted.url, headers={"Range": f"bytes={here}-"} if here else {}) as reply:
            if reply.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # the server reports that nothing is missing; the checksum decides
            reply.raise_for_status()
            resumed = reply.headers.get("Content-Range", "").startswith(f"bytes {here}-")
            with part.open("ab" if reply.status_code == httpx.codes.PARTIAL_CONTENT and resumed else "wb") as file:
                for chunk in reply.iter_raw():
                    if self._stop.is_set():
                        raise _Stopped
                    file.write(chunk)
                    self._bytes += len(chunk)
                    if wanted.size is not None and file.tell() > wanted.size:
                        return  # another file; the checksum will not fit

    def _repeated(self, url: str, ask: Callable[[], Any]) -> Any:
        """Call until there is an answer; a failure that may pass is repeated a few times."""
        for tried in range(_TRIES):
            try:
                return ask()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                status, reason = 0, one_line(str(error)) or type(error).__name__
                pause = PAUSE * 2**tried
                if isinstance(error, httpx.HTTPStatusError):
                    status = error.response.status_code
                    reason = f"HTTP {status} {error.response.reason_phrase}".strip()
                    may_pass = status in _PASSING
                    pause = _retry_after(error.response.headers, pause)
                else:
                    lasting = isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol)
                    may_pass = isinstance(error, httpx.TransportError) and not lasting
                if not may_pass or tried == _TRIES - 1:
                    raise Unavailable(url, reason, status) from None
            if self._stop.wait(pause):
                raise _Stopped
        raise AssertionError("the last try raises")


class _Stopped(Exception):
    """Another file failed, or the command was interrupted."""


def _retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    """Return how long the server asks to wait, in seconds."""
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT) if text.isascii() and text.isdigit() else otherwise
