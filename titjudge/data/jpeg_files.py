"""Check that a JPEG file is whole without decoding its pixels, which costs four times as much."""

from __future__ import annotations

import re

_START, _END = b"\xff\xd8", b"\xff\xd9"
_SEQUENTIAL = (0xC0, 0xC1)  # frames with one scan of Huffman codes, as nearly all files have
_SCAN = 0xDA
_MARKER = re.compile(rb"\xff[^\0]")  # among the pixels; FF 00 stands for a byte of them
_LONGEST = 2**16  # bytes in front of the pixels
_ALONE = frozenset({0x00, 0x01, *range(0xD0, 0xDA), 0xFF})  # markers without a length, and what is no marker


def without_pixels(raw: bytes) -> bytes | None:
    """Return a JPEG that is whole up to its end marker without its compressed pixels; None for any other file.

    Of the pixels libjpeg, the decoder, refuses nothing: a damaged code, and codes that end too early, only give wrong colours
    (jdhuff.c, warnings JWRN_HUFF_BAD_CODE and JWRN_HIT_MARKER). It refuses a file whose end is missing, a wrong marker among
    the pixels, and damage in front of them. So a file with no marker but the end behind its scan header is decoded exactly if
    what is returned here is. None also for a whole file that is progressive, or has restart markers, several scans or a very
    long header: the caller decodes all of it. Source: ITU-T T.81, B.1 and B.2.
    """
    pixels = _pixels(raw)
    marker = _MARKER.search(raw, pixels) if pixels else None
    return raw[:pixels] + _END if marker is not None and marker[0] == _END else None


def _pixels(raw: bytes) -> int:
    """Find where the compressed pixels begin: behind the header of the first scan; 0 where there is none."""
    position, sequential = len(_START), False
    while (
        raw.startswith(_START)
        and position + 4 <= len(raw)
        and raw[position] == 0xFF
        and (kind := raw[position + 1]) not in _ALONE
    ):
        position += 2 + int.from_bytes(raw[position + 2 : position + 4], "big")
        if kind == _SCAN:
            return position if sequential and position <= _LONGEST else 0
        sequential |= kind in _SEQUENTIAL
    return 0
