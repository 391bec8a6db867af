"""Leaderboards published in papers: judge, protocol, and the numbers as printed.

The tables are `published/NAME.csv`, their metadata `published/index.yaml`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from titjudge.core.declarations import FACTS
from titjudge.core.errors import ConfigError, unknown
from titjudge.core.types import Json, Note, Table, Values

_DATA = resources.files("titjudge.stats") / "published"


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The place in the results of a run with the number of a published `column`.

    Attributes:
        key: Column of the suite's table, or key of the metric's own result.
        table: Id of the suite's table; empty for the metric's own result.
        where: Values that the row of the suite's table has in other columns.
        times: Factor from the run's number to the published one.
    """

    column: str
    key: str
    table: str = ""
    where: tuple[tuple[str, str], ...] = ()
    times: float = 1.0


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One published table.

    Attributes:
        of: The kind of a row: a generator, a judge, or something else.
        judge: The judge, in words; `judges` are patterns of its model name.
        prompts: Number of prompts; None if the paper does not give it.
        prompts_of: Rows made on another number of prompts, and that number; None if it is unknown.
        script: Script of the prompts, as Unicode names it; empty for Latin.
        options: Options of the suite that a comparable run must have; null for one that it must not have.
        differs: The constant difference from a run of titjudge: in a word, and in a sentence.
        remarks: Notes to read before comparing with a number, such as a number that does not follow from the paper's tables.
        counterparts: The places of the same numbers in a run; empty if it has none.
        cells: The name of each row and its cells: numbers, texts, or None.
    """

    name: str
    title: str
    of: str
    source: str
    date: str
    scale: str
    judge: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, tuple[Any, ...]], ...]
    suite: str = ""
    metric: str = ""
    judges: tuple[str, ...] = ()
    protocol: str = ""
    prompts: int | None = None
    prompts_of: Mapping[str, int | None] = field(default_factory=dict)
    script: str = ""
    options: Values = field(default_factory=dict)
    differs: tuple[str, str] | None = None
    remarks: tuple[str, ...] = ()
    counterparts: tuple[Counterpart, ...] = ()

    def prompts_behind(self, row: str) -> int | None:
        """Return the number of prompts that a row was made on; None if it is unknown."""
        return self.prompts_of.get(row, self.prompts)

    def column(self, name: str, **where: str) -> Json:
        """Return a column by row name; `where` selects rows by their texts in other columns."""
        places = {column: place for place, column in enumerate(self.columns)}
        return {
            row: values[places[name]]
            for row, values in self.cells
            if all(values[places[column]] == text for column, text in where.items())
        }

    def table(self) -> Table:
        """Return the table, with judge and source as its notes."""
        facts = [f"judge: {self.judge}", f"scale: {self.scale}", f"date: {self.date}", f"source: {self.source}"]
        if self.prompts:
            facts.insert(1, f"prompts: {self.prompts:,}" + (f", {self.script}" if self.script else ""))
            facts[2:2] = [
                f"made on {f'{count:,} prompts' if count else 'an unknown number of prompts'}: "
                + ", ".join(row for row, of_row in self.prompts_of.items() if of_row == count)
                for count in dict.fromkeys(self.prompts_of.values())
            ]
        if self.protocol:
            facts.insert(1, f"protocol: {self.protocol}")
        rows = tuple((name, *values) for name, values in self.cells)
        return Table(
            self.title,
            (self.of, *self.columns),
            rows,
            tuple(
                Note("published_fact", fact)
                for fact in (*facts, *self.remarks, *([": ".join(self.differs)] if self.differs else []))
            ),
            declared=FACTS,
        )


def published_names() -> tuple[str, ...]:
    """List the names of all tables."""
    return tuple(_index())


@lru_cache(maxsize=32)
def published(name: str) -> PublishedTable:
    """Read a table.

    Raises:
        ConfigError: There is none of that name.
    """
    index = _index()
    if name not in index:
        raise ConfigError(unknown("reference", name, index))
    facts = dict(index[name])
    mine = [
        Counterpart(
            entry["column"],
            entry["from"],
            entry.get("table", ""),
            tuple(entry.get("where", {}).items()),
            entry.get("times", 1.0),
        )
        for entry in facts.pop("mine", ())
    ]
    head, *rows = csv.reader((_DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines())
    cells = tuple((row[0], tuple(map(_cell, row[1:]))) for row in rows)
    facts |= {
        "date": str(facts["date"]),
        "judges": tuple(facts.get("judges", ())),
        "remarks": tuple(facts.get("remarks", ())),
        "differs": tuple(facts.get("differs", ())) or None,
    }
    return PublishedTable(name, columns=tuple(head[1:]), cells=cells, counterparts=tuple(mine), **facts)


def list_table(names: Sequence[str]) -> Table:
    """Tabulate tables with their title, number of rows, judge and source."""
    tables = [published(name) for name in names]
    rows = tuple((table.name, table.title, len(table.cells), table.judge, table.date, table.source) for table in tables)
    return Table("Published tables", ("name", "what it is", "rows", "judge", "date", "source"), rows, declared=FACTS)


@lru_cache(maxsize=1)
def _index() -> dict[str, Json]:
    import yaml

    index: dict[str, Json] = yaml.safe_load((_DATA / "index.yaml").read_text(encoding="utf-8"))
    return index


def _cell(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None
