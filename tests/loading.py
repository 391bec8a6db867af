"""Reads a data folder as `judge` does, for tests that look at what was read: items, and what could not be read, with reasons."""

from collections.abc import Iterable
from pathlib import Path

from titjudge.core.types import InvalidItem, Item
from titjudge.suites.base import SuiteInputs
from titjudge.suites.folder import Folder


def sorted_out(found: Iterable[Item | InvalidItem]) -> tuple[list[Item], dict[str, str]]:
    """The items, and the reason of each that is invalid, by its id."""
    listed = list(found)
    bad = {item.id: item.reason for item in listed if isinstance(item, InvalidItem)}
    return [item for item in listed if isinstance(item, Item)], bad


def loaded(path: Path, **columns: list[str]) -> tuple[list[Item], dict[str, str]]:
    """What the suite `folder` reads; `columns` as `--columns` names them."""
    return sorted_out(Folder(SuiteInputs(columns=columns)).items(path))


def loaded_with_notes(path: Path, **columns: list[str]) -> tuple[list[Item], dict[str, str], list[str]]:
    """Like `loaded`, with what the suite says of how it understood the data."""
    suite = Folder(SuiteInputs(columns=columns))
    return *sorted_out(suite.items(path)), suite.notes
