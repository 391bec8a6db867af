"""Prompts without images, for what is asked about prompts alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import Suite
from titjudge.suites.folder import read_items
from titjudge.suites.prompt_list import read_prompts


class Prompts(Suite):
    """Prompts alone, for what is asked about prompts: a list of prompts, or those of the images in a data folder.

    Option: `columns`, the two columns ID,PROMPT of a table (or the number of the first line of a .txt).
    """

    name = "prompts"
    AGGREGATES = False
    metrics: tuple[str, ...] = ()

    def __init__(self, *, columns: str = "") -> None:
        self._columns = columns

    def load(self, folder: Path) -> Iterator[Item | InvalidItem]:
        """Yield an item for each prompt, by its id, without an image.

        Raises:
            DataError: There are no prompts at that place.
        """
        prompts: dict[str, str] = {}
        further: dict[str, dict[str, Any]] = {}
        if folder.is_dir() and not (folder / "prompts.jsonl").is_file():
            yield from _of_images(folder, prompts, further)
        else:
            file = folder / "prompts.jsonl" if folder.is_dir() else folder
            yield from read_prompts(f"{file}:{self._columns}" if self._columns else str(file), prompts, further)
        if not prompts:
            raise DataError("no prompts here", folder)
        for prompt_id, prompt in prompts.items():
            yield Item(prompt_id, prompt, None, "", prompt_id, further.get(prompt_id, {}))


def _of_images(folder: Path, prompts: dict[str, str], further: dict[str, dict[str, Any]]) -> Iterator[InvalidItem]:
    for item in read_items(folder):
        if isinstance(item, InvalidItem):
            yield item
        elif prompts.setdefault(item.prompt_id, item.prompt) == item.prompt:
            further.setdefault(item.prompt_id, dict(item.meta))
