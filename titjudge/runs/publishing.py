"""Publish a board of runs: copies that `verify` accepts, and the pages about them, in one folder for any web server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.errors import DataError, UserError
from titjudge.core.types import Item
from titjudge.report.site_folder import SiteFolder, slug
from titjudge.report.site_images import image_names
from titjudge.report.site_pages import write_site
from titjudge.runs.folder.published_copy import published_files
from titjudge.runs.folder.run_folder import RunFolder

RUNS = "runs"
_UP = "../.."  # from a run to the board


@dataclass(frozen=True, slots=True)
class PublishedBoard:
    """A board that was written.

    Attributes:
        index: Its first page.
        runs: The folders of its runs.
        written, unchanged, removed: Numbers of files.
    """

    index: Path
    runs: tuple[Path, ...]
    written: int
    unchanged: int
    removed: int


def publish(
    runs: Sequence[Path], out: Path, *, title: str = "Leaderboard", full_images: bool = False
) -> PublishedBoard:
    """Write a board of runs, or add them to the board that is there.

    A run that the board has already (it began at the same time) is renewed; its other runs stay, whether their folders are
    still here or not.

    Args:
        runs: Run folders.
        out: The folder of the board.
        title: The title of the board.
        full_images: Whether to publish images as they are, beside thumbnails.

    Raises:
        DataError: One is no run folder, or `out` holds something else than a board.
        UserError: A run is being written, or names a file of this machine that cannot be left out.
    """
    out = out.resolve()
    site = SiteFolder(out)
    folders = [RunFolder(path) for path in runs]
    for folder in folders:
        folder.check()
        if folder.is_locked():
            raise UserError(f"{folder.path}: another titjudge is writing this run")
        if out in folder.path.resolve().parents or out == folder.path.resolve():
            raise UserError(f"{folder.path} is the copy of a run on this board: name the run itself, or nothing of it")
    with site:
        names = _names(folders, out)
        originals: dict[Path, Path] = {}
        for folder, name in zip(folders, names, strict=True):
            originals |= _copy(folder, name, site)
        kept = [run for run in _published(out) if run.path.name not in names]
        for run in kept:
            for file in run.path.rglob("*"):
                if file.is_file():
                    site.has(file.relative_to(out).as_posix())
        of_board = sorted([*kept, *(RunFolder(out / RUNS / name) for name in names)], key=_order)
        index = write_site(of_board, site, originals, title=title, full_images=full_images)
    return PublishedBoard(index, tuple(run.path for run in of_board), site.written, site.unchanged, site.removed)


def _copy(folder: RunFolder, name: str, site: SiteFolder) -> dict[Path, Path]:
    """Copy a run into a board; returns the file of each image by its place on the board."""
    items = [item for item in folder.items() if isinstance(item, Item)]
    places = image_names(path for item in items for path in (item.image, *item.sources) if path is not None)
    for file, pieces in published_files(folder, lambda path: f"{_UP}/{places[path]}"):
        site.put_pieces(f"{RUNS}/{name}/{file}", pieces)
    return {site.path / place: path for path, place in places.items()}


def _names(folders: Sequence[RunFolder], out: Path) -> list[str]:
    """Name the copies of runs: as the copy that is there already, else after their folders, with a number where that is taken."""
    names_by_start = {run.manifest().started: run.path.name for run in _published(out)}
    taken = set(names_by_start.values())
    names: list[str] = []
    for folder in folders:
        began, plain = folder.manifest().started, slug(folder.path.resolve().name)
        former = names_by_start.get(began) if began is not None else None
        numbered = (plain, *(f"{plain}-{number}" for number in range(2, 10_000)))
        name = former or next(free for free in numbered if free not in taken)
        if name in names:
            raise DataError("is given twice", folder.path)
        taken.add(name)
        names.append(name)
    return names


def _published(out: Path) -> list[RunFolder]:
    return [RunFolder(file.parent) for file in sorted((out / RUNS).glob("*/manifest.json"))]


def _order(run: RunFolder) -> tuple[float, str]:
    return run.manifest().started or 0.0, run.path.name
