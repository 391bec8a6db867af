"""Recognise folders of images with one list of prompts: which part of a name is the generator, the prompt and the sample.

    DATA/step_1000/0000.png, DATA/step_2000/0000.png, ... + DATA/prompts.txt
    DATA/0001_0.png, 0001-seed42.png, 0001/0.png, step_1000/seed_42/0001.png, img_0001.png, cat.png, ...

The list is prompts.txt, .csv, .tsv, .json, .jsonl, .xlsx or .parquet, or a table `metadata` without a column of images; in DATA, in
each folder of DATA, or beside DATA.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from titjudge.core.errors import DataError
from titjudge.core.names import plain
from titjudge.data.data_paths import files_below, inside
from titjudge.data.embedded_prompts import embedded_prompt
from titjudge.suites.base import image_files, printable
from titjudge.suites.edit_folders import SESSIONS, TURNS
from titjudge.suites.image_tree import ImageTree
from titjudge.suites.manifests import METADATA, find_tables, names_images
from titjudge.suites.patterns import fields_of
from titjudge.suites.readings import choose, guesses, readings, unclear
from titjudge.suites.samples import split_sample

LISTS = tuple(f"prompts{ending}" for ending in (".txt", ".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet"))
"""Names of a list of prompts."""
_DEEPEST = 3  # folders above an image
_NUMBERED = re.compile(r"([A-Za-z]*[_-]?)(\d+)")  # 7, img_7, seed42
_SUFFIXED = re.compile(r"(.+?)([_-][A-Za-z]*[_-]?)(\d+)")  # 0001_0, cat-seed42
_PREFIXED = re.compile(r"([A-Za-z]*[_-]?)(\d+)([_-])(.+)")  # 42_0001, seed42_cat
_OF_SAMPLES = ("seed", "sample")
_OF_PROMPTS = ("", "prompt", "p", "id", "idx", "image", "img")
"""Words before the number of a folder that say what it is; a bare number may be a prompt's."""


def recognised(folder: Path, prompt_file: str = "", roots: Sequence[Path] = ()) -> ImageTree | None:
    """Read a folder of images with one list of prompts.

    Args:
        folder: The data folder.
        prompt_file: The list, where the user has named it.
        roots: Further folders to which links may lead.

    Returns:
        The images by a pattern; None where there is no list, or another layout says which prompt is whose.

    Raises:
        UnclearData: The names of the images can be read in several ways, or in none.
        DataError: The list cannot be read.
    """
    images = image_files(folder) if folder.is_dir() else []
    if prompt_file and not images:
        raise DataError(f"no folder with images for the prompts of {prompt_file}", folder)
    names = [name for path in images if printable(name := path.relative_to(folder).as_posix()) == name]
    above = folder.parent if folder.name not in ("", "..") else folder.resolve().parent
    inner = [folder, *(folder / top for top in sorted({name.split("/")[0] for name in names if "/" in name}))]
    listed = any(_files(place, LISTS + METADATA) for place in inner) or _files(above, LISTS)
    if not names or not (prompt_file or (listed and not _says_itself(folder, images, roots))):
        return None
    inside_folder = [prompt_file] if prompt_file else _inner_lists(inner, roots)
    lists = inside_folder or _lists(above, LISTS)
    if not lists:
        return None
    patterns = list(_patterns(names))
    possible = readings(names, patterns, lists)
    if not possible:
        what = f"the names of {len(names):,} images, such as {names[0]}, do not say which belongs to which prompt of {lists[0]}"
        unclear(what, folder, guesses(names, patterns, lists[0]))
    reading = choose(possible, folder)
    if not inside_folder and reading.share < 1:
        unclear(
            f"{lists[0]} is not in this folder and has prompts without an image: is it the right one?", folder, possible
        )
    return ImageTree(reading.pattern, reading.prompt_file)


def _says_itself(folder: Path, images: Sequence[Path], roots: Sequence[Path]) -> bool:
    """Tell whether a manifest, the turns of MagicBrush, texts of the same name or the images themselves say the prompts."""
    named = (folder / name for name in ("images.jsonl", TURNS, SESSIONS))
    if any(file.is_file() for file in named) or any(map(names_images, find_tables(folder, roots))):
        return True
    texts = {plain(path.stem) for path in files_below(folder) if path.suffix == ".txt"}
    stems = {plain(name) for path in images for name in (path.stem, *(split_sample(path.stem) or ())[:1])}
    return bool(stems & texts) or _holds_prompt(images[0])


def _holds_prompt(image: Path) -> bool:
    try:
        return embedded_prompt(image) is not None
    except (DataError, OSError):
        return False


def _inner_lists(places: Sequence[Path], roots: Sequence[Path]) -> list[str]:
    """Find the lists in a folder, or, where it has none, the one that all folders of it have.

    Args:
        places: The folder, and the folders in it that have images.
        roots: Further folders to which links may lead.

    Raises:
        DataError: Some of these folders lack it, they have different ones, or a link leads elsewhere.
    """
    folder, *below = places
    for place in places:
        lists = _lists(place, LISTS + METADATA)
        for file in lists:
            inside(folder, Path(file).relative_to(folder).as_posix(), "file", roots)
        if lists:
            for other in below if place != folder else ():
                _check_same(other, Path(lists[0]))
            return lists
    return []


def _files(folder: Path, names: Iterable[str]) -> list[Path]:
    return [file for name in names for file in sorted(folder.glob(name)) if file.is_file()]


def _lists(folder: Path, names: Iterable[str]) -> list[str]:
    """List the files of these names, which are lists of prompts and no tables of images.

    Raises:
        DataError: One is a table of images.
    """
    files = _files(folder, names)
    for file in files:
        if file.suffix != ".txt" and names_images(file):
            raise DataError("this table names the images: judge the file in place of its folder", file)
    return [str(file) for file in files]


def _check_same(folder: Path, file: Path) -> None:
    """Refuse a folder that has not the same list of prompts.

    Raises:
        DataError: It has none, or another.
    """
    other = folder / file.name
    if not other.is_file():
        raise DataError(f"there is no {file.name} here; if it is the same as {file}: --prompt-file {file}", folder)
    if other.read_bytes() != file.read_bytes():
        raise DataError(f"not the same prompts as in {file}: judge one of these folders at a time", other)


def _patterns(names: Sequence[str]) -> Iterator[str]:
    """Yield the patterns that names may have, the likeliest first; those of the commonest depth."""
    depth = Counter(name.count("/") for name in names).most_common(1)[0][0]
    rows = [name.split("/") for name in names if name.count("/") == depth]
    *folders, files = (set(level) for level in zip(*rows, strict=True))
    endings = {PurePosixPath(file).suffix for file in files}
    ending = endings.pop() if len(endings) == 1 else ".{suffix}"
    levels = [list(_of_folders(level, index)) for index, level in enumerate(folders)]
    stems = list(_of_stems({PurePosixPath(file).stem for file in files}))
    for parts in itertools.product(*levels, stems) if depth <= _DEEPEST else ():
        pattern = "/".join(parts) + ending
        count = Counter(fields_of(pattern))
        if count["prompt_id"] == 1 and count["sample"] + count["seed"] <= 1 and count["generator"] <= 1:
            yield pattern


def _of_folders(names: set[str], depth: int) -> Iterator[str]:
    """Yield what the folders of one depth may be: generators, samples, prompts, or always the same word."""
    words = _words(names, _NUMBERED)
    word = words.pop() if len(words) == 1 else None
    kind = None if word is None else word.rstrip("_-").lower()
    if kind in _OF_SAMPLES or (kind == "" and depth):
        yield f"{word}{{{'seed' if kind == 'seed' else 'sample'}}}"
    if kind not in _OF_SAMPLES:
        yield "{generator}"
        yield "{prompt_id}"
    if word and kind in _OF_PROMPTS:
        yield f"{word}{{prompt_id}}"
    if len(names) == 1 and not {"{", "}"} & set(*names):
        yield next(iter(names))


def _of_stems(stems: set[str]) -> Iterator[str]:
    """Yield what the names of images may be: a prompt, a sample, or both."""
    yield "{prompt_id}"
    for word in _words(stems, _NUMBERED):
        if word.strip("_-").lower() not in ("", *_OF_SAMPLES):
            yield f"{word}{{prompt_id}}"
        yield f"{word}{_sample(word)}"
    for between in _words(stems, _SUFFIXED, 2):
        before = {match[1] for stem in stems if (match := _SUFFIXED.fullmatch(stem)) and match[2] == between}
        for word in {"", *(word for word in _words(before, _NUMBERED) if word.strip("_-").lower() not in _OF_SAMPLES)}:
            yield f"{word}{{prompt_id}}{between}{_sample(between)}"
    for word in _words(stems, _PREFIXED):
        for between in _words(stems, _PREFIXED, 3):
            yield f"{word}{_sample(word)}{between}{{prompt_id}}"


def _sample(word: str) -> str:
    return "{seed}" if "seed" in word.lower() else "{sample}"


def _words(names: Iterable[str], form: re.Pattern[str], group: int = 1) -> list[str]:
    """Return what stands at that place of all names; nothing where most have another form or it is not the same."""
    matches = [form.fullmatch(name) for name in names]
    common = Counter(match[group] for match in matches if match).most_common(1)
    return [common[0][0]] if common and 2 * common[0][1] > len(matches) else []
