"""Write and read the two official summary files of TIIF-Bench: `result_summary.xlsx` and the dimension text.

Source: summary_results.py and summary_dimension_results.py (@3aae750). Both have fractions with four decimals; they are
returned in percent, in the shape of `suites aggregate tiif --json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate, product
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, must_be, unknown
from titjudge.core.files import read_text
from titjudge.core.numbers import mean
from titjudge.core.types import Json
from titjudge.data.xlsx_files import openpyxl
from titjudge.suites.spreadsheet import put_row
from titjudge.suites.tiif.answers import AnswerCounts
from titjudge.suites.tiif.layout import DIMENSIONS, LENGTHS, SECTIONS, TYPES, TypeCounts, roll_up

_SHEETS: dict[str, Callable[[TypeCounts], float | None]] = {
    "Accuracy": lambda cell: cell.correct / cell.questions if cell.questions else None,
    "Total_Questions": lambda cell: float(cell.questions),
    "Correct_Answers": lambda cell: float(cell.correct),
}
_MEAN = "Mean_Accuracy"
_ALL = "Overall average score of 9 sub-attributes"


def rounded(answers: AnswerCounts) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return type accuracies by generator and length as upstream passes them on: fractions with four decimals."""

    def accuracy(cell: TypeCounts | None) -> float | None:
        return float(f"{cell.correct / cell.questions:.4f}") if cell and cell.questions else None

    return {
        generator: {
            length: {kind: accuracy(answers.cells.get((generator, length), {}).get(kind)) for kind in TYPES}
            for length in LENGTHS
        }
        for generator in sorted({name for name, _ in answers.cells})
    }


def write_xlsx(answers: AnswerCounts, path: Path) -> None:
    """Write the three sheets with the official headers and four-decimal strings, best mean accuracy first.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    book = openpyxl().Workbook()
    kinds = sorted({kind for cells in answers.cells.values() for kind in cells})
    lengths = sorted({length for _, length in answers.cells})
    columns = list(product(kinds, lengths))
    sheets: dict[str, dict[str, list[float | None]]] = {
        title: {
            generator: [
                value(cell) if (cell := answers.cells.get((generator, length), {}).get(kind)) else None
                for kind, length in columns
            ]
            for generator in sorted({name for name, _ in answers.cells})
        }
        for title, value in _SHEETS.items()
    }
    accuracy = sheets["Accuracy"]
    means = {name: mean(values) for name, values in accuracy.items()}
    accuracy.update({name: [*values, means[name]] for name, values in accuracy.items()})
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        heads = [kind if length == lengths[0] else None for kind, length in columns]
        put_row(sheet, 1, ["Attribute", *heads, *([_MEAN] if rows is accuracy else [])])
        put_row(sheet, 2, ["Type", *(length for _, length in columns)])
        for column in range(2, len(columns) + 2, len(lengths)):
            sheet.merge_cells(start_row=1, end_row=1, start_column=column, end_column=column + len(lengths) - 1)
        for line, name in enumerate(sorted(rows, key=lambda name: means[name] or -1.0, reverse=True), 4):
            put_row(sheet, line, [name, *("nan" if value is None else f"{value:.4f}" for value in rows[name])])
    book.remove(book.active)
    book.save(path)


def read_xlsx(path: Path) -> Json:
    """Read `{"generators": {NAME: {"short": {...}, "long": {...}}}}` in percent from an official `result_summary.xlsx`.

    Type accuracies come from the counts if they are there, otherwise from the rounded accuracies.

    Raises:
        DataError: It is not an xlsx file, or does not have these sheets and headers.
        MissingExtra: openpyxl is not installed.
    """
    library = openpyxl()
    try:
        book = library.load_workbook(path, data_only=True)
    except Exception as error:
        raise DataError(f"not an xlsx file ({error}). Save it as xlsx", path) from error
    if "Accuracy" not in book.sheetnames:
        raise DataError(unknown("sheet", "Accuracy", book.sheetnames), path)
    accuracy, total, correct = (_sheet(book, title, path) for title in _SHEETS)
    generators: Json = {}
    for generator in dict.fromkeys(name for name, _, _ in accuracy):
        generators[generator] = {}
        for length in LENGTHS:
            keys = {kind: (generator, kind, length) for kind in TYPES}
            types = {kind: _percent(accuracy.get(key), total.get(key), correct.get(key)) for kind, key in keys.items()}
            questions, right = (int(sum(sheet.get(key) or 0 for key in keys.values())) for sheet in (total, correct))
            generators[generator][length] = {**roll_up(types), "questions": questions, "correct": right}
    return {"generators": generators, "unit": "percent"}


def _percent(accuracy: float | None, total: float | None, correct: float | None) -> float | None:
    if total and correct is not None:
        return 100 * correct / total
    return None if accuracy is None else 100 * accuracy


def _sheet(book: Any, title: str, path: Path) -> dict[tuple[str, str, str], float | None]:
    """Read the values of one sheet by generator, type and length; nothing if there is no such sheet."""
    if title not in book.sheetnames:
        return {}
    rows = list(book[title].iter_rows(values_only=True))
    if len(rows) < 3 or rows[0][0] != "Attribute" or rows[1][0] != "Type":
        raise DataError(f"sheet '{title}': the first two rows must start with Attribute and Type", path)
    kinds: list[Any] = list(
        accumulate(rows[0][1:], lambda current, head: current if head is None else head)
    )  # merged cells
    values: dict[tuple[str, str, str], float | None] = {}
    for number, row in enumerate(rows[2:], 3):
        if row[0] is None:
            continue
        for kind, length, value in zip(kinds, rows[1][1:], row[1:], strict=True):
            if kind != _MEAN:
                values[str(row[0]), str(kind), str(length)] = _number(value, f"sheet '{title}', row {number}", path)
    return values


def _number(value: Any, where: str, path: Path) -> float | None:
    if value is None or str(value).strip().lower() in ("", "nan"):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise DataError(must_be(f"{where}: a cell", "a number", value), path) from error
    return number if number == number else None


def dimension_text(answers: AnswerCounts) -> str:
    """Write the official dimension text, from type accuracies rounded to four decimals as upstream does."""
    types = rounded(answers)

    def rows(groups: Collection[Sequence[str]]) -> dict[str, list[float | None]]:
        """Average the types of each group, then the groups."""
        return {
            name: [mean(mean(map(lengths[length].get, kinds)) for kinds in groups) for length in LENGTHS]
            for name, lengths in types.items()
        }

    blocks = [_block(title, LENGTHS, rows([kinds])) for title, _, kinds in SECTIONS]
    overall = rows(DIMENSIONS.values())
    return "".join([*blocks, _block(_ALL, ("overall-short", "overall-long"), overall, index="Model")])


def _block(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[float | None]], index: str = "") -> str:
    """Write a section as pandas prints a table; with `index`, a line with the name of the index comes below the heads."""
    cells = [["", *heads], *([[index, *("" for _ in heads)]] if index else [])]
    cells += [
        [name, *("NaN" if value is None else f"{value:.4f}" for value in values)] for name, values in rows.items()
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads) + 1)]
    lines = [
        row[0].ljust(widths[0]) + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in cells
    ]
    return "\n".join(["", f"==== {title} ====", *lines, ""])


def read_dimension_text(path: Path) -> Json:
    """Read `{"generators": {NAME: {"short": {"overall", "basic", "advanced", "dimensions"}, ...}}}` in percent.

    Raises:
        DataError: It is not UTF-8, has no such sections, or rows that pandas cut when printing (it prints at most 60).
    """
    keys = {title: key for title, key, _ in SECTIONS} | {_ALL: "overall"}
    generators: Json = {}
    for title, name, values in _rows(path):
        key = keys.get(title)
        if key is None:
            raise DataError(f"unknown section '{title}'. Correct the title", path)
        empty: Json = {
            length: {"overall": None, "basic": None, "advanced": None, "dimensions": {}} for length in LENGTHS
        }
        lengths = generators.setdefault(name, empty)
        for length, value in zip(LENGTHS, values, strict=True):
            if key:
                (lengths[length]["dimensions"] if key in DIMENSIONS else lengths[length])[key] = value
    if not generators:
        raise DataError("not the dimension text: '==== ... ====' headings have no rows. Give another file", path)
    return {"generators": generators, "unit": "percent"}


def _rows(path: Path) -> Iterator[tuple[str, str, list[float | None]]]:
    """Yield section, generator and the two values, in percent, of every row."""
    title = ""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if match := re.fullmatch(r"==== (.+) ====", line.strip()):
            title = match[1]
            continue
        cells = line.rsplit(None, 2)
        if not title or len(cells) < 3:
            continue  # blank, or the heads: names of the columns, or of the index alone
        if set(cells) & {"..", "..."}:
            raise DataError("the rows were cut when this file was printed. Print all columns", path, number)
        values = [_number(cell, "row", path) for cell in cells[1:]]
        yield title, cells[0].strip(), [None if value is None else 100 * value for value in values]
