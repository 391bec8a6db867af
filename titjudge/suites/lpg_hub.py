"""Read a copy of LPG-Bench from the Hugging Face hub (datasets/Moyao001/LPG-Bench).

Its layout is documented nowhere. Usual layouts of data sets are read: tables with images (parquet, `metadata.csv` of an
imagefolder), or a file of prompts and a tree of images with generators and prompt ids in their paths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Items
from titjudge.data.data_paths import files_below
from titjudge.data.tables import READERS
from titjudge.suites.base import Columns, image_files
from titjudge.suites.folder import read_items
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.manifests import NAMES, find_tables
from titjudge.suites.prompt_list import read_prompts
from titjudge.suites.readings import groups_of, prompt_id_of

PATTERNS = (
    "{generator}/{prompt_id}.{suffix}",
    "{generator}/{prompt_id}_{sample}.{suffix}",
    "{generator}/prompt_{prompt_id}.{suffix}",
    "{prompt_id}/{generator}.{suffix}",
    "prompt_{prompt_id}/{generator}.{suffix}",
    "{prompt_id}_{generator}.{suffix}",
    "{generator}_{prompt_id}.{suffix}",
)
"""How images may lie below the folder that holds them all; the pattern that fits most images with a prompt is taken."""
_OF_PROMPTS = (*READERS, ".txt")
_PACKED = (".zip", ".gz", ".tgz", ".7z", ".rar", ".zst")
_LISTED = 8


def hub_items(
    folder: Path,
    roots: Sequence[Path],
    prompts: str,
    images: str,
    columns: Columns,
    notes: dict[str, None],
) -> Items:
    """Yield the images of such a copy.

    Args:
        folder: The copy.
        roots: Further folders in which images may lie.
        prompts: The file of prompts in the folder, FILE or FILE:ID,PROMPT; without it, it is searched for.
        images: A pattern of image paths below the folder; without it, the usual ones are tried.
        columns: Columns of a table that the user has named.
        notes: Gets a line on how the copy is read.

    Raises:
        DataError: Nothing here fits; says what would.
    """
    tables = [
        path for path in find_tables(folder, roots) if path.suffix.lower() not in _PACKED
    ]  # loose images, as it seems
    if not prompts and not images and tables:
        taken: dict[str, None] = {}
        yield from read_items(folder, roots, columns, taken)
        notes.update({f"{line}; --columns {'=...,'.join(NAMES)}=... says otherwise": None for line in taken})
        return
    prompt_file, pattern = _tree(folder, prompts, images)
    notes[f"prompts are read from {prompt_file}, images from {pattern}"] = None
    yield from ImageTree(pattern, str(folder / prompt_file)).items(folder, roots, notes)


def hub_prompts(folder: Path, prompts: str) -> dict[str, str]:
    """Read the prompts of such a copy by their ids; without ids, they are numbered from 0.

    Raises:
        DataError: There is no file of prompts, or several files may be it.
    """
    return _prompts(folder, prompts or _readings(folder)[0])


def _tree(folder: Path, prompts: str, images: str) -> tuple[str, str]:
    """Choose the way to read the prompts, and the pattern of images, by which most images have a prompt.

    Raises:
        DataError: There are no images, none has a prompt, or the prompts may be counted from 0 or from 1.
    """
    names = _image_names(folder)
    patterns = [images] if images else _usual_patterns(names)
    readings = [prompts] if prompts else _readings(folder)
    counts = {}
    for reading in readings:
        by_id = _prompts(folder, reading)
        for pattern in patterns:
            groups = groups_of(names, pattern).values()
            counts[reading, pattern] = sum(
                prompt_id_of(written, by_id) in by_id for ids in groups for written in ids.values()
            )
    most = max(counts.values())
    if not most:
        raise DataError(
            f"none of {len(names):,} images, such as {names[0]}, has an id of {readings[0]} in its path: say "
            "--suite-option images='{generator}/{prompt_id}.png' and --suite-option prompts=FILE:ID,PROMPT",
            folder,
        )
    chosen = [choice for choice, count in counts.items() if count == most]
    if len({reading for reading, _ in chosen}) > 1:
        raise DataError(f"are prompts counted from 0 or 1? Say --suite-option prompts={' or '.join(readings)}", folder)
    return chosen[0]


def _image_names(folder: Path) -> list[str]:
    names = [path.relative_to(folder).as_posix() for path in image_files(folder)]
    if not names:
        packed = next((path.name for path in files_below(folder) if path.suffix.lower() in _PACKED), "")
        hint = f"unpack {packed} first" if packed else "expected GENERATOR/PROMPT_ID.png, or a table that holds them"
        raise DataError(f"no images here: {hint}", folder)
    return names


def _usual_patterns(names: Sequence[str]) -> list[str]:
    """List the usual patterns below the folder that holds all images, and below the folder above it."""
    common = os.path.commonpath([os.path.dirname(name) or "." for name in names])
    tops = {"" if top in ("", ".") else f"{top}/" for top in (common, os.path.dirname(common))}
    return [f"{top}{usual}" for top in sorted(tops, reverse=True) for usual in PATTERNS]


def _readings(folder: Path) -> list[str]:
    """Find the file of prompts, and the ways to read it: by its column of ids, or by its rows counted from 0 and from 1."""
    files = [path for path in files_below(folder) if path.name.lower().endswith(_OF_PROMPTS) and path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in files if path.name != "fetched.json")
    called = [name for name in names if "prompt" in Path(name).name.lower()] or names
    if len(called) != 1:
        there = ", ".join(called[:_LISTED]) + (", ..." if len(called) > _LISTED else "")
        what = f"which of these has the prompts: {there}?" if called else "no file of prompts, such as prompts.jsonl."
        raise DataError(f"{what} Say --suite-option prompts=FILE or prompts=FILE:ID,PROMPT", folder)
    (name,) = called
    prompts = _try_prompts(folder, name)
    if prompts is None:
        texts = [text for text in NAMES["prompt"] if _try_prompts(folder, f"{name}:#,{text}") is not None][:1]
        return [f"{name}:{number},{text}" for text in texts for number in ("#", "#1")] or [name]
    return [name, *([f"{name}:1"] if _try_prompts(folder, f"{name}:1") not in (None, prompts) else [])]


def _try_prompts(folder: Path, prompt_file: str) -> dict[str, str] | None:
    try:
        return _prompts(folder, prompt_file)
    except (DataError, ConfigError):
        return None


def _prompts(folder: Path, prompt_file: str) -> dict[str, str]:
    listed = read_prompts(str(folder / prompt_file))
    if not listed.prompts:
        raise DataError(listed.problems[0].reason if listed.problems else "no prompts here", folder / prompt_file)
    return listed.prompts
