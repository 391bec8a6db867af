"""CSV tables: read with names for what is wrong, as `jsonl` reads JSON lines; and files that may be either."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from titjudge.core.errors import DataError
from titjudge.core.files import scan_jsonl
from titjudge.core.textfile import check_regular

_FORMULA = ("=", "+", "-", "@", "\t")
_FIELD_LIMIT = 10_000_000  # characters; a prompt of 20,000 words is no mistake


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """`(line, cells)` of every row that is not blank, the header among them.

    Raises:
        DataError: the file cannot be read, is not UTF-8 or not CSV.
    """
    csv.field_size_limit(_FIELD_LIMIT)
    check_regular(path)
    try:
        with _opened(path) as file:
            reader = csv.reader(file)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8 text: save the file as UTF-8 CSV", path) from error
    except (OSError, csv.Error, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path) from error


def _opened(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV that a spreadsheet shows and does not run: a text that would be a formula gets an apostrophe in
    front (`scan_csv` takes it away), and no carriage return ends a row in the middle of a cell."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow([_guarded(cell) for cell in row])
    return out.getvalue()


def _guarded(cell: Any) -> Any:
    if not isinstance(cell, str):
        return "" if cell is None else cell
    text = cell.replace("\r\n", "\n").replace("\r", " ").replace("\0", "")
    return f"'{text}" if text.startswith(_FORMULA) else text


def _unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def scan_csv(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Line number and cells by column name of every row; a bad row comes as the DataError that describes it.

    A row may lack cells at its end, as long as no required column is among them: they are None. The apostrophe by which a
    spreadsheet is told that `=...` is a text is none of the text.

    Raises:
        DataError: the file cannot be read, or lacks a required column.
    """
    rows = csv_rows(path)
    line, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    for name in required:
        if name not in names:
            raise DataError(f"the column '{name}' is missing (there are: {', '.join(names) or 'none'})", path, line)
    for line, cells in rows:
        record = dict(zip_longest(names, map(_unguarded, cells[: len(names)])))
        if len(cells) > len(names) or any(record[name] is None for name in required):
            problem = f"{len(cells)} cells where the first line has {len(names)} columns"
            hint = "; a text with commas stands in quotes" if len(cells) > len(names) else ""
            yield line, DataError(problem + hint, path, line)
        else:
            yield line, record


def scan_table(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Records of a `.csv` or `.csv.gz`, or of a file of JSON lines; bad ones as the DataError that describes them."""
    is_csv = path.name.lower().endswith((".csv", ".csv.gz"))
    return scan_csv(path, required) if is_csv else scan_jsonl(path, required)


def read_table(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """Like `scan_table`, for files in which every line must be good.

    Raises:
        DataError: names file and line.
    """
    for line, record in scan_table(path, required):
        if isinstance(record, DataError):
            raise record
        yield line, record
