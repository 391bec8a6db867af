"""Number the images of one prompt: by a column, a field of the path, the end of the name, or the place in a grid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from titjudge.core.numbers import as_sample
from titjudge.core.types import InvalidItem, Item, Items, Values
from titjudge.data.containers import holder
from titjudge.data.grids import Grid

COLUMNS = ("sample", "seed")
_NAME = re.compile(r"(.+?)[_-]([0-9]{1,18})")


def sample_of(record: Values) -> int:
    """Read the number, or seed, of an image among the images of its prompt; 0 if there is none."""
    number = next((record[name] for name in COLUMNS if record.get(name) not in (None, "")), None)
    return 0 if number is None else as_sample(number)


def cells(items: Iterable[Item | InvalidItem], grid: str | None) -> Iterable[Item | InvalidItem]:
    """Yield an item for each cell of each image; without a grid, the items as they are.

    Raises:
        ConfigError: It is not a grid.
    """
    return items if grid is None else _cells(items, Grid.parse(grid))


def _cells(items: Iterable[Item | InvalidItem], grid: Grid) -> Items:
    """Yield an item for each cell of the grid; an image inside another file cannot be cut."""
    for item in items:
        if isinstance(item, InvalidItem) or item.image is None:
            yield item
            continue
        if holder(item.image) is not None:
            yield InvalidItem(
                item.id, "a grid inside a table cannot be cut. Save it as a file", item.generator, item.prompt_id
            )
            continue
        places = grid.places(item.image)
        for index, place in enumerate(places):
            yield replace(
                item, id=f"{item.id} ({grid}: {index + 1})", image=place, sample=item.sample * len(places) + index
            )


def split_sample(name: str) -> tuple[str, int] | None:
    """Split `cat_2` or `cat-2` into name and sample; None if the name does not end in a number."""
    match = _NAME.fullmatch(name)
    return (match[1], int(match[2])) if match else None
