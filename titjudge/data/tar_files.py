"""WebDataset archives (.tar, .tar.gz): files of one name with different endings are a row; images are read in place."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from titjudge.core import gzip_files
from titjudge.core.cells import IMAGE_ENDINGS, ImageCell
from titjudge.core.errors import DataError, file_fault
from titjudge.core.files import open_regular
from titjudge.core.types import Json
from titjudge.data.data_paths import is_stray

SUFFIX = ".tar"
PACKED = ".tar.gz"
SUFFIXES = (SUFFIX, PACKED, ".tgz")
MAGIC = b"ustar"
_TEXT = 2**20  # most bytes of a text or JSON file


def columns(path: Path) -> tuple[str, ...] | None:
    """Return None: rows may have different columns."""
    return None


def rows(path: Path, required: tuple[str, ...] = ()) -> Iterator[tuple[int, Json | DataError]]:
    """Yield number, from 1, and record of every sample; for a bad one the DataError that describes it.

    `a/7.png` and `a/7.txt` are one sample. The image is the column `image`, or, if the ending has several parts
    (`7.flux.png`), the column of that name (`flux`); `.txt` is the column `txt`, and the keys of `.json` are columns.

    Raises:
        DataError: It cannot be read as an archive, or is damaged.
    """
    record: Json = {}
    problem = key = ""
    number = 0
    try:
        with _source(path) as source, tarfile.open(path, "r:", fileobj=source) as archive:
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # else it would keep all members in memory
                if not member.isfile() or any(map(is_stray, PurePosixPath(member.name).parts)):
                    continue
                stem, ending = _split(member.name)
                if stem != key:
                    if record or problem:
                        number += 1
                        yield number, _checked(record, problem, required, path, number)
                    record, problem, key = {}, "", stem
                problem = problem or _add(record, archive, member, ending, path)
            _check_end(archive, path)
        if record or problem:
            yield number + 1, _checked(record, problem, required, path, number + 1)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"cannot be read as a tar archive: {file_fault(error)}", path) from error


def _source(path: Path) -> AbstractContextManager[Any]:
    """Open an archive that is compressed, known by its content; None for one that is not."""
    with open_regular(path) as file:
        packed = file.read(2) == gzip_files.MAGIC
    return closing(gzip_files.GzipReader(path)) if packed else nullcontext()


def _check_end(archive: Any, path: Path) -> None:
    """Check that the archive ends where `tarfile` found no further member: it takes a damaged header for the end.

    Raises:
        DataError: It does not end there.
    """
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(512).strip(b"\0"):
        raise DataError(
            f"cannot be read as a tar archive: the header at byte {archive.offset:,} is damaged. Copy it again", path
        )


def read(archive: Any, file: Path, offset: str, size: int) -> bytes:
    """Read an image of `size` bytes from an offset on, from an archive that is open.

    Raises:
        DataError: The archive does not have them.
    """
    try:
        archive.seek(int(offset))
        content: bytes = archive.read(size)
    except (OSError, OverflowError, ValueError) as error:
        raise DataError(f"its content at byte {offset} cannot be read. Copy the archive again", file) from error
    if len(content) < size:
        raise DataError("the archive ends within the image. Copy it again", file)
    return content


def _split(name: str) -> tuple[str, str]:
    """Split the path of a member at the first dot of its file name."""
    place = PurePosixPath(name)
    stem, _, ending = place.name.partition(".")
    return str(place.with_name(stem)) if stem else name, ending


def _add(record: Json, archive: Any, member: Any, ending: str, path: Path) -> str:
    """Add a member to the record of its sample; return its fault, or an empty string."""
    column, _, last = ending.rpartition(".")
    kind = f".{last.lower()}"
    if kind in IMAGE_ENDINGS:
        cell = ImageCell(path / str(member.offset_data), member.size, member.name)
        if member.issparse() or isinstance(record.get(column or "image"), ImageCell):
            return f"'{member.name}' is {'a sparse file' if member.issparse() else 'a second image of its sample'}"
        record[column or "image"] = cell
    elif kind in (".txt", ".json"):
        if member.size > _TEXT:
            return f"'{member.name}' has {member.size / 2**20:.1f} MiB of text, more than 1"
        raw = archive.extractfile(member).read()
        try:
            if kind == ".txt":
                record[column or "txt"] = raw.decode("utf-8-sig").strip()
            elif not isinstance(keys := orjson.loads(raw), dict):
                return f"'{member.name}' is not a JSON object"
            else:
                record.update(
                    {name: value for name, value in keys.items() if not isinstance(record.get(name), ImageCell)}
                )
        except ValueError:
            return f"'{member.name}' cannot be read: it must be UTF-8 text or JSON"
    return ""


def _checked(record: Json, problem: str, required: tuple[str, ...], path: Path, number: int) -> Json | DataError:
    absent = [name for name in required if name not in record]
    if not problem and absent:
        problem = f"the column '{absent[0]}' is missing (there are: {', '.join(record)}). Add it"
    return DataError(problem, path, number) if problem else record
