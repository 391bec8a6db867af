"""Check that a JPEG or PNG file is whole without decoding its pixels, which costs four times or twice as much."""

from __future__ import annotations

import re
import struct
import zlib

_JPEG_START, _JPEG_END = b"\xff\xd8", b"\xff\xd9"
_SEQUENTIAL = (0xC0, 0xC1)  # frames with one scan of Huffman codes, as nearly all files have
_SCAN = 0xDA
_MARKER = re.compile(rb"\xff[^\0]")  # among the pixels; FF 00 stands for a byte of them
_LONGEST_HEADER = 2**16  # bytes in front of the pixels
_ALONE = frozenset({0x00, 0x01, *range(0xD0, 0xDA), 0xFF})  # markers without a length, and what is no marker

_PNG_START = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # grey, RGB, grey with alpha, RGBA; not palettes
_MOST_PIXELS = 2**22  # their rows are in memory at once
_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_UNSUITABLE = frozenset({b"eXIf", b"acTL", b"fcTL", b"fdAT"})
_ROTATING = (b"Raw profile type ", b"XML:com.adobe.xmp")  # keywords of texts that may say how to turn the image


def without_pixels(raw: bytes) -> bytes | None:
    """Return a JPEG without its compressed pixels; None where it may be damaged, is an unusual one, or is no JPEG.

    The decoder, libjpeg, accepts any pixels: damaged ones only give wrong colours (jdhuff.c, warnings JWRN_HUFF_BAD_CODE and
    JWRN_HIT_MARKER). It refuses a file without an end, with a wrong marker among the pixels, or with a damaged header. So where
    the end is the only marker behind the header, a file can be decoded if what is returned here can, which is quick to try.
    None also for a whole file that is progressive or has restart markers, several scans or a very long header: the caller
    decodes all of it. Source: ITU-T T.81, B.1 and B.2.
    """
    pixels = _first_pixel(raw)
    marker = _MARKER.search(raw, pixels) if pixels else None
    return raw[:pixels] + _JPEG_END if marker is not None and marker[0] == _JPEG_END else None


def _first_pixel(raw: bytes) -> int:
    """Find the byte of a JPEG at which its compressed pixels begin, behind the header of the first scan; 0 where there is none."""
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
    """Tell whether this is a plain PNG whose every chunk and row is there and has the checksum that it should have.

    False for any other file, also for a whole one that is animated, interlaced, very large, has a palette, or may have to
    be turned upright: the caller decodes those. Source: the PNG specification (W3C, third edition), 5, 7, 9 and 10.
    """
    chunks = _png_chunks(raw)
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


def _png_chunks(raw: bytes) -> list[tuple[bytes, memoryview]] | None:
    """Split a file into kind and content of its chunks, up to the end chunk; None if one is not whole."""
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


def _is_unsuitable(chunk: tuple[bytes, memoryview]) -> bool:
    kind, data = chunk
    return kind in _UNSUITABLE or (kind in _TEXTS and bytes(data[:32]).startswith(_ROTATING))
