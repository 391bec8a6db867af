"""An image inside of another file, as the rows of that file name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from titjudge.core.errors import DataError


class Cell(NamedTuple):
    """An image inside of a file; `name` is the path that the file has for it, and may be empty."""

    column: Path
    row: int
    name: str

    @property
    def place(self) -> Path:
        """The path by which it is read."""
        return self.column / str(self.row)


def version(path: Path | str) -> tuple[int, int]:
    """Give size and time of a file: another content has others.

    Raises:
        DataError: It is gone.
    """
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", Path(path)) from error
    return stat.st_size, stat.st_mtime_ns
