"""Read tables of any format: the ending of a file decides which module reads its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.errors import DataError
from titjudge.core.files import csv_columns, scan_csv, scan_jsonl
from titjudge.data import arrow_files, json_tables, parquet, tar_files, xlsx_files

Rows = Iterator[tuple[int, dict[str, Any] | DataError]]
"""Number and record of each row; for a bad one the DataError that describes it."""


class TableReader(NamedTuple):
    """Reads one format.

    Attributes:
        columns: Reads the names of the columns; None if rows have different columns.
        rows: Yields the rows; the second argument are names of required columns.
    """

    columns: Callable[[Path], tuple[str, ...] | None]
    rows: Callable[[Path, tuple[str, ...]], Rows]


_JSON_LINES = TableReader(json_tables.columns, scan_jsonl)
_CSV = TableReader(csv_columns, scan_csv)
READERS: Mapping[str, TableReader] = {
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    json_tables.SUFFIX: TableReader(json_tables.columns, json_tables.rows),
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), _CSV),
    xlsx_files.SUFFIX: TableReader(xlsx_files.columns, xlsx_files.rows),
    parquet.SUFFIX: TableReader(parquet.columns, parquet.rows),
    arrow_files.SUFFIX: TableReader(arrow_files.columns, arrow_files.rows),
    **dict.fromkeys(tar_files.SUFFIXES, TableReader(tar_files.columns, tar_files.rows)),
}
"""The reader of each format, by the ending of its files."""


def is_table(path: Path) -> bool:
    """Return True if a file has the ending of a table."""
    return path.name.lower().endswith(tuple(READERS))


def reader_of(path: Path) -> TableReader:
    """Return the reader of a file, by its ending; the reader of JSON lines for any other ending."""
    name = path.name.lower()
    return next((reader for ending, reader in READERS.items() if name.endswith(ending)), _JSON_LINES)


def table_columns(path: Path) -> tuple[str, ...] | None:
    """Read the names of a table's columns; None if rows have different columns, as in JSON.

    Raises:
        DataError: The file cannot be read.
        MissingExtra: A package that reads this format is not installed.
    """
    return reader_of(path).columns(path)


def scan_table(path: Path, required: tuple[str, ...] = ()) -> Rows:
    """Yield number and record of each row of a table; for a bad one the DataError that describes it.

    Raises:
        DataError: The file cannot be read.
        MissingExtra: A package that reads this format is not installed.
    """
    return reader_of(path).rows(path, required)


def first_row(path: Path) -> dict[str, Any]:
    """Return the first good record of a table; an empty one if there is none.

    Raises:
        DataError: The file cannot be read.
        MissingExtra: A package that reads this format is not installed.
    """
    return next((row for _, row in scan_table(path) if not isinstance(row, DataError)), {})


def read_table(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records as `scan_table` does; the first bad one is raised.

    Raises:
        DataError: Names file and line.
    """
    for line, record in scan_table(path, required):
        if isinstance(record, DataError):
            raise record
        yield line, record
