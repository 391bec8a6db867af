"""Paths that data name: they stay inside the folder of the data and the folders of --image-root, links followed too."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from titjudge.core.errors import DataError

_ADDRESS = re.compile(r"(https?|ftp|s3|gs)://", re.IGNORECASE)
_ALLOW = "allow its folder with `judge --image-root DIR`"
_REMEDY = f"copy it there, put the manifest into the folder that holds them all, or {_ALLOW}"


def inside(root: Path, name: str, what: str = "image", roots: Sequence[Path] = ()) -> Path:
    """Find the path of `name` below `root` or one of `roots`; it need not exist. It may be absolute.

    Args:
        root: the folder of the data.
        name: a path as the data name it. A relative one is one below `root`, or below the first of `roots` that has it.
        what: what the path is of, for messages.
        roots: further folders that the user has named.

    Raises:
        DataError: the path or a link on it leads out of these folders, or goes round in a circle; without the path.
    """
    if not name:
        raise DataError(f"the {what} path is empty")
    if _ADDRESS.match(name):
        raise DataError(f"the {what} is a web address: download it into the data folder")
    if "\\" in name and not (root / name).exists():  # as Windows writes paths
        name = name.replace("\\", "/")
    path = None if "\0" in name else _place(root, os.path.normpath(name), roots)
    if path is None:
        raise DataError(f"the {what} path leads outside the data folder: {_REMEDY}")
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"the {what} is a link that leads back to itself") from error
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(f"the {what} path is too long for a file") from error
        real = os.path.realpath(path)
    if not any(_holds(each, real) for each in (root, *roots)):
        raise DataError(
            f"the {what} is a link that leads outside the data folder: put the file itself there, or {_ALLOW}"
        )
    return path


def _holds(folder: Path, real: str) -> bool:
    """Whether a path without links lies in a folder."""
    near = os.path.abspath(folder)
    if os.pardir not in folder.parts and real.startswith(near + os.sep):
        return True  # what a path without links begins with has none: this spares a look at each folder of it
    return Path(real).is_relative_to(os.path.realpath(folder))


def _place(root: Path, name: str, roots: Sequence[Path]) -> Path | None:
    """Find where a normalized path lies, by its name alone; None outside of all folders."""
    if not os.path.isabs(name) and name.split(os.sep, 1)[0] != os.pardir:
        places = [each / name for each in (root, *roots)]
        return next((place for place in places if os.path.lexists(place)), places[0])
    full = os.path.normpath(os.path.join(os.path.abspath(root), name))
    found = ((each, _below(each, full)) for each in (root, *roots))
    return next((each / below for each, below in found if not os.path.isabs(below)), None)


def _below(root: Path, place: str) -> str:
    """Make an absolute path relative to `root`, where it lies below it by name; else return it as it is."""
    for base in (os.path.abspath(root), os.path.realpath(root)):
        if place.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(place, base)
    return place
