"""What suites share that have one file of prompts and a tree of images beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core.data_paths import inside
from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import Suite
from titjudge.suites.image_tree import ImageTree, find_tree
from titjudge.suites.prompt_places import PromptPlace

Prompts = dict[str, tuple[str, dict[str, Any]]]
"""Prompt id -> the prompt, and what its images bring along."""


class PromptFileSuite(Suite):
    """A suite of one file of prompts and images in a tree; a subclass reads the file.

    Args:
        images: A pattern of image paths, from the working directory, where they are not in `images/`.
    """

    PATTERNS: Sequence[str] = ()
    """Where images lie below the data folder, without ending; the first that fits an image counts."""
    PLACE: str = ""
    """Where an image belongs, with {generator}, {sample} and the {prompt_id} as the benchmark writes it."""
    WIDTH: int = 0
    """Digits of a prompt id in paths."""

    def __init__(self, *, images: str = "") -> None:
        self._images = images
        self.notes: dict[str, None] = {}

    def load(self, folder: Path) -> Iterator[Item | InvalidItem]:
        """Yield the images with what is asked about their prompts; what cannot be judged says file and row.

        Raises:
            DataError: there are no prompts, or no images.
        """
        file, found, problems = self.read(folder)
        yield from problems
        root, pattern = find_tree(folder, self.PATTERNS, self._images)
        tree = ImageTree(pattern, file.name, {name: prompt for name, (prompt, _) in found.items()})
        for item in tree.items(root, self.image_roots, self.notes):
            yield item if isinstance(item, InvalidItem) else replace(item, meta=found[item.prompt_id][1])

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and where the benchmark has their images.

        Raises:
            DataError: there are no prompts.
        """
        _, found, problems = self.read(folder)
        yield from problems
        for name, (prompt, _) in found.items():
            yield PromptPlace(name, prompt, self.PLACE.replace("{prompt_id}", name.zfill(self.WIDTH)))

    def read(self, folder: Path) -> tuple[Path, Prompts, list[InvalidItem]]:
        """Read the file of prompts: where it is, the prompts, and what is wrong with rows.

        Raises:
            DataError: there are no prompts.
        """
        raise NotImplementedError


def file_in(folder: Path, name: str, below: str) -> Path:
    """Find a file in the data folder, or in a folder of it.

    Raises:
        DataError: it is in neither.
    """
    for place in (inside(folder, name, "file"), inside(folder, f"{below}/{name}", "file")):
        if place.is_file():
            return place
    raise DataError(f"no {name} here, nor in {below}/", folder)
