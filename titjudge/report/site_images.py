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
class Shown:
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
) -> dict[Judged, Shown]:
    """Write a thumbnail of each image, and with `full` the image as it is, and say where they lie.

    Args:
        site: The board.
        images: The images, with their places on the board as paths.
        originals: The file of each such place; of runs that only the board still has there is none.
        full: Whether to publish images as they are.
    """
    distinct = list(dict.fromkeys(images))
    shown: dict[Judged, Shown] = {}
    with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=workers()) as pool:
        warnings.simplefilter("ignore")  # as in `thumbnails`
        for start in range(0, len(distinct), _AHEAD):
            some = distinct[start : start + _AHEAD]
            made = pool.map(lambda one: _made(site, one, originals, full=full), some)
            shown |= {one: _put(site, one, *parts) for one, parts in zip(some, made, strict=True)}
    return shown


def thumb_name(image: Path) -> str:
    """Name the thumbnail of an image of the board."""
    return f"thumbnails/{image.parent.name}/{image.stem}-{EDGE}.webp"


def _made(site: SiteFolder, one: Judged, originals: Mapping[Path, Path], *, full: bool) -> tuple[bytes | str, bytes]:
    """Make what is not there yet: the thumbnail, or why there is none, and the whole image; nothing for what is there."""
    assert one.path is not None
    original = originals.get(one.path)
    if original is None:
        return ("" if (site.path / thumb_name(one.path)).is_file() else _GONE), b""
    judged = replace(one, path=original)
    if (site.path / thumb_name(one.path)).is_file():
        thumb: bytes | str = ""
    else:
        thumb = thumbnail(judged, EDGE, QUALITY)
    wanted = full and not (isinstance(thumb, str) and thumb) and not one.path.is_file()
    return thumb, read(original) if wanted else b""


def _put(site: SiteFolder, one: Judged, thumb: bytes | str, whole: bytes) -> Shown:
    assert one.path is not None
    if isinstance(thumb, str) and thumb:
        return Shown(missing=thumb)
    name, full = thumb_name(one.path), str(one.path.relative_to(site.path))
    if isinstance(thumb, bytes):
        site.put(name, thumb)
    else:
        site.has(name)
    if whole:
        site.put(full, whole)
        return Shown(name, full)
    return Shown(name, full if site.has(full) else "")


def shown_in(entries: Iterable[tuple[Judged | None, tuple[Judged, ...]]]) -> Iterator[Judged]:
    """Yield all images and sources that have a place."""
    for image, sources in entries:
        yield from (one for one in (image, *sources) if one is not None and one.path is not None)
