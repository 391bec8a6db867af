"""Check paths in data: they must stay in the data folder or the folders of --image-root, with links resolved."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.names import plain

_ADDRESS = re.compile(r"(https?|ftp|s3|gs)://", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:(/|[^/]*$)")
_OF_WINDOWS = "path begins with a drive or server of Windows: write it relative to the data folder, with its file there"
_ALLOW = "allow its folder with `judge --image-root DIR`"
_REMEDY = f"copy it there, put the manifest into their common parent folder, or {_ALLOW}"


_STRAYS = frozenset(
    "thumbs.db ehthumbs.db desktop.ini __macosx @eadir $recycle.bin #recycle #snapshot lost+found".split()
)


_STATE = frozenset({".generate", ".made"})  # of `generate` and `probe images`


def is_stray(name: str) -> bool:
    """Return True for the name of a hidden file or folder, or of one that an operating system leaves among the files of people."""
    return name.startswith(".") or name.lower() in _STRAYS


def files_below(folder: Path) -> list[Path]:
    """List the files in a folder and below it, by path, without hidden ones and files of an operating system."""
    return sorted(Path(place, name) for place, names, _ in _walked(folder) for name in names)


def strays_below(folder: Path) -> list[Path]:
    """List what `files_below` skips, by path; a folder counts once, and the folders of titjudge's own state do not."""
    return sorted(Path(place, name) for place, _, names in _walked(folder) for name in names - _STATE)


def _walked(folder: Path) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield each folder, from this one down, with its files and its strays; stray folders are not entered."""
    for place, folders, files in os.walk(folder):
        strays = {*filter(is_stray, folders + files)}
        folders[:] = [name for name in folders if name not in strays]
        yield place, {*files} - strays, strays


def real_name(place: Path) -> Path:
    """Return the path of an existing file whose names differ from the names in `place` only as `plain` allows.

    A Mac writes "é" as two characters, most lists as one. If there is no such file, return `place` unchanged.
    """
    if os.path.lexists(place) or place.parent == place:
        return place
    parent = real_name(place.parent)
    try:
        names = _names_in(parent, os.stat(parent).st_mtime_ns)
    except (OSError, ValueError):
        return place
    return parent / names.get(plain(place.name), place.name)


@lru_cache(1_000)
def _names_in(folder: Path, _changed: int) -> dict[str, str]:
    """Return the names in a folder by their plain form; of several with the same one, the first."""
    return {plain(name): name for name in sorted(os.listdir(folder), reverse=True)}


def inside(root: Path, name: str, what: str = "image", roots: Sequence[Path] = ()) -> Path:
    """Return the path of `name` below `root` or one of `roots`; it need not exist.

    Args:
        root: The data folder.
        name: A path in the data. A relative one is looked for below `root`, then below each of `roots`.
        what: The kind of file, for messages.
        roots: Further folders that the user allows.

    Raises:
        DataError: The path, or a link on it, leads out of these folders, or a link leads back to itself; the message
            does not repeat the path.
    """
    if not name:
        raise DataError(f"the {what} path is empty. Give a file")
    if _ADDRESS.match(name):
        raise DataError(f"the {what} is a web address. Download it into the data folder")
    if "\\" in name and not (root / name).exists():  # as Windows writes paths
        if name.startswith("\\\\"):
            raise DataError(f"the {what} {_OF_WINDOWS}")
        name = name.replace("\\", "/")
    if _DRIVE.match(name) and not (root / name).exists():
        raise DataError(f"the {what} {_OF_WINDOWS}")
    path = None if "\0" in name else _place(root, os.path.normpath(name), roots)
    if path is None:
        raise DataError(f"the {what} path leads outside the data folder: {_REMEDY}")
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"the {what} is a link to itself. Replace it with the file") from error
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(f"the {what} path is too long for a file. Shorten it") from error
        real = os.path.realpath(path)
    if not any(_holds(folder, real) for folder in (root, *roots)):
        raise DataError(f"the {what} is a link that leads outside the data folder. Copy the file there, or {_ALLOW}")
    return path


def _holds(folder: Path, real: str) -> bool:
    """Return True if a path without links lies in a folder."""
    absolute = os.path.abspath(folder)
    if os.pardir not in folder.parts and real.startswith(absolute + os.sep):
        return True  # the beginning of a path without links has none either: no need to resolve the folder
    return Path(real).is_relative_to(os.path.realpath(folder))


def _place(root: Path, name: str, roots: Sequence[Path]) -> Path | None:
    """Place a normalized path below one of the folders, by its name alone; None when it is outside of all."""
    if not os.path.isabs(name) and name.split(os.sep, 1)[0] != os.pardir:
        places = [folder / name for folder in (root, *roots)]
        return next((real for place in places if os.path.lexists(real := real_name(place))), places[0])
    full = os.path.normpath(os.path.join(os.path.abspath(root), name))
    relative = ((folder, relative_below(folder, full)) for folder in (root, *roots))
    return next((real_name(folder / below) for folder, below in relative if not os.path.isabs(below)), None)


def relative_below(root: Path, place: str) -> str:
    """Make an absolute path relative to `root` if it lies below it by name; otherwise return it unchanged."""
    for base in (os.path.abspath(root), os.path.realpath(root)):
        if place.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(place, base)
    return place
