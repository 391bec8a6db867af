"""Edits whose outcome is known, in a folder as `known-answer make --edits` writes it: the generator of a result is its outcome."""

from __future__ import annotations

from pathlib import Path

from titjudge.core.types import Item
from titjudge.suites.folder import Folder

DONE = "done"
WRONG = {
    "not_done": "not done",
    "elsewhere": "done to another thing",
    "collateral": "done with a further change",
    "over_edit": "over-edited",
}
OUTCOMES = (DONE, *WRONG)


def is_known_edits(folder: Path) -> bool:
    """Tell whether a folder was made by `known-answer make --edits`: results beside their sources, each with its change."""
    return (folder / "made.json").is_file() and (folder / "metadata.jsonl").is_file() and (folder / "sources").is_dir()


def known_edits(folder: Path) -> list[Item]:
    """Read the results whose outcome is known, in the order of the file.

    Raises:
        DataError: There is nothing to judge at that place.
    """
    items = (item for item in Folder().load(folder) if isinstance(item, Item))
    return [item for item in items if item.sources and item.generator in OUTCOMES]
