"""Image files: checked once, identified by the hash of the bytes that are sent, read again only when they are sent.

A small file is kept until then. JPEG, PNG and WebP files are sent as they are. Anything else (BMP, TIFF, AVIF, GIF,
animations, CMYK, grey of 16 bits, an image that an EXIF tag rotates) is converted to PNG. So is a transparent image, which is
laid on white. For a file that cannot be used, a DataError names the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import Any, Protocol, TypeVar

from titjudge.core.cells import check_size
from titjudge.core.errors import DataError, file_fault
from titjudge.core.types import ImageFile, Json
from titjudge.data import containers, image_process
from titjudge.data.image_decoding import (
    SMALL,
    as_png,
    inspect,
    inspect_by_header,
    inspect_small,
    open_image,
    quietly,
    resized,
)

SUFFIXES = frozenset(".jpg .jpeg .png .webp .gif .bmp .tif .tiff .avif".split())
UNREAD_SUFFIXES = frozenset({".heic", ".heif", ".jxl", ".jp2"})
"""Endings of images that titjudge finds but cannot read."""
_KEPT = 2**16  # bytes of a file that are kept from its inspection until it is sent
_SMALL_FILE = 2**18  # bytes that are read and hashed in well under a millisecond
# Pixels above which an image is decoded in another process: freeing their memory alone takes milliseconds.
_LARGE = 2**22
_LARGE_AT_ONCE = 2**20  # the same for a WebP or AVIF, which one call decodes while no other thread runs

T = TypeVar("T")
_held: dict[Path, tuple[bytes, str]] = {}  # contents in memory and their SHA-256, by the paths that stand for them


def hold(path: Path, raw: bytes, sha256: str) -> None:
    """Take the content of an image from memory from now on, until `let_go`; there need be no such file."""
    _held[path] = raw, sha256


def let_go(path: Path) -> None:
    """Release a file that `hold` has kept."""
    _held.pop(path, None)


class Facts(Protocol):
    """A store of what `inspect` found out about images, by the hash of their files; the answer cache is one."""

    def get(self, key: str, /) -> Json | None:
        """Return the facts stored under a key; None if there are none."""
        ...

    def later(self, key: str, value: Json, /) -> None:
        """Store facts without waiting until they are on disk; `get` returns them at once."""
        ...


class ImageFiles:
    """Opens images, and checks each file once.

    Args:
        facts: Keeps the results of checks, so that later runs need not decode the same files again.
        decode: Whether pixels are decoded; without it only headers are read, which is enough for an estimate.
    """

    def __init__(self, facts: Facts | None = None, *, decode: bool = True) -> None:
        self._facts, self._decode = facts, decode
        self._open: dict[Path, ImageFile] = {}

    async def open(self, path: Path) -> ImageFile:
        """Open the image at `path`.

        Raises:
            DataError: The file is missing, empty, truncated, too large, or not an image.
        """
        if path not in self._open:
            self._open[path] = await self._checked(path)
        return self._open[path]

    def forget(self, path: Path) -> None:
        self._open.pop(path, None)

    async def _checked(self, path: Path) -> ImageFile:
        """Read, hash and inspect an image file; what `facts` knows of its content is not found out again."""
        raw, digest = await _in_thread(_hashed, path, when=_weight(path) > _SMALL_FILE)
        key = f"image 2:{digest}"  # 2: transparent images are laid on white
        facts = inspect_by_header(raw, digest) if self._decode and _quick(raw) else None  # quicker than the database
        if facts is None and self._facts is not None:
            # The database is read here and not in a thread, where two users of it would wait for each other.
            facts = self._facts.get(key)
        if facts is None:
            facts = await _inspect(raw, path, digest, decode=self._decode)
            if self._facts is not None and self._decode:
                self._facts.later(key, facts)
        load: Callable[[], bytes] = partial(_bytes_to_send, path, digest, facts)
        if not facts["converted"] and (len(raw) <= _KEPT or path in _held):
            load = BytesInMemory(raw)
        return ImageFile(facts["sha256"], facts["media_type"], facts["width"], facts["height"], path, load)


@dataclass(frozen=True, slots=True)
class BytesInMemory:
    """Loads bytes that are in memory."""

    raw: bytes

    def __call__(self) -> bytes:
        return self.raw


async def _inspect(raw: bytes, path: Path, digest: str, *, decode: bool) -> Json:
    """Inspect an image, in a thread unless that is quick."""
    if _quick(raw) and (facts := inspect_small(raw, path, digest, decode=decode)) is not None:
        return facts
    return await asyncio.to_thread(_inspected, raw, path, digest, decode=decode)


async def loaded(image: ImageFile, change: Callable[[bytes], bytes]) -> bytes:
    """Load the bytes of an image and apply `change` to them, in a thread unless that is quick.

    Raises:
        DataError: The file is gone or has changed.
    """
    if isinstance(image.load, BytesInMemory):
        slow = len(image.load.raw) > _SMALL_FILE
    else:
        slow = _weight(image.path) > _SMALL_FILE or image.width * image.height > SMALL
    return await _in_thread(lambda: change(image.load()), when=slow)


async def _in_thread(work: Callable[..., T], *args: Any, when: bool) -> T:
    """Call `work`, in a thread `when` it is slow: a thread for each small image costs more than the image."""
    return await asyncio.to_thread(work, *args) if when else work(*args)


def _hashed(path: Path) -> tuple[bytes, str]:
    held = _held.get(path)
    raw = read(path)
    if held is not None and raw is held[0]:
        return held
    return raw, hashlib.sha256(raw).hexdigest()


def _weight(path: Path) -> int:
    """Return the size of a file in bytes; for an image inside a table, which must be unpacked, the size of a large one."""
    if path in _held:
        return 0  # there is nothing to read
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0 if containers.holder(path) is None else _SMALL_FILE + 1


def _quick(raw: bytes) -> bool:
    """Return True if an image of few pixels can be inspected in one or two milliseconds, by its bytes."""
    if len(raw) > _SMALL_FILE or not raw.startswith((b"\xff\xd8", b"\x89PNG", b"RIFF")):
        return False
    # Compressed chunks in the header of a PNG may unpack to any length.
    return not raw.startswith(b"\x89PNG") or not (b"zTXt" in raw or b"iTXt" in raw or b"iCCP" in raw)


def read(path: Path) -> bytes:
    """Read the bytes of an image file.

    Raises:
        DataError: It is missing, not a file, unreadable, empty or over 50 MiB.
    """
    try:
        if held := _held.get(path):
            check_size(len(held[0]), path)
            return held[0]
        if _is_file(path):
            return path.read_bytes()
        raw = containers.read_cell(path)
    except OSError as error:
        raise DataError(f"the image cannot be read: {file_fault(error)}", path) from error
    check_size(len(raw), path)
    return raw


def check_header(path: Path) -> None:
    """Check an image file by its header alone.

    Raises:
        DataError: It cannot be used.
    """
    try:
        with (
            path.open("rb") if _is_file(path) else io.BytesIO(read(path)) as file,
            quietly(),
            open_image(file, path, decode=False),
        ):
            pass
    except OSError as error:
        raise DataError(f"the image cannot be read: {file_fault(error)}", path) from error


def _is_file(path: Path) -> bool:
    """Return True if an image is a separate file, not part of another one.

    Raises:
        DataError: It is neither, or the file is empty or over 50 MiB.
    """
    try:
        stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        if containers.holder(path) is None:
            raise DataError("no such image file. Correct the path", path) from None
        return False
    if not S_ISREG(stat.st_mode):  # opening a pipe or a device may never return
        raise DataError("not a file. Give the path of an image", path)
    check_size(stat.st_size, path)
    return True


def _inspected(raw: bytes, path: Path, digest: str, *, decode: bool) -> Json:
    """Inspect an image; a large one in the process for large images."""
    if decode and _stops_the_loop(raw, path):
        with contextlib.suppress(OSError):
            facts: Json = json.loads(image_process.call("inspect", raw, path))
            return facts
    return inspect(raw, path, decode=decode, sha256=digest)


def _stops_the_loop(raw: bytes, path: Path) -> bool:
    """Return True if decoding an image, even in a thread, would block the event loop for a noticeable time."""
    most = _LARGE_AT_ONCE if raw[8:12] in (b"WEBP", b"avif", b"avis", b"mif1") else _LARGE
    with quietly(), open_image(raw, path, decode=False) as image:
        return bool(image.width * image.height > most)


def _bytes_to_send(path: Path, digest: str, facts: Json) -> bytes:
    raw, now = _hashed(path)
    if now != digest:
        raise DataError("the image changed during the run. Run the command again", path)
    if not facts["converted"]:
        return raw
    if _stops_the_loop(raw, path):
        with contextlib.suppress(OSError):
            return image_process.call("png", raw, path)
    return as_png(raw, path)


def scaled(raw: bytes, path: Path, size: tuple[int, int], *, jpeg: bool = True) -> bytes:
    """Resize an image (as `image_decoding.resized`); a large one in the process for large images.

    Raises:
        DataError: It cannot be decoded.
    """
    if _stops_the_loop(raw, path):
        with contextlib.suppress(OSError):
            return image_process.call(f"{'scaled' if jpeg else 'squashed'} {size[0]} {size[1]}", raw, path)
    return resized(raw, path, size, jpeg=jpeg)


_FIRST_LOOKS = ("agent/inventory", "agent/see")  # show the image first, and then its parts


@dataclass(frozen=True, slots=True)
class RequestImages:
    """The images that an item's requests have shown to models.

    Attributes:
        judged: SHA-256 of the image that the item is about; None if the requests do not distinguish it from the others.
        all: SHA-256 of every image that was shown.
    """

    judged: str | None = None
    all: frozenset[str] = frozenset()

    @classmethod
    def from_requests(cls, requests: Sequence[tuple[str, Sequence[str]]]) -> RequestImages:
        """Find the judged image: the first one of an agent, otherwise the only one in all requests, or one shown alone.

        Args:
            requests: Name of the template and hashes of the images of each request, in the order in which they were sent.
        """
        with_images = [(template, hashes) for template, hashes in requests if hashes]
        if not with_images:
            return cls()
        sets = [frozenset(hashes) for _, hashes in with_images]
        common = frozenset.intersection(*sets)
        candidates = [hashes[0] for template, hashes in with_images if template in _FIRST_LOOKS]
        candidates += common if len(common) == 1 else [hashes[0] for _, hashes in with_images if len(hashes) == 1]
        return cls(candidates[0] if candidates else None, frozenset().union(*sets))
