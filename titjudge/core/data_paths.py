"""Paths that data name: they stay inside the folder that the data are in, also where links are followed."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from titjudge.core.errors import DataError

_ADDRESS = re.compile(r"(https?|ftp|s3|gs)://", re.IGNORECASE)
_REMEDY = "copy it there, or put the manifest into the folder that holds them all"


def inside(root: Path, name: str, what: str = "image") -> Path:
    """Find the path of `name` below `root`; it need not exist. An absolute one that lies below `root` is as good.

    Args:
        root: the folder of the data.
        name: a path as the data name it.
        what: what the path is of, for messages.

    Raises:
        DataError: the path or a link on it leads out of the folder, or goes round in a circle; without the path.
    """
    if not name:
        raise DataError(f"the {what} path is empty")
    if _ADDRESS.match(name):
        raise DataError(f"the {what} is a web address: download it into the data folder")
    if "\\" in name and not (root / name).exists():  # as Windows writes paths
        name = name.replace("\\", "/")
    plain = os.path.normpath(name)
    if os.path.isabs(plain) and "\0" not in name:
        plain = _below(root, plain)
    if "\0" in name or os.path.isabs(plain) or plain.split(os.sep, 1)[0] == os.pardir:
        raise DataError(f"the {what} path leads outside the data folder: {_REMEDY}")
    path = root / plain
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"the {what} is a link that leads back to itself") from error
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(f"the {what} path is too long for a file") from error
        real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise DataError(f"the {what} is a link that leads outside the data folder: put the file itself there")
    return path


def _below(root: Path, place: str) -> str:
    """Make an absolute path relative to `root`, where it lies below it by name; else return it as it is."""
    for base in (os.path.abspath(root), os.path.realpath(root)):
        if place.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(place, base)
    return place
