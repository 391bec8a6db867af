"""Parquet tables, read in flat memory: rows as records, and the images that are inside of a table."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.contained import Cell, version
from titjudge.core.errors import DataError, MissingExtra

SUFFIX = ".parquet"
_ROWS = 2_000  # records at a time
_IMAGES = 16  # images at a time
_KEPT = 2**26  # bytes of images of one column that are kept: they are read again when they are sent


def columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns.

    Raises:
        DataError: It cannot be read.
        MissingExtra: There is no pyarrow.
    """
    with _opened(path) as file:
        return tuple(file.schema_arrow.names)


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number, from 1, and record of every row. A column of images holds `Cell`s, or paths where it has no bytes.

    Raises:
        DataError: It cannot be read, or lacks a required column.
        MissingExtra: There is no pyarrow.
    """
    with _opened(path) as file:
        names = file.schema_arrow.names
        for name in required:
            if name not in names:
                raise DataError(f"the column '{name}' is missing (there are: {', '.join(names)})", path, 1)
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
                            elif (found := record[name]) is not None:
                                named = found["path"] or ""
                                record[name] = named if name in without else Cell(place, number, named)
                        yield number, record
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise _unreadable(path, error) from error


class Window:
    """The images of one column around the last one read: those after it come cheaply, those just before it are kept."""

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
            self._next = -1  # the next image begins anew
            raise _unreadable(self.path, error) from error
        return self._kept[row]

    def _start(self, group: int) -> None:
        self._kept.clear()
        self._next, self._held = self._starts[group], 0
        self._batches = (  # group by group: over several, pyarrow would keep what it has read of all of them
            batch
            for each in range(group, self._file.num_row_groups)
            for batch in self._file.iter_batches(_IMAGES, row_groups=[each], columns=[self._column], use_threads=False)
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
    """Sort the columns: those with plain values, those with bytes, and structs with bytes by the names of their parts.

    What holds bytes in another way (a list of images) is none of them: it is not read.
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
    """Find the columns whose images have only paths, in a group of rows: all of their bytes are null."""
    found = set()
    about = file.metadata.row_group(group)
    for at in range(about.num_columns):
        column = about.column(at)
        name, _, part = column.path_in_schema.rpartition(".")
        facts = column.statistics
        nothing = facts is not None and facts.has_null_count and facts.null_count == about.num_rows
        if part == "bytes" and "path" in structs.get(name, ()) and nothing:
            found.add(name)
    return found
