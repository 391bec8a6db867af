"""Tables of results: cells are words, numbers, or numbers with a format, an interval and a note. Renderers are elsewhere.

`cli.output` renders for the terminal, `report.tables` as HTML, Markdown, LaTeX and CSV. All of them take the text of a cell from
`core.formats`, so that a number looks the same in all places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Self

from titjudge.core import words
from titjudge.core.declarations import UNDECLARED, Declaration

_LIKE_A_NUMBER = re.compile(r"[-+<]?\$?[\d.,]+%?((/| / | of | to )[\d,]+)*( \[.*\])?(, [a-z ]+ [\d.<]+)?")


class CellFormat(Enum):
    """How the value of a cell is written."""

    TEXT = auto()
    NUMBER = auto()
    SIGNED = auto()
    PERCENT = auto()
    POINTS = auto()
    P_VALUE = auto()
    MONEY = auto()


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a table with its format, interval and note; `str()` is all of it in one line.

    Attributes:
        value: Words, or a number: a fraction for PERCENT and POINTS, US dollars for MONEY.
        format: How the value is written.
        digits: Decimals of a NUMBER; None for as many as its size asks for.
        interval: Ends of the 95% interval, in the unit of the value; None is infinite.
        note: A remark about this value.
        link: Fragment of the report's page that it leads to, such as `#images?g=...`.
        bar: Whether the report draws the interval; a share without one is drawn from zero.
        sort: The number that the report sorts words by.
    """

    value: float | str
    format: CellFormat = CellFormat.TEXT
    digits: int | None = None
    interval: tuple[float | None, float | None] | None = None
    note: str = ""
    link: str = ""
    bar: bool = False
    sort: float | None = None

    @property
    def text(self) -> str:
        """The value in its format."""
        return self.value if isinstance(self.value, str) else self._written(self.value)

    @property
    def aside(self) -> str:
        """The interval and the note, next to or below the value."""
        ends = self.interval and self._interval(*self.interval)
        return f"{ends}, {self.note}" if ends and self.note else ends or self.note

    @property
    def order(self) -> float | None:
        """The number to sort by; None for words."""
        value = self.sort if isinstance(self.value, str) else self.value
        return value if value is not None and math.isfinite(value) else None

    def __str__(self) -> str:
        beside = self.aside
        return f"{self.text}{' ' if self.interval else ', '}{beside}" if beside else self.text

    def _written(self, value: float) -> str:
        match self.format:
            case CellFormat.PERCENT:
                return words.percentage(value)
            case CellFormat.POINTS:
                return words.points(value)
            case CellFormat.P_VALUE:
                return words.p_value(value)
            case CellFormat.MONEY:
                return words.money(value)
            case _:
                return words.number(value, self.digits, signed=self.format is CellFormat.SIGNED)

    def _interval(self, *ends: float | None) -> str:
        low, high = ("" if end is None else self._written(end).removesuffix("%").removesuffix(" pts") for end in ends)
        return words.interval(low or "-∞", high or "∞")


Value = Any  # of a table: str, int, float, bool, Cell, or None for what is undefined


class Note(str):
    """A line for people, below a table or about a run, with the name of what it says; programs and files take it as a text.

    Attributes:
        id: Stable name of this kind of note, by which code and tests find it; its words mean nothing to them.
    """

    id: str

    def __new__(cls, id: str, text: str) -> Self:
        note = super().__new__(cls, text)
        note.id = id
        return note

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # what `__new__` takes, for copies in other processes
        return self.id, str(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Keep a note in a record; one that is read from a file has an empty id."""
        from pydantic_core.core_schema import no_info_wrap_validator_function

        return no_info_wrap_validator_function(
            lambda text, read: text if isinstance(text, cls) else cls("", read(text)), handler(str)
        )


@dataclass(frozen=True, slots=True)
class Table:
    """A table of results.

    Attributes:
        title: Its title.
        columns: Names of the columns.
        rows: Values: words, numbers, cells, or None if a value is undefined.
        notes: Lines below it.
        explanation: Lines above the notes that explain the columns; the terminal prints them with `--explain`.
        secondary: Keys of columns that a narrow terminal leaves out, the first of them first.
        estimates: Whether the terminal writes three digits of its numbers; files have all of them.
        empty: Text instead of rows, if there are none.
        folded: Whether the report shows only the title until it is opened.
        axis: Minimum range of the axis of all bars.
        declared: Population and unit of its numbers.
        keys: Stable names of the columns, by which programs find them; empty if these are their titles.
        row_titles: Titles of rows with a population of their own, by key.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[Note, ...] = ()
    empty: str = ""
    folded: bool = False
    axis: tuple[float, float] | None = None
    explanation: tuple[Note, ...] = ()
    secondary: tuple[str, ...] = ()
    estimates: bool = False
    declared: Declaration = UNDECLARED
    keys: tuple[str, ...] = ()
    row_titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """The key of each column."""
        return self.keys or self.columns

    @property
    def sized(self) -> Declaration:
        """The basis of its numbers, with the size that its rows give."""
        declared = self.declared
        if declared.counts not in self.ids or declared.population in declared.sizes:
            return declared
        column = self.ids.index(declared.counts)
        counts = (row[column].order if isinstance(row[column], Cell) else row[column] for row in self.rows)
        found = [int(count) for count in counts if isinstance(count, int | float)]
        return (
            replace(declared, sizes={declared.population: sorted({min(found), max(found)}), **declared.sizes})
            if found
            else declared
        )

    @property
    def caption(self) -> str:
        """What its numbers are over, in one line; empty for a list of facts."""
        return self.sized.caption({**dict(zip(self.ids, self.columns, strict=True)), **self.row_titles})

    @property
    def declaration(self) -> dict[str, Any]:
        """The declaration of its numbers for `--json`."""
        return self.sized.to_json() | {"title": self.title}

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Every line below it, the explanation of the columns included."""
        return (*self.explanation, *self.notes)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each column, True if it has numbers; the first only if it has nothing else."""
        return tuple(_numeric([row[index] for row in self.rows]) for index in range(len(self.columns)))

    @property
    def records(self) -> list[dict[str, Value]]:
        """The rows, each as the values of its columns by key."""
        return [dict(zip(self.ids, row, strict=True)) for row in self.rows]

    @property
    def plain_rows(self) -> list[list[str | float | None]]:
        """The rows for files: cells as text."""
        return [[str(value) if isinstance(value, Cell) else value for value in row] for row in self.rows]


def _numeric(values: Sequence[Value]) -> bool:
    return any(value is not None for value in values) and all(map(_is_numeric, values))


def _is_numeric(value: Value) -> bool:
    if isinstance(value, Cell):
        return value.order is not None or _is_numeric(value.value)
    if isinstance(value, str):  # files have cells as text
        return _LIKE_A_NUMBER.fullmatch(value) is not None or value == words.DASH
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def says_something(values: Sequence[Value]) -> bool:
    """Return True if a column has information: not only unknown values, and not only complete counts (`36/36`)."""
    known = [value for value in values if value not in (None, "0")]
    whole = [
        isinstance(value, str) and (parts := value.split("/"))[0] == parts[-1] and len(parts) == 2 for value in known
    ]
    return not all(whole)


def rounded(values: Sequence[Value]) -> list[Value]:
    """Shorten the numbers of a column to three digits of the largest; shares, sums, p-values and words stay as they are."""
    numbers = [value.value if isinstance(value, Cell) else value for value in values]
    most = words.decimals(number for number in numbers if isinstance(number, float))
    return [_shortened(value, most) for value in values]


def _shortened(value: Value, most: int) -> Value:
    if (
        isinstance(value, Cell)
        and isinstance(value.value, float)
        and value.format in (CellFormat.NUMBER, CellFormat.SIGNED)
    ):
        return replace(value, digits=most if value.digits is None else min(value.digits, most))
    return Cell(value, CellFormat.NUMBER, most) if isinstance(value, float) else value


def text_of(value: Value, dash: str = words.DASH) -> str:
    """Return a value of a table in one line; None is a dash."""
    if value is None:
        return dash
    if isinstance(value, bool):
        return "yes" if value else "no"
    return words.number(value) if isinstance(value, int | float) else str(value)


def percent(value: float | None, interval: Sequence[float | None] | None = None, **more: Any) -> Cell | None:
    """Make the cell of a fraction with its interval: `88.9% [77.8, 97.2]`; None stays None."""
    return _statistic(value, CellFormat.PERCENT, None, interval, more)


def plain(
    value: float | None, interval: Sequence[float | None] | None = None, digits: int | None = 3, **more: Any
) -> Cell | None:
    """Make the cell of a number with its interval: `0.395 [0.351, 0.438]`; None stays None, as an end it is infinite."""
    return _statistic(value, CellFormat.NUMBER, digits, interval, more)


def p_value(p: float | None) -> Cell | None:
    """Make the cell of a p-value: `0.013`, `<0.0001`; None stays None."""
    return None if p is None else Cell(p, CellFormat.P_VALUE)


def rank_range(ranks: tuple[int, int] | None) -> Cell | int | None:
    """Make the cell of the lowest and the highest rank that are possible: `2`, `1 to 3`; None stays None."""
    if ranks is None or ranks[0] == ranks[1]:
        return ranks and ranks[0]
    return Cell(f"{ranks[0]} to {ranks[1]}", sort=ranks[0])


def dollars(value: float | None, unpriced: int = 0) -> Cell | None:
    """Make the cell of a sum in US dollars that `unpriced` requests are not in; None stays None."""
    if value is None and not unpriced:
        return None
    return Cell(words.spending(value, unpriced), sort=value) if unpriced else Cell(value or 0.0, CellFormat.MONEY)


def _statistic(
    value: float | None,
    written: CellFormat,
    digits: int | None,
    interval: Sequence[float | None] | None,
    more: dict[str, Any],
) -> Cell | None:
    if value is None:
        return None
    ends = (interval[0], interval[1]) if interval else None
    return Cell(float(value), written, digits, ends, **more)
