"""Pictures: checked once, identified by the bytes that are sent, read again only when they are sent.

JPEG, PNG and WebP files go out as they are. Anything else (BMP, TIFF, animated or palette GIF, CMYK, a picture that an
EXIF tag turns) is converted to PNG. A file that cannot be used is a DataError that names the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from titjudge.errors import DataError
from titjudge.types import Picture

MAX_BYTES = 50 * 2**20
MAX_PIXELS = 100_000_000
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
_AS_IS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
_ORIENTATION = 0x0112
_SMALL_FILE = 2**18  # bytes that are read and hashed in well under a millisecond
_SMALL_PICTURE = 2**17  # pixels

T = TypeVar("T")


class Facts(Protocol):
    """Where verdicts on image files are remembered, by content hash: the answer cache, or a dict."""

    def get(self, key: str, /) -> dict[str, Any] | None: ...

    async def put(self, key: str, value: dict[str, Any], /) -> None: ...


class Pictures:
    """Opens pictures; each content is decoded once, ever (the verdict is remembered in `facts`).

    With `decode=False` only the header is read: enough for an estimate, not for a verdict.
    """

    def __init__(self, facts: Facts | None = None, *, decode: bool = True) -> None:
        self._facts, self._decode = facts, decode
        self._open: dict[Path, Picture] = {}

    async def open(self, path: Path) -> Picture:
        """The picture at `path`.

        Raises:
            DataError: missing, empty, truncated, too large, or not an image.
        """
        if path not in self._open:
            self._open[path] = await self._checked(path)
        return self._open[path]

    def forget(self, path: Path) -> None:
        self._open.pop(path, None)

    async def _checked(self, path: Path) -> Picture:
        raw = await _aside(read, path, when=_weight(path) > _SMALL_FILE)
        digest = hashlib.sha256(raw).hexdigest()
        key = f"image:{digest}"  # the database is asked here and not in a thread: two users would wait for each other
        facts = self._facts.get(key) if self._facts is not None else None
        if facts is None:
            facts = await _aside(inspect, raw, path, decode=self._decode, when=self._decode and not _small(raw))
            if self._facts is not None and self._decode:
                await self._facts.put(key, facts)
        verdict = facts
        load: Callable[[], bytes] = lambda: _send(path, digest, verdict)  # noqa: E731
        return Picture(facts["sha256"], facts["media_type"], facts["width"], facts["height"], path, load)


async def _aside(work: Callable[..., T], *args: Any, when: bool, **more: Any) -> T:
    """`work(...)`, in a thread when it is long: a thread for each small picture costs more than the picture."""
    return await asyncio.to_thread(work, *args, **more) if when else work(*args, **more)


def _weight(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _small(raw: bytes) -> bool:
    """Whether decoding takes a millisecond or two, by what the header says."""
    if len(raw) > _SMALL_FILE:
        return False
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(raw)) as image:
                return image.width * image.height <= _SMALL_PICTURE
    except Exception:  # `inspect` says what is wrong
        return True


def read(path: Path) -> bytes:
    """The bytes of a file that may be an image.

    Raises:
        DataError: it is missing, not a file, unreadable, empty or over 50 MiB.
    """
    try:
        if not path.is_file():
            raise DataError("no such image file" if not path.exists() else "not a file", path)
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"the image file has {size / 2**20:.0f} MiB, more than {MAX_BYTES >> 20}", path)
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"the image cannot be read: {error.strerror}", path) from error
    if not raw:
        raise DataError("the image file is empty", path)
    return raw


def inspect(raw: bytes, path: Path, *, decode: bool = True) -> dict[str, Any]:
    """Decode an image and say what will be sent: media type, size, SHA-256 of the bytes sent, whether converted.

    Raises:
        DataError: not an image, truncated, or too many pixels.
    """
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(raw)) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise DataError(
                        f"the image has {width} x {height} pixels, more than {MAX_PIXELS:,} (decompression bomb?)", path
                    )
                if decode:
                    image.load()
                turned = image.getexif().get(_ORIENTATION, 1) not in (0, 1)
                plain = (
                    image.format in _AS_IS
                    and image.mode != "CMYK"
                    and not turned
                    and not getattr(image, "is_animated", False)
                )
                media_type = _AS_IS[str(image.format)] if plain else "image/png"
                if not plain:
                    raw = _png(image)
                    with Image.open(io.BytesIO(raw)) as sent:
                        width, height = sent.size
        except DataError:
            raise
        except Image.DecompressionBombError as error:
            raise DataError("the image has far too many pixels (decompression bomb)", path) from error
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


def eight_bits(image: Any) -> Any:
    """A PIL image with 16 bits a pixel in 8 (PIL's own conversion to RGB would turn it white); any other as it is."""
    if not image.mode.startswith("I"):
        return image
    return image.convert("I").point(lambda value: value * (1 / 257)).convert("L")


def _png(image: Any) -> bytes:
    from PIL import ImageOps

    upright = eight_bits(ImageOps.exif_transpose(image))
    if upright.mode not in ("L", "RGB", "RGBA"):
        upright = upright.convert("RGBA" if "transparency" in image.info or upright.mode in ("LA", "PA") else "RGB")
    out = io.BytesIO()
    upright.save(out, "PNG")
    return out.getvalue()


def _send(path: Path, digest: str, facts: dict[str, Any]) -> bytes:
    raw = read(path)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise DataError("the image changed while the run was going on", path)
    if not facts["converted"]:
        return raw
    from PIL import Image

    with Image.open(io.BytesIO(raw)) as image:
        image.load()
        return _png(image)
