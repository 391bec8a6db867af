"""Correlate the rankings of a table with one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.errors import DataError, nearest
from titjudge.core.names import is_nothing, plain
from titjudge.core.types import Json, Note, Table
from titjudge.core.words import truncated
from titjudge.data.opinions import column_of, number_reader
from titjudge.data.tables import read_table, table_columns
from titjudge.stats.ranking.correlation import correlation

RANKS = Declaration(
    "ranks",
    "each ranking and the reference",
    Population.ROWS_OF_BOTH,
    Unit.GENERATOR,
    order="order of the columns",
    counts="n",
)

_GENERATORS = ("generator", "model", "system", "method", "name")


def compare_ranks(path: Path, reference: str) -> tuple[Json, Table]:
    """Compute SRCC and KRCC (tau-b) of every column of a table with the column `reference`.

    One row is a generator, one column a ranking. Columns that are not mostly numbers (names, links) are left out, and named
    in the table's notes. A row with an empty cell is left out of that column.
    A column of scores, where more is better, correlates negatively with a column of ranks, where less is.

    Returns:
        `({"reference": NAME, "columns": {NAME: {"srcc", "krcc", "n"}}}, table)`; a correlation over fewer than three
        rows, or without variation, is None with a "reason".

    Raises:
        DataError: No such file or column (the nearest name is suggested), uneven rows, a generator with two rows, or a cell that is
            not a number.
    """
    names, columns = _ranking_columns(path, reference)
    if reference not in columns:
        kind = "has no numbers" if reference in names else "does not exist"
        numeric = f" Choose a column with numbers: {', '.join(columns) or 'none'}"
        raise DataError(f"the column '{reference}' {kind}.{nearest(reference, columns)}{numeric}", path)
    against = columns.pop(reference)
    if not columns:
        raise DataError(f"no column can be compared with '{reference}'. Add a ranking", path)
    result = {name: _rank_entry(column, against) for name, column in columns.items()}
    table = Table(
        f"Rank correlation with {reference}",
        ("column", "SRCC", "KRCC", "n"),
        tuple((truncated(name, 80), entry["srcc"], entry["krcc"], entry["n"]) for name, entry in result.items()),
        (
            *(
                Note("ranks_not_correlated", f"{truncated(name, 80)}: {entry['reason']}")
                for name, entry in result.items()
                if "reason" in entry
            ),
            *(
                Note(
                    "negative_correlation",
                    f"{truncated(name, 80)}: SRCC is negative. Check that both columns are ranks (1 is best), or both scores",
                )
                for name, entry in result.items()
                if (entry["srcc"] or 0) < 0
            ),
            *(
                Note("not_a_ranking", f"{truncated(name, 80)}: not a ranking, left out")
                for name in names
                if name != reference and name not in columns
            ),
        ),
        declared=RANKS,
        keys=("column", "srcc", "krcc", "n"),
    )
    return {"reference": reference, "columns": result}, table


def _rank_entry(column: Sequence[float | None], against: Sequence[float | None]) -> Json:
    computed = correlation(column, against, resamples=0)
    entry: Json = {"srcc": computed.srcc, "krcc": computed.krcc, "n": computed.n}
    if computed.srcc is None:
        entry["reason"] = computed.reason
    return entry


def _ranking_columns(path: Path, reference: str) -> tuple[list[str], dict[str, list[float | None]]]:
    """Read the names of all columns, and the columns that are rankings: mostly numbers, or the reference with any number."""
    known = table_columns(path)
    rows = list(read_table(path, known or ()))
    names = list(known or dict.fromkeys(name for _, row in rows for name in row))
    if not names:
        raise DataError("the file is empty. Write the names of the columns into the first line", path)
    columns: dict[str, list[float | None]] = {}
    read_number = number_reader(path)
    for name in names:
        column = [(line, row.get(name)) for line, row in rows]
        is_number = [read_number(cell) is not None for _, cell in column if not is_nothing(str(cell))]
        if 2 * sum(is_number) > len(is_number) or (name == reference and any(is_number)):
            columns[name] = [_cell(cell, read_number, name, path, line) for line, cell in column]
    names_rows = column_of(names, _GENERATORS) or next((name for name in names if name not in columns), None)
    if names_rows is not None:
        lines: dict[str, int] = {}
        for line, row in rows:
            generator = plain(str(row.get(names_rows) or ""))
            if generator and lines.setdefault(generator, line) != line:
                what = f"{names_rows} '{generator}' has a row already ({lines[generator]})"
                raise DataError(f"{what}. Remove one of them, or average them", path, line)
    return names, columns


def _cell(cell: Any, read_number: Callable[[Any], float | None], name: str, path: Path, line: int) -> float | None:
    value = read_number(cell)
    if value is None and not is_nothing(str(cell)):
        raise DataError(
            f"column '{name}' must be a finite number, not '{cell}'. Leave the cell empty if it is missing", path, line
        )
    return value
