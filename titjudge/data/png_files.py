"""Check that a PNG file is whole without making its pixels, which costs half of what decoding costs."""

from __future__ import annotations

import struct
import zlib

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # grey, RGB, grey with alpha, RGBA; not palettes
_MOST_PIXELS = 2**22  # their rows are in memory at once
_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_UNSUITABLE = frozenset({b"eXIf", b"acTL", b"fcTL", b"fdAT"})
_ROTATING = (b"Raw profile type ", b"XML:com.adobe.xmp")  # keywords of texts that may say how to turn the image


def is_whole(raw: bytes) -> bool:
    """Tell whether this is a plain PNG whose every chunk and row is there and has the checksum that it should have.

    False for any other file, also for a whole one that is animated, interlaced, very large, has a palette, or may have to
    be turned upright: the caller decodes those. Source: the PNG specification (W3C, third edition), 5, 7, 9 and 10.
    """
    chunks = _chunks(raw)
    if chunks is None or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        return False
    width, height, depth, colours, compression, filtering, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth not in (8, 16) or colours not in _CHANNELS or (compression, filtering, interlaced) != (0, 0, 0):
        return False
    if not 0 < width * height <= _MOST_PIXELS or any(map(_is_unsuitable, chunks)):
        return False
    row = 1 + width * _CHANNELS[colours] * depth // 8
    reader = zlib.decompressobj()
    try:
        rows = reader.decompress(b"".join([data for kind, data in chunks if kind == b"IDAT"]), row * height + 1)
    except zlib.error:
        return False
    return reader.eof and len(rows) == row * height and max(rows[::row]) <= 4  # the five filters


def _chunks(raw: bytes) -> list[tuple[bytes, memoryview]] | None:
    """Split a file into kind and content of its chunks, up to the end chunk; None if one is not whole."""
    if not raw.startswith(_SIGNATURE):
        return None
    view, position, chunks = memoryview(raw), len(_SIGNATURE), list[tuple[bytes, memoryview]]()
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


def _is_unsuitable(chunk: tuple[bytes, memoryview]) -> bool:
    kind, data = chunk
    return kind in _UNSUITABLE or (kind in _TEXTS and bytes(data[:32]).startswith(_ROTATING))
