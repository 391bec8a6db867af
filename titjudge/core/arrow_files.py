"""Arrow files, as `datasets` saves a data set: rows as records, and images read from the memory-mapped file."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.cells import Cell, check_columns, version
from titjudge.core.errors import DataError, MissingExtra
from titjudge.core.parquet import kinds

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
    """Yield number, from 1, and record of every row. A column of images holds `Cell`s, or paths where it has no bytes.

    Raises:
        DataError: It cannot be read, or lacks a required column.
        MissingExtra: pyarrow is not installed.
    """
    batches = _schema_and_batches(path)
    schema = next(batches)
    check_columns(schema.names, required, path)
    plain, binary, structs = kinds(schema)
    places = {name: path / quote(name, safe=" ") for name in (*binary, *structs)}
    number = 0
    for whole in batches:
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            has_bytes: dict[str, Any] = {name: batch.column(name).is_valid().to_pylist() for name in binary}
            names: dict[str, list[str | None]] = {}
            for name, parts in structs.items():
                column = batch.column(name)
                valid, valid_bytes = column.is_valid().to_pylist(), column.field("bytes").is_valid().to_pylist()
                has_bytes[name] = [a and b for a, b in zip(valid, valid_bytes, strict=True)]
                if "path" in parts:
                    names[name] = column.field("path").to_pylist()
            for at, record in enumerate(batch.select(plain).to_pylist()):
                number += 1
                for name, place in places.items():
                    file_name = (names[name][at] if name in names else "") or ""
                    record[name] = Cell(place, number, file_name) if has_bytes[name][at] else file_name or None
                yield number, record


class Window:
    """The images of one column, read from the mapped file one by one."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.version = path, version(path)
        self._column = column
        self._map()

    def _map(self) -> None:
        """Map the file again, so that the pages read so far no longer count as memory of this process."""
        batches = _schema_and_batches(self.path, self._column)
        if self._column not in next(batches).names:
            raise DataError(f"the column '{self._column}' is missing", self.path)
        chunks = [batch.column(self._column) for batch in batches]
        self._chunks = [chunk.field("bytes") if "struct" in str(chunk.type) else chunk for chunk in chunks]
        self._starts = [0, *accumulate(map(len, self._chunks))]
        self._read = 0

    def read(self, row: int) -> bytes | None:
        """Read the image of a row, counted from 0.

        Raises:
            DataError: There is no such row.
        """
        if not 0 <= row < self._starts[-1]:
            raise DataError("no such row", self.path, row + 1)
        at = bisect_right(self._starts, row) - 1
        image: bytes | None = self._chunks[at][row - self._starts[at]].as_py()
        self._read += len(image or b"")
        if self._read > _MAPPED:
            self._map()
        return image

    def close(self) -> None:
        self._chunks = []


def _schema_and_batches(path: Path, column: str | None = None) -> Iterator[Any]:
    """Yield the schema, then the batches, which are memory-mapped.

    Every offset and text of a batch (or of one column) is checked first: pyarrow follows what a damaged file says, out of the
    file and into other memory.

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
            schema, batches = file.schema, (file.get_batch(at) for at in range(file.num_record_batches))
        else:
            mapped.seek(0)
            batches = ipc.open_stream(mapped)
            schema = batches.schema
        kinds(schema)  # names of columns and fields that are no text are damage as well
        yield schema
        for batch in batches:
            (batch if column is None else batch.column(column)).validate(full=True)
            yield batch
    except (OSError, ValueError, SystemError, arrow.ArrowException) as error:
        raise DataError(f"cannot be read as arrow: {(str(error).splitlines() or [''])[0]}", path) from error
