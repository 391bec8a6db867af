"""Check that a quote in a CSV file has not swallowed the rows below it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.patterns import lazy_pattern

_PADDED = lazy_pattern(r' *"[^"]*" +| +"[^"]*"')  # a cell in quotes with blanks around them
_FILE_NAME = lazy_pattern(r"\S(.*\S)?\.[A-Za-z]{2,5}[0-9]?")
_NUMERAL = lazy_pattern(r"[-+]?[\d.,]+")
_PROSE = lazy_pattern(
    r"[\s\u0e00-\u0eff\u1100-\u11ff\u3040-\u9fff\uac00-\ud7af]"
)  # blanks, and scripts that write few or none


def checked_quotes(row: list[str], lines: list[str], mark: str, width: int, path: Path, first: int) -> list[str]:
    """Return the cells of a row with quotes, read as they are written if the quotes are not those of CSV.

    Args:
        row: The cells, as `csv` reads them.
        lines: The lines of the row.
        mark: The separator.
        width: Number of columns; 0 for the header.
        path: The file, for messages.
        first: Number of the first line.

    Raises:
        DataError: A quote may have swallowed rows.
    """
    bare = [line.rstrip("\r\n").split(mark) for line in lines]
    if _strictly(lines, delimiter=mark) is not None:
        if len(lines) == 1 or not (_hold_rows(row, bare, width) if width else _are_even(bare, len(row))):
            return row
    elif not any(line.strip() for line in lines[1:]):
        escaped = _strictly(lines[:1], delimiter=mark, escapechar="\\", doublequote=False)
        if escaped is not None and '\\"' in lines[0]:
            return escaped
        padded = any(_PADDED.fullmatch(cell) for cell in bare[0])
        return row if padded or len(bare[0]) != (width or len(row)) else bare[0]
    last = first + len(lines) - 1
    raise DataError(
        f"a quote opens a cell in line {first} that goes on to line {last}, over text that looks like other rows. Double each "
        'quote that belongs to a text and put the cell in quotes, as in "a 5"" nail"',
        path,
        first,
    )


def _strictly(lines: Sequence[str], **form: Any) -> list[str] | None:
    """Read a row by the rules of CSV; None if its quotes do not follow them."""
    try:
        return next(csv.reader(iter(lines), strict=True, **form))
    except csv.Error:
        return None


def _are_even(lines: Iterable[Sequence[str]], width: int) -> bool:
    """Tell whether each line alone has as many cells as a row, and none begins with a blank, as texts after a comma do."""
    return width > 1 and all(len(cells) == width and not any(cell[:1] == " " for cell in cells) for cells in lines)


def _hold_rows(row: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> bool:
    """Tell whether one of the lines of a row looks like a row of its own.

    It has as many cells, and file names and numbers (without any, single words) in the columns where this row has them.
    """
    spans = [index for index, cell in enumerate(row) if "\n" in cell or "\r" in cell]
    if not spans:
        return False
    before, after = row[: spans[0]], row[spans[-1] + 1 :] if len(row) == width else []
    if not any(_kind(cell) not in ("", "text") for cell in (*before, *after)):
        return _are_even(lines, width)
    for index, cells in enumerate(lines):
        if _are_even([cells], width):
            pairs = [*zip(before, cells, strict=False)] if index else []
            pairs += zip(after, cells[width - len(after) :], strict=True) if index < len(lines) - 1 else []
            kinds = [(_kind(mine), _kind(other)) for mine, other in pairs]
            sure = [pair for pair in kinds if pair[0] in ("file", "number")]
            kinds = sure or [pair for pair in kinds if pair[0]]
            if kinds and all(mine == other for mine, other in kinds):
                return True
    return False


def _kind(cell: str) -> str:
    """Name what a cell is: a file name, a number, a word, or a text; empty for an empty cell."""
    cell = cell.strip().strip('"')
    if _FILE_NAME.fullmatch(cell):
        return "file"
    if _NUMERAL.fullmatch(cell):
        return "number"
    return "text" if _PROSE.search(cell) else cell and "word"
