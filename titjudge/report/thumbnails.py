"""Thumbnails of a report: WebP, as large as the room allows. An image that cannot be shown is a reason, never an error."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.image_decoding import open_image, upright
from titjudge.core.images import read
from titjudge.report.judged_images import Judged

Thumbnail = bytes | str  # the WebP file, or why there is none

FULL = (2048, 85)
LADDER = (
    *((round(1024 * 0.94**step), 80) for step in range(13)),
    *((round(448 * 0.94**step), max(5, round(78 - 1.7 * step))) for step in range(36)),
)
"""(longest edge in pixels, WebP quality), best first: small text stays legible where there is room."""
_SAMPLE = 24
_SLACK = 0.97


def thumbnails(pictures: Sequence[Judged], room: int, *, full: bool = False) -> list[Thumbnail]:
    """Make one thumbnail for each image, all together at most `room` bytes (`full`: up to 2,048 pixels, whatever it takes).

    Size and quality are chosen on a sample and go down together until all fit; the last step of the ladder is kept even
    where it does not.
    """
    if not pictures:
        return []
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=_workers()) as pool:
        warnings.simplefilter("ignore")  # Pillow's remarks on odd files; `read` and the pixel limit guard what matters
        if full:
            return list(pool.map(lambda one: thumbnail(one, *FULL), pictures))
        step, made = _choose(pictures, room, pool)
        if len(made) < len(pictures):
            made = list(pool.map(lambda one: thumbnail(one, *LADDER[step]), pictures))
        while _size(made) > room and step + 1 < len(LADDER):
            step += 1
            made = list(pool.map(lambda one: _smaller(one, *LADDER[step]), made))  # noqa: B023
    return made


def thumbnail(picture: Judged, edge: int, quality: int) -> Thumbnail:
    """Make an image a WebP file whose longest edge is at most `edge` pixels, or why it cannot be shown."""
    assert picture.path is not None
    try:
        raw = read(picture.path)
        if refusal := picture.refusal(raw):
            return refusal
        with open_image(raw, picture.path) as image:
            image.draft("RGB", (edge * 2, edge * 2))
            return encode(upright(image), edge, quality)
    except DataError as error:
        return error.message
    except Exception as error:
        return f"the file cannot be decoded or is not an image ({type(error).__name__})"


def encode(image: Any, edge: int, quality: int) -> bytes:
    """Make an open image, which changes, a WebP file whose longest edge is at most `edge` pixels."""
    from PIL import Image

    image.thumbnail((edge, edge), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()


def _smaller(made: Thumbnail, edge: int, quality: int) -> Thumbnail:
    if isinstance(made, str):
        return made
    with open_image(made, Path("thumbnail.webp")) as image:
        image.load()
        return min(encode(image, edge, quality), made, key=len)


def _choose(pictures: Sequence[Judged], room: int, pool: ThreadPoolExecutor) -> tuple[int, list[Thumbnail]]:
    """Find by halving the best step of the ladder at which a sample says that all will fit, and what is made at it already.

    The best step is tried first: small runs, most of all, need no other, and their thumbnails are then made.
    """
    sample = pictures[:: max(1, len(pictures) // _SAMPLE)][:_SAMPLE]
    first = list(pool.map(lambda one: thumbnail(one, *LADDER[0]), sample))
    allowed = room * _SLACK * len(sample) / len(pictures)

    def needed(step: int) -> int:
        return _size(list(pool.map(lambda one: _smaller(one, *LADDER[step]), first)))

    if _size(first) <= allowed:
        return 0, first
    low, high = 1, len(LADDER) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if needed(middle) <= allowed else (middle + 1, high)
    return low, []


def _size(made: Sequence[Thumbnail]) -> int:
    return sum(len(one) for one in made if isinstance(one, bytes))


def _workers() -> int:
    return min(8, os.cpu_count() or 1)
