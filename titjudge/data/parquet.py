"""Parquet tables, read in constant memory: rows as records, and the images inside a table."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from titjudge.core.cells import ImageCell, check_columns, version
from titjudge.core.errors import DataError, MissingExtra, file_fault

SUFFIX = ".parquet"
_ROWS = 2_000  # records at a time
_IMAGES = 16  # images at a time
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    NotImplementedError,
    StopIteration,
)  # pyarrow's own errors are these
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
    """Yield number, from 1, and record of every row.

    A column of images has `ImageCell`s, or paths if it has no bytes; a column of lists of images has lists of them.

    Raises:
        DataError: It cannot be read, or a required column is missing.
        MissingExtra: pyarrow is not installed.
    """
    with _opened(path) as file:
        check_columns(file.schema_arrow.names, required, path)
        plain, images = kinds(file.schema_arrow)
        places = {name: path / quote(name, safe=" ") for name in images}
        read = {name: _leaf(file, column, "path") for name, column in images.items() if "path" in column.parts}
        read |= {name: name for name, column in images.items() if column.many and name not in read}  # for their number
        size = _ROWS if all("path" in column.parts or not column.many for column in images.values()) else _IMAGES
        try:
            number = 0
            for group in range(file.num_row_groups):
                only_paths = _columns_without_bytes(file, group, images)
                for batch in file.iter_batches(size, row_groups=[group], columns=[*plain, *read.values()]):
                    for record in batch.to_pylist():
                        number += 1
                        for name, place in places.items():
                            if name in read:
                                cell = partial(_cell, place, number, is_path=name in only_paths)
                                record[name] = _cells(record.get(name), cell, images[name])
                            else:  # nothing of the column is read but its images, later
                                record[name] = ImageCell(place, number, "")
                        yield number, record
        except _DAMAGE as error:
            raise damaged(path, error) from error


def _cell(place: Path, row: int, image: Any, element: int | None = None, *, is_path: bool) -> ImageCell | str | None:
    """Return the entry of a record for an image: the cell to read it from, its path where the file has only that, or None."""
    if image is None:
        return None
    name = (image.get("path") or "") if isinstance(image, dict) else ""
    return name if is_path else ImageCell(place, row, name, element)


def _cells(value: Any, cell: Callable[..., Any], column: ImageColumn) -> Any:
    """Return the cell of a row, or the list of its cells if the column has lists of images."""
    if column.many and value is not None:
        return [cell(image, element) for element, image in enumerate(value)]
    return cell(value)


class ParquetImages:
    """The images of one column, read in order in batches; those just before the last one read are kept."""

    def __init__(self, path: Path, column: str) -> None:
        self.path, self.version = path, version(path)
        self._file = _opened(path)
        kind = image_column(self._file.schema_arrow, column, path)
        self._column = _leaf(self._file, kind, "bytes") if kind.parts else column
        sizes = (self._file.metadata.row_group(group).num_rows for group in range(self._file.num_row_groups))
        self._starts = [0, *accumulate(sizes)]
        self._kept: OrderedDict[int, list[bytes | None]] = OrderedDict()
        self._batches: Iterator[Any] = iter(())
        self._next, self._held = -1, 0

    def read(self, row: int, element: int = 0) -> bytes | None:
        """Read the image of a row, counted from 0, or one of its list of images; None if it has none.

        Raises:
            DataError: There is no such row, or it cannot be read.
        """
        if not 0 <= row < self._starts[-1]:
            raise DataError(f"no such row: the table has {self._starts[-1]:,}. Correct the number", self.path, row + 1)
        if row not in self._kept:
            self._read(row)
        return self._kept[row][element] if element < len(self._kept[row]) else None

    def _read(self, row: int) -> None:
        group = bisect_right(self._starts, row) - 1
        try:
            if not self._starts[group] <= self._next <= row:
                self._start(group)
            while self._next <= row:
                self._take(next(self._batches))
        except _DAMAGE as error:
            self._next = -1  # the next image starts its group again
            raise damaged(self.path, error) from error

    def _start(self, group: int) -> None:
        self._kept.clear()
        self._next, self._held = self._starts[group], 0
        self._batches = (  # group by group, as pyarrow keeps what it has read of all groups of one call
            batch
            for row_group in range(group, self._file.num_row_groups)
            for batch in self._file.iter_batches(
                _IMAGES, row_groups=[row_group], columns=[self._column], use_threads=False
            )
        )

    def _take(self, batch: Any) -> None:
        for images in map(_contents, batch.column(0).to_pylist()):
            self._kept[self._next] = images
            self._next += 1
            self._held += sum(len(image or b"") for image in images)
        while self._held > _KEPT and len(self._kept) > _IMAGES:
            self._held -= sum(len(image or b"") for image in self._kept.popitem(last=False)[1])

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
    except _DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception, format: str = "parquet") -> DataError:
    """Make the error of a file that pyarrow cannot read."""
    return DataError(f"cannot be read as {format}: {file_fault(error)}", path)


class ImageColumn(NamedTuple):
    """A column of images.

    Attributes:
        name: Its name.
        parts: The names of the fields of its structs, with `bytes` among them; empty if it has bytes themselves.
        many: Whether its cells are lists of images.
    """

    name: str
    parts: tuple[str, ...]
    many: bool


def kinds(schema: Any) -> tuple[list[str], dict[str, ImageColumn]]:
    """Sort columns into plain values and images: bytes, structs with bytes, lists of either.

    A column with bytes in another form is in none of them and is not read.
    """
    plain, images = [], {}
    for field in schema:
        if "binary" not in str(field.type):
            plain.append(field.name)
            continue
        many = str(field.type).startswith(("list<", "large_list<", "fixed_size_list<"))
        kind = field.type.value_type if many else field.type
        if str(kind).startswith(("binary", "large_binary")):
            images[field.name] = ImageColumn(field.name, (), many)
        elif str(kind).startswith("struct<"):
            parts = tuple(kind.field(index).name for index in range(kind.num_fields))
            if "bytes" in parts:
                images[field.name] = ImageColumn(field.name, parts, many)
    return plain, images


def image_column(schema: Any, name: str, path: Path) -> ImageColumn:
    """Return a column of images.

    Raises:
        DataError: The table at `path` has no such column.
    """
    images = kinds(schema)[1]
    if name not in images:
        raise DataError(f"column '{name}' contains no images. Choose another column", path)
    return images[name]


def _leaf(file: Any, column: ImageColumn, part: str) -> str:
    """Return the name by which parquet knows a field of a column's structs: writers name the elements of lists differently."""
    fits = (name for name in _leaves(file) if name.startswith(f"{column.name}.") and name.endswith(f".{part}"))
    return next(fits, f"{column.name}.{part}")


def _leaves(file: Any) -> list[str]:
    return [file.schema.column(index).path for index in range(len(file.schema))]


def _columns_without_bytes(file: Any, group: int, images: Mapping[str, ImageColumn]) -> set[str]:
    """Name the columns of images for which a row group stores paths and no bytes: every `bytes` in it is null."""
    names = set()
    for name, column in images.items():
        leaf = _leaf(file, column, "bytes")
        if "path" not in column.parts or leaf not in _leaves(file):
            continue
        # A row is read first: that raises where the file is damaged, and asking for its statistics would crash the process.
        first = next(file.iter_batches(1, row_groups=[group], columns=[leaf], use_threads=False), None)
        if first is None or any(content is not None for content in _contents(first.column(0).to_pylist()[0])):
            continue
        chunk = file.metadata.row_group(group).column(_leaves(file).index(leaf))
        statistics = chunk.statistics
        if statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values:
            names.add(name)
    return names


def _contents(value: Any) -> list[bytes | None]:
    """Return the bytes of a cell, or of each image of a list."""
    images = value if isinstance(value, list) else [value]
    return [image["bytes"] if isinstance(image, dict) else image for image in images]
