"""Arrow files, as `datasets` saves a data set: rows as records, images read where they are, from memory that is the file."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.contained import Cell, version
from titjudge.core.errors import DataError, MissingExtra
from titjudge.core.parquet import kinds

SUFFIX = ".arrow"
MAGIC = (b"ARROW1", b"\xff\xff\xff\xff")  # of the file format, and of the stream that `datasets` writes
_ROWS = 2_000  # records at a time
_MAPPED = 2**26  # bytes of images that are read before the file is mapped anew


def columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns.

    Raises:
        DataError: It cannot be read.
        MissingExtra: There is no pyarrow.
    """
    return tuple(next(iter(_schema_and_batches(path))).names)


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number, from 1, and record of every row. A column of images holds `Cell`s, or paths where it has no bytes.

    Raises:
        DataError: It cannot be read, or lacks a required column.
        MissingExtra: There is no pyarrow.
    """
    batches = _schema_and_batches(path)
    schema = next(batches)
    for name in required:
        if name not in schema.names:
            raise DataError(f"the column '{name}' is missing (there are: {', '.join(schema.names)})", path, 1)
    plain, binary, structs = kinds(schema)
    places = {name: path / quote(name, safe=" ") for name in (*binary, *structs)}
    number = 0
    for whole in batches:
        for start in range(0, whole.num_rows, _ROWS):
            batch = whole.slice(start, _ROWS)
            there: dict[str, Any] = {name: batch.column(name).is_valid().to_pylist() for name in binary}
            names: dict[str, list[str | None]] = {}
            for name, parts in structs.items():
                column = batch.column(name)
                there[name] = [a and b for a, b in zip(column.is_valid().to_pylist(),
                                                       column.field("bytes").is_valid().to_pylist(), strict=True)]  # fmt: skip
                if "path" in parts:
                    names[name] = column.field("path").to_pylist()
            for at, record in enumerate(batch.select(plain).to_pylist()):
                number += 1
                for name, place in places.items():
                    named = (names[name][at] if name in names else "") or ""
                    record[name] = Cell(place, number, named) if there[name][at] else named or None
                yield number, record


class Window:
    """The images of one column, read from the file as they are asked for."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.version = path, version(path)
        self._column = column
        self._map()

    def _map(self) -> None:
        """Map the file anew: what was read of it no longer counts as memory of this process."""
        batches = _schema_and_batches(self.path)
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
        found: bytes | None = self._chunks[at][row - self._starts[at]].as_py()
        self._read += len(found or b"")
        if self._read > _MAPPED:
            self._map()
        return found

    def close(self) -> None:
        self._chunks = []


def _schema_and_batches(path: Path) -> Iterator[Any]:
    """Yield the schema, then the batches; they stay in the file and are mapped into memory."""
    try:
        arrow, ipc = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.ipc")
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "an .arrow table") from error
    try:
        mapped = arrow.memory_map(str(path))
        if mapped.read(6) == MAGIC[0]:
            file = ipc.open_file(mapped)
            yield file.schema
            yield from (file.get_batch(at) for at in range(file.num_record_batches))
        else:
            mapped.seek(0)
            stream = ipc.open_stream(mapped)
            yield stream.schema
            yield from stream
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise DataError(f"cannot be read as arrow: {(str(error).splitlines() or [''])[0]}", path) from error
