"""Names of generators and prompts over several runs, so that their scores can be joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from titjudge.core.types import InvalidItem, Item

Items = Mapping[str, Mapping[str, Item]]  # by run and item id


def prompt_of(item: Item | InvalidItem) -> str:
    """Return the id of the item's prompt, or the item's own id where it has none."""
    return item.prompt_id or item.id


def run_labels(items: Items) -> Callable[[str, Item], str]:
    """Return a function that names the generator of an item of a run, so that no two have the same name."""
    runs_of: dict[str, set[str]] = {}
    for name, listed in items.items():
        for item in listed.values():
            runs_of.setdefault(item.generator, set()).add(name)
    short = [Path(name).resolve().name for name in items]
    run_names = dict(zip(items, short if len(set(short)) == len(short) else items, strict=True))

    def label(name: str, item: Item) -> str:
        if not item.generator:
            return run_names[name]
        return item.generator if len(runs_of[item.generator]) == 1 else f"{item.generator} ({run_names[name]})"

    return label


def prompt_keys(items: Items) -> Callable[[Item], str]:
    """Return a function that names the prompt of an item: by its id, or by its text where ids differ between runs."""
    texts: dict[str, str] = {}
    ids = [{prompt_of(item) for item in listed.values()} for listed in items.values()]
    same = len(ids) < 2 or bool(set.intersection(*ids))
    for listed in items.values():
        for item in listed.values():
            same = same and texts.setdefault(prompt_of(item), item.prompt) == item.prompt
    return prompt_of if same or len(ids) < 2 else (lambda item: item.prompt)
