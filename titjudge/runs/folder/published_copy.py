"""Copy a run into a published board, so that `verify` accepts it elsewhere: paths of this machine are taken out of it.

Images are named relative to the copy, and folders of this machine leave every text. Checksums of lines, and the digests of
what was judged, are then made anew, since they are over the paths; values, answers and keys stay as they were.
"""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from titjudge.core import registry
from titjudge.core.errors import UserError
from titjudge.core.files import read_json
from titjudge.core.serialization import json_bytes, with_checksum
from titjudge.core.types import Item
from titjudge.runs.folder.identity import PROMPTS, SUITE
from titjudge.runs.folder.run_folder import FILES, RunFolder
from titjudge.runs.folder.score_digests import Digests

_SEAL = "seal"
_GZIP = 31  # zlib's number for the format
_PATH = re.compile(r"(?:^|[\s\"'=,(\[:/])(/[^\s\"',)\]:]+/[^\s\"',)\]:]+)")

Place = Callable[[Path], str]  # of an image, relative to the copy


class LocalPaths:
    """Takes the names of folders of this machine out of texts: `/home/me/data/a.png` becomes `a.png`.

    Args:
        folders: The folders; a path below one keeps what comes after it.
    """

    def __init__(self, folders: set[Path]) -> None:
        names = sorted({str(folder) for folder in folders if len(folder.parts) > 1}, key=len, reverse=True)
        self._raw = [json_bytes(name)[1:-1] for name in names]
        words = "|".join(map(re.escape, names))
        self._pattern = re.compile(rf"(?<![\w./:-])(?:{words})(?:/|(?![\w.-]))") if names else None

    @classmethod
    def from_run(cls, run: RunFolder) -> LocalPaths:
        """Find the folders that a run may name: of its images and data, its own, the current one, the user's, the temporary."""
        items = [item for item in run.items() if isinstance(item, Item)]
        images = {image.parent for item in items for image in (item.image, *item.sources) if image is not None}
        identity = run.manifest().identity
        data = {Path(str(identity[key])) for key in ("data", PROMPTS) if identity.get(key)}
        usual = {run.path.resolve(), run.path.resolve().parent, Path.cwd(), Path.home(), Path(tempfile.gettempdir())}
        folders = images | data | usual | {path.parent for path in data}
        return cls({folder for folder in folders if folder.is_absolute()})

    def strip(self, value: Any) -> Any:
        """Return JSON data with the names of these folders taken out of all texts."""
        if self._pattern is None or not any(name in json_bytes(value) for name in self._raw):
            return value
        return self._cleaned(value)

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str) and self._pattern is not None:
            return self._pattern.sub("", value) or "."
        if isinstance(value, Mapping):
            return {self._cleaned(key): self._cleaned(child) for key, child in value.items()}
        return [self._cleaned(child) for child in value] if isinstance(value, list) else value


def published_files(run: RunFolder, place: Place) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name of each file of the copy with its content in pieces.

    Args:
        run: The run.
        place: Says where an image lies, relative to the copy; it need not be there.

    Raises:
        UserError: The manifest names a file of this machine that cannot be left out, such as weights of a model.
        DataError: This is no run folder, or it is damaged.
    """
    paths = LocalPaths.from_run(run)
    contents = dict(_own_files(run))
    manifest = read_json(run.path / "manifest.json")
    manifest["identity"] = _identity(manifest.get("identity") or {}, contents)
    manifest = paths.strip(manifest)
    if named := _local_file(manifest):
        raise UserError(f"{run.path} cannot be published: its manifest names {named}, a file of this machine")
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


def _identity(identity: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """Name data, templates and suite as they lie in the copy."""
    changes: dict[str, Any] = {}
    if identity.get("data"):
        changes["data"] = Path(str(identity["data"])).name
    if identity.get(PROMPTS):
        changes[PROMPTS] = PROMPTS if any(name.startswith(f"{PROMPTS}/") for name in files) else None
    if SUITE in files:
        changes["suite"] = SUITE
    return {**identity, **changes}


def _local_file(manifest: Any) -> str:
    """Find an absolute path of this machine in the manifest; empty where there is none."""
    paths = _PATH.findall(json_bytes(manifest).decode())
    return next((name for name in paths if os.path.isabs(name) and os.path.exists(name)), "")


def _item(record: Mapping[str, Any], place: Place, paths: LocalPaths) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if record.get("image"):
        changes["image"] = place(Path(record["image"]))
    if record.get("sources"):
        changes["sources"] = [place(Path(source)) for source in record["sources"]]
    cleaned: dict[str, Any] = paths.strip({**record, **changes})
    return cleaned


def _scores(run: RunFolder, place: Place, paths: LocalPaths) -> Iterator[dict[str, Any]]:
    """Yield the scores, with the digests of what was judged as the copy's items have them."""
    then = Digests(run.read("items.jsonl"), prompts=True)
    now = Digests((_item(record, place, paths) for record in run.read("items.jsonl")), prompts=True)
    for record in run.read("scores.jsonl"):
        item, digest = record["item"], record.get("of", "")
        for together in (False, True):
            if digest and digest == then.digest(item, together=together):
                record["of"] = now.digest(paths.strip(item), together=together)
        yield paths.strip(record)


def _lines(records: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the gzip file of the lines, the same bytes for the same records."""
    packer = zlib.compressobj(wbits=_GZIP)
    for record in records:
        sealed = with_checksum(_without_seal(record)) if _SEAL in record else record
        yield packer.compress(json_bytes(sealed) + b"\n")
    yield packer.flush()


def _without_seal(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != _SEAL}
