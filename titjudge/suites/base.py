"""What a suite is: a data set with its metrics and its official aggregation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Pair, Score, Table
from titjudge.suites.prompt_places import PromptPlace


class Suite(Protocol):
    """A data set with its metrics and its official aggregation. Inherit from it for the defaults."""

    name: str
    metrics: tuple[str, ...]
    """Run without `--metric`."""
    VERSION: str = "1"
    DEVIATIONS: tuple[str, ...] = ()
    """Where results differ from those of the official code, for people."""
    AGGREGATES: bool = True
    """False where `aggregate` returns nothing: items and scores then need not be held in memory whole."""
    MARKS_JUDGE: frozenset[str] = frozenset()
    """Metrics whose scores, on these data, mark the judge and say nothing of which image is better."""
    PROMPTS: Path | None = None
    """A file of prompts that comes with titjudge: the data then are images alone."""
    protocol: str = "strict"
    """`strict` or `official`; the run sets it on the suite it loads."""
    image_roots: tuple[Path, ...] = ()
    """Folders beside that of the data in which images may lie (`--image-root`); the run sets it on the suite it loads."""

    def load(self, folder: Path) -> Iterable[Item | InvalidItem]:
        """Read the items; what cannot be judged comes as an InvalidItem that says why."""
        ...

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and where a generator's images of them belong; whether or not there are any yet.

        Raises:
            ConfigError: The images come with the data: no generator can make others.
            DataError: There are no prompts.
        """
        raise ConfigError(f"the images of {self.name} come with its data: there is nothing to generate")

    def pairs(self, folder: Path) -> list[Pair]:
        """Read the preferences of people; none where the data have none."""
        return []

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Compute the official tables."""
        return []

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write what the official scripts write of judged images into a folder; returns the number of files.

        Raises:
            ConfigError: No such files are known here.
        """
        raise ConfigError(f"what the official scripts of the suite {self.name} write is not known here")


def check_generator(name: str) -> str:
    """Return the name when it is safe as the name of a file or folder.

    Raises:
        DataError: it is empty or would lead out of its folder.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise DataError(f"'{name}' cannot be the name of a generator: it must be one file name")
    return name


def number_repeats(items: Iterable[Item | InvalidItem]) -> Iterator[Item | InvalidItem]:
    """Give items that are listed again ids of their own: `id (2)`, `id (3)` and so on."""
    seen: Counter[str] = Counter()
    for item in items:
        seen[item.id] += 1
        if (number := seen[item.id]) == 1:
            yield item
        elif isinstance(item, Item):
            yield replace(item, id=f"{item.id} ({number})", sample=item.sample or number - 1)
        else:
            yield replace(item, id=f"{item.id} ({number})")


def first_rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], most: int = 20) -> list[Table]:
    """Make a table of the first rows, with a note of how many there are more; none where there are no rows."""
    notes = (f"and {len(rows) - most} more",) if len(rows) > most else ()
    return [Table(title, columns, tuple(rows[:most]), notes)] if rows else []
