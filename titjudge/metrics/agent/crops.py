"""Crops of an image, enlarged; boxes are in fractions of its width and height.

A crop is enlarged until its longer side has as many pixels as that of the image (or 1,024; 512 for one of several in a
request, where each costs by its pixels), at most fourfold, and never to more pixels than the image has, so that a crop costs no
more tokens than the image. A side under 64 pixels is enlarged to 64 in any case. A crop is never scaled down, but that one of
several has at most 1,024 pixels a side.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from titjudge.data.image_decoding import inspect, on_white, open_image, upright
from titjudge.data.images import read

Box = tuple[float, float, float, float]  # left, top, right, bottom; fractions of width and height, origin top left

_ROUNDING = 1e-9  # of sides, so that a box that was just extended is not too small
SLACK = 0.05  # a corner this far outside the image is moved to its edge
SMALLEST = 0.02  # least width and height of a box
SMALLEST_SIDE = 64  # pixels
ENLARGED_TO, ENLARGED_AMONG_OTHERS, ENLARGED_BY = 1024, 512, 4.0  # pixels of the longer side, alone and not; times
_MOST_ENLARGED = 4096  # pixels of the longer side of an enlarged crop


def place_of(box: Box) -> str:
    """Write a box as models read and write it."""
    return f"[{', '.join(f'{value:g}' for value in box)}]"


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
    if right - left < SMALLEST - _ROUNDING or bottom - top < SMALLEST - _ROUNDING:
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
    with _opened(path) as image:
        width, height = image.size
    return width, height


def crop(path: Path, boxes: Sequence[Box], enlarged_to: int = ENLARGED_TO) -> list[bytes]:
    """Cut parts out of an image, as PNG, from the upright image (as its EXIF tag says), which is decoded once.

    Raises:
        DataError: The image cannot be used.
    """
    with _opened(path) as image:
        whole, parts = image.size, [_cut(image, box) for box in boxes]
    return [_png(part, whole, enlarged_to) for part in parts]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    raw = read(path)
    inspect(raw, path)
    with open_image(raw, path) as image:
        yield on_white(upright(image))


def _cut(image: Any, box: Box) -> Any:
    width, height = image.size
    left, top = math.floor(box[0] * width), math.floor(box[1] * height)
    right, bottom = math.ceil(box[2] * width), math.ceil(box[3] * height)
    return image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def _png(part: Any, whole: tuple[int, int], enlarged_to: int) -> bytes:
    """Encode a part of an image of `whole` pixels, scaled."""
    from PIL import Image

    scale = _scale(part.size, whole, enlarged_to)
    if scale != 1:
        width, height = (min(_MOST_ENLARGED, round(side * scale)) for side in part.size)
        part = part.resize((width, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    part.save(out, "PNG")
    return out.getvalue()


def _scale(part: tuple[int, int], whole: tuple[int, int], enlarged_to: int) -> float:
    if enlarged_to < ENLARGED_TO < max(part):
        return ENLARGED_TO / max(part)
    enlargement = min(
        ENLARGED_BY,
        min(enlarged_to, max(whole)) / max(part),
        math.sqrt(whole[0] * whole[1] / (part[0] * part[1])),
    )
    return max(1.0, enlargement, SMALLEST_SIDE / min(part))


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

    async def cut(self, path: Path, boxes: Sequence[Box], enlarged_to: int = ENLARGED_TO) -> list[Path]:
        """Write crops and return their files, each named by a hash of its content and its place.

        Raises:
            DataError: The image cannot be used.
        """
        contents = await asyncio.to_thread(crop, path, boxes, enlarged_to)
        return [self._written(content, Origin(path, box)) for content, box in zip(contents, boxes, strict=True)]

    def _written(self, content: bytes, cut_from: Origin) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="titjudge-zoom-")
        file = Path(self._folder.name) / f"{hashlib.sha256(content + repr(cut_from.box).encode()).hexdigest()[:32]}.png"
        if not file.exists():
            file.write_bytes(content)
            _origins[file] = cut_from
        return file
