"""Gzip files that are read from any place on: unpacking starts again at checkpoints, and nothing is written to disk."""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.cells import version
from titjudge.core.errors import DataError

MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's number for the format, with its checksums
_BLOCK = 2**16  # compressed bytes that are read at a time
_STEP = 2**22  # unpacked bytes from one checkpoint to the next, at first
_MOST = 128  # checkpoints of a file, of some 45 KiB each; twice the step if there would be more
_FILES = 8  # whose checkpoints are kept
_LONGEST = 2**26  # bytes of one read; more is neither an image nor a header
_UNPACKED = 2**30  # bytes from which on a file must not unpack to
_RATIO = 200  # times its size


class _Checkpoint(NamedTuple):
    """A position from which unpacking can start again.

    Attributes:
        position: Bytes unpacked so far.
        place: Bytes of the file that were used for that.
        unpacker: A `zlib` object in that state, which is only ever copied.
    """

    position: int
    place: int
    unpacker: Any


class _Checkpoints:
    """The checkpoints of one file, shared by its readers in all threads: a change puts a new tuple instead of the old one."""

    def __init__(self) -> None:
        self._points: tuple[_Checkpoint, ...] = ()
        self._step = _STEP

    def offer(self, position: int, place: int, unpacker: Any) -> None:
        """Add a checkpoint if it is far enough behind the last one."""
        points = self._points
        if position < (points[-1].position if points else 0) + self._step:
            return
        points = (*points, _Checkpoint(position, place, unpacker.copy()))
        if len(points) > _MOST:
            points, self._step = points[1::2], 2 * self._step
        self._points = points

    def before(self, position: int) -> _Checkpoint | None:
        """Return the last checkpoint at or before a position; None if there is none."""
        return next((point for point in reversed(self._points) if point.position <= position), None)


@lru_cache(maxsize=_FILES)
def _checkpoints(_path: str, _version: tuple[int, int]) -> _Checkpoints:
    return _Checkpoints()


def beginning(packed: bytes, size: int) -> bytes:
    """Unpack up to `size` bytes of the beginning of a file; empty if the file is not a gzip file."""
    try:
        return zlib.decompressobj(_GZIP).decompress(packed, size)
    except zlib.error:
        return b""


class GzipReader:
    """Reads an unpacked gzip file from any place on, as `tarfile` and `containers` want it.

    One thread at a time uses a reader; its file is closed with it. It reads by `pread`, so that a copy in a forked process is independent.

    Raises:
        DataError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.version = path, version(path)
        self._checkpoints = _checkpoints(str(path), self.version)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.close = weakref.finalize(self, os.close, self._file)
        self._wanted = 0
        self._start(None)

    def _start(self, point: _Checkpoint | None) -> None:
        self._position, self._place = (point.position, point.place) if point else (0, 0)
        self._unpacker = point.unpacker.copy() if point else zlib.decompressobj(_GZIP)
        self._packed = b""

    def tell(self) -> int:
        return self._wanted

    def seek(self, position: int) -> int:
        """Set the place from which the next `read` reads; nothing is read yet."""
        self._wanted = position
        return position

    def read(self, size: int) -> bytes:
        """Read `size` bytes; fewer at the end.

        Raises:
            DataError: The file is damaged or unpacks to far more than its size, or more is requested than an image or a
                header has.
        """
        if not 0 <= size <= _LONGEST:
            raise DataError(f"one piece has {size / 2**20:,.0f} MiB, more than {_LONGEST >> 20}. Divide it", self.path)
        point = self._checkpoints.before(self._wanted)
        if self._wanted < self._position or (point is not None and point.position > self._position):
            self._start(point)
        try:
            while self._position < self._wanted and self._unpack(self._wanted - self._position):
                pass
            pieces = []
            while size and self._position >= self._wanted and (piece := self._unpack(size)):
                pieces.append(piece)
                size -= len(piece)
                self._wanted += len(piece)
        except (OSError, EOFError, zlib.error) as error:
            self._start(None)
            raise DataError(
                f"cannot be unpacked: {error if isinstance(error, EOFError) else 'it is damaged'}. Copy the file again",
                self.path,
            ) from error
        return b"".join(pieces)

    def read_at(self, position: int, size: int) -> bytes:
        """Read `size` bytes from a position on; fewer at the end."""
        self.seek(position)
        return self.read(size)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file, each with its newline, if any."""
        rest = b""
        while piece := self.read(2**20):
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in whole)
        if rest:
            yield rest

    def _unpack(self, most: int) -> bytes:
        """Unpack the next bytes, no more than `most` and 1 MiB; none at the end of the file."""
        content = b""
        while not content:
            if self._unpacker.eof and not self._next_member():
                return b""
            packed = self._packed or self._block()
            if not packed:
                raise EOFError("it ends too early")
            content = self._unpacker.decompress(packed, min(most, 2**20))
            self._packed = self._unpacker.unused_data or self._unpacker.unconsumed_tail
        self._position += len(content)
        used = self._place - len(self._packed)
        if self._position > max(_UNPACKED, _RATIO * used):
            raise EOFError(f"it unpacks to more than {_RATIO} times its size, as a decompression bomb does")
        if not self._unpacker.eof:
            self._checkpoints.offer(self._position, used, self._unpacker)
        return content

    def _next_member(self) -> bool:
        """Go on to the next part of a file that was put together from several; False if there is none."""
        while not (packed := self._packed.lstrip(b"\0")):  # zeros may follow
            self._packed = self._block()
            if not self._packed:
                return False
        self._packed, self._unpacker = packed, zlib.decompressobj(_GZIP)
        return True

    def _block(self) -> bytes:
        block = os.pread(self._file, _BLOCK, self._place)
        self._place += len(block)
        return block
