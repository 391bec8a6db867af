"""Pictures: checked once, identified by the bytes that are sent, read again only when they are sent.

JPEG, PNG and WebP files go out as they are. Anything else (BMP, TIFF, AVIF, animated or palette GIF, CMYK, a picture that
an EXIF tag turns) is converted to PNG. A file that cannot be used is a DataError that names the reason. `open_image` is
the only place where an image file is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from titjudge.core import image_process, parquet
from titjudge.core.errors import DataError
from titjudge.core.types import ImageFile

MAX_BYTES = 50 * 2**20
MAX_PIXELS = 50_000_000
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "AVIF")
"""What is opened, MPO (several JPEGs in one file) included. Pillow knows some 40 more, PostScript among them, which it
hands to another program."""
_AS_IS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
ORIENTATION = 0x0112  # the EXIF tag
_BLOCK = 2**13  # bytes that Pillow decodes at a time; in between other threads run (packed, little may be much)
_SMALL_FILE = 2**18  # bytes that are read and hashed in well under a millisecond
_SMALL_PICTURE = 2**17  # pixels
_LARGE = 2**20  # pixels of a WebP or AVIF that are decoded in another process

T = TypeVar("T")


class _Room:
    """Pixels that may be decoded at the same time over all threads, so that large pictures do not fill the memory."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._free = threading.Condition()

    @contextlib.contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        with self._free:
            self._free.wait_for(lambda: self._held == 0 or self._held + pixels <= self._most)
            self._held += pixels
        try:
            yield
        finally:
            with self._free:
                self._held -= pixels
                self._free.notify_all()


_room = _Room(MAX_PIXELS)


@contextlib.contextmanager
def open_image(raw: bytes | BinaryIO, path: Path, *, decode: bool = True) -> Iterator[Any]:
    """Open a PIL image for as long as the block runs; of the usual formats only, and not of any size.

    Large pictures wait for one another here: do not open a second one inside the block. `decode=False`: only the header
    will be looked at.

    Raises:
        DataError: not an image of these formats, or too many pixels.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(raw) if isinstance(raw, bytes) else raw, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise DataError("the image has far too many pixels (decompression bomb)", path) from error
    except Exception as error:
        raise DataError(f"the file cannot be decoded or is not an image ({type(error).__name__})", path) from error
    with image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise DataError(
                f"the image has {width} x {height} pixels, more than {MAX_PIXELS:,} (decompression bomb?)", path
            )
        image.decodermaxblock = _BLOCK
        large = decode and width * height > _SMALL_PICTURE
        with _room.hold(width * height) if large else contextlib.nullcontext():
            yield image


class Facts(Protocol):
    """Where verdicts on image files are remembered, by content hash: the answer cache, or a dict."""

    def get(self, key: str, /) -> dict[str, Any] | None: ...

    async def put(self, key: str, value: dict[str, Any], /) -> None: ...


class ImageFiles:
    """Opens pictures; each content is decoded once, ever (the verdict is remembered in `facts`).

    With `decode=False` only the header is read: enough for an estimate, not for a verdict.
    """

    def __init__(self, facts: Facts | None = None, *, decode: bool = True) -> None:
        self._facts, self._decode = facts, decode
        self._open: dict[Path, ImageFile] = {}

    async def open(self, path: Path) -> ImageFile:
        """Open the image at `path`.

        Raises:
            DataError: missing, empty, truncated, too large, or not an image.
        """
        if path not in self._open:
            self._open[path] = await self._checked(path)
        return self._open[path]

    def forget(self, path: Path) -> None:
        self._open.pop(path, None)

    async def _checked(self, path: Path) -> ImageFile:
        raw, digest = await _aside(_hashed, path, when=_weight(path) > _SMALL_FILE)
        key = f"image:{digest}"  # the database is asked here and not in a thread: two users would wait for each other
        facts = self._facts.get(key) if self._facts is not None else None
        if facts is None:
            facts = await _aside(_inspected, raw, path, self._decode, when=not _quick(raw, self._decode))
            if self._facts is not None and self._decode:
                await self._facts.put(key, facts)
        verdict = facts
        load: Callable[[], bytes] = lambda: _send(path, digest, verdict)  # noqa: E731
        return ImageFile(facts["sha256"], facts["media_type"], facts["width"], facts["height"], path, load)


async def loaded(picture: ImageFile, change: Callable[[bytes], bytes]) -> bytes:
    """`change` of the bytes of a picture, worked out in a thread unless it is short: the event loop goes on.

    Raises:
        DataError: the file is gone or has changed.
    """
    long = _weight(picture.path) > _SMALL_FILE or picture.width * picture.height > _SMALL_PICTURE
    return await _aside(lambda: change(picture.load()), when=long)


async def _aside(work: Callable[..., T], *args: Any, when: bool, **more: Any) -> T:
    """`work(...)`, in a thread when it is long: a thread for each small picture costs more than the picture."""
    return await asyncio.to_thread(work, *args, **more) if when else work(*args, **more)


def _hashed(path: Path) -> tuple[bytes, str]:
    raw = read(path)
    return raw, hashlib.sha256(raw).hexdigest()


def _weight(path: Path) -> int:
    """Bytes of a file; of one inside of a table what takes a thread, as the table is unpacked."""
    if parquet.holder(path) is not None:
        return _SMALL_FILE + 1
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _quick(raw: bytes, decode: bool) -> bool:
    """Tell whether looking at a picture takes a millisecond or two, by its size in bytes and by what its header says."""
    if len(raw) > _SMALL_FILE or not raw.startswith((b"\xff\xd8", b"\x89PNG", b"RIFF")):
        return False
    if any(packed in raw for packed in (b"zTXt", b"iTXt", b"iCCP")):  # unpacked with the header, to any length
        return False
    if not decode:
        return True
    try:
        with _quietly(), open_image(raw, Path(), decode=False) as image:
            return bool(image.width * image.height <= _SMALL_PICTURE)
    except DataError:  # `inspect` says what is wrong
        return True


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without Pillow's remarks on odd files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read(path: Path) -> bytes:
    """Read the bytes of a file that may be an image.

    Raises:
        DataError: it is missing, not a file, unreadable, empty or over 50 MiB.
    """
    if parquet.holder(path) is not None:
        raw = parquet.read_cell(path)
        _check_size(len(raw), path)
        return raw
    try:
        _check_file(path)
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"the image cannot be read: {error.strerror}", path) from error


def glance(path: Path) -> None:
    """Look at the header of a file that should be an image, and at nothing else of it.

    Raises:
        DataError: it cannot be an image that is used here.
    """
    try:
        in_table = parquet.holder(path) is not None
        if not in_table:
            _check_file(path)
        with (
            io.BytesIO(read(path)) if in_table else path.open("rb") as file,
            _quietly(),
            open_image(file, path, decode=False),
        ):
            pass
    except OSError as error:
        raise DataError(f"the image cannot be read: {error.strerror}", path) from error


def _check_file(path: Path) -> None:
    if not path.is_file():  # opening a pipe or a device may never return
        raise DataError("no such image file" if not path.exists() else "not a file", path)
    _check_size(path.stat().st_size, path)


def _check_size(size: int, path: Path) -> None:
    if size > MAX_BYTES:
        raise DataError(f"the image file has {size / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}", path)
    if not size:
        raise DataError("the image file is empty", path)


def inspect(raw: bytes, path: Path, *, decode: bool = True) -> dict[str, Any]:
    """Decode an image and say what will be sent: media type, size, SHA-256 of the bytes sent, whether converted.

    Raises:
        DataError: not an image, truncated, or too many pixels.
    """
    with _quietly():
        try:
            with open_image(raw, path, decode=decode) as image:
                if decode:
                    image.load()
                turned = image.getexif().get(ORIENTATION, 1) not in (0, 1)
                plain = (
                    image.format in _AS_IS
                    and image.mode != "CMYK"
                    and not turned
                    and not getattr(image, "is_animated", False)
                )
                media_type = _AS_IS[str(image.format)] if plain else "image/png"
                width, height = image.size
                if not plain:
                    raw = _png(image)
                    with open_image(raw, path, decode=False) as sent:
                        width, height = sent.size
        except DataError:
            raise
        except Exception as error:
            reason = "is truncated" if "truncated" in str(error).lower() else "cannot be decoded"
            raise DataError(f"the file {reason} or is not an image ({type(error).__name__})", path) from error
    return {
        "sha256": hashlib.sha256(raw).hexdigest(),
        "media_type": media_type,
        "width": width,
        "height": height,
        "converted": not plain,
    }


def _inspected(raw: bytes, path: Path, decode: bool) -> dict[str, Any]:
    """`inspect`, in the process where it does not stop this one."""
    if decode and _holds_the_lock(raw, path):
        with contextlib.suppress(OSError):
            facts: dict[str, Any] = json.loads(image_process.call("inspect", raw, path))
            return facts
    return inspect(raw, path, decode=decode)


def _holds_the_lock(raw: bytes, path: Path) -> bool:
    """Whether decoding an image would keep all other threads waiting for longer than one notices."""
    if raw[8:12] not in (b"WEBP", b"avif", b"avis", b"mif1"):
        return False
    with _quietly(), open_image(raw, path, decode=False) as image:
        return bool(image.width * image.height > _LARGE)


def eight_bits(image: Any) -> Any:
    """Convert 16 bits a pixel to 8 (PIL's own conversion to RGB would turn it white); leave others as they are."""
    if not image.mode.startswith("I"):
        return image
    return image.convert("I").point(lambda value: value * (1 / 257)).convert("L")


def upright(image: Any) -> Any:
    """Turn a PIL image as its EXIF tag says, with 8 bits a channel, in grey, RGB or RGBA."""
    from PIL import ImageOps

    turned = eight_bits(ImageOps.exif_transpose(image))
    if turned.mode in ("L", "RGB", "RGBA"):
        return turned
    return turned.convert("RGBA" if "transparency" in image.info or turned.mode in ("LA", "PA") else "RGB")


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    upright(image).save(out, "PNG")
    return out.getvalue()


def _send(path: Path, digest: str, facts: dict[str, Any]) -> bytes:
    raw, now = _hashed(path)
    if now != digest:
        raise DataError("the image changed while the run was going on", path)
    if not facts["converted"]:
        return raw
    if _holds_the_lock(raw, path):
        with contextlib.suppress(OSError):
            return image_process.call("png", raw, path)
    return as_png(raw, path)


def as_png(raw: bytes, path: Path) -> bytes:
    """Convert an image to a PNG that every model takes.

    Raises:
        DataError: It cannot be decoded.
    """
    with open_image(raw, path) as image:
        return _png(image)


@dataclass(frozen=True, slots=True)
class Shown:
    """Hashes of the pictures that an item's questions showed, and which of them is the item's own (None: cannot be told)."""

    own: str | None = None
    all: frozenset[str] = frozenset()

    @classmethod
    def of(cls, questions: Sequence[Sequence[str]]) -> Shown:
        if not questions:
            return cls()
        common = frozenset.intersection(*map(frozenset, questions))
        alone = [hashes[0] for hashes in questions if len(hashes) == 1]
        own = next(iter(common)) if len(common) == 1 else alone[0] if alone else None
        return cls(own, frozenset().union(*questions))
