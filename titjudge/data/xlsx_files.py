"""Spreadsheets (.xlsx) as tables: the first sheet, with the names of the columns in its first row that is not blank.

A file is untrusted: no formula is computed (a cell has the value that was saved with it), and its unpacked size, its rows, its
columns and the text of a cell are limited.
"""

from __future__ import annotations

import contextlib
import warnings
import zipfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from titjudge.core.cells import check_columns
from titjudge.core.errors import DataError, MissingExtra, file_fault
from titjudge.core.files import open_regular
from titjudge.core.names import plain

SUFFIX = ".xlsx"
_UNPACKED = 2**26  # bytes of XML in a file
_ROWS = 2**20  # of the format
_COLUMNS = 256
_CELL = 32_767  # characters of a cell, of the format


def openpyxl() -> Any:
    """Import openpyxl.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import openpyxl as library
    except ImportError as error:
        raise MissingExtra("openpyxl", "xlsx", "reading and writing xlsx files") from error
    return library


def columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns.

    Raises:
        DataError: It cannot be read.
        MissingExtra: openpyxl is not installed.
    """
    return tuple(filter(None, _names(next(_rows(path), (1, []))[1])))


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield number, as the spreadsheet shows it, and record of every row that is not blank.

    An empty cell, and one with an error such as #REF!, is None; dates are texts.

    Raises:
        DataError: It cannot be read, or a required column is missing.
        MissingExtra: openpyxl is not installed.
    """
    numbered_rows = _rows(path)
    number, header = next(numbered_rows, (1, []))
    names = _names(header)
    check_columns(names, required, path, number)
    for number, cells in numbered_rows:
        record = dict(zip_longest(names, cells[: len(names)]))
        record.pop("", None)  # columns without a name
        longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
        yield (
            number,
            DataError(f"a cell has {longest:,} characters, more than {_CELL:,}. Shorten it", path, number)
            if longest > _CELL
            else record,
        )


def _names(header: list[Any]) -> list[str]:
    return ["" if cell is None else plain(str(cell)) for cell in header]


def _rows(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield number and cells of every row that is not blank, up to its last cell that is not empty."""
    library = openpyxl()
    try:
        with open_regular(path) as file:
            _check_size(file, path)
            with _quietly():
                sheets = library.load_workbook(file, read_only=True, data_only=True, keep_links=False).worksheets
            if not sheets:
                raise DataError("the file has no sheet. Save it as CSV", path)
            sheets[0].reset_dimensions()  # a file declares how large its sheet is, and may declare anything
            rows = enumerate(sheets[0].iter_rows(max_row=_ROWS, max_col=_COLUMNS + 1), 1)
            while (row := _next(rows)) is not None:
                number, cells = row
                if len(cells) > _COLUMNS:
                    raise DataError(f"the row has more than {_COLUMNS} columns. Remove empty ones", path, number)
                yield number, cells
    except DataError:
        raise
    except Exception as error:  # openpyxl and zipfile raise anything on a damaged file
        raise DataError(f"cannot be read as xlsx: {file_fault(error)}", path) from error


def _next(rows: Iterator[tuple[int, tuple[Any, ...]]]) -> tuple[int, list[Any]] | None:
    """Take the next row that is not blank, without the empty cells at its end."""
    blank = None
    with _quietly():
        for number, cells in rows:
            if cells is not blank:  # a file of a few bytes may have a million empty rows, which are one object
                values = [_value(cell) for cell in cells]
                while values and values[-1] is None:
                    values.pop()
                if values:
                    return number, values
                blank = cells
    return None


def _value(cell: Any) -> Any:
    value = cell.value
    if cell.data_type == "e" or (isinstance(value, str) and not value.strip()):
        return None
    plain = value is None or isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 2**63)
    return value if plain else str(value)


def _check_size(file: Any, path: Path) -> None:
    """Refuse a file that unpacks to too much; `zipfile` reads no more of a part than its entry in the list declares.

    Raises:
        DataError: It does.
    """
    with zipfile.ZipFile(file) as parts:
        size = sum(part.file_size for part in parts.infolist() if not part.filename.startswith("xl/media/"))
    if size > _UNPACKED:
        hint = "Save it as CSV"
        raise DataError(f"it unpacks to {size / 2**20:,.0f} MiB, more than {_UNPACKED >> 20}. {hint}", path)
    file.seek(0)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppress openpyxl's warnings about what it leaves out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
