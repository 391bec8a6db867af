"""A copy of LPG-Bench as the Hugging Face hub has it (datasets/Moyao001/LPG-Bench).

Neither the paper nor its repository says how the files lie there. What data sets usually look like is read: tables with images (parquet,
`metadata.csv` of an imagefolder), or a file of prompts and a tree of images with generators and prompt ids in its paths.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.images import SUFFIXES
from titjudge.core.types import InvalidItem, Item
from titjudge.suites.folder import read_items
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.manifests import FORMATS, NAMES, Columns, find_tables
from titjudge.suites.prompt_list import read_prompts

PATTERNS = (
    "{generator}/{prompt_id}.{suffix}",
    "{generator}/{prompt_id}_{sample}.{suffix}",
    "{generator}/prompt_{prompt_id}.{suffix}",
    "{prompt_id}/{generator}.{suffix}",
    "prompt_{prompt_id}/{generator}.{suffix}",
    "{prompt_id}_{generator}.{suffix}",
    "{generator}_{prompt_id}.{suffix}",
)
"""How images may lie below the folder that has them all; the one that finds most prompts counts, of equals the first."""
_OF_PROMPTS = (*FORMATS, ".csv.gz", ".txt")
_PACKED = (".zip", ".gz", ".tgz", ".7z", ".rar", ".zst")
_LISTED = 8


def hub_items(
    folder: Path,
    roots: Sequence[Path],
    prompts: str,
    images: str,
    columns: Columns,
    notes: dict[str, None],
) -> Iterator[Item | InvalidItem]:
    """Yield the images of such a copy.

    Args:
        folder: The copy.
        roots: Further folders in which images may lie.
        prompts: The file of prompts in the folder, FILE or FILE:ID,PROMPT, where the user says which; else it is looked for.
        images: A pattern of image paths below the folder, where the user says so.
        columns: Columns of a table that the user has named.
        notes: Gets what was taken for what, in words.

    Raises:
        DataError: Nothing here fits; says what would.
    """
    if not prompts and not images and find_tables(folder, roots):
        taken: dict[str, None] = {}
        yield from read_items(folder, roots, columns, taken)
        notes.update({f"{each}; --columns {'=...,'.join(NAMES)}=... says otherwise": None for each in taken})
        return
    given, pattern = _tree(folder, prompts, images)
    notes[f"prompts are read from {given}, images from {pattern}"] = None
    yield from ImageTree(pattern, str(folder / given)).items(folder, roots, notes)


def hub_prompts(folder: Path, prompts: str) -> dict[str, str]:
    """Read the prompts of such a copy by their ids; of a file without ids counted from 0.

    Raises:
        DataError: There is no file of prompts, or none that can be told from others.
    """
    return _known(folder, prompts or _readings(folder)[0])


def _tree(folder: Path, prompts: str, images: str) -> tuple[str, str]:
    """Find the reading of the prompts, and the pattern, by which most images have a prompt."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES]
    if not names:
        packed = next((path.name for path in folder.rglob("*") if path.suffix.lower() in _PACKED), "")
        hint = f"unpack {packed} first" if packed else "expected GENERATOR/PROMPT_ID.png, or a table that holds them"
        raise DataError(f"no images here: {hint}", folder)
    common = os.path.commonpath([os.path.dirname(name) or "." for name in names])
    tops = {"" if top in ("", ".") else f"{top}/" for top in (common, os.path.dirname(common))}
    patterns = [images] if images else [f"{top}{each}" for top in sorted(tops, reverse=True) for each in PATTERNS]
    readings = [prompts] if prompts else _readings(folder)
    found = {}
    for given in readings:
        known = _known(folder, given)
        for pattern in patterns:
            fits = [match["prompt_id"] for name in names if (match := _regex(pattern).fullmatch(name))]
            found[given, pattern] = sum(name in known or (name.lstrip("0") or "0") in known for name in fits)
    most = max(found.values())
    if not most:
        raise DataError(
            f"none of {len(names):,} images, such as {names[0]}, has an id of {readings[0]} in its path: say "
            "--suite-option images='{generator}/{prompt_id}.png' and --suite-option prompts=FILE:ID,PROMPT",
            folder,
        )
    chosen = [each for each, count in found.items() if count == most]
    if len({given for given, _ in chosen}) > 1:
        raise DataError(f"are prompts counted from 0 or 1? Say --suite-option prompts={' or '.join(readings)}", folder)
    return chosen[0]


@functools.lru_cache(maxsize=64)
def _regex(pattern: str) -> re.Pattern[str]:
    return ImageTree(pattern, "").regex()


def _readings(folder: Path) -> list[str]:
    """Find the file of prompts, and how it may be read: with its column of ids, or its rows counted from 0 and from 1."""
    files = [path for path in folder.rglob("*") if path.name.lower().endswith(_OF_PROMPTS) and path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in files if path.name != "fetched.json")
    called = [name for name in names if "prompt" in Path(name).name.lower()] or names
    if len(called) != 1:
        there = ", ".join(called[:_LISTED]) + (", ..." if len(called) > _LISTED else "")
        what = f"which of these has the prompts: {there}?" if called else "no file of prompts, such as prompts.jsonl."
        raise DataError(f"{what} Say --suite-option prompts=FILE or prompts=FILE:ID,PROMPT", folder)
    (name,) = called
    try:
        known = _known(folder, name)
    except (DataError, ConfigError):
        counted = [f"{name}:#,{text}" for text in NAMES["prompt"] if _reads(folder, f"{name}:#,{text}")][:1]
        return [reading for each in counted for reading in (each, each.replace(":#,", ":#1,"))] or [name]
    return [name, *([f"{name}:1"] if _reads(folder, f"{name}:1") not in (None, known) else [])]


def _reads(folder: Path, given: str) -> dict[str, str] | None:
    try:
        return _known(folder, given)
    except (DataError, ConfigError):
        return None


def _known(folder: Path, given: str) -> dict[str, str]:
    found: dict[str, str] = {}
    problems = [each.reason for each in read_prompts(str(folder / given), found)]
    if not found:
        raise DataError(problems[0] if problems else "no prompts here", folder / given)
    return found
