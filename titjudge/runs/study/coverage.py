"""Count which images of a suite's prompts exist, by generator, before anything is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.declarations import Declaration, Population, Unit, in_order
from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import InvalidItem, Item, Note, Table
from titjudge.data.images import check_header
from titjudge.suites.base import Suite
from titjudge.suites.patterns import PromptPlace
from titjudge.suites.samples import cells

COVERAGE = Declaration("coverage", "images of each generator", Population.ALL_IMAGES, Unit.IMAGE, counts="images")

NO_IMAGE = "no image"


@dataclass(frozen=True, slots=True)
class Missing:
    """Missing images of a prompt by a generator.

    Attributes:
        generator: The generator.
        prompt_id: The prompt.
        images: Number of missing images.
        reason: `NO_IMAGE`, or why an image cannot be used.
    """

    generator: str
    prompt_id: str
    images: int
    reason: str


@dataclass(slots=True)
class Coverage:
    """How many of the `prompts` times `samples` images of each generator exist.

    Attributes:
        prompts: Number of prompts.
        samples: Images that each prompt should have.
        images: Number of images by generator, in order of the names.
        missing: The missing images.
        problems: Item and reason of each unusable one.
    """

    prompts: int
    samples: int
    images: dict[str, int]
    missing: list[Missing]
    problems: list[tuple[str, str]]

    def table(self) -> Table:
        """Make a table with a row for each generator."""
        lacking: Counter[str] = Counter()
        for missing in self.missing:
            lacking[missing.generator] += missing.images
        prompts = Counter(missing.generator for missing in self.missing)
        rows = tuple(
            (name or "(unnamed)", images, self.prompts - prompts[name], lacking[name])
            for name, images in self.images.items()
        )
        note = f"of {self.prompts:,} prompts with {self.samples} image{'s' if self.samples > 1 else ''} each"
        return Table(
            "Coverage",
            ("generator", "images", "whole prompts", "images missing"),
            rows,
            (Note("images_expected", note),),
            declared=COVERAGE,
            keys=("generator", "images", "prompts", "missing"),
        )


def coverage(
    suite: Suite,
    data: Path,
    *,
    samples: int | None = None,
    lengths: Collection[str] = (),
    grid: str | None = None,
    generators: Collection[str] = (),
) -> Coverage:
    """Compare the images that exist with the prompts of the suite, or with the prompts of the images if it lists none.

    Args:
        suite: The suite.
        data: Its folder.
        samples: Images that a prompt should have; by default as many as the prompt with most of them has.
        lengths: Only prompts of these lengths.
        grid: Layout of several images in one file.
        generators: Generators that should have images, besides the generators that have some.

    Raises:
        DataError: There are no data.
    """
    counts: Counter[tuple[str, str]] = Counter()  # valid images by generator and prompt
    invalid: list[InvalidItem] = []
    problems: list[tuple[str, str]] = []
    try:
        for item in map(_checked, cells(suite.items(data), grid)):
            if isinstance(item, InvalidItem):
                invalid.append(item)
            else:
                counts[item.generator, item.prompt_id] += 1
    except DataError as error:
        if not generators:
            raise
        problems.append((str(error.path or "images"), error.message))
    try:
        expected = {place.prompt_id for place in suite_prompts(suite, data, lengths, problems)}
    except ConfigError:  # the suite lists no prompts without images
        expected = set()
    expected = expected or {prompt for _, prompt in counts}
    samples = samples or max(counts.values(), default=1)
    problems += [  # if images of a prompt are missing, the reason is listed with them
        (item.id, item.reason)
        for item in invalid
        if item.prompt_id not in expected or counts[item.generator, item.prompt_id] >= samples
    ]
    reasons = {(item.generator, item.prompt_id): item.reason for item in sorted(invalid, key=lambda item: item.reason)}
    named = {
        *generators,
        *(name for name, _ in counts),
        *(name for name, prompt in reasons if prompt in expected),
    }
    images = {name: sum(count for (of, _), count in counts.items() if of == name) for name in sorted(named)}
    missing = [
        Missing(name, prompt, lacking, reasons.get((name, prompt), NO_IMAGE))
        for name in images
        for prompt in in_order(expected)
        if (lacking := samples - counts[name, prompt]) > 0
    ]
    return Coverage(len(expected), samples, images, missing, sorted(problems))


def suite_prompts(
    suite: Suite, data: Path, lengths: Collection[str], problems: list[tuple[str, str]]
) -> list[PromptPlace]:
    """List the prompts of a suite, with `lengths` only prompts of these lengths; invalid ones go to `problems`.

    Raises:
        ConfigError: The suite has no prompts to export, or no lengths.
        DataError: There are none.
    """
    places = []
    for place in suite.prompts(data):
        if isinstance(place, InvalidItem):
            problems.append((place.id, place.reason))
        elif not lengths or place.fields.get("length") in lengths:
            places.append(place)
        elif "length" not in place.fields:
            raise DataError(f"the prompts of {suite.name} have no lengths. Remove --length", data)
    return places


def _checked(item: Item | InvalidItem) -> Item | InvalidItem:
    """Return an invalid item instead of an item with an unreadable image."""
    try:
        if isinstance(item, Item) and item.image is not None:
            check_header(item.image)
    except DataError as error:
        return InvalidItem(item.id, error.message, item.generator, item.prompt_id)
    return item
