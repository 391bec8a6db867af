"""The images of a published board: named by the SHA-256 of their content, with thumbnails of one size."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.data.images import SUFFIXES, read
from titjudge.report.judged_images import Judged
from titjudge.report.site_folder import SiteFolder
from titjudge.report.thumbnails import PlacedImage, thumbnail, workers

EDGE, QUALITY = 256, 60
_DIGITS = 32
_AHEAD = 64
_GONE = "the image was not here when the board was written"


def image_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Name each image by its content, relative to the board; one that cannot be read by a hash of its path."""
    distinct = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(max_workers=workers()) as pool:
        return dict(zip(distinct, pool.map(_image_name, distinct), strict=True))


def _image_name(path: Path) -> str:
    try:
        digest = hashlib.sha256(read(path)).hexdigest()[:_DIGITS]
    except (DataError, OSError):
        return f"images/gone/{hashlib.sha256(str(path).encode(errors='replace')).hexdigest()[:_DIGITS]}"
    suffix = path.suffix.lower()
    return f"images/{digest[:2]}/{digest}{suffix if suffix in SUFFIXES else '.img'}"


def write_images(
    site: SiteFolder, images: Sequence[Judged], originals: Mapping[Path, Path], *, full: bool
) -> list[str | PlacedImage]:
    """Write a thumbnail of each image, and with `full` the image as it is; return their places, or why there is none.

    Args:
        site: The board.
        images: The images, with their places on the board as paths.
        originals: The file of each such place; of runs that only the board still has there is none.
        full: Whether to publish images as they are.
    """
    published: list[str | PlacedImage] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=workers()) as pool:
        warnings.simplefilter("ignore")  # as in `thumbnails`
        for start in range(0, len(images), _AHEAD):
            block = images[start : start + _AHEAD]
            contents = pool.map(lambda image: _render(site, image, originals, full=full), block)
            published += [_write(site, image, *content) for image, content in zip(block, contents, strict=True)]
    return published


def thumb_name(image: Path) -> str:
    """Name the thumbnail of an image of the board."""
    return f"thumbnails/{image.parent.name}/{image.stem}-{EDGE}.webp"


def _render(
    site: SiteFolder, image: Judged, originals: Mapping[Path, Path], *, full: bool
) -> tuple[bytes | str, bytes]:
    """Make what is not there yet: the thumbnail, or why there is none, and the whole image; nothing for what is there."""
    if image.path is None:
        return _GONE, b""
    there = (site.path / thumb_name(image.path)).is_file()
    original = originals.get(image.path)
    if original is None:
        return "" if there else _GONE, b""
    thumb: bytes | str = "" if there else thumbnail(replace(image, path=original), EDGE, QUALITY)
    publish = full and not (isinstance(thumb, str) and thumb) and not image.path.is_file()
    return thumb, read(original) if publish else b""


def _write(site: SiteFolder, image: Judged, thumb: bytes | str, whole: bytes) -> str | PlacedImage:
    """Write what was rendered of an image, unless it is there, and return its place."""
    if image.path is None or (isinstance(thumb, str) and thumb):
        return str(thumb)
    name, full = thumb_name(image.path), str(image.path.relative_to(site.path))
    if isinstance(thumb, bytes):
        site.put(name, thumb)
    else:
        site.has(name)
    if whole:
        site.put(full, whole)
    return PlacedImage(name, full if whole or site.has(full) else "")
