"""Official files that `suites aggregate` reads and writes: the flags of a suite, and how tables are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from titjudge.core.types import Item, Score, Table

Judged = Callable[[], tuple[Sequence[Item], Sequence[Score]]]
"""Reads the items of a run, and its scores."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of `suites aggregate NAME`.

    Attributes:
        name: The flag without its dashes.
        help: What it is for, in a sentence or two.
        metavar: FILE or DIR for a path, RUN for a run folder, another word for a text.
        choices: The values that it can have; any where there are none.
        default: Its value where it is not given.
        several: It can be given several times, and its value is a tuple.
        required: It has to be given.
        alias: Another name of it.
    """

    name: str
    help: str
    metavar: str | None = "FILE"
    choices: tuple[str, ...] = ()
    default: str | None = None
    several: bool = False
    required: bool = False
    alias: str = ""

    @property
    def parameter(self) -> str:
        """The parameter of `Aggregation.compute` that gets its value."""
        return self.name.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Official results.

    Attributes:
        results: What `--json` writes.
        tables: What a person reads.
        written: Lines that say which files were written.
    """

    results: Any
    tables: Sequence[Table]
    written: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A command `suites aggregate NAME`, announced by an entry point in the group `titjudge.aggregations`.

    Attributes:
        summary: What it computes, in a few words.
        help: The same at length, with an example: each of its lines is `python cli.py suites aggregate ...`.
        flags: Its flags.
        compute: Called with the value of each flag by its name (`write-answers` is `write_answers`), a Path for a file or folder and
            `Judged` for a run, or None. A UserError says what is wrong with them.
        metrics: The metrics whose scores of a run it reads.
    """

    summary: str
    help: str
    flags: tuple[Flag, ...]
    compute: Callable[..., Aggregated]
    metrics: tuple[str, ...] = ()
