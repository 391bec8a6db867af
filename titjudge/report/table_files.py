"""Write tables of a comparison as a Markdown, LaTeX or CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from titjudge.core.errors import ConfigError, UserError
from titjudge.core.files import csv_text
from titjudge.core.types import Table
from titjudge.report.exports import LATEX_HEAD, md, md_table, tex_table
from titjudge.report.table_cells import table as cells

SUFFIXES = (".md", ".tex", ".csv")


def check_table_file(path: Path) -> None:
    """Check the suffix of a file for tables, before anything is computed.

    Raises:
        ConfigError: It is none of .md, .tex and .csv.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: tables are written as {', '.join(SUFFIXES)}")


def write_tables(tables: Sequence[Table], path: Path) -> None:
    """Write tables in the format of the suffix; a CSV has an empty line between tables.

    Raises:
        ConfigError: The suffix is none of .md, .tex and .csv.
        UserError: The file cannot be written.
    """
    check_table_file(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        text = "\n".join(csv_text(table.columns, table.rows) for table in tables)
    else:
        text = markdown(tables) if suffix == ".md" else _latex(tables)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="replace"))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def _words(table: Table) -> int:
    """Count the columns before the first one with a number."""
    numeric = [any(isinstance(row[k], int | float) for row in table.rows) for k in range(len(table.columns))]
    return numeric.index(True) if True in numeric else len(numeric)


def markdown(tables: Sequence[Table]) -> str:
    """Write tables as Markdown."""
    parts = []
    for table in tables:
        lines = md_table(cells(table.title, table.columns, table.rows, text=_words(table)))
        parts.append("\n".join([f"**{md(table.title)}**", "", *lines, *(f"\n{md(note)}" for note in table.notes)]))
    return "\n\n".join(parts) + "\n"


def _latex(tables: Sequence[Table]) -> str:
    made = ["\n".join(tex_table(cells(table.title, table.columns, table.rows, text=_words(table)))) for table in tables]
    return "\n\n".join([LATEX_HEAD, *made]) + "\n"
