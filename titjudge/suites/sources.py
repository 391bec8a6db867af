"""Find the images that an edit was made from: in the columns of a table, by a pattern of paths, or beside the result."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import orjson

from titjudge.core.cells import version
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.types import Json, Values
from titjudge.data import containers
from titjudge.data.data_paths import inside
from titjudge.data.images import SUFFIXES, read
from titjudge.suites.patterns import fields_of, filled, named_pattern, split_pattern

BESIDE = "_SRCIMG"
"""Ending of the name of a source beside its result, as GEdit-Bench has it: `7.png` and `7_SRCIMG.png`."""
SOURCES = tuple("source_image source_img input_image original_image ori_img source_images input_images".split())
"""Columns that have sources, at any position."""
_LOOSE_SOURCES = ("source", "sources", "original", "src", "input", "before")
_RESULTS = ("edited_image", "edited_img", "edited", "output_image", "output_img")
_LOOSE_RESULTS = ("target_image", "target_img", "after", "result", "output", "target")
INSTRUCTIONS = ("instruction", "edit_instruction", "edit_prompt", "instruct_prompt", "ins_en")
_LOOSE_INSTRUCTIONS = ("edit",)
_MASKS = ("mask_img", "mask_image", "mask")
_Names = Mapping[str, Sequence[str]]


def edit_columns(there: Sequence[str], named: _Names, usual: _Names) -> dict[str, list[str]]:
    """Choose the columns of a table of edits by their names; empty if these do not show that it is one.

    A name that is clear counts anywhere. One that is not, such as `input` or `after`, counts only in a table that has no usual
    column of images or of prompts, and so could not be read otherwise.

    Args:
        there: The columns that it has.
        named: Columns that the user has named, by their content.
        usual: Usual names of the columns of any table, by their content.
    """
    images, prompts = _among(usual["image"], there), _among(usual["prompt"], there)
    results, instructions = _among(_RESULTS + _LOOSE_RESULTS, there), _among(INSTRUCTIONS + _LOOSE_INSTRUCTIONS, there)
    sources = _among(SOURCES, _without_numbers(there))
    if not sources and not (images and prompts) and (results or instructions):
        sources = _among(_LOOSE_SOURCES, _without_numbers(there)) or (images if results else [])
    source = list(named.get("source", ())) or _with_numbers(sources[:1], there)
    if not source:
        return {}
    chosen = {
        "image": _among((*_RESULTS, *usual["image"], *_LOOSE_RESULTS), [name for name in there if name not in source]),
        "prompt": _among((*INSTRUCTIONS, *usual["prompt"], *_LOOSE_INSTRUCTIONS), there),
        "mask": _among(_MASKS, there),
    }
    return {"source": source, **{role: list(named.get(role, names[:1])) for role, names in chosen.items()}}


def is_edit(columns: _Names) -> bool:
    """Return True if the names of chosen columns show that every row is an edit, so that each must have its source."""
    return not {*columns["image"], *columns["prompt"]}.isdisjoint(
        (*_RESULTS, *_LOOSE_RESULTS, *INSTRUCTIONS, *_LOOSE_INSTRUCTIONS)
    )


def _among(names: Iterable[str], there: Iterable[str]) -> list[str]:
    """Return the names among `names` that are in `there`, in the order of `names`."""
    available = set(there)
    return [name for name in names if name in available]


def _without_numbers(names: Iterable[str]) -> list[str]:
    return [re.sub(r"_?[0-9]{1,2}$", "", name) for name in names]


def _with_numbers(base: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return a column and the columns of the same name with a number, such as `input_image`, `input_image_2`, in order."""
    pattern = re.compile(rf"{re.escape(base[0])}_?([0-9]{{1,2}})" if base else "(?!)")
    numbered = sorted((int(match[1]), name) for name in there if (match := pattern.fullmatch(name)))
    return [*_among(base, there), *(name for _, name in numbered)]


def names_of(cell: object) -> list[object]:
    """Return the sources in a cell: several of a list, also of one as JSON text, which CSV files have."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        try:
            cell = orjson.loads(cell)
        except orjson.JSONDecodeError:
            return [cell]
    return list(cell) if isinstance(cell, list) else [cell]


def named_sources(row: Values, folder: Path, roots: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Return the sources that a line of a list of prompts names, in order; `source` counts if it names images.

    Args:
        row: The line.
        folder: That of the list: paths are relative to it.
        roots: Further folders in which the images may lie.

    Raises:
        DataError: One is not a path, or leads elsewhere.
    """
    cells = [cell for column in source_columns(row) for cell in names_of(row[column]) if cell]
    if wrong := [cell for cell in cells if not isinstance(cell, str)]:
        raise DataError(must_be("the source", "a path", wrong[0]))
    return tuple(inside(folder, str(cell), "source", roots) for cell in cells)


def without_named_sources(row: Values) -> Json:
    """Return a line of a list of prompts without the columns of its sources."""
    columns = source_columns(row)
    return {name: value for name, value in row.items() if name not in columns}


def source_columns(row: Values) -> list[str]:
    """Choose the columns of sources; `source` is one only if it names images."""
    found = _among(SOURCES, _without_numbers(row)) or [
        name
        for name in ("source", "sources")
        if name in row
        and all(isinstance(cell, str) and Path(cell).suffix.lower() in SUFFIXES for cell in names_of(row[name]))
    ]
    return _with_numbers(found[:1], list(row)) if found else []


def beside(image: Path) -> tuple[Path, ...]:
    """Return the source that lies beside a result; none if there is none."""
    place = image.with_name(f"{image.stem}{BESIDE}.png")
    return (place,) if place.is_file() else ()


def without_sources(images: Sequence[Path]) -> list[Path]:
    """Leave out the sources that lie beside results: they are not results themselves."""
    if not any(path.stem.endswith(BESIDE) for path in images):
        return list(images)
    results = {path.with_suffix("") for path in images}
    sources = {result.with_name(result.name + BESIDE) for result in results}
    return [path for path in images if path.with_suffix("") not in sources]


def content_name(source: Path) -> str:
    """Name a source by its content (16 hexadecimal digits), so that it is the same in every copy; by its path if unreadable."""
    try:
        return _digest(source, version(containers.holder(source) or source))
    except (DataError, ValueError):  # ValueError: a null character in the path
        return str(source)


@lru_cache(100_000)
def _digest(source: Path, _version: tuple[int, int]) -> str:
    return hashlib.sha256(read(source)).hexdigest()[:16]


class SourcePattern:
    """The place of the source of a result: a path with fields of the pattern of results, such as `src/{prompt_id}.png`.

    Without an ending, any ending of an image will do.

    Args:
        pattern: From the data folder or, if nothing is there, from the working directory.
        fields: The fields that results have.
        root: The data folder.

    Raises:
        ConfigError: It has a field that results do not have, or begins with no folder.
    """

    def __init__(self, pattern: str, fields: Iterable[str], root: Path) -> None:
        unknown = {*fields_of(pattern)} - {*fields, "prompt_id"}
        if unknown:
            raise ConfigError(f"--sources '{pattern}': --images has no field {{{min(unknown)}}}. Remove it")
        top, self._below = split_pattern(pattern)
        self._pattern = pattern
        if not self._below or not any(place.is_dir() for place in (root / top, top)):
            raise ConfigError(must_be("--sources", "a folder with a field below it, such as in/{prompt_id}", pattern))
        self._top = root / top if (root / top).is_dir() else top

    def find(self, fields: Mapping[str, str], prompt_id: str, roots: Sequence[Path]) -> Path:
        """Return the source of a result.

        Args:
            fields: Those of the path of the result.
            prompt_id: The id of its prompt, which its path may write with leading zeros.
            roots: Further folders to which links may lead.

        Raises:
            DataError: There is none, or several of the same name.
        """
        names = [
            filled(self._below, {**fields, "prompt_id": name})
            for name in dict.fromkeys((fields["prompt_id"], prompt_id))
        ]
        for name in names:
            files = existing_images(self._top, name, roots)
            if len(files) > 1:
                raise DataError(f"two sources fit: {files[0].name} and {files[1].name}. Remove one")
            if files:
                return files[0]
        raise DataError(f"the source '{names[0]}' is missing (--sources '{self._pattern}'). Add it")


def find_sources(
    folder: Path, patterns: Sequence[str], values: Values, roots: Sequence[Path] = (), named: str = ""
) -> tuple[Path, ...]:
    """Find the images that an edit was made from, by the first pattern for which there are some.

    Args:
        folder: The data folder.
        patterns: Paths below it with fields in braces, with or without ending; a field that is a list means several images.
        values: The fields of the image and of its prompt.
        roots: Further folders in which images may lie.
        named: A pattern that the user has named instead, from the working directory.

    Raises:
        ConfigError: The pattern that the user has named begins with no folder.
        DataError: No pattern fits, or a path leads out of the folder.
    """
    if named:
        folder, pattern = named_pattern("sources", named)
        patterns = [pattern]
    for pattern in patterns:
        files = [existing_images(folder, path, roots) for path in source_paths(pattern, values)]
        if files and all(files):
            return tuple(endings[0] for endings in files)
    expected = " or ".join(dict.fromkeys(path for pattern in patterns for path in source_paths(pattern, values)))
    raise DataError(f"the source image is missing. Add {expected}, or --suite-option sources=PATTERN")


def find_reference(folder: Path, pattern: str, values: Values, roots: Sequence[Path] = ()) -> Path | None:
    """Find the image of the right result of an edit; none if its prompt names none.

    Args:
        folder: The data folder.
        pattern: Its path, with fields in braces.
        values: The fields of the image and of its prompt.
        roots: Further folders in which images may lie.

    Raises:
        DataError: It is not there.
    """
    if not pattern or not all(values.get(name) for name in fields_of(pattern)):
        return None
    name = filled(pattern, values)
    if not (files := existing_images(folder, name, roots)):
        raise DataError(f"the image of the right result is missing. Add {name}")
    return files[0]


def source_paths(pattern: str, values: Values) -> Iterator[str]:
    """Yield the paths that a pattern means: one for each entry of a field that is a list."""
    lists = [name for name in fields_of(pattern) if isinstance(values.get(name), list)]
    if not lists:
        yield filled(pattern, values)
        return
    for entry in values[lists[0]]:
        yield filled(pattern, {**values, lists[0]: entry})


def existing_images(folder: Path, name: str, roots: Sequence[Path] = ()) -> list[Path]:
    """List the image files of a name: the one with its ending, or if it has none, the files with any ending of an image.

    Raises:
        DataError: The path, or a link on it, leads out of the folder and the `roots`.
    """
    endings = ("",) if Path(name).suffix.lower() in SUFFIXES else sorted(SUFFIXES)
    places = (inside(folder, f"{name}{ending}", "source image", roots) for ending in endings)
    return [place for place in places if place.is_file()]
