"""Thumbnails of a report: WebP, as large as the size limit of the file allows; a reason for an image that cannot be shown."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.errors import DataError
from titjudge.data.image_decoding import open_image, upright
from titjudge.data.images import read
from titjudge.report.judged_images import Judged

Thumbnail = bytes | str  # the WebP file, or why there is none


class PlacedImage(NamedTuple):
    """An image in files beside the page: their places, `full` if it is there in full size."""

    thumb: str
    full: str = ""


FULL = (2048, 85)
LADDER = (
    *((round(1024 * 0.94**step), 80) for step in range(13)),
    *((round(448 * 0.94**step), max(5, round(78 - 1.7 * step))) for step in range(36)),
)
"""(longest edge in pixels, WebP quality), best first."""
_SAMPLE = 24  # images on which the step is chosen
_SLACK = 0.97  # of the limit, since the sample is not exact
_AHEAD = 64  # images that are made before the first of them is written


def thumbnails(pictures: Sequence[Judged], room: int, *, full: bool = False) -> list[Thumbnail]:
    """Make a thumbnail of each image, together at most `room` bytes (`full`: up to 2,048 pixels each, without a limit).

    Size and quality are chosen on a sample and reduced until all fit; the last step of the ladder is used even if it does
    not fit.
    """
    if not pictures:
        return []
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=workers()) as pool:
        warnings.simplefilter("ignore")  # Pillow warns of odd files; `read` and the pixel limit refuse dangerous ones
        if full:
            return list(pool.map(lambda picture: thumbnail(picture, *FULL), pictures))
        step, thumbs = _choose(pictures, room, pool)
        if len(thumbs) < len(pictures):
            thumbs = list(pool.map(lambda picture: thumbnail(picture, *LADDER[step]), pictures))
        while _size(thumbs) > room and step + 1 < len(LADDER):
            step += 1
            thumbs = list(pool.map(lambda picture: _smaller(picture, *LADDER[step]), thumbs))  # noqa: B023
    return thumbs


def each_thumbnail(pictures: Sequence[Judged], room: int, *, full: bool = False) -> Iterator[Thumbnail]:
    """Make a thumbnail of each image, in their order and without keeping them all in memory; together about `room` bytes.

    Size and quality are chosen on a sample, as by `thumbnails`, and not reduced again if the others are larger.
    """
    if not pictures:
        return
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=workers()) as pool:
        warnings.simplefilter("ignore")  # as above
        size = FULL if full else LADDER[_choose(pictures, room, pool)[0]]
        for start in range(0, len(pictures), _AHEAD):
            yield from pool.map(lambda picture: thumbnail(picture, *size), pictures[start : start + _AHEAD])


def thumbnail(picture: Judged, edge: int, quality: int) -> Thumbnail:
    """Return an image as WebP with a longest edge of at most `edge` pixels, or the reason why it cannot be shown."""
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
    """Encode an open image, which is modified, as WebP with a longest edge of at most `edge` pixels."""
    from PIL import Image

    image.thumbnail((edge, edge), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()


def _smaller(thumb: Thumbnail, edge: int, quality: int) -> Thumbnail:
    if isinstance(thumb, str):
        return thumb
    with open_image(thumb, Path("thumbnail.webp")) as image:
        image.load()
        return min(encode(image, edge, quality), thumb, key=len)


def _choose(pictures: Sequence[Judged], room: int, pool: ThreadPoolExecutor) -> tuple[int, list[Thumbnail]]:
    """Find by bisection the best step of the ladder at which a sample fits; also return its thumbnails if these are all.

    The best step is tried first, since small runs need no other: their sample is all images.
    """
    sample = pictures[:: max(1, len(pictures) // _SAMPLE)][:_SAMPLE]
    first = list(pool.map(lambda picture: thumbnail(picture, *LADDER[0]), sample))
    allowed = room * _SLACK * len(sample) / len(pictures)

    def needed(step: int) -> int:
        return _size(list(pool.map(lambda picture: _smaller(picture, *LADDER[step]), first)))

    if _size(first) <= allowed:
        return 0, first
    low, high = 1, len(LADDER) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if needed(middle) <= allowed else (middle + 1, high)
    return low, []


def _size(thumbs: Sequence[Thumbnail]) -> int:
    return sum(len(thumb) for thumb in thumbs if isinstance(thumb, bytes))


def workers() -> int:
    """Return how many images are made at once."""
    return min(8, os.cpu_count() or 1)
