"""Official tables that `suites aggregate` computes from a run or from official files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError
from titjudge.core.types import Item, Score, Table

Judged = tuple[Sequence[Item], Sequence[Score]]
"""The items of a run, and its scores."""


@dataclass(frozen=True, slots=True)
class Source:
    """The data that the tables are computed from.

    Attributes:
        files: The official files that were given; empty for a run.
        judged: The items and scores of a run; None for files.
        official_files: The folder for official files; None to write none.
    """

    files: tuple[Path, ...]
    judged: Judged | None = None
    official_files: Path | None = None

    def check_count(self, least: int, most: int, what: str) -> None:
        """Check the number of files; `what` describes what to give.

        Raises:
            UserError: There are fewer or more.
        """
        if not least <= len(self.files) <= most:
            raise UserError(f"{len(self.files)} files are given. Give a run folder, or {what}")


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Official results.

    Attributes:
        results: What `--json` writes.
        tables: The tables for people.
        written: Lines that list the files that were written.
    """

    results: Any
    tables: Sequence[Table]
    written: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A command `suites aggregate NAME`, announced by an entry point in the group `titjudge.aggregations`.

    Attributes:
        summary: Its result, in a few words.
        help: The same at length: the files that it reads and writes, its options, and an example, each line of which
            begins with `python cli.py suites aggregate`.
        compute: Called with the source, and with the value of each option by its name. A UserError reports a fault in them.
        metrics: The metrics whose scores of a run it reads; empty if it reads files only.
        options: The values of each `--suite-option`, the default first; a sequence without values allows any text, and
            its default is an empty text.
    """

    summary: str
    help: str
    compute: Callable[..., Aggregated]
    metrics: tuple[str, ...] = ()
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
