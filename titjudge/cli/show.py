"""Tables and files as a person, or a program, gets them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from titjudge.cli.terminal import printable, say
from titjudge.errors import UserError
from titjudge.types import Table

STDOUT = "titjudge.stdout"  # of a command's context: where `--json -` goes
_FOLDS = 20  # characters of a cell that are never broken over lines


def cell(value: Any) -> str:
    """A cell as text: None is a dash, a float has four significant places."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else printable(" ".join(str(value).splitlines()))


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables: drawn on a terminal, aligned plain text elsewhere."""
    for table in tables:
        if sys.stdout.isatty():
            _draw(table)
        else:
            _plain(table)


def _draw(table: Table) -> None:
    import rich.box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    if not _fits(table, console.width):
        _records(table, console)
        return
    drawn = RichTable(
        title=Text(printable(table.title), style="bold"), title_justify="left", box=rich.box.SIMPLE_HEAD, pad_edge=False
    )
    numeric = _numeric(table)
    for name, is_number in zip(table.columns, numeric, strict=True):
        drawn.add_column(Text(printable(name)), justify="right" if is_number else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell(value)) for value in row))
    console.print(drawn)
    _notes(table, console)


def _fits(table: Table, width: int) -> bool:
    """Whether a table can be drawn without cutting words: long cells may go on in a next line, short ones may not."""
    columns = zip(table.columns, *table.rows, strict=True)
    return sum(max(min(len(cell(value)), _FOLDS) for value in column) + 3 for column in columns) <= width


def _records(table: Table, console: Any) -> None:
    """One row after the other, a line for each cell: for a terminal that is too narrow."""
    from rich.table import Table as Grid
    from rich.text import Text

    console.print(Text(printable(table.title), style="bold"))
    for row in table.rows:
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in zip(table.columns, row, strict=True):
            grid.add_row(Text(printable(name)), Text(cell(value)))
        console.print()
        console.print(grid)
    console.print()
    _notes(table, console)


def _notes(table: Table, console: Any) -> None:
    from rich.text import Text

    for note in table.notes:
        console.print(Text(printable(f"  {note}"), style="dim"))
    if table.notes:
        console.print()


def _plain(table: Table) -> None:
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
    for note in table.notes:
        say(f"  {note}")


def _numeric(table: Table) -> list[bool]:
    return [all(isinstance(row[i], int | float | None) for row in table.rows) for i in range(len(table.columns))]


def show_forecast(forecast: Any, json_file: Path | None) -> None:
    """What a dry run found: items first; no table of costs where there is nothing to ask."""
    for line in forecast.lines():
        say(line)
    if forecast.items:
        show_tables([forecast.table()])
    write_json(json_file, forecast.to_json())


def check_writable(path: Path | None) -> None:
    """Say that a file cannot be written before anything is paid for; leaves no file behind.

    Raises:
        UserError: it cannot.
    """
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
