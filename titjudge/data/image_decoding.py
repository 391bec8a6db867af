"""Decode images: open, inspect, turn upright, convert. `open_image` is the only place that opens an image.

For a file that cannot be used, a DataError names the reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from titjudge.core.errors import DataError
from titjudge.core.types import Json

_JPEG_START, _JPEG_END = b"\xff\xd8", b"\xff\xd9"
_SEQUENTIAL = (0xC0, 0xC1)  # frames with one scan of Huffman codes, as nearly all files have
_SCAN = 0xDA
_MARKER = re.compile(rb"\xff[^\0]")  # among the pixels; FF 00 stands for a byte of them
_LONGEST_HEADER = 2**16  # bytes in front of the pixels
_ALONE = frozenset({0x00, 0x01, *range(0xD0, 0xDA), 0xFF})  # markers without a length, and bytes that are not a marker

_PNG_START = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # grey, RGB, grey with alpha, RGBA; not palettes
_MOST_PIXELS = 2**22  # their rows are in memory at once
_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_UNSUITABLE = frozenset({b"eXIf", b"acTL", b"fcTL", b"fdAT"})
_ROTATING = (b"Raw profile type ", b"XML:com.adobe.xmp")  # keywords of texts that may give the rotation of the image


def without_pixels(raw: bytes) -> bytes | None:
    """Return a JPEG without its compressed pixels; None if it may be damaged, is unusual, or is not a JPEG.

    The decoder, libjpeg, accepts any pixels: damaged ones only give wrong colours (jdhuff.c, warnings JWRN_HUFF_BAD_CODE
    and JWRN_HIT_MARKER). It refuses a file without an end, with a wrong marker among the pixels, or with a damaged
    header. So if the end is the only marker behind the header, a file can be decoded if what is returned here can, which
    is quick to try. None also for a whole file that is progressive or has restart markers, several scans or a very long
    header: the caller
    decodes all of it. Source: ITU-T T.81, B.1 and B.2.
    """
    pixels = _first_pixel(raw)
    marker = _MARKER.search(raw, pixels) if pixels else None
    return raw[:pixels] + _JPEG_END if marker is not None and marker[0] == _JPEG_END else None


def _first_pixel(raw: bytes) -> int:
    """Find the byte of a JPEG at which its compressed pixels begin, behind the header of the first scan; 0 if there is none."""
    position, sequential = len(_JPEG_START), False
    while (
        raw.startswith(_JPEG_START)
        and position + 4 <= len(raw)
        and raw[position] == 0xFF
        and (kind := raw[position + 1]) not in _ALONE
    ):
        position += 2 + int.from_bytes(raw[position + 2 : position + 4], "big")
        if kind == _SCAN:
            return position if sequential and position <= _LONGEST_HEADER else 0
        sequential |= kind in _SEQUENTIAL
    return 0


def is_whole_png(raw: bytes) -> bool:
    """Return True if this is a plain PNG whose every chunk and row is there and has the checksum that it should have.

    False for any other file, also for a whole one that is animated, interlaced, very large, has a palette, or may have to
    be turned upright: the caller decodes those. Source: the PNG specification (W3C, third edition), 5, 7, 9 and 10.
    """
    chunks = _png_chunks(raw)
    if chunks is None or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        return False
    width, height, depth, colours, compression, filtering, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth not in (8, 16) or colours not in _CHANNELS or (compression, filtering, interlaced) != (0, 0, 0):
        return False
    unsuitable = [
        kind in _UNSUITABLE or (kind in _TEXTS and bytes(data[:32]).startswith(_ROTATING)) for kind, data in chunks
    ]
    if not 0 < width * height <= _MOST_PIXELS or any(unsuitable):
        return False
    row = 1 + width * _CHANNELS[colours] * depth // 8
    reader = zlib.decompressobj()
    try:
        rows = reader.decompress(b"".join([data for kind, data in chunks if kind == b"IDAT"]), row * height + 1)
    except zlib.error:
        return False
    return reader.eof and len(rows) == row * height and max(rows[::row]) <= 4  # the five filters


def _png_chunks(raw: bytes) -> list[tuple[bytes, memoryview]] | None:
    """Split a file into kind and content of its chunks, up to the end chunk; None if any chunk is incomplete."""
    if not raw.startswith(_PNG_START):
        return None
    view, position, chunks = memoryview(raw), len(_PNG_START), list[tuple[bytes, memoryview]]()
    while position + 12 <= len(raw):
        (length,) = struct.unpack_from(">I", raw, position)
        end = position + 8 + length
        if end + 4 > len(raw) or zlib.crc32(view[position + 4 : end]) != struct.unpack_from(">I", raw, end)[0]:
            return None
        chunks.append((raw[position + 4 : position + 8], view[position + 8 : end]))
        if chunks[-1][0] == b"IEND":
            return chunks
        position = end + 4
    return None


MAX_PIXELS = 50_000_000
SMALL = 2**17  # pixels that decode in a millisecond or two
FORMATS = tuple("JPEG PNG GIF BMP WEBP TIFF AVIF".split())
"""The formats that are opened; JPEG includes MPO (several JPEGs in one file). Pillow has some 40 more, among them
PostScript, which it passes to another program."""
ORIENTATION = 0x0112  # the EXIF tag
_UNREAD = (
    (rb"....ftyp(hei[cxms]|hev[cmxs]|mif1|msf1)", "HEIC"),
    (rb"\xff\x0a|\0\0\0\x0cJXL ", "JPEG XL"),
    (rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51", "JPEG 2000"),
    (rb"8BPS", "Photoshop"),
    (rb"%PDF", "PDF"),
    (rb"\s*(<\?xml.*?>\s*)?(<!--.*?-->\s*)?<svg", "SVG"),
    (rb"(?i:\s*<(!doctype )?html)", "a web page"),
)  # how files of other formats begin
_AS_IS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
_DRAFTED = 4  # times as many pixels of a JPEG are decoded as quickly: an eighth of its rows and columns is made
_MOST_EMPTY = 2**22  # pixels of a JPEG without them, which decode in less than a millisecond
_BLOCK = 2**13  # compressed bytes that Pillow decodes at a time; other threads run in between


class _PixelLimit:
    """A limit on the pixels that all threads decode at the same time, so that they do not fill the memory."""

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


_pixel_limit = _PixelLimit(MAX_PIXELS)


def _after_fork() -> None:
    """Begin without the locks of the parent process's threads."""
    global _pixel_limit
    _pixel_limit = _PixelLimit(MAX_PIXELS)


os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def open_image(raw: bytes | BinaryIO, path: Path, *, decode: bool = True) -> Iterator[Any]:
    """Open an image with PIL for the duration of the block; only of the usual formats, with a limited number of pixels.

    Large images wait for one another here: do not open a second one inside the block. With `decode=False` only the
    header may be read.

    Raises:
        DataError: It is not an image of these formats, or has too many pixels.
    """
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(raw) if isinstance(raw, bytes) else raw, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise DataError("the image has too many pixels (decompression bomb). Save a smaller one", path) from error
    except Exception as error:
        raise DataError(_unread(raw), path) from error
    with image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise DataError(
                f"the image has {width} x {height} pixels, more than {MAX_PIXELS:,}. Save a smaller one", path
            )
        large = decode and width * height > SMALL
        if large:
            image.decodermaxblock = _BLOCK
        with _pixel_limit.hold(width * height) if large else contextlib.nullcontext():
            yield image


def _unread(raw: bytes | BinaryIO) -> str:
    """Return the reason why an image cannot be opened; its format, if the first bytes show one that is not read."""
    if not isinstance(raw, bytes):
        raw.seek(0)
        raw = raw.read(1_000)
    name = next((name for start, name in _UNREAD if re.match(start, raw[:1_000], re.DOTALL)), "")
    if name:
        return f"the file is {name}, which titjudge does not read. Save it as PNG or JPEG"
    return "the file cannot be decoded or is not an image. Save it as PNG or JPEG"


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress Pillow's warnings about odd files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def inspect(raw: bytes, path: Path, *, decode: bool = True, sha256: str = "") -> Json:
    """Decode an image and describe what will be sent: media type, size, SHA-256 of the bytes sent, whether converted.

    `sha256` is the hash of `raw`, if it is known.

    Raises:
        DataError: It is not an image, is truncated, or has too many pixels.
    """
    facts = _inspect(raw, path, sha256 or hashlib.sha256(raw).hexdigest(), decode=decode, most=None)
    assert facts is not None
    return facts


def inspect_small(raw: bytes, path: Path, sha256: str, *, decode: bool = True) -> Json | None:
    """Inspect an image if that takes no more than a millisecond or two; return None for one with many pixels.

    Args:
        raw: The content of the file.
        path: The file.
        sha256: The hash of `raw`.
        decode: Whether to decode the pixels.

    Raises:
        DataError: As `inspect`.
    """
    return _inspect(raw, path, sha256, decode=decode, most=SMALL)


def inspect_by_header(raw: bytes, sha256: str) -> Json | None:
    """Inspect an ordinary JPEG, as `inspect` does, in some microseconds; return None for any other file, and a damaged one.

    `sha256` is the hash of `raw`.
    """
    header = without_pixels(raw)
    size = _size_as_it_is(header) if header is not None else None
    if size is None:
        return None
    return {"sha256": sha256, "media_type": "image/jpeg", "width": size[0], "height": size[1], "converted": False}


@lru_cache(maxsize=64)  # the files of one program and one size differ in their pixels alone
def _size_as_it_is(header: bytes) -> tuple[int, int] | None:
    """Decode a JPEG without its pixels; return width and height if such a file is sent as it is."""
    with quietly(), contextlib.suppress(Exception), open_image(header, Path(), decode=False) as image:
        size: tuple[int, int] = image.size
        if size[0] * size[1] <= _MOST_EMPTY and _is_plain(image):
            _decode_all(image)
            return size
    return None


def _is_plain(image: Any) -> bool:
    """Return True if an image is sent as it is, and not converted."""
    turned = image.getexif().get(ORIENTATION, 1) not in (0, 1)
    deep = image.mode.startswith(("I", "F"))  # servers clip 16 bits a pixel to white
    odd = image.mode == "CMYK" or deep or turned or getattr(image, "is_animated", False)
    return image.format in _AS_IS and not odd and not _is_transparent(image)


def _is_transparent(image: Any) -> bool:
    """Return True if pixels are transparent: some servers lay them on white, others on black or show the colours that they hide."""
    if not _has_alpha(image):
        return False
    layered = image if image.mode == "RGBA" else image.convert("RGBA")
    return bool(layered.getchannel("A").getextrema()[0] < 255)


def _has_alpha(image: Any) -> bool:
    return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info


def _decode_all(image: Any) -> None:
    """Read every byte of an image; of a JPEG make only an eighth of its rows and columns, in grey."""
    image.draft("L", (1, 1))
    image.load()


def _inspect(raw: bytes, path: Path, sha256: str, *, decode: bool, most: int | None) -> Json | None:
    """Inspect an image; None if it has more pixels than `most`, so that decoding it would take long."""
    if decode and (facts := inspect_by_header(raw, sha256)) is not None:
        return facts
    with quietly():
        try:
            with open_image(raw, path, decode=decode and most is None) as image:
                pixels = image.width * image.height
                if decode and most is not None and pixels > (_DRAFTED * most if image.format == "JPEG" else most):
                    return None
                simple = image.mode in ("L", "RGB") and not _has_alpha(image)
                whole = decode and image.format == "PNG" and simple and is_whole_png(raw)
                plain = whole or _is_plain(image)
                if decode and most is not None and not plain and pixels > most:
                    return None
                media_type = _AS_IS[str(image.format)] if plain else "image/png"
                width, height = image.size
                if plain and decode and not whole:
                    _decode_all(image)
                if not plain:
                    raw = _png(image)
                    sha256 = hashlib.sha256(raw).hexdigest()
                    with open_image(raw, path, decode=False) as sent:
                        width, height = sent.size
        except DataError as error:
            raise DataError(error.message, path) from error
        except Exception as error:
            raise DataError(
                f"the file {'is truncated' if 'truncated' in str(error).lower() else 'cannot be decoded'} or is not an image. Save it again",
                path,
            ) from error
    return {"sha256": sha256, "media_type": media_type, "width": width, "height": height, "converted": not plain}


def as_png(raw: bytes, path: Path) -> bytes:
    """Convert an image to PNG.

    Raises:
        DataError: It cannot be decoded.
    """
    with open_image(raw, path) as image:
        return _png(image)


def resized(raw: bytes, path: Path, size: tuple[int, int], *, jpeg: bool = True) -> bytes:
    """Resize an image: a JPEG to a JPEG of high quality (unless `jpeg` is false), any other to a PNG.

    Raises:
        DataError: It cannot be decoded.
    """
    from PIL import Image

    out = io.BytesIO()
    with open_image(raw, path) as image:
        smaller = upright(image).resize(size, Image.Resampling.LANCZOS)
        if jpeg and image.format == "JPEG":
            smaller.save(out, "JPEG", quality=95, subsampling=0)
        else:
            on_white(smaller).save(out, "PNG")
    return out.getvalue()


def eight_bits(image: Any) -> Any:
    """Convert an image of 16 or 32 bits a pixel to 8, which PIL's own conversion would turn white or black.

    Grey values are read as 0 to 255 or 0 to 65,535 (whole numbers), 0 to 1 or 0 to 255 (floats), by the largest of them. An image
    of another mode is returned unchanged.

    Raises:
        DataError: Its values lie outside.
    """
    if not image.mode.startswith(("I", "F")):
        return image
    import numpy as np

    low, high = image.getextrema()
    if low < 0 or high > (255 if image.mode == "F" else 65_535) or not np.isfinite(np.asarray(image)).all():
        raise DataError(
            f"the image has grey values from {low:g} to {high:g}. Whole numbers must be from 0 to 65,535, floats from 0 to 255. "
            "Save it with 8 bits per channel"
        )
    if image.mode == "F":
        scale = 255 if high <= 1 else 1
        return image.point(lambda value: value * scale + 0.5).convert("L")
    if image.mode == "I" and high <= 255:
        return image.convert("L")
    return image.convert("I").point(lambda value: value * (1 / 257)).convert("L")


def upright(image: Any) -> Any:
    """Rotate a PIL image by its EXIF tag, and convert it to 8 bits a channel in grey, RGB or RGBA."""
    from PIL import ImageOps

    turned = eight_bits(ImageOps.exif_transpose(image))
    if turned.mode in ("L", "RGB", "RGBA"):
        return turned
    return turned.convert("RGBA" if "transparency" in image.info or turned.mode in ("LA", "PA") else "RGB")


def on_white(image: Any) -> Any:
    """Lay what is transparent of a PIL image on white; return an image without transparency unchanged."""
    from PIL import Image

    if not _has_alpha(image):
        return image
    layered = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered).convert("RGB")


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    on_white(upright(image)).save(out, "PNG")
    return out.getvalue()
