"""The images of a published board: named by the SHA-256 of their content, with thumbnails of one size."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.data.images import SUFFIXES, read
from titjudge.report.judged_images import Judged
from titjudge.report.site_folder import SiteFolder
from titjudge.report.thumbnails import thumbnail, workers

EDGE, QUALITY = 256, 60
_DIGITS = 32
_AHEAD = 64
_GONE = "the image was not here when the board was written"


@dataclass(frozen=True, slots=True)
class BoardImage:
    """An image of the board.

    Attributes:
        thumb: Its thumbnail, relative to the folder; empty where there is none.
        full: The image itself, where it is published.
        missing: Why it is not shown.
    """

    thumb: str = ""
    full: str = ""
    missing: str = ""


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
    site: SiteFolder, images: Iterable[Judged], originals: Mapping[Path, Path], *, full: bool
) -> dict[Judged, BoardImage]:
    """Write a thumbnail of each image, and with `full` the image as it is, and say where they lie.

    Args:
        site: The board.
        images: The images, with their places on the board as paths.
        originals: The file of each such place; of runs that only the board still has there is none.
        full: Whether to publish images as they are.
    """
    distinct = list(dict.fromkeys(images))
    published: dict[Judged, BoardImage] = {}
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=workers()) as pool:
        warnings.simplefilter("ignore")  # as in `thumbnails`
        for start in range(0, len(distinct), _AHEAD):
            block = distinct[start : start + _AHEAD]
            contents = pool.map(lambda image: _render(site, image, originals, full=full), block)
            published |= {image: _write(site, image, *content) for image, content in zip(block, contents, strict=True)}
    return published


def thumb_name(image: Path) -> str:
    """Name the thumbnail of an image of the board."""
    return f"thumbnails/{image.parent.name}/{image.stem}-{EDGE}.webp"


def _render(
    site: SiteFolder, image: Judged, originals: Mapping[Path, Path], *, full: bool
) -> tuple[bytes | str, bytes]:
    """Make what is not there yet: the thumbnail, or why there is none, and the whole image; nothing for what is there."""
    assert image.path is not None
    original = originals.get(image.path)
    if original is None:
        return ("" if (site.path / thumb_name(image.path)).is_file() else _GONE), b""
    judged = replace(image, path=original)
    if (site.path / thumb_name(image.path)).is_file():
        thumb: bytes | str = ""
    else:
        thumb = thumbnail(judged, EDGE, QUALITY)
    publish = full and not (isinstance(thumb, str) and thumb) and not image.path.is_file()
    return thumb, read(original) if publish else b""


def _write(site: SiteFolder, image: Judged, thumb: bytes | str, whole: bytes) -> BoardImage:
    """Write what was rendered of an image, unless it is there, and return where it lies."""
    assert image.path is not None
    if isinstance(thumb, str) and thumb:
        return BoardImage(missing=thumb)
    name, full = thumb_name(image.path), str(image.path.relative_to(site.path))
    if isinstance(thumb, bytes):
        site.put(name, thumb)
    else:
        site.has(name)
    if whole:
        site.put(full, whole)
        return BoardImage(name, full)
    return BoardImage(name, full if site.has(full) else "")


def shown_in(entries: Iterable[tuple[Judged | None, tuple[Judged, ...]]]) -> Iterator[Judged]:
    """Yield all images and sources that have a place."""
    for image, sources in entries:
        yield from (picture for picture in (image, *sources) if picture is not None and picture.path is not None)
