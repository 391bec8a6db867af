"""Publish a board of runs: copies that `verify` accepts, and the pages about them, in one folder for any web server.

Image paths are relative to the copy, and folders of this machine are removed from every text. Checksums of lines, and the
digests of the judged input, are then computed again, since they are over the paths; values, answers and keys stay as they
were.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from titjudge.core import registry
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import read_json
from titjudge.core.local_names import LocalNames
from titjudge.core.serialization import json_bytes, with_checksum
from titjudge.core.types import Item, Json, Values
from titjudge.report.site import write_site
from titjudge.report.site_folder import SiteFolder, slug
from titjudge.report.site_images import image_names
from titjudge.runs.folder.identity import PROMPTS, SUITE
from titjudge.runs.folder.run_folder import FILES, Digests, RunFolder

_SEAL = "seal"
_GZIP = 31  # zlib's number for the format
_PATH = re.compile(r"(?:^|[\s\"'=,(\[:/])(/[^\s\"',)\]:]+/[^\s\"',)\]:]+)")

Place = Callable[[Path], str]  # of an image, relative to the copy


def published_files(run: RunFolder, place: Place) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name of each file of the copy with its content in pieces.

    Args:
        run: The run.
        place: Returns the path of an image, relative to the copy; it need not be there.

    Raises:
        UserError: The manifest names a file of this machine that cannot be left out, such as weights of a model.
        DataError: This is not a run folder, or it is damaged.
    """
    paths = LocalNames.of_runs([(run.path, run.manifest(), run.items())])
    contents = dict(_own_files(run))
    manifest = read_json(run.path / "manifest.json")
    manifest["identity"] = _identity(manifest.get("identity") or {}, contents)
    manifest = paths.strip(manifest)
    if named := _local_file(manifest):
        raise UserError(
            f"{run.path} cannot be published: its manifest contains the path {named} of this machine. Judge with relative paths"
        )
    yield "manifest.json", iter([json_bytes(with_checksum(_without_seal(manifest)), orjson.OPT_INDENT_2)])
    if (run.path / "results.json").is_file():
        results = paths.strip(read_json(run.path / "results.json"))
        yield "results.json", iter([json_bytes(results, orjson.OPT_INDENT_2)])
    yield "items.jsonl.gz", _lines(_item(record, place, paths) for record in run.read("items.jsonl"))
    for name in FILES:
        if name != "scores":
            yield f"{name}.jsonl.gz", _lines(paths.strip(record) for record in run.read(f"{name}.jsonl"))
    yield "scores.jsonl.gz", _lines(_scores(run, place, paths))
    yield from ((name, iter([content])) for name, content in contents.items())


def _own_files(run: RunFolder) -> Iterator[tuple[str, bytes]]:
    """Yield the templates and the suite that the run took from files of its user: `verify` needs them."""
    manifest = run.manifest()
    overlay, suite = manifest.identity.get(PROMPTS), str(manifest.identity.get("suite") or "")
    for name in manifest.prompts if overlay else ():
        file = Path(str(overlay)) / f"{name}.md"
        if ".." not in PurePosixPath(name).parts and not name.startswith("/") and file.is_file():
            yield f"{PROMPTS}/{name}.md", file.read_bytes()
    if registry.is_suite_file(suite) and Path(suite).is_file():
        yield SUITE, Path(suite).read_bytes()


def _identity(identity: Values, files: Mapping[str, bytes]) -> Json:
    """Name data, templates and suite as they lie in the copy."""
    changes: Json = {}
    if identity.get("data"):
        changes["data"] = Path(str(identity["data"])).name
    if identity.get(PROMPTS):
        changes[PROMPTS] = PROMPTS if any(name.startswith(f"{PROMPTS}/") for name in files) else None
    if SUITE in files:
        changes["suite"] = SUITE
    return {**identity, **changes}


def _local_file(manifest: Any) -> str:
    """Find an absolute path of this machine in the manifest; empty if there is none."""
    paths = _PATH.findall(json_bytes(manifest).decode())
    return next((name for name in paths if os.path.isabs(name) and os.path.exists(name)), "")


def _item(record: Values, place: Place, paths: LocalNames) -> Json:
    changes: Json = {}
    if record.get("image"):
        changes["image"] = place(Path(record["image"]))
    if record.get("sources"):
        changes["sources"] = [place(Path(source)) for source in record["sources"]]
    cleaned: Json = paths.strip({**record, **changes})
    return cleaned


def _scores(run: RunFolder, place: Place, paths: LocalNames) -> Iterator[Json]:
    """Yield the scores, with the digests of the copy's items."""
    then = Digests(run.read("items.jsonl"), prompts=True)
    now = Digests((_item(record, place, paths) for record in run.read("items.jsonl")), prompts=True)
    for record in run.read("scores.jsonl"):
        item, digest = record["item"], record.get("of", "")
        for together in (False, True):
            if digest and digest == then.digest(item, together=together):
                record["of"] = now.digest(paths.strip(item), together=together)
        yield paths.strip(record)


def _lines(records: Iterator[Values]) -> Iterator[bytes]:
    """Yield the gzip file of the lines, the same bytes for the same records."""
    packer = zlib.compressobj(wbits=_GZIP)
    for record in records:
        sealed = with_checksum(_without_seal(record)) if _SEAL in record else record
        yield packer.compress(json_bytes(sealed) + b"\n")
    yield packer.flush()


def _without_seal(record: Values) -> Json:
    return {name: value for name, value in record.items() if name != _SEAL}


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
        DataError: One is not a run folder, or `out` is not a board.
        UserError: A run is being written, or names a file of this machine that cannot be left out.
    """
    out = out.resolve()
    site = SiteFolder(out)
    folders = [RunFolder(path) for path in runs]
    for folder in folders:
        folder.check()
        if folder.is_locked():
            raise UserError(f"{folder.path}: another titjudge is writing this run. Wait until it ends")
        if out in folder.path.resolve().parents or out == folder.path.resolve():
            raise UserError(f"{folder.path} is a copy on this leaderboard. Give the run itself, or leave it out")
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
    """Name the copies of runs: like an existing copy, otherwise after their folders, with a number if that is taken."""
    names_by_start = {run.manifest().started: run.path.name for run in _published(out)}
    taken = set(names_by_start.values())
    names: list[str] = []
    for folder in folders:
        began, plain = folder.manifest().started, slug(folder.path.resolve().name)
        former = names_by_start.get(began) if began is not None else None
        numbered = (plain, *(f"{plain}-{number}" for number in range(2, 10_000)))
        name = former or next(free for free in numbered if free not in taken)
        if name in names:
            raise DataError("is given twice. Remove one", folder.path)
        taken.add(name)
        names.append(name)
    return names


def _published(out: Path) -> list[RunFolder]:
    return [RunFolder(file.parent) for file in sorted((out / RUNS).glob("*/manifest.json"))]


def _order(run: RunFolder) -> tuple[float, str]:
    return run.manifest().started or 0.0, run.path.name
