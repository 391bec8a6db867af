"""Opinions of several people in a table: a row for each of them, a column for each, or a list in a cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from titjudge.core.errors import DataError
from titjudge.core.files import csv_separator
from titjudge.core.names import is_nothing
from titjudge.core.numbers import finite
from titjudge.core.types import Note

Key = TypeVar("Key")
T = TypeVar("T")
_PERSON = "annotator|rater|user|worker|judge|evaluator|participant|labell?er|reviewer|expert|person|human"
_OPINION = "score|rating|vote|preference|choice|answer|rank"
RATERS = tuple(
    f"{name}{ending}"
    for ending in ("", "_id", "id", "_name")
    for name in "annotator rater user worker judge evaluator participant labeler labeller reviewer".split()
)
"""Names of the column with the person, as `_plain` writes them."""
_OF_ONE = re.compile(
    rf"(?:(?:{_OPINION})[ _.-]*(?:(?:of|by)[ _.-]+)?)?(?:{_PERSON})(?:[ _.-]*\d+|[ _.-]+[a-z])(?:[ _.-]*(?:{_OPINION}))?"
    rf"|(?:{_OPINION}|r)[ _.-]*\d+"
)
_TWO_NUMBERS = re.compile(r"[+-]?(\d+,\d+|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(,\d{3})+\.\d+)")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+")


def column_of(names: Iterable[Any], wanted: Sequence[str]) -> str | None:
    """Find the first column that has one of the wanted names (as `_plain` writes them), or its plural; None without one."""
    known = {_plain(name): name for name in names}
    return next((known[name] for one in wanted for name in (one, f"{one}s") if name in known), None)


def opinion_columns(names: Iterable[Any], wanted: Sequence[str]) -> list[str]:
    """List the columns with people's opinions: the first of the wanted names, otherwise `rater1`, `annotator_2`, `vote 3`, ..."""
    names = list(names)
    column = column_of(names, wanted)
    return [name for name in names if _OF_ONE.fullmatch(_plain(name))] if column is None else [column]


@lru_cache(maxsize=4096)  # names of columns, for each row again
def _plain(name: Any) -> str:
    """Write `Worker ID`, `worker-id` and `WorkerId` as `worker_id`."""
    return re.sub(r"[\s_-]+|(?<=[a-z])(?=[A-Z])", "_", str(name).strip()).casefold()


def opinions_in(cell: Any, parse: Callable[[Any], T | None]) -> list[tuple[str, T]] | None:
    """Read a cell with one opinion, a list (`[4, 5, 3]`, `4;5;3`, `a|b|a`) or names with opinions (a JSON object).

    Returns:
        Names (empty without) and opinions; an empty list for an empty cell, None for what cannot be read.
    """
    if cell is None or cell != cell or (isinstance(cell, str) and is_nothing(cell)):
        return []
    if isinstance(cell, Mapping):
        given = [(str(name), value) for name, value in cell.items()]
    elif isinstance(cell, list | tuple):
        given = [("", value) for value in cell]
    elif (whole := parse(cell)) is not None:
        return [("", whole)]
    else:
        text = str(cell).strip()
        if text.startswith("{"):
            try:
                named = json.loads(text)
            except (ValueError, RecursionError):
                return None
            return opinions_in(named, parse) if isinstance(named, dict) else None
        inside = text[1:-1] if text[0] + text[-1] in ("[]", "()") else text
        if inside is text and _TWO_NUMBERS.fullmatch(text):  # 4,5: 4.5, or 4 and 5
            return None
        mark = next((mark for mark in (";", "|", ",") if mark in inside), None)
        given = [("", piece.strip(" \t\"'")) for piece in inside.split(mark)]
        if len(given) < 2 and inside is text:
            return None
    found = []
    for name, value in given:
        if value is not None and not (isinstance(value, str) and is_nothing(value)):
            if (opinion := parse(value)) is None:
                return None
            found.append((name, opinion))
    return found


def number_reader(path: Path) -> Callable[[Any], float | None]:
    """Return the function that reads the numbers of a table: if semicolons or tabs separate its cells, `4,33` is 4.33."""
    separator = csv_separator(path)

    def read(cell: Any) -> float | None:
        if (
            isinstance(cell, str)
            and "," in cell
            and (separator == ";" or (separator and not _THOUSANDS.fullmatch(cell)))
        ):
            return finite(cell.strip().replace(",", ".", 1))
        return finite(cell)

    return read if separator in (";", "\t") else finite


class Opinions(Generic[Key, T]):
    """The opinions of people on each key, one per person.

    Attributes:
        of: Key -> name -> opinion. A person without a name counts as a different person in each row.
        lines: Row of each opinion, by key and name.
        doubles: Number of opinions that repeat one of the same person.
        blanks: Number of rows without an opinion.
        unused: Further columns of opinions, which do not count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.of: dict[Key, dict[str, T]] = {}
        self.doubles = self.blanks = 0
        self.unused: dict[str, None] = {}
        self.lines: dict[tuple[Key, str], int] = {}

    def add(self, key: Key, who: str, opinion: T, line: int, what: str) -> str | None:
        """Add an opinion on `what`; return the person, or None for a repetition, which is counted.

        Raises:
            DataError: The same person has another opinion on the same key; the message names both rows.
        """
        said = self.of.setdefault(key, {})
        who = who or f"#{len(said) + 1}"
        if who not in said:
            said[who], self.lines[key, who] = opinion, line
            return who
        if said[who] != opinion:
            before = f"'{said[who]}' in row {self.lines[key, who]}"
            raise DataError(
                f"'{who}' has '{opinion}' for {what} here and {before}. Remove one of the rows", self.path, line
            )
        self.doubles += 1
        return None

    @property
    def people(self) -> set[str]:
        return {who for said in self.of.values() for who in said}

    def notes(self, noun: str) -> list[Note]:
        """Report repetitions, empty cells and columns that do not count."""
        file, count = self.path, self.doubles
        repeated = f"{file}: {count:,} {noun} repeat one of the same person and count once"
        blank = f"{file}: rows without {noun}, which do not count: {self.blanks:,}"
        lines = {
            Note("opinions_repeated", repeated): count,
            Note("rows_without_opinion", blank): self.blanks,
            Note("opinion_columns_unused", f"{file}: not used: {', '.join(self.unused)}"): self.unused,
        }
        return [line for line, happened in lines.items() if happened]


def spread(counts: Sequence[int]) -> str:
    """Write the smallest and the largest of several counts: `3`, or `2 to 3`."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
