"""Paths that data name: they stay inside the folder that the data are in, also where links are followed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from titjudge.errors import DataError


def inside(root: Path, name: str, what: str = "image") -> Path:
    """The path of `name` below `root`; it need not exist.

    Args:
        what: what the path is of, for messages.

    Raises:
        DataError: the path or a link on it leads out of the folder, or goes round in a circle; without the path.
    """
    plain = os.path.normpath(name)
    if not name:
        raise DataError(f"the {what} path is empty")
    if "\0" in name or os.path.isabs(plain) or plain.split(os.sep, 1)[0] == os.pardir:
        raise DataError(f"the {what} path leads outside the data folder")
    path = root / plain
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DataError(f"the {what} is a link that leads back to itself") from error
        real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise DataError(f"the {what} is a link that leads outside the data folder: put the file itself there")
    return path
