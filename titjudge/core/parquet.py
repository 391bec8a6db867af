"""Parquet tables, read in constant memory: rows as records, and the images inside a table."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.cells import Cell, check_columns, version
from titjudge.core.errors import DataError, MissingExtra

SUFFIX = ".parquet"
_ROWS = 2_000  # records at a time
_IMAGES = 16  # images at a time
_KEPT = 2**26  # bytes of images of one column that are kept: an image is read once to check it and once to send it


def columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns.

    Raises:
        DataError: It cannot be read.
        MissingExtra: pyarrow is not installed.
    """
    with _opened(path) as file:
        return tuple(file.schema_arrow.names)


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number, from 1, and record of every row. A column of images holds `Cell`s, or paths where it has no bytes.

    Raises:
        DataError: It cannot be read, or lacks a required column.
        MissingExtra: pyarrow is not installed.
    """
    with _opened(path) as file:
        check_columns(file.schema_arrow.names, required, path)
        plain, binary, structs = kinds(file.schema_arrow)
        pathless = {*binary, *(name for name, parts in structs.items() if "path" not in parts)}
        places = {name: path / quote(name, safe=" ") for name in (*binary, *structs)}
        try:
            number = 0
            for group in range(file.num_row_groups):
                without = _without_bytes(file, group, structs)
                wanted = [*plain, *(f"{name}.path" for name in structs if name not in pathless)]
                for batch in file.iter_batches(_ROWS, row_groups=[group], columns=wanted):
                    for record in batch.to_pylist():
                        number += 1
                        for name, place in places.items():
                            if name in pathless:
                                record[name] = Cell(place, number, "")
                            elif (image := record[name]) is not None:
                                file_name = image["path"] or ""
                                record[name] = file_name if name in without else Cell(place, number, file_name)
                        yield number, record
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise _unreadable(path, error) from error


class Window:
    """The images of one column, read in order in batches; those just before the last one read are kept."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.version = path, version(path)
        self._file = _opened(path)
        kind = dict(zip(self._file.schema_arrow.names, self._file.schema_arrow.types, strict=True)).get(column)
        if kind is None:
            raise DataError(f"the column '{column}' is missing", path)
        self._nested = "struct" in str(kind)
        self._column = f"{column}.bytes" if self._nested else column
        sizes = (self._file.metadata.row_group(group).num_rows for group in range(self._file.num_row_groups))
        self._starts = [0, *accumulate(sizes)]
        self._kept: OrderedDict[int, bytes | None] = OrderedDict()
        self._batches: Iterator[Any] = iter(())
        self._next, self._held = -1, 0

    def read(self, row: int) -> bytes | None:
        """Read the image of a row, counted from 0.

        Raises:
            DataError: There is no such row, or it cannot be read.
        """
        if not 0 <= row < self._starts[-1]:
            raise DataError("no such row", self.path, row + 1)
        if row in self._kept:
            return self._kept[row]
        group = bisect_right(self._starts, row) - 1
        try:
            if not self._starts[group] <= self._next <= row:
                self._start(group)
            while self._next <= row:
                self._take(next(self._batches))
        except (OSError, ValueError, StopIteration) as error:
            self._next = -1  # the next image starts its group again
            raise _unreadable(self.path, error) from error
        return self._kept[row]

    def _start(self, group: int) -> None:
        self._kept.clear()
        self._next, self._held = self._starts[group], 0
        self._batches = (  # group by group, as pyarrow keeps what it has read of all groups of one call
            batch
            for at in range(group, self._file.num_row_groups)
            for batch in self._file.iter_batches(_IMAGES, row_groups=[at], columns=[self._column], use_threads=False)
        )

    def _take(self, batch: Any) -> None:
        column = batch.column(0)
        for content in (column.field("bytes") if self._nested else column).to_pylist():
            self._kept[self._next] = content
            self._next += 1
            self._held += len(content or b"")
        while self._held > _KEPT and len(self._kept) > _IMAGES:
            self._held -= len(self._kept.popitem(last=False)[1] or b"")

    def close(self) -> None:
        self._batches = iter(())
        self._file.close()


def _opened(path: Path) -> Any:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "a .parquet table") from error
    try:
        return parquet.ParquetFile(path, buffer_size=2**16)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot be read as parquet: {(str(error).splitlines() or [''])[0]}", path)


def kinds(schema: Any) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Sort columns into those of plain values, those of bytes, and structs with bytes (with the names of their fields).

    A column with bytes in another form, such as a list of images, is in none of them and is not read.
    """
    plain, binary, structs = [], [], {}
    for field in schema:
        kind = str(field.type)
        if "binary" not in kind:
            plain.append(field.name)
        elif kind.startswith(("binary", "large_binary")):
            binary.append(field.name)
        elif kind.startswith("struct<"):
            parts = [field.type.field(at).name for at in range(field.type.num_fields)]
            if "bytes" in parts:
                structs[field.name] = parts
    return plain, binary, structs


def _without_bytes(file: Any, group: int, structs: dict[str, list[str]]) -> set[str]:
    """Return the columns of images that have only paths in a row group: all of their bytes are null."""
    names = set()
    metadata = file.metadata.row_group(group)
    for at in range(metadata.num_columns):
        column = metadata.column(at)
        name, _, part = column.path_in_schema.rpartition(".")
        statistics = column.statistics
        all_null = statistics is not None and statistics.has_null_count and statistics.null_count == metadata.num_rows
        if part == "bytes" and "path" in structs.get(name, ()) and all_null:
            names.add(name)
    return names
