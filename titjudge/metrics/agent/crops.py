"""Crops of an image, enlarged; boxes are in fractions of its width and height.

A crop is enlarged until its longer side has as many pixels as that of the image (or 1,024; 512 for one of several in a request,
where each costs by its pixels), at most fourfold, and never to more pixels than the image has, so that a crop costs no more tokens than the image. A side
under 64 pixels is enlarged to 64 in any case. A crop is never scaled down, but that one of several has at most 1,024 pixels a side.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from titjudge.data.image_decoding import inspect, open_image, upright
from titjudge.data.images import read

Box = tuple[float, float, float, float]  # left, top, right, bottom; fractions of width and height, origin top left

SLACK = 0.05  # a corner this far outside the image is moved to its edge
SMALLEST = 0.02  # least width and height of a box
SMALLEST_SIDE = 64  # pixels
ENLARGED_TO, ENLARGED_AMONG_OTHERS, ENLARGED_BY = 1024, 512, 4.0  # pixels of the longer side, alone and not; times
_MOST_ENLARGED = 4096  # pixels of the longer side of an enlarged crop


@dataclass(frozen=True, slots=True)
class BoxFit:
    """A box within the image, and whether it was clamped; or no box, and the `problem` with the one given."""

    box: Box | None = None
    clamped: bool = False
    problem: str = ""


def fit_box(box: Sequence[float], *, grown: bool = False) -> BoxFit:
    """Validate a box: four finite fractions, corners at most 0.05 outside of the image, both sides at least 0.02.

    With `grown`, a smaller one is extended on all sides instead.
    """
    if len(box) != 4 or not all(math.isfinite(value) for value in box):
        return BoxFit(problem="a box is four numbers [left, top, right, bottom]")
    if any(value < -SLACK or value > 1 + SLACK for value in box):
        return BoxFit(problem="the box lies outside the image; its numbers are fractions from 0 to 1, not pixels")
    left, top, right, bottom = (min(1.0, max(0.0, float(value))) for value in box)
    if right <= left or bottom <= top:
        return BoxFit(problem="the box is empty: left must be less than right and top less than bottom")
    if grown:
        left, right = _extended(left, right)
        top, bottom = _extended(top, bottom)
    if right - left < SMALLEST or bottom - top < SMALLEST:
        return BoxFit(problem=f"the box is too small: at least {SMALLEST:g} of width and height")
    inside = (left, top, right, bottom)
    return BoxFit(inside, clamped=inside != tuple(map(float, box)))


def _extended(start: float, end: float) -> tuple[float, float]:
    """Extend a span to the least width of a box, inside the image."""
    more = max(0.0, SMALLEST - (end - start))
    start = min(max(0.0, start - more / 2), 1 - SMALLEST) if more else start
    return start, max(end, start + SMALLEST)


def size_of(path: Path) -> tuple[int, int]:
    """Return width and height of an image in pixels, upright (as its EXIF tag says).

    Raises:
        DataError: The image cannot be used.
    """
    raw = read(path)
    inspect(raw, path)
    with open_image(raw, path) as image:
        width, height = upright(image).size
    return width, height


def crop(path: Path, box: Box, enlarged_to: int = ENLARGED_TO) -> bytes:
    """Cut a part out of an image, as PNG, from the upright image (as its EXIF tag says).

    Raises:
        DataError: The image cannot be used.
    """
    from PIL import Image

    raw = read(path)
    inspect(raw, path)
    with open_image(raw, path) as image:
        whole = upright(image)
        width, height = whole.size
        left, top = math.floor(box[0] * width), math.floor(box[1] * height)
        right, bottom = math.ceil(box[2] * width), math.ceil(box[3] * height)
        part = whole.crop((left, top, max(right, left + 1), max(bottom, top + 1)))
    scale = max(_enlargement(part.size, (width, height), enlarged_to), SMALLEST_SIDE / min(part.size))
    too_large = enlarged_to < ENLARGED_TO < max(part.size)
    if too_large:
        scale = ENLARGED_TO / max(part.size)
    if scale > 1 or too_large:
        size = tuple(min(_MOST_ENLARGED, round(side * scale)) for side in part.size)
        part = part.resize((size[0], size[1]), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    part.save(out, "PNG")
    return out.getvalue()


def _enlargement(part: tuple[int, int], whole: tuple[int, int], enlarged_to: int) -> float:
    return min(
        ENLARGED_BY,
        min(enlarged_to, max(whole)) / max(part),
        math.sqrt(whole[0] * whole[1] / (part[0] * part[1])),
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """The image file that a crop was cut from, and the box."""

    image: Path
    box: Box


_origins: dict[Path, Origin] = {}  # of the crops that exist now


def origin(path: Path) -> Origin | None:
    """Return where a crop was cut from; None for a file that is not a crop, or removed."""
    return _origins.get(path)


class Crops:
    """A temporary folder of crops, made when first needed and removed at the end of the `with` block."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            for path in [path for path in _origins if path.parent == Path(self._folder.name)]:
                del _origins[path]
            self._folder.cleanup()

    async def cut(self, path: Path, box: Box, enlarged_to: int = ENLARGED_TO) -> Path:
        """Write a crop and return its file, which is named by a hash of its content and its place.

        Raises:
            DataError: The image cannot be used.
        """
        content = await asyncio.to_thread(crop, path, box, enlarged_to)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="titjudge-zoom-")
        file = Path(self._folder.name) / f"{hashlib.sha256(content + repr(box).encode()).hexdigest()[:32]}.png"
        if not file.exists():
            file.write_bytes(content)
            _origins[file] = Origin(path, box)
        return file
