"""The interface of a suite, a data set with its metrics and its official aggregation, and shared functions."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from titjudge.core.declarations import BENCHMARK
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.grouping import grouped
from titjudge.core.names import plain
from titjudge.core.numbers import several
from titjudge.core.types import InvalidItem, Item, Items, Json, Note, Pair, Score, Table
from titjudge.core.words import truncated
from titjudge.data.data_paths import files_below, strays_below
from titjudge.data.images import SUFFIXES, UNREAD_SUFFIXES
from titjudge.suites.patterns import PromptPlace
from titjudge.suites.sources import without_sources


class Spellings:
    """Writes the names of items as names are compared, and records which of them were spelled in several ways."""

    def __init__(self) -> None:
        self._plain: set[int] = set()  # hashes of kind and name, of names in the form in which they are compared
        self._others: dict[tuple[str, str], set[str]] = {}  # kind and name -> its other spellings
        self._ids: dict[str, list[str]] = {}

    def unified(self, item: Item | InvalidItem) -> Item | InvalidItem:
        """Return the item with plain names; the id of an image only in NFC, and numbered if two files have the same."""
        generator = self._name("generator", item.generator)
        prompt_id = self._name("prompt", item.prompt_id)
        name = item.id
        if not name.isascii():
            name = unicodedata.normalize("NFC", name)
            files = self._ids.setdefault(name, [])
            if item.id not in files:
                files.append(item.id)
            if number := files.index(item.id):
                name = f"{name} ({number + 1})"
        if (name, generator, prompt_id) == (item.id, item.generator, item.prompt_id):
            return item
        return replace(item, id=name, generator=generator, prompt_id=prompt_id)

    def _name(self, kind: str, written: str) -> str:
        name = plain(written)
        if name == written:
            self._plain.add(hash((kind, name)))
        else:
            self._others.setdefault((kind, name), set()).add(written)
        return name

    def notes(self) -> list[Note]:
        """Return a line for each kind of name of which several spellings count as one."""
        spellings = {key: len(others) + (hash(key) in self._plain) for key, others in self._others.items()}
        lines = []
        for kind in ("generator", "prompt"):
            if merged := [(name, count) for (of, name), count in spellings.items() if of == kind and count > 1]:
                name, count = merged[0]
                more = f", and in {len(merged) - 1:,} more {kind}s" if len(merged) > 1 else ""
                line = (
                    f"{count} spellings count as one {kind}, '{truncated(name, 60)}': they differ only in outer blanks, "
                    f"invisible characters or Unicode form{more}"
                )
                lines.append(Note("spellings_joined", line))
        return lines


Columns = Mapping[str, Sequence[str]]
"""Columns that the user has given, by role: `image`, `prompt`, ... (`manifests.NAMES`); several only for images and sources."""
Notes = dict[Note, None]
"""Lines for the user, each once, in order."""
Results = tuple[Json, list[Table]]
"""What `suites aggregate --json` writes, and the tables for people."""
Scored = tuple[Item, Score]
"""An image with its score."""


@dataclass(frozen=True, slots=True)
class SuiteInputs:
    """Settings of a run for its suite.

    Attributes:
        protocol: `strict` or `official`.
        image_roots: Other folders with images (`--image-root`).
        columns: Columns that the user has named (`--columns`).
        images: A pattern of image paths below the data folder (`--images`); empty without it.
        prompt_file: The file of prompts for this pattern (`--prompt-file`).
        sources: Patterns of the paths of source images, in the order in which instructions speak of them (`--sources`).
    """

    protocol: str = "strict"
    image_roots: tuple[Path, ...] = ()
    columns: Columns = field(default_factory=dict)
    images: str = ""
    prompt_file: str = ""
    sources: tuple[str, ...] = ()


class Suite(ABC):
    """A data set with its metrics and its official aggregation.

    A subclass needs a name, metrics and `load`; everything else has a default. Its options (`--suite-option`) are
    keyword-only parameters of its constructor, after `inputs`, which it passes to this class:
    `def __init__(self, inputs=SuiteInputs(), *, mode="en")`.

    Args:
        inputs: Settings of the run.

    Attributes:
        name: Its name in results.
        metrics: The metrics without `--metric`.
        VERSION: Raised whenever the same answers would give different tables.
        DEVIATIONS: Differences from the official code, in words.
        AGGREGATES: False if `aggregate` returns nothing; a run then needs less memory.
        TASKS: Whether a run over it does tasks, which result in lines, and not metrics.
        MARKS_JUDGE: Metrics that, on these data, measure the judge and not which image is better.
        PROMPTS: A bundled file of prompts, if the data are images only.
        TAKES_COLUMNS: Whether it reads tables whose columns the user can name (`--columns`).
        TAKES_IMAGES: Whether it reads trees of images by a pattern and a file of prompts (`--images`, `--prompt-file`).
        data_set: The published data set that a folder was recognised as, with its counts, once it was read; empty without one.

    Raises:
        ConfigError: The run has columns or a pattern of images, and the suite does not support them.
    """

    name: str
    metrics: tuple[str, ...]
    VERSION: str = "1"
    DEVIATIONS: tuple[str, ...] = ()
    AGGREGATES: bool = True
    TASKS: bool = False
    MARKS_JUDGE: frozenset[str] = frozenset()
    PROMPTS: Path | None = None
    TAKES_COLUMNS: bool = False
    TAKES_IMAGES: bool = False
    data_set: str = ""

    def __init__(self, inputs: SuiteInputs = SuiteInputs()) -> None:
        if inputs.images and not self.TAKES_IMAGES:
            raise ConfigError(f"the suite {self.name} has a fixed layout. Remove --images")
        if inputs.sources and not (self.TAKES_IMAGES and inputs.images):
            raise ConfigError("--sources PATTERN requires --images PATTERN and --prompt-file FILE")
        if inputs.prompt_file and not self.TAKES_IMAGES:
            raise ConfigError(f"the suite {self.name} has fixed prompts. Remove --prompt-file")
        if inputs.columns and not self.TAKES_COLUMNS:
            raise ConfigError(f"the suite {self.name} has fixed columns. Remove --columns")
        self.inputs = inputs
        self._notes: Notes = {}

    @property
    def notes(self) -> list[Note]:
        """Lines for the user about the data that were read."""
        return list(self._notes)

    @property
    def protocol(self) -> str:
        """`strict` or `official`."""
        return self.inputs.protocol

    @property
    def image_roots(self) -> tuple[Path, ...]:
        """Other folders with images."""
        return self.inputs.image_roots

    @property
    def writes_official(self) -> bool:
        """Whether it writes files for the official scripts: it overrides `write_official`."""
        return type(self).write_official is not Suite.write_official

    @abstractmethod
    def load(self, folder: Path) -> Iterable[Item | InvalidItem]:
        """Yield the items; an InvalidItem with a reason for each that cannot be judged."""

    def items(self, folder: Path) -> Items:
        """Yield what `load` yields, with every name in the form in which names are compared (`core.names.plain`).

        Adds to the notes which spellings count as one name, and how many hidden files are skipped.
        """
        spellings, texts, several_texts = Spellings(), dict[str, int](), dict[str, None]()
        for item in map(spellings.unified, self.load(folder)):
            if (
                isinstance(item, Item)
                and item.prompt_id
                and texts.setdefault(item.prompt_id, text := hash(item.prompt)) != text
            ):
                several_texts[item.prompt_id] = None
            yield item
        notes = spellings.notes()
        if several_texts:
            first = next(iter(several_texts))
            line = (
                f"{several(len(several_texts), 'prompt id')} with more than one text, such as {printable(first)}: images are judged "
                "by their text and compared as images of one prompt. If they are different prompts, give each text a different id."
            )
            notes.append(Note("prompt_id_of_several_texts", line))
        if strays := strays_below(folder):
            first = strays[0].relative_to(folder).as_posix()
            line = f"skipped {several(len(strays), 'hidden or system file')}, such as {printable(first)}"
            notes.append(Note("hidden_files_skipped", line))
        self._notes.update(dict.fromkeys(notes))

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts with the places for a generator's images of them, whether or not there are any yet.

        Raises:
            ConfigError: The images come with the data: no generator can make others.
            DataError: There are no prompts.
        """
        raise ConfigError(f"the data of {self.name} contain the images. Use `judge` without generating images")

    def pairs(self, folder: Path) -> list[Pair]:
        """Return the preferences of people; none if the data have none."""
        return []

    def aggregate(self, items: Sequence[Item], scores: Sequence[Score]) -> list[Table]:
        """Compute the official tables."""
        return []

    def write_official(self, items: Sequence[Item], scores: Sequence[Score], folder: Path) -> int:
        """Write the files that the official scripts write into a folder; returns their number.

        Raises:
            ConfigError: No such files are known here.
        """
        raise ConfigError(f"the suite {self.name} has no official files. Remove the option")


def check_generator(name: str) -> str:
    """Return the name when it is safe as the name of a file or folder.

    Raises:
        DataError: It is empty or would lead out of its folder.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise DataError(must_be("the generator", "one file name", name))
    return name


def number_repeats(items: Iterable[Item | InvalidItem]) -> Items:
    """Yield the items; repeated ids become `id (2)`, `id (3)` and so on."""
    seen: Counter[str] = Counter()
    for item in items:
        seen[item.id] += 1
        if (number := seen[item.id]) == 1:
            yield item
        elif isinstance(item, Item):
            yield replace(item, id=f"{item.id} ({number})", sample=item.sample or number - 1)
        else:
            yield replace(item, id=f"{item.id} ({number})")


def by_generator(items: Iterable[Item], scores: Iterable[Score]) -> Iterator[tuple[str, list[Item], list[Scored]]]:
    """Yield the generators by name, each with its items, its items with a value, and their scores."""
    by_id = {score.item_id: score for score in scores if score.value is not None}
    for generator, group in sorted(grouped(items, lambda item: item.generator).items()):
        yield generator, group, [(item, by_id[item.id]) for item in group if item.id in by_id]


def judged(items: Iterable[Item], scores: Iterable[Score], *metrics: str) -> list[Scored]:
    """List the scores by these metrics with their items, in the order of the scores."""
    by_id = {item.id: item for item in items}
    return [(by_id[score.item_id], score) for score in scores if score.metric in metrics and score.item_id in by_id]


def image_files(folder: Path) -> list[Path]:
    """List the images in a folder and below it, by path, without the sources that lie beside the results of edits."""
    return without_sources([path for path in files_below(folder) if path.suffix.lower() in SUFFIXES | UNREAD_SUFFIXES])


def printable(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def reason_of(error: Exception) -> str:
    """Return the fault of a record that could not be read."""
    return f"the key {error} is missing" if isinstance(error, KeyError) else str(error)


def benchmark_table(
    title: str, columns: Iterable[str], rows: Iterable[tuple[Any, ...]], *notes: Note, id: str = ""
) -> Table:
    """Make a table of a benchmark like its official scripts; `id` is its stable name."""
    return Table(title, tuple(columns), tuple(rows), notes, declared=replace(BENCHMARK, id=id or BENCHMARK.id))


def first_rows(title: str, columns: Iterable[str], rows: Sequence[tuple[Any, ...]], most: int = 20) -> list[Table]:
    """Make a table of the first rows, with a note of how many more there are; no table without rows."""
    notes = [Note("more_rows", f"and {len(rows) - most} more")] if len(rows) > most else []
    return [benchmark_table(title, columns, rows[:most], *notes)] if rows else []
