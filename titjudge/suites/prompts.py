"""The suite of prompts without images, for tasks."""

from __future__ import annotations

from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.types import InvalidItem, Item, Items
from titjudge.suites.base import Suite, SuiteInputs
from titjudge.suites.folder import read_items
from titjudge.suites.prompt_list import PromptList, read_prompts


class Prompts(Suite):
    """Prompts alone, for what is asked about prompts: a list of prompts, or those of the images in a data folder.

    Args:
        columns: The two columns ID,PROMPT of a table, or the number of the first line of a .txt.
    """

    name = "prompts"
    AGGREGATES = False
    TASKS = True
    metrics = ()

    def __init__(self, inputs: SuiteInputs = SuiteInputs(), *, columns: str = "") -> None:
        super().__init__(inputs)
        self._columns = columns

    def load(self, folder: Path) -> Items:
        """Yield an item without an image for each prompt, by its id.

        Raises:
            DataError: There are no prompts at that place.
        """
        file = folder / "prompts.jsonl" if folder.is_dir() else folder
        if folder.is_dir() and not file.is_file():
            prompts, meta, problems, *_ = _of_images(folder)
        else:
            prompts, meta, problems, *_ = read_prompts(f"{file}:{self._columns}" if self._columns else str(file))
        yield from problems
        if not prompts:
            raise DataError("no prompts here", folder)
        for prompt_id, prompt in prompts.items():
            yield Item(prompt_id, prompt, None, "", prompt_id, meta.get(prompt_id, {}))


def _of_images(folder: Path) -> PromptList:
    listing = PromptList({}, {}, [])
    for item in read_items(folder):
        if isinstance(item, InvalidItem):
            listing.problems.append(item)
        elif listing.prompts.setdefault(item.prompt_id, item.prompt) == item.prompt:
            listing.meta.setdefault(item.prompt_id, dict(item.meta))
    return listing
