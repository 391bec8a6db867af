"""The output of commands: tables, notes, problems, and the `--json` file."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from titjudge.cli.terminal import printable, say
from titjudge.core.errors import UserError, file_fault
from titjudge.core.patterns import lazy_pattern

if TYPE_CHECKING:
    from titjudge.core.tables import Note, Table, Value
    from titjudge.runs.outcome import Outcome


GAP = 2  # spaces between columns
_MAX_LINES = 8  # lines of a row; a longer row is easier to read as a list of cells
_GLUE = "\u00a0"
_UNBREAKABLE = lazy_pattern(
    r"\[[^\[\]]*\]|p [<=] ?\S+|p (Holm|BH|best)|-?[\d.]+ to -?[\d.]+"
)  # an interval, a p, a range


def laid_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[str] | None:
    """Format a table as lines of at most `width` characters: columns, a rule, rows; None if it does not fit.

    If there is too little space, headings are wrapped before cells are.
    """
    cells = [[_glued(text) for text in row] for row in (columns, *rows)]
    widths = [max(map(_width, texts)) for texts in zip(*cells, strict=True)]
    room = width - GAP * len(widths)
    fits = sum(widths) <= room
    if not (fits or _shrunk(widths, _whole_cells(cells), room) or _shrunk(widths, _whole_words(cells), room)):
        return None
    lines: list[str] = []
    for row in (cells[0], ["-" * column for column in widths], *cells[1:]):
        wrapped = [[text] if fits else _wrapped(text, column) for text, column in zip(row, widths, strict=True)]
        if max(map(len, wrapped)) > _MAX_LINES:
            return None
        for parts in zip_longest(*wrapped, fillvalue=""):
            line = ""
            for part, column, right in zip(parts, widths, numeric, strict=True):
                space = " " * max(0, column - _width(part))
                line += " " * GAP + (space + part if right else part + space)
            lines.append(line.replace(_GLUE, " ").rstrip())
    return lines


def least_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table whose headings are wrapped between words, and whose cells take one line each."""
    return sum(GAP + least for least in _whole_cells([[_glued(text) for text in row] for row in (columns, *rows)]))


def _whole_cells(cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the least widths at which only headings are wrapped."""
    return [max(_longest_word(heading), *map(_width, texts), 0) for heading, *texts in zip(*cells, strict=True)]


def _whole_words(cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the least widths at which cells are wrapped between words."""
    return [max(map(_longest_word, texts)) for texts in zip(*cells, strict=True)]


def _longest_word(text: str) -> int:
    return max(map(_width, _words(text)), default=0)


def _shrunk(widths: list[int], least: Sequence[int], room: int) -> bool:
    """Make the widest columns narrower until they fit, none below its least width; returns whether they do."""
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))
        if widths[widest] <= least[widest]:
            return False
        widths[widest] -= 1
    return True


def paragraph(text: str, width: int, indent: str = "  ") -> str:
    """Wrap text between words into indented lines of at most `width` characters."""
    return textwrap.fill(text, max(20, width), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _glued(text: str) -> str:
    return _UNBREAKABLE.sub(lambda match: match[0].replace(" ", _GLUE), text)


def _words(text: str) -> list[str]:
    return textwrap.wrap(text, 1, break_long_words=False, break_on_hyphens=False)


def _wrapped(text: str, width: int) -> list[str]:
    if _width(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


EXPLAIN = (
    "titjudge.explain"  # key of the click context: whether `--explain` is given; a command without it has no such key
)
STDOUT = "titjudge.stdout"  # key of the click context: the stream that `--json -` writes to


def show_results(tables: Sequence[Table], record: Any, json_file: Path | None, notes: Iterable[Note] = ()) -> None:
    """Print the tables and notes of a command, and write its `--json` file.

    Args:
        tables: The tables for people.
        record: The same as JSON.
        json_file: None without `--json`.
        notes: Printed below the tables, unless a table has the same note.
    """
    show_tables(tables)
    show_notes(notes, tables)
    write_json(json_file, declared(record, tables))


def declared(record: Any, tables: Iterable[Table]) -> Any:
    """Add to a `--json` record what the numbers of the printed tables are over."""
    found = [table.declaration for table in tables if table.declared.population]
    return {**record, "declared": found} if found and isinstance(record, dict) else record


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables: fitted to the width of a terminal, or as aligned plain text in a file or pipe.

    A note that several tables share is printed once. A command with `--explain` explains the columns only if it is given;
    the last line points to it, and lists columns that did not fit.
    """
    printed: set[str] = set()
    no_room: dict[str, None] = {}
    explains = click.get_current_context(silent=True) is None or _explains()
    unexplained = False
    for table in tables:
        notes = [note for note in (table.all_notes if explains else table.notes) if note not in printed]
        printed.update(notes)
        unexplained |= bool(table.explanation) and not explains
        fitted, left_out = _fitted(table)
        lines = [*filter(None, [fitted.caption]), *notes]
        no_room |= dict.fromkeys(left_out)
        (_draw if sys.stdout.isatty() else _plain)(fitted, lines)
    hints = [f"a wider terminal also shows: {', '.join(reversed(no_room))}"] if no_room else []
    hints += ["add --explain for what the columns mean"] if unexplained else []
    for hint in hints:
        say(paragraph(printable(hint), terminal_width()))


def _explains() -> bool:
    """Return True if the columns of tables are explained: with `--explain`, and by a command without this option."""
    chosen: bool = click.get_current_context().meta.get(EXPLAIN, True)
    return chosen


def _fitted(table: Table) -> tuple[Table, list[str]]:
    """Shorten the numbers of a table, and leave out columns that are empty or do not fit.

    Returns:
        The table, and the names of the columns that did not fit.
    """
    from dataclasses import replace

    from titjudge.core.tables import rounded, says_something

    if not (table.estimates or table.secondary):
        return table, []
    columns = [[row[position] for row in table.rows] for position in range(len(table.columns))]
    if table.estimates:
        columns = [rounded(column) for column in columns]
    full = [
        (key, name, column, least_width([name], [[_line(value)] for value in column]))
        for key, name, column in zip(table.ids, table.columns, columns, strict=True)
        if key not in table.secondary or says_something(column)
    ]
    kept, left_out, width = full, [], terminal_width()
    for secondary in table.secondary:
        if sum(least for *_, least in kept) <= width:
            break
        left_out += [name for key, name, *_ in kept if key == secondary]
        kept = [column for column in kept if column[0] != secondary]
    rows = [
        row for row, before in zip(_rows(kept), _rows(full), strict=True) if _has_value(row) or not _has_value(before)
    ]
    keys, names = tuple(key for key, *_ in kept), tuple(name for _, name, *_ in kept)
    fitted = replace(table, columns=names, keys=keys, rows=tuple(rows), declared=table.sized)
    return fitted, left_out


def _rows(columns: Sequence[tuple[str, str, Sequence[Value], int]]) -> list[tuple[Value, ...]]:
    """List the rows of columns that are given with their keys, names and least widths."""
    return [*zip(*(column for *_, column, _ in columns), strict=True)]


def _has_value(row: Sequence[Value]) -> bool:
    """Return True if a row has a text after its name."""
    return any(value is not None for value in row[1:])


def show_notes(notes: Iterable[Note], tables: Iterable[Table] = ()) -> None:
    """Print each note once, except the notes that `tables` have printed."""
    printed = {note for table in tables for note in table.notes}
    for note in dict.fromkeys(notes):
        if note not in printed:
            text = f"note: {_line(note)}"
            say(paragraph(text, terminal_width()) if sys.stdout.isatty() else f"  {text}")


def show_places(outcome: Outcome) -> None:
    """Print the places of the run folder and its report, or why there is no report."""
    say(f"run    {outcome.folder}")
    if outcome.no_report or outcome.report is not None:
        say(f"report {outcome.no_report or outcome.report}")
    if outcome.lists:
        say(f"       {outcome.lists}")


def terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _draw(table: Table, below: Iterable[str]) -> None:
    columns, *texts = _texts(table)
    lines = laid_out(columns, texts, _numeric(table), terminal_width())
    say()
    click.echo(_styled(_line(table.title), bold=True))
    if lines is None:  # too wide: one line for each cell, row by row
        for row in texts:
            say()
            width = max(map(len, columns))
            for name, text in zip(columns, row, strict=True):
                wrapped = paragraph(text, terminal_width(), " " * (width + 4)).lstrip()
                click.echo("  " + _styled(f"{name:<{width}}", dim=True) + f"  {wrapped}")
    else:
        for number, line in enumerate(lines):
            click.echo(_styled(line, dim=True) if set(line) <= {"-", " "} and number else line)
    for note in below:
        click.echo(_styled(paragraph(_line(note), terminal_width()), dim=True))


def _styled(text: str, **style: bool) -> str:
    """Make text bold or dim, unless NO_COLOR (no-color.org) or the terminal forbids it."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **style)


def _plain(table: Table, below: Iterable[str]) -> None:
    (columns, *texts), numeric = _texts(table), _numeric(table)
    fitted = laid_out(columns, texts, numeric, terminal_width()) if table.secondary else None
    lines = fitted or laid_out(columns, texts, numeric, sys.maxsize) or []
    say("\n".join([f"\n{_line(table.title)}", *lines, *(f"  {_line(note)}" for note in below)]))


def _texts(table: Table) -> list[list[str]]:
    """Write the columns and rows of a table, each cell in one line."""
    return [[*map(_line, row)] for row in (table.columns, *table.rows)]


def _line(value: Value) -> str:
    from titjudge.core.tables import text_of
    from titjudge.core.words import in_one_line

    return printable(in_one_line(text_of(value, "-")))


def _numeric(table: Table) -> list[bool]:
    return [all(isinstance(row[i], int | float | None) for row in table.rows) for i in range(len(table.columns))]


def show_problems(
    problems: Sequence[tuple[str, str]], title: str = "", *, all_in: str = "", most: int = 20, examples: int = 3
) -> None:
    """Print problems on standard error, grouped by kind, so that hundreds of one kind do not hide another.

    Args:
        problems: Item and reason of each; with none, nothing is printed.
        title: Their common description, printed after their number.
        all_in: The place of the complete list, in words.
        most: The most kinds that are printed; up to this many problems are printed in full.
        examples: How many of each kind are printed if there are more.
    """
    from titjudge.core.grouping import listed

    if title and problems:
        say(f"\n{len(problems):,} {title}:", err=True)
    for line in listed(problems, most if len(problems) <= most else examples, most, all_in):
        say(f"  {_line(line)}", err=True)


def show_forecast(forecast: Any, json_file: Path | None) -> None:
    """Print the result of a dry run: the items, and the cost of judging them if there are any."""
    for line in forecast.lines():
        say(line)
    show_results([forecast.table()] if forecast.items else [], forecast.to_json(), json_file)


def check_writable(path: Path | None, *inputs: Path | None) -> None:
    """Check that a file can be written, before any work is paid for; leaves no file behind.

    Args:
        path: The file; None and `-` pass.
        inputs: Input files of the command, which `path` must not overwrite.

    Raises:
        UserError: The file cannot be written, or is an input.
    """
    if path and any(file and file.exists() and path.exists() and path.samefile(file) for file in inputs):
        raise UserError(f"{path} is an input of this command. Choose another file to write")
    if path is None or str(path) == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # a pipe, too, is not tried: opening it twice would end it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        path.open("a").close()
        if new:
            path.unlink()
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {file_fault(error)}") from error


def write_json(path: Path | None, content: Any) -> None:
    """Write the file of `--json`; `-` is standard output."""
    import json

    from titjudge.core.serialization import json_value

    if path is None:
        return
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=json_value) + "\n"
    if str(path) == "-":
        context = click.get_current_context(silent=True)
        out: Any = context.meta.get(STDOUT, sys.stdout) if context else sys.stdout
        out.write(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
