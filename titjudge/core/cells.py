"""An image inside another file (a table, an archive, a grid), and the shared code of the readers of such files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.errors import DataError, file_fault
from titjudge.core.words import truncated

MAX_BYTES = 50 * 2**20
"""Most bytes of an image file."""
IMAGE_ENDINGS = tuple(".jpg .jpeg .png .webp .gif .bmp .tif .tiff .avif".split())
"""Endings by which an image is known in archives and among the keys of JSON files."""


class ImageCell(NamedTuple):
    """An image inside a file.

    Attributes:
        column: The path of its column (or, of an archive, of its first byte).
        row: Its row, from 1 (of an archive, its size in bytes).
        name: Its own path, as the file records it; may be empty.
        element: Its number, from 0, in the list of images of its row; None if the row has one image.
    """

    column: Path
    row: int
    name: str
    element: int | None = None

    @property
    def place(self) -> Path:
        """The path by which it is read (`titjudge.data.containers`)."""
        return self.column / (str(self.row) if self.element is None else f"{self.row}.{self.element}")


def without_images(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without the images inside its file, which are not JSON."""
    return {
        key: value
        for key, value in record.items()
        if not isinstance(value, ImageCell)
        and not (isinstance(value, list) and any(isinstance(element, ImageCell) for element in value))
    }


def version(path: Path | str) -> tuple[int, int]:
    """Return size and modification time of a file, by which a change of its content is noticed.

    Raises:
        DataError: It cannot be read.
    """
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataError(f"cannot be read: {file_fault(error)}", Path(path)) from error
    return stat.st_size, stat.st_mtime_ns


def check_size(size: int, path: Path) -> None:
    """Check the size of an image file, in bytes.

    Raises:
        DataError: It is empty, or over 50 MiB.
    """
    if size > MAX_BYTES:
        raise DataError(
            f"the image file has {size / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}. Save a smaller one", path
        )
    if not size:
        raise DataError("the image file is empty. Replace it, or remove its row", path)


def check_columns(names: Sequence[str], required: Sequence[str], path: Path, line: int = 1) -> None:
    """Check that a table has its required columns, and no name twice.

    Raises:
        DataError: One is missing; the message lists the columns of the table. Or two columns have the same name.
    """
    if twice := next((name for name, count in Counter(filter(None, names)).items() if count > 1), ""):
        raise DataError(f"two columns are called '{truncated(twice, 40)}'. Rename or delete one", path, line)
    if absent := missing_columns(names, required):
        raise DataError(f"{absent}. Add or rename a column", path, line)


def missing_columns(names: Sequence[str], required: Sequence[str]) -> str:
    """Report all required columns that a table does not have; an empty text if it has them."""
    absent = [f"'{name}'" for name in dict.fromkeys(required) if name not in names]
    if not absent:
        return ""
    what = f"columns {', '.join(absent)} are" if len(absent) > 1 else f"column {absent[0]} is"
    return f"the {what} missing (there are: {', '.join(names) or 'none'})"
