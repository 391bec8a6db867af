"""Files with images inside (parquet and arrow tables, tar archives, grids), and the paths of these images.

`train.parquet/image/17` is the image in row 17 of the column `image`; `shard.tar/512/20480` are 20,480 bytes of the
archive from byte 512 on; `7.png/2x2/3` is the third image of a grid. No such files exist: `holder` recognises such a
path and `read_cell` reads the bytes, so that no copy of an image is ever written.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Protocol
from urllib.parse import unquote

from titjudge.core import arrow_files, grids, parquet, tar_files
from titjudge.core.cells import version
from titjudge.core.errors import DataError

SUFFIXES = (parquet.SUFFIX, arrow_files.SUFFIX, *tar_files.SUFFIXES)
"""Endings of tables that have images inside."""
_GRID = "grid"
_OPEN = 4  # columns of images that are open at a time


class _Window(Protocol):
    """An open column of images."""

    version: tuple[int, int]

    def read(self, row: int) -> bytes | None: ...

    def close(self) -> None: ...


def holder(path: Path) -> str | None:
    """Return the file that a path leads into, known by its content as links may hide its name; None if into none."""
    column = os.path.dirname(path)  # called often for every image: strings are faster than `Path.parent`
    file = os.path.dirname(column)
    try:
        stat = os.stat(file)
        kind = _kind(file, stat.st_size, stat.st_mtime_ns) if S_ISREG(stat.st_mode) else ""
        return file if kind and (kind != _GRID or grids.is_grid(os.path.basename(column))) else None
    except (OSError, ValueError):  # reading the image will say what is wrong
        return None


@lru_cache(64)
def _kind(file: str, _size: int, _changed: int) -> str:
    with open(file, "rb") as opened:
        head = opened.read(512)
    if head.startswith(b"PAR1"):
        return parquet.SUFFIX
    if head.startswith(arrow_files.MAGIC):
        return arrow_files.SUFFIX
    if head.startswith(grids.MAGIC):
        return _GRID
    return tar_files.SUFFIX if head[257:262] == tar_files.MAGIC else ""


def exists(path: Path) -> bool:
    """Tell whether a path is that of a file, or leads into a file with images inside."""
    return path.exists() or holder(path) is not None


def read_cell(path: Path) -> bytes:
    """Read an image inside a file.

    Raises:
        DataError: There is none; names the file and the row.
        MissingExtra: pyarrow is not installed.
    """
    column, row = os.path.split(path)
    if not row.isdecimal():
        raise DataError("no such row", path)
    file = os.path.dirname(column)  # strings, as in `holder`
    now = version(file)
    kind = _kind(file, *now)
    if kind == tar_files.SUFFIX:
        return tar_files.read(Path(file), os.path.basename(column), int(row))
    if kind == _GRID:
        with _lock:
            return grids.read(Path(file), os.path.basename(column), int(row))
    with _lock:
        make = parquet.Window if kind == parquet.SUFFIX else arrow_files.Window
        image = _windows.get(column, now, make).read(int(row) - 1)
    if image is None:
        raise DataError(f"there is no image in '{unquote(path.parent.name)}'", Path(file), int(row))
    return image


class _Windows:
    """The columns that were read last, kept open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Window] = OrderedDict()

    def get(self, column: str, now: tuple[int, int], make: Callable[[Path, str], _Window]) -> _Window:
        window = self._open.pop(column, None)
        if window is not None and window.version != now:
            window.close()
            window = None
        self._open[column] = window or make(Path(column).parent, unquote(os.path.basename(column)))
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return self._open[column]


_lock = threading.Lock()
_windows = _Windows()


def _after_fork() -> None:
    """Begin without locks and open files of the parent process: the position in a file would be shared with it."""
    global _lock, _windows
    _lock, _windows = threading.Lock(), _Windows()


os.register_at_fork(after_in_child=_after_fork)
