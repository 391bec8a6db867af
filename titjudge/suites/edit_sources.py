"""Source images of edits in a suite: where a suite expects them, and which belong to an item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import ConfigError, DataError
from titjudge.data.data_paths import inside
from titjudge.data.images import SUFFIXES
from titjudge.suites.patterns import split_pattern
from titjudge.suites.prompt_places import filled


def find_sources(
    folder: Path, patterns: Sequence[str], values: Mapping[str, Any], roots: Sequence[Path] = (), named: str = ""
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
        folder, pattern = split_pattern(named)
        if not folder.is_dir():
            raise ConfigError(f"--suite-option sources={named}: {folder} is no folder")
        patterns = [pattern]
    for pattern in patterns:
        files = [_existing(folder, path, roots) for path in source_paths(pattern, values)]
        existing = [file for file in files if file is not None]
        if existing and len(existing) == len(files):
            return tuple(existing)
    expected = " or ".join(dict.fromkeys(path for pattern in patterns for path in source_paths(pattern, values)))
    raise DataError(f"its source image is missing: expected {expected}, or say --suite-option sources=PATTERN")


def find_reference(folder: Path, pattern: str, values: Mapping[str, Any], roots: Sequence[Path] = ()) -> Path | None:
    """Find the image of the right result of an edit; none where its prompt names none.

    Args:
        folder: The data folder.
        pattern: Its path, with fields in braces.
        values: The fields of the image and of its prompt.
        roots: Further folders in which images may lie.

    Raises:
        DataError: It is not there.
    """
    if not pattern or not all(values.get(name) for name in re.findall(r"\{(\w+)\}", pattern)):
        return None
    name = filled(pattern, values)
    if (file := _existing(folder, name, roots)) is None:
        raise DataError(f"the image of the right result is missing: {name}")
    return file


def source_paths(pattern: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that a pattern means: one for each entry of a field that is a list."""
    used = re.findall(r"\{(\w+)\}", pattern)
    lists = [name for name in used if isinstance(values.get(name), list)]
    if not lists:
        yield filled(pattern, values)
        return
    for entry in values[lists[0]]:
        yield filled(pattern, {**values, lists[0]: entry})


def _existing(folder: Path, path: str, roots: Sequence[Path]) -> Path | None:
    """Return an image file by its path, with any ending where the path has none; None where there is no such file."""
    endings = ("",) if Path(path).suffix.lower() in SUFFIXES else sorted(SUFFIXES)
    places = (inside(folder, f"{path}{ending}", "source image", roots) for ending in endings)
    return next((place for place in places if place.is_file()), None)
