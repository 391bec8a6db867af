"""The interface of a suite, a data set with its metrics and its official aggregation, and what suites share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Pair, Score, Table
from titjudge.data.images import SUFFIXES
from titjudge.suites.prompt_places import PromptPlace


class Suite(Protocol):
    """A data set with its metrics and its official aggregation. Inherit from it for the defaults."""

    name: str
    metrics: tuple[str, ...]
    """What is measured without `--metric`."""
    VERSION: str = "1"
    DEVIATIONS: tuple[str, ...] = ()
    """Where results differ from those of the official code, in words."""
    AGGREGATES: bool = True
    """False where `aggregate` returns nothing, so that a run need not hold all items and scores in memory."""
    MARKS_JUDGE: frozenset[str] = frozenset()
    """Metrics that, on these data, measure the judge and not which image is better."""
    PROMPTS: Path | None = None
    """A bundled file of prompts, where the data are images only."""
    protocol: str = "strict"
    """`strict` or `official`; the run sets it on the suite it loads."""
    image_roots: tuple[Path, ...] = ()
    """Folders beside that of the data in which images may lie (`--image-root`); the run sets it on the suite it loads."""

    def load(self, folder: Path) -> Iterable[Item | InvalidItem]:
        """Yield the items; one that cannot be judged is an InvalidItem that says why."""
        ...

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and where a generator's images of them belong, whether or not there are any yet.

        Raises:
            ConfigError: The images come with the data: no generator can make others.
            DataError: There are no prompts.
        """
        raise ConfigError(f"the images of {self.name} come with its data: there is nothing to generate")

    def pairs(self, folder: Path) -> list[Pair]:
        """Return the preferences of people; none where the data have none."""
        return []

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Compute the official tables."""
        return []

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write the files that the official scripts write into a folder; returns their number.

        Raises:
            ConfigError: No such files are known here.
        """
        raise ConfigError(f"what the official scripts of the suite {self.name} write is not known here")


def check_generator(name: str) -> str:
    """Return the name when it is safe as the name of a file or folder.

    Raises:
        DataError: It is empty or would lead out of its folder.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise DataError(f"'{name}' cannot be the name of a generator: it must be one file name")
    return name


def number_repeats(items: Iterable[Item | InvalidItem]) -> Iterator[Item | InvalidItem]:
    """Yield the items; those that are listed again get the ids `id (2)`, `id (3)` and so on."""
    seen: Counter[str] = Counter()
    for item in items:
        seen[item.id] += 1
        if (number := seen[item.id]) == 1:
            yield item
        elif isinstance(item, Item):
            yield replace(item, id=f"{item.id} ({number})", sample=item.sample or number - 1)
        else:
            yield replace(item, id=f"{item.id} ({number})")


def by_generator(
    items: Iterable[Item], scores: Iterable[Score]
) -> Iterator[tuple[str, list[Item], list[tuple[Item, Score]]]]:
    """Yield the generators by name, each with its items, and with those that have a value and their scores."""
    by_id = {score.item_id: score for score in scores if score.value is not None}
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.generator, []).append(item)
    for generator in sorted(found):
        own = found[generator]
        yield generator, own, [(item, by_id[item.id]) for item in own if item.id in by_id]


def image_files(folder: Path) -> list[Path]:
    """List the images in a folder and below it, by path."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def printable(name: str) -> str:
    """Return a file name with the bytes that are not UTF-8 escaped: the name itself where there are none."""
    return name.encode("utf-8", "backslashreplace").decode()


def reason_of(error: Exception) -> str:
    """Say what is wrong with a record that could not be read."""
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)


def first_rows(title: str, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], most: int = 20) -> list[Table]:
    """Make a table of the first rows, with a note of how many more there are; no table without rows."""
    notes = (f"and {len(rows) - most} more",) if len(rows) > most else ()
    return [Table(title, columns, tuple(rows[:most]), notes)] if rows else []
