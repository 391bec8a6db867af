"""Folders of edits as data sets are unpacked: MagicBrush, and InstructPix2Pix.

    DATA/edit_turns.json                [{"input": "7-input.png", "output": "7-output1.png", "mask": "7-mask1.png", "instruction": ...}, ...]
    DATA/images/7/7-input.png, ...      the images, in a folder named by what stands before the first dash

    DATA/seeds.json                     [["shard-00/0000001", ["1234", ...]], ...]
    DATA/shard-00/0000001/prompt.json   {"edit": "make it night", ...}
    DATA/shard-00/0000001/1234_0.jpg    the source; 1234_1.jpg is the result

The results are those of the data set. Each turn of a session is an edit of its own, made from the result before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.files import read_json
from titjudge.core.types import InvalidItem, Item
from titjudge.data.data_paths import inside
from titjudge.suites.manifests import item_of

TURNS, SEEDS = "edit_turns.json", "seeds.json"


def edit_folder(folder: Path, roots: Sequence[Path]) -> Iterator[Item | InvalidItem] | None:
    """Read a folder of MagicBrush or InstructPix2Pix; None where it is neither.

    Args:
        folder: The data folder.
        roots: Further folders in which images may lie.

    Raises:
        DataError: The list of edits cannot be read.
    """
    if (folder / TURNS).is_file():
        return _turns(folder, roots)
    if (folder / SEEDS).is_file():
        return _seeds(folder, roots)
    return None


def _turns(folder: Path, roots: Sequence[Path]) -> Iterator[Item | InvalidItem]:
    for number, turn in enumerate(_list(folder / TURNS), 1):
        where = f"{TURNS}:{number}"
        names = {key: turn.get(key) for key in ("input", "output", "mask")} if isinstance(turn, Mapping) else {}
        if not all(isinstance(names.get(key), str) for key in ("input", "output")):
            yield InvalidItem(where, 'an edit is {"input": FILE, "output": FILE, "instruction": TEXT}')
            continue
        places = {
            key: f"images/{name.partition('-')[0]}/{name}" for key, name in names.items() if isinstance(name, str)
        }
        try:
            source = inside(folder, places["input"], "source", roots)
            mask = (
                {item_meta.MASK.name: os.path.realpath(inside(folder, places["mask"], "mask", roots))}
                if "mask" in places
                else {}
            )
        except DataError as error:
            yield InvalidItem(where, error.message)
            continue
        prompt_id = Path(places["output"]).stem
        yield item_of(places["output"], turn.get("instruction"), "", prompt_id, mask, folder, roots, sources=(source,))


def _seeds(folder: Path, roots: Sequence[Path]) -> Iterator[Item | InvalidItem]:
    for number, entry in enumerate(_list(folder / SEEDS), 1):
        where = f"{SEEDS}:{number}"
        try:
            name, seeds = entry
            instruction = read_json(inside(folder, f"{name}/prompt.json", "prompt", roots))["edit"]
            sources = [(seed, inside(folder, f"{name}/{seed}_0.jpg", "source", roots)) for seed in seeds]
        except (DataError, ValueError, TypeError, KeyError) as error:
            reason = (
                error.message
                if isinstance(error, DataError)
                else 'not [FOLDER, [SEED, ...]] with {"edit": TEXT} in its prompt.json'
            )
            yield InvalidItem(where, reason)
            continue
        for seed, source in sources:
            image = f"{name}/{seed}_1.jpg"
            yield item_of(image, instruction, "", f"{name}/{seed}", {}, folder, roots, sources=(source,))


def _list(file: Path) -> list[Any]:
    content = read_json(file)
    if not isinstance(content, list):
        raise DataError("expected a list of edits", file)
    return content
