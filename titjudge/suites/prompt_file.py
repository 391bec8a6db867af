"""Suites with one file of prompts, a line each, and a tree of images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.files import scan_jsonl
from titjudge.core.types import InvalidItem, Item
from titjudge.data.data_paths import inside
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.image_tree import ImageTree, find_tree
from titjudge.suites.prompt_places import PromptPlace

Prompts = dict[str, tuple[str, dict[str, Any]]]
"""Prompt id -> the prompt, and the `meta` of its images."""


class PromptFileSuite(Suite):
    """A suite of one file of prompts and a tree of images; a subclass names the file and reads its lines.

    Args:
        images: A pattern of image paths, from the working directory, where they are not in `images/`.
    """

    FILE: str
    FOLDER: str
    """Where the file lies in the official repository; it may also lie in the data folder itself."""
    KEYS: tuple[str, ...]
    """Keys that each line must have."""
    NUMBERED: bool = False
    """Whether prompts are known by the number of their line from 0; else by the key `prompt_id`."""
    PATTERNS: Sequence[str] = ()
    """Where images lie below the data folder, without ending; the first that gives an image a prompt counts."""
    PLACE: str = ""
    """Where an image belongs, with {generator}, {sample} and the {prompt_id} as the benchmark writes it."""
    WIDTH: int = 0
    """Digits of a prompt id in paths."""

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, images: str = "") -> None:
        super().__init__(inputs)
        self._images = images

    def meta(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what metrics and tables need to know of the images of a prompt.

        Raises:
            DataError: The line is malformed.
        """
        raise NotImplementedError

    def load(self, folder: Path) -> Iterator[Item | InvalidItem]:
        """Yield the images with what metrics ask about their prompts.

        Raises:
            DataError: There are no prompts, or no images.
        """
        file, prompts, problems = self._read(folder)
        yield from problems
        root, (pattern, *others) = find_tree(folder, self.PATTERNS, self._images)
        tree = ImageTree(pattern, file.name, {name: prompt for name, (prompt, _) in prompts.items()}, others)
        for item in tree.items(root, self.image_roots, self._notes):
            yield item if isinstance(item, InvalidItem) else replace(item, meta=prompts[item.prompt_id][1])

    def prompts(self, folder: Path) -> Iterator[PromptPlace | InvalidItem]:
        """Yield the prompts, and where the benchmark has their images.

        Raises:
            DataError: There are no prompts.
        """
        _, prompts, problems = self._read(folder)
        yield from problems
        for name, (prompt, _) in prompts.items():
            yield PromptPlace(name, prompt, self.PLACE.replace("{prompt_id}", name.zfill(self.WIDTH)))

    def _read(self, folder: Path) -> tuple[Path, Prompts, list[InvalidItem]]:
        """Find the file and read its prompts, and what is wrong with lines."""
        places = [inside(folder, name, "file") for name in (self.FILE, f"{self.FOLDER}/{self.FILE}")]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise DataError(f"no {self.FILE} here, nor in {self.FOLDER}/", folder)
        prompts: Prompts = {}
        problems = []
        for place, (number, row) in enumerate(scan_jsonl(file, self.KEYS)):
            try:
                if isinstance(row, DataError):
                    raise row
                name = str(place if self.NUMBERED else row["prompt_id"])
                if name in prompts:
                    raise DataError(f"the prompt '{name}' stands twice")
                if not isinstance(row["prompt"], str) or not row["prompt"].strip():
                    raise DataError("'prompt' is no prompt")
                prompts[name] = row["prompt"], self.meta(row)
            except DataError as error:
                where, prompt_id = f"{file.name}:{number}", str(place) if self.NUMBERED else ""
                problems.append(InvalidItem(where, f"{where}: {error.message}", prompt_id=prompt_id))
        return file, prompts, problems
