"""The prompts and images that people are shown, and the only access to the image files."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from titjudge.core.errors import DataError, unknown
from titjudge.core.types import InvalidItem, Item, Pair
from titjudge.data.data_paths import inside
from titjudge.data.images import check_header
from titjudge.suites.sources import content_name


@dataclass(frozen=True, slots=True)
class Element:
    """Something to mark in an image.

    Attributes:
        name: Its name, as `judges elements` reads it.
        kind: Its type or pillar, or entity, attribute or relation; agreement is reported by kind.
        values: The allowed values.
        text: The text on the page.
        hint: An explanation below the text.
        needs: Names of elements; this one is `no` if any of them is `no`.
    """

    name: str
    kind: str
    values: tuple[str, ...]
    text: str
    hint: str = ""
    needs: tuple[str, ...] = ()


@dataclass(slots=True)
class LabelingData:
    """Prompts with at least two usable images each, or one if images are not compared.

    Attributes:
        root: No file outside this folder is read.
        prompts: Prompt id to text.
        images: Prompt id to image ids.
        items: Image id to item.
        gold: Pairs whose answer is known.
        known_values: Elements with a known value: image -> element -> value.
        elements: The elements to mark in each image.
        problems: Everything that was left out, with the reason, one line each.
        broken: Images that cannot be shown, with the reason.
        sources: Prompt id to the images that its edits were made from, in the order of the instruction.
        identical: Pairs of images whose files are identical: no one is asked about them, and they count as ties.
    """

    root: Path
    prompts: dict[str, str] = field(default_factory=dict)
    images: dict[str, tuple[str, ...]] = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)
    gold: tuple[Pair, ...] = ()
    known_values: dict[str, dict[str, str]] = field(default_factory=dict)
    elements: dict[str, tuple[Element, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    sources: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    identical: set[tuple[str, str]] = field(default_factory=set)

    def usable(self, prompt_id: str) -> list[str]:
        """List the images of a prompt that can be shown."""
        return [image for image in self.images[prompt_id] if image not in self.broken]

    def file(self, image: str) -> Path:
        """Return the file of an image.

        Raises:
            DataError: There is no such image, or its file (also as the target of a link) is outside the data folder.
        """
        item = self.items.get(image)
        if item is None or item.image is None:
            raise DataError("the image does not exist in the data. Load the page again", image)
        return self._inside(item.image)

    def source(self, prompt_id: str, number: int) -> Path:
        """Return the file of a source of a prompt, by its number from 0.

        Raises:
            DataError: Its file is outside the data folder.
        """
        return self._inside(self.sources[prompt_id][number])

    def _inside(self, image: Path) -> Path:
        return inside(self.root, os.path.abspath(image))


def load_dataset(data: Path, gold: Path | None = None, *, least: int = 2) -> LabelingData:
    """Read the prompts and images of a data folder or manifest (see `titjudge.suites.folder`).

    Args:
        data: The data folder or manifest.
        gold: Gold pairs (as `pairs.jsonl`). A pair may contain an image of another prompt: the easiest attention check.
        least: Minimum number of images of a prompt: two to compare, one to mark.

    Raises:
        DataError: There is nothing to show, or a gold pair names an unknown image or prompt.
    """
    from titjudge.suites.folder import Folder

    dataset = LabelingData(data if data.is_dir() else data.parent)
    by_prompt: dict[str, list[str]] = {}
    for item in Folder().items(data):
        reason = item.reason if isinstance(item, InvalidItem) else _unusable(dataset, item)
        if reason:
            dataset.problems.append(f"{item.id}: {reason}".encode("utf-8", "backslashreplace").decode())
            continue
        assert isinstance(item, Item)
        dataset.prompts.setdefault(item.prompt_id, item.prompt)
        dataset.sources.setdefault(item.prompt_id, item.sources)
        dataset.items[item.id] = item
        by_prompt.setdefault(item.prompt_id, []).append(item.id)
    for group, images in by_prompt.items():
        if len(images) >= least:
            dataset.images[group] = tuple(images)
            dataset.identical |= _identical(dataset, images) if least > 1 else set()
        elif gold is None:
            dataset.problems.append(
                f"{images[0]}: the only image of its prompt, so there is nothing to compare it with"
            )
    if gold is not None:
        dataset.gold = tuple(_gold(gold, dataset))
    if not dataset.images:
        absent = "no prompt has two usable images. Add images" if least > 1 else "no image is usable. Add images"
        raise DataError(absent + "".join(f" ({problem})" for problem in dataset.problems[:1]), data)
    if dataset.identical:
        a, b = min(dataset.identical)
        dataset.problems.append(f"pairs of identical files: {len(dataset.identical):,}, such as {a} and {b}")
    return dataset


def _identical(dataset: LabelingData, images: Sequence[str]) -> set[tuple[str, str]]:
    """List the pairs of a prompt whose two files are identical."""
    copies: dict[str, list[str]] = defaultdict(list)
    for image in images:
        copies[content_name(dataset.file(image))].append(image)
    return {pair for same in copies.values() for pair in itertools.combinations(same, 2)}


def _unusable(dataset: LabelingData, item: Item) -> str:
    """Return the reason why an item cannot be shown; empty if it can."""
    if item.prompt_id in dataset.prompts and dataset.prompts[item.prompt_id] != item.prompt:
        return f"its prompt differs from the other images of '{item.prompt_id}'"
    if not is_utf8(item.id + item.prompt_id + item.prompt):
        return "its name is not valid UTF-8"
    sources = dataset.sources.get(item.prompt_id, item.sources)
    if sources != item.sources and [*map(content_name, sources)] != [*map(content_name, item.sources)]:
        return f"its source differs from the other images of '{item.prompt_id}'"
    try:
        for image in filter(None, (item.image, *item.sources)):
            check_header(dataset._inside(image))
    except DataError as error:
        return error.message
    return ""


def is_utf8(text: str) -> bool:
    """Return True if a text can be encoded; lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _gold(file: Path, dataset: LabelingData) -> list[Pair]:
    """Read gold pairs.

    Raises:
        DataError: There is none, or one names an unknown prompt or image.
    """
    from titjudge.suites.pair_files import read_pairs

    pairs = read_pairs(file)
    if not pairs:
        raise DataError("the file has no pairs. Add one attention check per line", file)
    for number, pair in enumerate(pairs, 1):
        if pair.prompt_id not in dataset.prompts:
            raise DataError(f"pair {number}: {unknown('prompt', pair.prompt_id, dataset.prompts)}", file)
        for image in (pair.a, pair.b):
            if image not in dataset.items:
                raise DataError(f"pair {number}: {unknown('image', image, dataset.items)}", file)
        if pair.a == pair.b:
            raise DataError(f"pair {number}: {pair.a} is paired with itself. Give two different images", file)
    return pairs
