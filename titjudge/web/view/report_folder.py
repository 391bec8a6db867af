"""The report of a run that `report --folder` wrote: `report/index.html`, and the files that its page loads."""

from __future__ import annotations

import re
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.files import open_regular

_FILE = re.compile(r"\d{4,9}\.js|\d{3,9}/\d{1,9}\.webp", re.ASCII)
TYPES = {".js": "text/javascript", ".webp": "image/webp"}


def index_of(run: Path) -> Path | None:
    """Find the page of the report folder of a run; None if there is none, or it is a link."""
    index = run / "report" / "index.html"
    return index if index.is_file() and _is_itself(index, run) else None


def read_file(folder: Path, name: str) -> bytes | None:
    """Read a file of a report folder, named as its page names it below `files`; None if there is none.

    Names that no report has are refused before the disk is asked, and links are not followed: a folder may come from anybody.
    """
    file = folder / "files" / name
    if not _FILE.fullmatch(name) or not _is_itself(file, folder):
        return None
    try:
        with open_regular(file) as opened:
            return opened.read()
    except (OSError, DataError):
        return None


def _is_itself(file: Path, folder: Path) -> bool:
    """Tell whether no part of a path below a folder is a link."""
    return file.resolve() == folder.resolve() / file.relative_to(folder)
