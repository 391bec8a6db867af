"""The two official summary files of TIIF-Bench, written and read: `result_summary.xlsx` and the dimension text.

Source: summary_results.py and summary_dimension_results.py (@3aae750). Both hold fractions with four decimals; what is
read comes back in percent, in the shape of `aggregate tiif --json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import read_text
from titjudge.core.numbers import mean
from titjudge.suites.spreadsheet import openpyxl, put_row
from titjudge.suites.tiif.answers import Answers
from titjudge.suites.tiif.layout import ADVANCED, BASIC, DIMENSIONS, LENGTHS, TYPES, roll_up

SHEETS = ("Accuracy", "Total_Questions", "Correct_Answers")
_MEAN = "Mean_Accuracy"
_ALL = "Overall average score of 9 sub-attributes"
# Title of each section of the text, the key it is read back to, and its types.
_SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Basic_Following_Overall - Overall", "basic", BASIC),
    *(
        (f"Basic_{name.title()} - {name.title()}", name, DIMENSIONS[name])
        for name in ("attribute", "relation", "reasoning")
    ),
    ("Advanced_Following_Overall - Overall", "advanced", ADVANCED),
    *(
        (f"Advanced_{name.title()} - {name.title()}", name, DIMENSIONS[name])
        for name in ("attribute+relation", "attribute+reasoning", "relation+reasoning")
    ),
    ("Advanced_Text Generation - Text Generation", "text", DIMENSIONS["text"]),
    ("Advanced_Style Control - Style Control", "style", DIMENSIONS["style"]),
    ("Real_World_Following_Overall - Overall", "", DIMENSIONS["real_world"]),
    ("Real_Complex - Complex", "real_world", DIMENSIONS["real_world"]),
)


def rounded(answers: Answers) -> dict[str, dict[str, dict[str, float | None]]]:
    """Type accuracies by generator and length as upstream hands them on: fractions with four decimals."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for generator in sorted({name for name, _ in answers.cells}):
        found[generator] = {}
        for length in LENGTHS:
            cells = answers.cells.get((generator, length), {})
            known = {kind: cell for kind, cell in cells.items() if cell.questions}
            found[generator][length] = {
                kind: float(f"{known[kind].correct / known[kind].questions:.4f}") if kind in known else None
                for kind in TYPES
            }
    return found


def write_xlsx(answers: Answers, path: Path) -> None:
    """Write the three sheets with the official headers and four-decimal strings, best mean accuracy first.

    Raises:
        MissingExtra: openpyxl is not installed.
    """
    book = openpyxl().Workbook()
    kinds = sorted({kind for cells in answers.cells.values() for kind in cells})
    lengths = sorted({length for _, length in answers.cells})
    columns = [(kind, length) for kind in kinds for length in lengths]
    rows = {generator: _numbers(answers, generator, columns) for generator in {name for name, _ in answers.cells}}
    means = {generator: mean(row[0] for row in numbers) for generator, numbers in rows.items()}
    order = sorted(sorted(rows), key=lambda name: means.get(name) or -1.0, reverse=True)
    for at, title in enumerate(SHEETS):
        sheet = book.active if at == 0 else book.create_sheet()
        sheet.title = title
        extra = [_MEAN] if at == 0 else []
        heads = [kind if i % len(lengths) == 0 else None for i, (kind, _) in enumerate(columns)]
        put_row(sheet, 1, ["Attribute", *heads, *extra])
        put_row(sheet, 2, ["Type", *(length for _, length in columns)])
        for i in range(0, len(columns), len(lengths)):
            sheet.merge_cells(start_row=1, end_row=1, start_column=i + 2, end_column=i + 1 + len(lengths))
        for line, generator in enumerate(order, 4):
            values = [row[at] for row in rows[generator]] + ([means[generator]] if extra else [])
            put_row(sheet, line, [generator, *("nan" if value is None else f"{value:.4f}" for value in values)])
    book.save(path)


def _numbers(
    answers: Answers, generator: str, columns: Sequence[tuple[str, str]]
) -> list[tuple[float | None, float | None, float | None]]:
    """Accuracy, questions and correct answers of each column."""
    found: list[tuple[float | None, float | None, float | None]] = []
    for kind, length in columns:
        cell = answers.cells.get((generator, length), {}).get(kind)
        if cell is None:
            found.append((None, None, None))
        else:
            accuracy = cell.correct / cell.questions if cell.questions else None
            found.append((accuracy, float(cell.questions), float(cell.correct)))
    return found


def read_xlsx(path: Path) -> dict[str, Any]:
    """Read `{"generators": {NAME: {"short": {...}, "long": {...}}}}` in percent from an official `result_summary.xlsx`.

    Type accuracies come from the counts where these are there, else from the rounded accuracies.

    Raises:
        DataError: not an xlsx file, or not with these sheets and headers.
        MissingExtra: openpyxl is not installed.
    """
    library = openpyxl()
    try:
        book = library.load_workbook(path, data_only=True)
    except Exception as error:
        raise DataError(f"not an xlsx file ({error})", path) from error
    if SHEETS[0] not in book.sheetnames:
        raise DataError(f"no sheet '{SHEETS[0]}' (there are {', '.join(book.sheetnames)})", path)
    accuracy, total, correct = (_sheet(book, title, path) for title in SHEETS)
    generators: dict[str, Any] = {}
    for generator in dict.fromkeys(name for name, _, _ in accuracy):
        generators[generator] = {}
        for length in LENGTHS:
            keys = {kind: (generator, kind, length) for kind in TYPES}
            types = {kind: _percent(accuracy.get(key), total.get(key), correct.get(key)) for kind, key in keys.items()}
            counts = {name: [sheet.get(key) for key in keys.values()] for name, sheet in (("q", total), ("c", correct))}
            sums = {name: int(sum(value for value in values if value is not None)) for name, values in counts.items()}
            generators[generator][length] = {**roll_up(types), "questions": sums["q"], "correct": sums["c"]}
    return {"generators": generators, "unit": "percent"}


def _percent(accuracy: float | None, total: float | None, correct: float | None) -> float | None:
    if total and correct is not None:
        return 100 * correct / total
    return None if accuracy is None else 100 * accuracy


def _sheet(book: Any, title: str, path: Path) -> dict[tuple[str, str, str], float | None]:
    """One sheet by generator, type and length."""
    if title not in book.sheetnames:
        return {}
    rows = list(book[title].iter_rows(values_only=True))
    if len(rows) < 3 or rows[0][0] != "Attribute" or rows[1][0] != "Type":
        raise DataError(f"sheet '{title}': the first two rows do not start with Attribute and Type", path)
    kinds: list[Any] = []
    for head in rows[0][1:]:
        kinds.append(head if head is not None else kinds[-1] if kinds else None)
    found: dict[tuple[str, str, str], float | None] = {}
    for number, row in enumerate(rows[2:], 3):
        if row[0] is None:
            continue
        for kind, length, value in zip(kinds, rows[1][1:], row[1:], strict=True):
            if kind != _MEAN:
                found[str(row[0]), str(kind), str(length)] = _number(value, f"sheet '{title}', row {number}", path)
    return found


def _number(value: Any, where: str, path: Path) -> float | None:
    if value is None or str(value).strip().lower() in ("", "nan"):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: '{value}' is not a number", path) from error
    return number if number == number else None


def dimension_text(answers: Answers) -> str:
    """Write the official dimension text, from type accuracies rounded to four decimals as upstream does."""
    types = rounded(answers)
    blocks = []
    for title, _, kinds in _SECTIONS:
        rows = {
            generator: [mean(lengths[length][kind] for kind in kinds) for length in LENGTHS]
            for generator, lengths in types.items()
        }
        blocks.append(_block(title, ("short", "long"), rows))
    overall = {generator: [_overall(lengths[length]) for length in LENGTHS] for generator, lengths in types.items()}
    blocks.append(_block(_ALL, ("overall-short", "overall-long"), overall, index="Model"))
    return "".join(blocks)


def _overall(types: Mapping[str, float | None]) -> float | None:
    return mean(mean(types[kind] for kind in kinds) for kinds in DIMENSIONS.values())


def _block(title: str, heads: Sequence[str], rows: Mapping[str, Sequence[float | None]], index: str = "") -> str:
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


def read_dimension_text(path: Path) -> dict[str, Any]:
    """Read `{"generators": {NAME: {"short": {"overall", "basic", "advanced", "dimensions"}, ...}}}` in percent.

    Raises:
        DataError: not UTF-8, no such sections, or rows that were cut (pandas prints at most 60); names the line.
    """
    keys = {title: key for title, key, _ in _SECTIONS} | {_ALL: "overall"}
    generators: dict[str, Any] = {}
    for title, name, values in _rows(path):
        key = keys.get(title)
        if key is None:
            raise DataError(f"unknown section '{title}'", path)
        empty: dict[str, Any] = {
            length: {"overall": None, "basic": None, "advanced": None, "dimensions": {}} for length in LENGTHS
        }
        lengths = generators.setdefault(name, empty)
        for length, value in zip(LENGTHS, values, strict=True):
            if key:
                (lengths[length]["dimensions"] if key in DIMENSIONS else lengths[length])[key] = value
    if not generators:
        raise DataError("no rows under '==== ... ====' headings: this is not the dimension text", path)
    return {"generators": generators, "unit": "percent"}


def _rows(path: Path) -> Iterator[tuple[str, str, list[float | None]]]:
    """Section, generator and the two values, in percent, of every row."""
    title = ""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if match := re.fullmatch(r"==== (.+) ====", line.strip()):
            title = match[1]
            continue
        cells = line.rsplit(None, 2)
        if not title or len(cells) < 3:
            continue  # blank, or the heads: names of the columns, or of the index alone
        if set(cells) & {"..", "..."}:
            raise DataError("the rows were cut when this file was printed", path, number)
        values = [_number(cell, "row", path) for cell in cells[1:]]
        yield title, cells[0].strip(), [None if value is None else 100 * value for value in values]
