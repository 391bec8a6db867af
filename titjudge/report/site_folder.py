"""The folder of a published board: an unchanged file is not written, and an obsolete file is removed if the board made it."""

from __future__ import annotations

import filecmp
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

import orjson

from titjudge.core.errors import DataError
from titjudge.core.files import write_atomic

LISTED = "site.json"
_NEW = ".new"
_PLAIN = re.compile(r"[a-z0-9_-][a-z0-9_.-]{0,59}")
_RESERVED = re.compile(r"(index|con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.|.*-[0-9a-f]{8}")


def slug(name: str) -> str:
    """Make the name of a file from any text: small letters, digits, `-`, `_` and `.`; two texts never share one.

    A text that is such a name itself stays; any other gets eight digits of its SHA-256 at the end.
    """
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "x"
    return f"{plain}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


class SiteFolder:
    """The files of a board, written one by one. Used as a context manager: at its end what is gone is removed.

    Args:
        path: The folder, which is made if it is missing.

    Attributes:
        written, unchanged, removed: Numbers of files.

    Raises:
        DataError: It has content that is not a board.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = self.unchanged = self.removed = 0
        if path.exists() and not path.is_dir():
            raise DataError("--format site writes a folder, but this is a file. Choose another --out", path)
        self._before = self._read()
        self._names: set[str] = set()

    def _read(self) -> set[str]:
        """Read which files an earlier call has made."""
        file = self.path / LISTED
        if not file.is_file():
            if self.path.is_dir() and any(self.path.iterdir()):
                raise DataError("is not a published leaderboard. Choose another --out", self.path)
            return set()
        try:
            names = orjson.loads(file.read_bytes())["files"]
            return {name for name in names if isinstance(name, str) and _is_below(name)}
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise DataError("is damaged. Remove the folder, and write the leaderboard again", file) from error

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_list(self._before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._write_list(self._before | self._names)
            return
        for name in self._before - self._names:
            self._remove(self.path / name)
        self._write_list(self._names)

    def has(self, name: str) -> bool:
        """Whether a file is there already; it is kept then."""
        if not (self.path / name).is_file():
            return False
        self._names.add(name)
        self.unchanged += 1
        return True

    def put(self, name: str, content: bytes) -> None:
        """Write a file, unless it has this content."""
        self._names.add(name)
        file = self.path / name
        if file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content:
            self.unchanged += 1
            return
        write_atomic(file, content)
        self.written += 1

    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file from its pieces, unless it has this content."""
        self._names.add(name)
        file, new = self.path / name, self.path / (name + _NEW)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new.open("wb") as out:
                out.writelines(pieces)
            same = file.is_file() and filecmp.cmp(file, new, shallow=False)
            self.unchanged, self.written = self.unchanged + same, self.written + (not same)
            if not same:
                new.replace(file)
        finally:
            new.unlink(missing_ok=True)

    def _remove(self, file: Path) -> None:
        """Remove a file of the board, and the folders that are empty then; never through a link."""
        if any(part.is_symlink() for part in (file, *file.parents) if self.path in part.parents) or not file.is_file():
            return
        file.unlink()
        self.removed += 1
        for folder in file.parents:
            if folder == self.path or any(folder.iterdir()):
                break
            folder.rmdir()

    def _write_list(self, names: set[str]) -> None:
        content = orjson.dumps({"made_by": "titjudge", "files": sorted(names)}, option=orjson.OPT_INDENT_2)
        file = self.path / LISTED
        if not file.is_file() or file.read_bytes() != content:
            write_atomic(file, content)


def _is_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and name != "."
