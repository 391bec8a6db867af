"""Arrow files, as `datasets` saves a data set: rows as records, and images read from the memory-mapped file."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.cells import ImageCell, check_columns, version
from titjudge.core.errors import DataError, MissingExtra
from titjudge.data.parquet import ImageColumn, damaged, image_column, kinds

SUFFIX = ".arrow"
MAGIC = (b"ARROW1", b"\xff\xff\xff\xff")  # of the file format, and of the stream that `datasets` writes
_ROWS = 2_000  # records at a time
_MAPPED = 2**26  # bytes of images after which the file is mapped again


def columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns.

    Raises:
        DataError: It cannot be read.
        MissingExtra: pyarrow is not installed.
    """
    return tuple(next(iter(_schema_and_batches(path))).names)


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number, from 1, and record of every row, as `parquet.rows` does.

    Raises:
        DataError: It cannot be read, or a required column is missing.
        MissingExtra: pyarrow is not installed.
    """
    batches = _schema_and_batches(path)
    schema = next(batches)
    check_columns(schema.names, required, path)
    plain, images = kinds(schema)
    places = {name: path / quote(name, safe=" ") for name in images}
    number = 0
    for whole in batches:
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            contents = {name: _contents(batch.column(name), column) for name, column in images.items()}
            for index, record in enumerate(batch.select(plain).to_pylist()):
                number += 1
                for name, place in places.items():
                    many, in_row = images[name].many, contents[name][index]
                    cells = [
                        ImageCell(place, number, file_name, element if many else None) if filled else file_name or None
                        for element, (filled, file_name) in enumerate(in_row or ())
                    ]
                    record[name] = None if in_row is None else cells if many else cells[0]
                yield number, record


def _contents(column: Any, kind: ImageColumn) -> list[list[tuple[bool, str]] | None]:
    """Return for the images of each row whether there are bytes, and their path; None for a row without a list."""
    flat = column.flatten() if kind.many else column
    there = flat.is_valid().to_pylist()
    filled, names = there, [""] * len(flat)
    if kind.parts:
        filled = [a and b for a, b in zip(there, flat.field("bytes").is_valid().to_pylist(), strict=True)]
    if "path" in kind.parts:
        names = [(name or "") if a else "" for a, name in zip(there, flat.field("path").to_pylist(), strict=True)]
    images = iter(zip(filled, names, strict=True))
    lengths = column.value_lengths().to_pylist() if kind.many else [1] * len(column)
    return [None if length is None else list(islice(images, length)) for length in lengths]


class ArrowImages:
    """The images of one column, read from the mapped file one by one."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.version = path, version(path)
        self._column = column
        self._map()

    def _map(self) -> None:
        """Map the file again, so that the pages read so far no longer count as memory of this process."""
        batches = _schema_and_batches(self.path, self._column)
        self._kind = image_column(next(batches), self._column, self.path)
        self._chunks = [batch.column(self._column) for batch in batches]
        self._starts = [0, *accumulate(map(len, self._chunks))]
        self._read = 0

    def read(self, row: int, element: int = 0) -> bytes | None:
        """Read the image of a row, counted from 0, or one of its list of images; None if it has none.

        Raises:
            DataError: There is no such row.
        """
        if not 0 <= row < self._starts[-1]:
            raise DataError(f"no such row: the table has {self._starts[-1]:,}. Correct the number", self.path, row + 1)
        chunk = bisect_right(self._starts, row) - 1
        images = self._chunks[chunk].slice(row - self._starts[chunk], 1)
        images = images.flatten() if self._kind.many else images
        if not element < len(images):
            return None
        images = images.field("bytes") if self._kind.parts else images
        image: bytes | None = images[element].as_py()
        self._read += len(image or b"")
        if self._read > _MAPPED:
            self._map()
        return image

    def close(self) -> None:
        self._chunks = []


def _schema_and_batches(path: Path, column: str | None = None) -> Iterator[Any]:
    """Yield the schema, then the batches, which are memory-mapped.

    Every offset and text of a batch (or of one column) is checked first: pyarrow follows the offsets of a damaged file,
    out of the file and into other memory.

    Raises:
        DataError: The file is damaged, or no arrow file.
        MissingExtra: pyarrow is not installed.
    """
    try:
        arrow, ipc = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.ipc")
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "an .arrow table") from error
    try:
        mapped = arrow.memory_map(str(path))
        if mapped.read(6) == MAGIC[0]:
            file = ipc.open_file(mapped)
            schema, batches = file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
        else:
            mapped.seek(0)
            batches = ipc.open_stream(mapped)
            schema = batches.schema
        kinds(schema)  # names of columns and fields that are not text are damage as well
        yield schema
        for batch in batches:
            (batch if column is None else batch.column(column)).validate(full=True)
            yield batch
    except (OSError, ValueError, SystemError, arrow.ArrowException) as error:
        raise damaged(path, error, "arrow") from error
