"""Folders of edits as data sets are unpacked: MagicBrush, and InstructPix2Pix.

    DATA/edit_turns.json                [{"input": "7-input.png", "output": "7-output1.png", "mask": "7-mask1.png", "instruction": ...}, ...]
    DATA/edit_sessions.json             {"7": [the same, ...], ...}; read if there is no edit_turns.json
    DATA/images/7/7-input.png, ...      the images, in a folder with the part of the name before the first dash

    DATA/seeds.json                     [["shard-00/0000001", ["1234", ...]], ...]
    DATA/shard-00/0000001/prompt.json   {"edit": "make it night", ...}
    DATA/shard-00/0000001/1234_0.jpg    the source; 1234_1.jpg is the result

The results come from the data set. Each turn of a session is a separate edit, made from the result before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import DataError, must_be
from titjudge.core.files import read_json
from titjudge.core.numbers import several
from titjudge.core.types import InvalidItem, Item, Items, Values
from titjudge.data.data_paths import inside
from titjudge.suites.manifests import item_of

TURNS, SESSIONS, SEEDS = "edit_turns.json", "edit_sessions.json", "seeds.json"


@dataclass(frozen=True, slots=True)
class EditFolder:
    """A folder that is a data set of edits.

    Attributes:
        summary: The data set and how much of it is listed, for people.
        items: The edits, in the order of the list.
    """

    summary: str
    items: Items


def edit_folder(folder: Path, roots: Sequence[Path]) -> EditFolder | None:
    """Read a folder of MagicBrush or InstructPix2Pix; None if it is neither, or has an images.jsonl.

    Args:
        folder: The data folder.
        roots: Further folders in which images may lie.

    Raises:
        DataError: The list of edits cannot be read, or is empty.
    """
    if (folder / "images.jsonl").is_file():
        return None
    if (folder / TURNS).is_file():
        turns = enumerate(_filled(folder / TURNS, list, "a list of edits"), 1)
        return _magicbrush([(f"{TURNS}:{number}", turn) for number, turn in turns], folder, roots)
    if (folder / SESSIONS).is_file():
        return _magicbrush(list(_turns_of_sessions(folder / SESSIONS)), folder, roots)
    if (folder / SEEDS).is_file():
        return _instruct_pix2pix(_filled(folder / SEEDS, list, "a list of folders with their seeds"), folder, roots)
    return None


def _magicbrush(turns: Sequence[tuple[str, Any]], folder: Path, roots: Sequence[Path]) -> EditFolder:
    """Read turns, each with its place in the list."""
    sessions = {_session(turn["input"]) for _, turn in turns if isinstance(turn, Mapping) and _is_turn(turn)}
    summary = f"MagicBrush: {several(len(turns), 'turn')} of {several(len(sessions), 'session')}"
    return EditFolder(summary, (_turn(where, turn, folder, roots) for where, turn in turns))


def _turns_of_sessions(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the turns of all sessions; a session that has none is yielded itself, so that it is reported."""
    for session, turns in _filled(file, dict, "an object of sessions").items():
        if isinstance(turns, list) and turns:
            yield from ((f"{SESSIONS}:{session}:{number}", turn) for number, turn in enumerate(turns, 1))
        else:
            yield f"{SESSIONS}:{session}", None


def _turn(where: str, turn: Any, folder: Path, roots: Sequence[Path]) -> Item | InvalidItem:
    """Make the item of a turn of MagicBrush, or an invalid one with the reason."""
    if not (isinstance(turn, Mapping) and _is_turn(turn)):
        return InvalidItem(where, must_be("an edit", 'like {"input": FILE, "output": FILE, "instruction": TEXT}', turn))
    try:
        source = inside(folder, _place(turn["input"]), "source", roots)
        mask = turn.get("mask")
        masked = os.path.realpath(inside(folder, _place(mask), "mask", roots)) if isinstance(mask, str) else None
    except DataError as error:
        return InvalidItem(where, error.message)
    meta = {} if masked is None else {item_meta.MASK.name: masked}
    result, prompt_id = _place(turn["output"]), Path(turn["output"]).stem
    return item_of(result, turn.get("instruction"), "", prompt_id, meta, folder, roots, sources=(source,))


def _is_turn(turn: Values) -> bool:
    return isinstance(turn.get("input"), str) and isinstance(turn.get("output"), str)


def _session(name: str) -> str:
    """Return the session that a file belongs to: the part of its name before the first dash."""
    return name.partition("-")[0]


def _place(name: str) -> str:
    return f"images/{_session(name)}/{name}"


def _instruct_pix2pix(listed: Sequence[Any], folder: Path, roots: Sequence[Path]) -> EditFolder:
    edits = sum(len(entry[1]) for entry in listed if _has_seeds(entry))
    summary = f"InstructPix2Pix: {several(edits, 'edit')} by {several(len(listed), 'instruction')}"
    return EditFolder(summary, _seeds(listed, folder, roots))


def _seeds(listed: Sequence[Any], folder: Path, roots: Sequence[Path]) -> Items:
    """Yield the edits of InstructPix2Pix: one for each seed of each instruction."""
    for number, entry in enumerate(listed, 1):
        try:
            if not _has_seeds(entry):
                raise TypeError
            name, seeds = entry
            instruction = read_json(inside(folder, f"{name}/prompt.json", "prompt", roots))["edit"]
            sources = [(seed, inside(folder, f"{name}/{seed}_0.jpg", "source", roots)) for seed in seeds]
        except (DataError, TypeError, KeyError) as error:
            yield InvalidItem(
                f"{SEEDS}:{number}",
                error.message
                if isinstance(error, DataError)
                else 'must be [FOLDER, [SEED, ...]], with {"edit": TEXT} in prompt.json of the folder',
            )
            continue
        for seed, source in sources:
            image = f"{name}/{seed}_1.jpg"
            yield item_of(image, instruction, "", f"{name}/{seed}", {}, folder, roots, sources=(source,))


def _has_seeds(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], list) and bool(entry[1])


def _filled(file: Path, kind: type, expected: str) -> Any:
    """Read a JSON file that has something in it.

    Raises:
        DataError: It is of another kind, or empty.
    """
    content = read_json(file)
    if not isinstance(content, kind):
        raise DataError(must_be("the content", expected, content), file)
    if not content:
        raise DataError("the file lists no edits. Unpack the data set again, or give a file with --data FILE", file)
    return content
