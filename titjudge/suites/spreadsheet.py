"""Write spreadsheets (xlsx) as the official scripts of suites do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.data.xlsx_files import openpyxl

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # by the format


def put_row(sheet: Any, row: int, values: Sequence[str | float | None]) -> None:
    """Write the cells of a row: None is left empty, and a text is never a formula."""
    for column, value in enumerate(values, 1):
        if isinstance(value, str):
            cell = sheet.cell(row=row, column=column, value=_FORBIDDEN.sub("\ufffd", value))
            cell.data_type = "s"  # a generator called "=1+1" is a name
        elif value is not None:
            sheet.cell(row=row, column=column, value=value)


def write_sheets(path: Path, sheets: Mapping[str, Iterable[Sequence[str | float | None]]]) -> None:
    """Write a workbook with these rows in each sheet.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    book = openpyxl().Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for number, row in enumerate(rows, 1):
            put_row(sheet, number, row)
    book.save(path)
