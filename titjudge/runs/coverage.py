"""Which images of a suite's prompts are there, by generator: looked at, before anything is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.images import glance
from titjudge.core.types import InvalidItem, Item, Table
from titjudge.suites.prompt_places import PromptPlace
from titjudge.suites.samples import cells

NO_IMAGE = "no image"


@dataclass(frozen=True, slots=True)
class Missing:
    """Images of a prompt that a generator lacks, and why where something is known."""

    generator: str
    prompt_id: str
    images: int
    reason: str


@dataclass(slots=True)
class Coverage:
    """What is there of `prompts` times `samples` images of each generator."""

    prompts: int
    samples: int
    images: dict[str, int] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def table(self) -> Table:
        """One row a generator."""
        lacking: Counter[str] = Counter()
        prompts: Counter[str] = Counter()
        for each in self.missing:
            lacking[each.generator] += each.images
            prompts[each.generator] += 1
        rows = tuple(
            (name or "(unnamed)", images, self.prompts - prompts[name], lacking[name])
            for name, images in sorted(self.images.items())
        )
        note = f"of {self.prompts:,} prompts with {self.samples} image{'s' if self.samples > 1 else ''} each"
        return Table("Coverage", ("generator", "images", "whole prompts", "images missing"), rows, (note,))


def coverage(
    suite: Any,
    data: Path,
    *,
    samples: int | None = None,
    lengths: Collection[str] = (),
    grid: str | None = None,
    generators: Collection[str] = (),
) -> Coverage:
    """Compare the images that are there with the prompts of the suite; without a list of prompts, with all that have images.

    Args:
        suite: The suite.
        data: Its folder.
        samples: Images that a prompt should have; without it as many as the prompt that has most.
        lengths: Only prompts of these lengths.
        grid: Each image is a grid of several.
        generators: Those that should be there, besides those that have an image.

    Raises:
        DataError: There is nothing at that place.
    """
    found = Coverage(0, samples or 1)
    there: Counter[tuple[str, str]] = Counter()
    reasons: dict[tuple[str, str], str] = {}
    names: dict[str, None] = dict.fromkeys(generators)
    found.images.update(dict.fromkeys(generators, 0))
    bad = []
    for item in _items(cells(suite.load(data), grid), found, empty=bool(generators)):
        names.setdefault(item.generator)
        if isinstance(item, InvalidItem):
            bad.append(item)
            reasons[item.generator, item.prompt_id] = item.reason
            continue
        if (problem := _unreadable(item)) is not None:
            bad.append(problem)
            reasons[item.generator, item.prompt_id] = problem.reason
            continue
        there[item.generator, item.prompt_id] += 1
        found.images[item.generator] = found.images.get(item.generator, 0) + 1
    expected = _expected(suite, data, lengths, found) or dict.fromkeys(prompt for _, prompt in there)
    found.samples = samples or max(there.values(), default=1)
    found.prompts = len(expected)
    found.problems += [(each.id, each.reason) for each in bad if each.prompt_id not in expected]
    images = {each.generator for each in bad if each.prompt_id in expected}
    for name in names:
        if name in found.images or name in images:
            found.images.setdefault(name, 0)
            found.missing += [
                Missing(name, prompt, lacking, reasons.get((name, prompt), NO_IMAGE))
                for prompt in expected
                if (lacking := found.samples - there[name, prompt]) > 0
            ]
    return found


def _items(listed: Iterable[Item | InvalidItem], found: Coverage, *, empty: bool) -> Iterator[Item | InvalidItem]:
    """Yield the images; that there are none is a problem like others where it is known who should have made some."""
    try:
        yield from listed
    except DataError as error:
        if not empty:
            raise
        found.problems.append((str(error.path or "images"), error.message))


def _expected(suite: Any, data: Path, lengths: Collection[str], found: Coverage) -> dict[str, None]:
    try:
        places = list(chosen(suite, data, lengths, found.problems))
    except ConfigError:  # its images come with the data
        return {}
    return dict.fromkeys(place.prompt_id for place in places)


def chosen(suite: Any, data: Path, lengths: Collection[str], problems: list[tuple[str, str]]) -> list[PromptPlace]:
    """List the prompts of a suite, those of some lengths only; what cannot be used goes to `problems`.

    Raises:
        ConfigError: The suite has no prompts to export, or no lengths. DataError: There are none.
    """
    places = []
    for place in suite.prompts(data):
        if isinstance(place, InvalidItem):
            problems.append((place.id, place.reason))
        elif not lengths or place.fields.get("length") in lengths:
            places.append(place)
        elif "length" not in place.fields:
            raise DataError(f"the prompts of {suite.name} have no lengths: leave out --length", data)
    return places


def _unreadable(item: Item) -> InvalidItem | None:
    if item.image is None:
        return None
    try:
        glance(item.image)
    except DataError as error:
        return InvalidItem(item.id, error.message, item.generator, item.prompt_id)
    return None
