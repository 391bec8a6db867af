"""Files with images inside (parquet and arrow tables, tar archives, grids), and the paths of these images.

`train.parquet/image/17` is the image in row 17 of the column `image` (`17.0` the first of a list); `shard.tar/512/20480`
are 20,480 bytes of the archive (unpacked, if it is compressed) from byte 512 on; `7.png/2x2/3` is the third image of a
grid. No such files exist: `holder` recognises such a path and `read_cell` reads the bytes, so that no copy of an image is
ever written.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from stat import S_ISREG
from typing import Any, Protocol
from urllib.parse import unquote

from titjudge.core import gzip_files
from titjudge.core.cells import check_size, version
from titjudge.core.errors import DataError
from titjudge.data import arrow_files, grids, parquet, tar_files

SUFFIXES = (parquet.SUFFIX, arrow_files.SUFFIX, *tar_files.SUFFIXES)
"""Endings of tables that have images inside."""
_GRID = "grid"
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?")
_OPEN = 4  # columns of images, and compressed archives, that are open at a time
_HEAD = 4_096  # bytes by which the kind of a file is known


class _Open(Protocol):
    """An open file, or one column of it."""

    version: tuple[int, int]

    @property
    def close(self) -> Callable[[], Any]: ...


def holder(path: Path) -> str | None:
    """Return the file that a path leads into, known by its content as links may hide its name; None if into none."""
    column = os.path.dirname(path)  # called often for every image: strings are faster than `Path.parent`
    file = os.path.dirname(column)
    try:
        stat = os.stat(file)
        kind = _kind(file, stat.st_size, stat.st_mtime_ns) if S_ISREG(stat.st_mode) else ""
        return file if kind and (kind != _GRID or grids.is_grid(os.path.basename(column))) else None
    except (OSError, ValueError):  # reading the image will report the fault
        return None


@lru_cache(64)
def _kind(file: str, _size: int, _changed: int) -> str:
    """Return the kind of a file with images inside, by its first bytes; empty for any other file."""
    with open(file, "rb") as opened:
        head = opened.read(_HEAD)
    if head.startswith(b"PAR1"):
        return parquet.SUFFIX
    if head.startswith(arrow_files.MAGIC):
        return arrow_files.SUFFIX
    if head.startswith(grids.MAGIC):
        return _GRID
    packed = head.startswith(gzip_files.MAGIC)
    head = gzip_files.beginning(head, 512) if packed else head
    if head[257:262] != tar_files.MAGIC:
        return ""
    return tar_files.PACKED if packed else tar_files.SUFFIX


def exists(path: Path) -> bool:
    """Return True if a path leads to a file, or into a file with images inside."""
    return path.exists() or holder(path) is not None


def read_cell(path: Path) -> bytes:
    """Read an image inside a file.

    Raises:
        DataError: There is none; names the file and the row.
        MissingExtra: pyarrow is not installed.
    """
    column, last = os.path.split(path)
    row, _, element = last.partition(".")
    if not _NUMBER.fullmatch(last):
        raise DataError(f"no such row: '{last:.40}'. Write FILE/COLUMN/NUMBER", path)
    file = os.path.dirname(column)  # strings, as in `holder`
    now = version(file)
    kind = _kind(file, *now)
    if kind in (tar_files.SUFFIX, tar_files.PACKED):
        check_size(int(row), path)
        where = Path(file), os.path.basename(column), int(row)
        if kind == tar_files.SUFFIX:
            with open(file, "rb") as archive:
                return tar_files.read(archive, *where)
        with _lock:
            return tar_files.read(_windows.get(file, now, lambda: gzip_files.GzipReader(where[0])), *where)
    if kind == _GRID:
        with _lock:
            return grids.read(Path(file), os.path.basename(column), int(row))
    with _lock:
        window = parquet.ParquetImages if kind == parquet.SUFFIX else arrow_files.ArrowImages
        make = partial(window, Path(file), unquote(os.path.basename(column)))
        image: bytes | None = _windows.get(column, now, make).read(int(row) - 1, int(element or 0))
    if image is None:
        raise DataError(f"'{unquote(path.parent.name)}' contains no image. Correct the column", Path(file), int(row))
    return image


class _Windows:
    """The columns and compressed archives that were read last, kept open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def get(self, place: str, now: tuple[int, int], make: Callable[[], Any]) -> Any:
        """Return the open container at a path, opened again if its file has changed."""
        window = self._open.pop(place, None)
        if window is not None and window.version != now:
            window.close()
            window = None
        window = self._open[place] = window or make()
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return window


_lock = threading.Lock()
_windows = _Windows()


def _after_fork() -> None:
    """Begin without locks and open files of the parent process: the position in a file would be shared with it."""
    global _lock, _windows
    _lock, _windows = threading.Lock(), _Windows()


os.register_at_fork(after_in_child=_after_fork)
