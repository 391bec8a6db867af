"""Tables and files as a person, or a program, gets them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from titjudge.cli.layout import laid_out, paragraph
from titjudge.cli.terminal import printable, say
from titjudge.core.errors import UserError
from titjudge.core.types import Table

STDOUT = "titjudge.stdout"  # of a command's context: where `--json -` goes


def cell(value: Any) -> str:
    """Write a cell as text: None is a dash, a float has four decimals."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else printable(" ".join(str(value).splitlines()))


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables: drawn on a terminal, aligned plain text elsewhere. A note of several tables is printed once."""
    said: set[str] = set()
    for table in tables:
        notes = [note for note in table.notes if note not in said]
        said.update(notes)
        if sys.stdout.isatty():
            _draw(table, notes)
        else:
            _plain(table, notes)


def show_notes(notes: Iterable[str], tables: Iterable[Table] = ()) -> None:
    """Print what there is to say of results, but for what a table has said."""
    said = {note for table in tables for note in table.notes}
    for note in dict.fromkeys(notes):
        if note not in said:
            _note(f"note: {note}")


def _note(text: str) -> None:
    say(paragraph(printable(text), terminal_width()) if sys.stdout.isatty() else f"  {text}")


def terminal_width() -> int:
    return shutil.get_terminal_size().columns


def _draw(table: Table, notes: Iterable[str]) -> None:
    texts = [[cell(value) for value in row] for row in table.rows]
    columns = [printable(name) for name in table.columns]
    lines = laid_out(columns, texts, _numeric(table), terminal_width())
    say()
    click.echo(_styled(printable(table.title), bold=True))
    if lines is None:  # one row after the other, a line for each cell
        for row in texts:
            say()
            wide = max(map(len, columns))
            for name, text in zip(columns, row, strict=True):
                told = paragraph(text, terminal_width(), " " * (wide + 4)).lstrip()
                click.echo("  " + _styled(f"{name:<{wide}}", dim=True) + f"  {told}")
    else:
        for number, line in enumerate(lines):
            click.echo(_styled(line, dim=True) if set(line) <= {"-", " "} and number else line)
    for note in notes:
        click.echo(_styled(paragraph(printable(note), terminal_width()), dim=True))


def _styled(text: str, **style: bool) -> str:
    """Bold or dim text, unless the person or the terminal wants none (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **style)


def _plain(table: Table, notes: Iterable[str]) -> None:
    texts = [[cell(value) for value in row] for row in table.rows]
    widths = [max([len(name), *(len(row[i]) for row in texts)]) for i, name in enumerate(table.columns)]
    numeric = _numeric(table)
    say(f"\n{table.title}")
    for row in ([*table.columns], ["-" * width for width in widths], *texts):
        cells = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, numeric, strict=True)
        )
        say("  " + "  ".join(cells).rstrip())
    for note in notes:
        say(f"  {note}")


def _numeric(table: Table) -> list[bool]:
    return [all(isinstance(row[i], int | float | None) for row in table.rows) for i in range(len(table.columns))]


def show_problems(found: Sequence[tuple[str, str]], *, all_in: str = "", most: int = 20, examples: int = 3) -> None:
    """Show every kind of problem with some examples.

    Args:
        found: What, and why.
        all_in: Where all of them are, in words.
        most: Kinds that are shown, and problems that are shown all.
        examples: Of each kind, where there are more.
    """
    from titjudge.core.grouped_reasons import listed

    for line in listed(found, most if len(found) <= most else examples, most, all_in):
        say(f"  {line}", err=True)


def show_forecast(forecast: Any, json_file: Path | None) -> None:
    """Show what a dry run found: items first; no table of costs where there is nothing to ask."""
    for line in forecast.lines():
        say(line)
    if forecast.items:
        show_tables([forecast.table()])
    write_json(json_file, forecast.to_json())


def check_writable(path: Path | None, *read: Path | None) -> None:
    """Say that a file cannot be written before anything is paid for; leaves no file behind.

    Args:
        path: The file.
        read: Files that the command reads, which it must not write over.

    Raises:
        UserError: it cannot.
    """
    if path is not None and any(each and each.exists() and path.exists() and path.samefile(each) for each in read):
        raise UserError(f"{path} is read here: choose another file to write")
    if path is None or str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # nothing, standard output, or a pipe, which a second opening would end
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with path.open("a"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def write_json(path: Path | None, content: Any) -> None:
    """Write `--json FILE` (`-` is standard output)."""
    if path is None:
        return
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    if str(path) == "-":
        context = click.get_current_context(silent=True)
        out: Any = context.meta.get(STDOUT, sys.stdout) if context is not None else sys.stdout
        out.write(text)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
