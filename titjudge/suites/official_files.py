"""Download the published files of suites at a pinned revision and check them.

`official_files.json` names repositories on GitHub and on the Hugging Face hub, their commits, and the SHA-256 of each
file. If it names no commit of a data set on the hub, the first download pins it: `fetched.json` next to the files then
has that commit and the checksum of every file, and later downloads take exactly these.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

from titjudge.core.errors import ConfigError, DataError, UserError, unknown
from titjudge.core.files import read_json, write_atomic
from titjudge.core.redaction import url_parts
from titjudge.core.words import first_of
from titjudge.data.data_paths import inside
from titjudge.suites.downloads import PARTS, Downloads, Unavailable, WantedFile, checksum_of

GITHUB = "https://raw.githubusercontent.com"
HUB = "https://huggingface.co"
LOCK = "fetched.json"
_ON_HUB = ("datasets/", "models/")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHECKSUM = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class OfficialFiles:
    """Files of one suite.

    Attributes:
        repository: OWNER/NAME on GitHub, datasets/OWNER/NAME or models/OWNER/NAME on the hub.
        revision: The commit; "" where the first download pins it.
        files: The checksum of each path: its SHA-256, or the id that git gives it.
        sizes: Bytes of each path, if known.
    """

    repository: str
    revision: str = ""
    files: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def on_hub(self) -> bool:
        """Whether the repository is on the Hugging Face hub."""
        return self.repository.startswith(_ON_HUB)

    @property
    def page(self) -> str:
        """Its web page."""
        where = "huggingface.co" if self.on_hub else "github.com"
        return f"{where}/{self.repository.removeprefix('models/')}"

    def url(self, path: str) -> str:
        """Return the address of a file."""
        if not self.on_hub:
            return f"{GITHUB}/{self.repository}/{self.revision}/{quote(path)}"
        return f"{endpoint()}/{self.repository.removeprefix('models/')}/resolve/{self.revision}/{quote(path)}"


def official_files() -> dict[str, OfficialFiles]:
    """Read the known files by suite."""
    text = (Path(__file__).parent / "official_files.json").read_text(encoding="utf-8")
    return {suite: OfficialFiles(**fields) for suite, fields in json.loads(text).items()}


def endpoint() -> str:
    """Return the address of the hub: HF_ENDPOINT, otherwise huggingface.co.

    Raises:
        ConfigError: HF_ENDPOINT is not a web address, or contains a password.
    """
    address = (os.environ.get("HF_ENDPOINT", "").strip() or HUB).rstrip("/")
    parts = url_parts(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
        raise ConfigError("HF_ENDPOINT is not an address such as https://huggingface.co. Change or unset it")
    return address


def fetch_suite(
    suite: str,
    folder: Path,
    say: Callable[[str], None] = lambda line: None,
    *,
    include: Sequence[str] = (),
    revision: str = "",
) -> int:
    """Download the files of a suite that are missing in the folder; returns their number.

    Args:
        suite: Its name, or datasets/OWNER/NAME or models/OWNER/NAME on the hub.
        folder: The folder for them, each at its path in the repository.
        say: Called with a line for each file.
        include: Patterns of paths, such as `images/*`: these files of the repository instead of those the suite needs.
        revision: Commit, branch or tag on the hub instead of the pinned one.

    Raises:
        UserError: The files of the suite are not known, or not available.
        DataError: A file that is there, or that came, is not the published one; it is left alone, or not written.
    """
    by_suite = official_files()
    if suite not in by_suite and not re.fullmatch(r"(datasets|models)(/[\w.-]+){2}", suite, re.ASCII):
        raise UserError(f"{unknown('suite', suite, by_suite)}, and datasets/OWNER/NAME on the hub")
    source = by_suite.get(suite) or OfficialFiles(suite)
    if revision and not source.on_hub:
        raise ConfigError(f"--revision cannot be used for {suite}, which is pinned to a commit on GitHub. Remove it")
    with closing(Downloads(_token() if source.on_hub else "")) as downloads:
        try:
            pinned = _pinned(source, folder, include, revision, downloads)
            chosen = [
                path for path in pinned.files if not include or any(fnmatchcase(path, pattern) for pattern in include)
            ]
            if not chosen:
                example = f", such as {next(iter(pinned.files))}" if pinned.files else ""
                raise UserError(
                    f"{source.page} @{pinned.revision[:7]} has no such file. Give --include a path in it{example}"
                )
            wanted = list(_missing(pinned, chosen, folder))
            if wanted:
                _check_online(source)
                downloads.files(wanted, folder, say)
        except Unavailable as error:
            raise UserError(_by_hand(error, source, folder)) from error
    _complete_lock(folder)
    return len(wanted)


def _pinned(
    source: OfficialFiles, folder: Path, include: Sequence[str], revision: str, downloads: Downloads
) -> OfficialFiles:
    """Find the revision and its checksums: the bundled ones, or from fetched.json, or the hub's, which are written there."""
    lock = _read_lock(folder, source) if source.on_hub else None
    wanted = revision or (lock.revision if lock else source.revision)
    if not source.on_hub or (lock is None and wanted == source.revision and source.files and not include):
        return source
    if lock is None or lock.revision != wanted:
        _check_online(source)
        lock = _listed(replace(source, revision=wanted or "main"), downloads)
        write_atomic(folder / LOCK, _lock_text(lock))
    files = {**lock.files, **(source.files if lock.revision == source.revision else {})}
    needed = lock.files if include or not source.files else source.files
    return replace(lock, files={path: files[path] for path in needed if path in files})


def _check_online(source: OfficialFiles) -> None:
    if source.on_hub and os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise Unavailable(source.page, "HF_HUB_OFFLINE is set; unset it")


def _listed(source: OfficialFiles, downloads: Downloads) -> OfficialFiles:
    """Ask the hub for the commit and the files of a revision."""
    kind, owner, name = source.repository.split("/")
    url = f"{endpoint()}/api/{kind}/{owner}/{name}/revision/{quote(source.revision, safe='')}?blobs=true"
    reply = downloads.json(url)
    try:
        commit, files, sizes = reply["sha"], {}, {}
        for entry in reply["siblings"]:
            path, large = entry["rfilename"], entry.get("lfs") or {}
            files[path] = large.get("sha256") or entry["blobId"]
            size = large.get("size", entry.get("size"))
            if isinstance(size, int):
                sizes[path] = size
    except (TypeError, KeyError, AttributeError) as error:
        raise Unavailable(url, "the reply does not come from a hub") from error
    if _COMMIT.fullmatch(source.revision) and commit != source.revision:
        raise DataError(f"the hub returned commit {str(commit)[:7]} instead of {source.revision[:7]}. Try again", url)
    return _checked(replace(source, revision=commit, files=files, sizes=sizes), url)


def _checked(source: OfficialFiles, where: Path | str) -> OfficialFiles:
    """Return the files; a DataError if commit, checksums or paths are malformed."""
    fits = (
        isinstance(source.revision, str)
        and _COMMIT.fullmatch(source.revision)
        and source.files
        and all(isinstance(checksum, str) and _CHECKSUM.fullmatch(checksum) for checksum in source.files.values())
        and all(isinstance(path, str) and path.split("/")[0] not in (LOCK, PARTS) for path in source.files)
    )
    if not fits:
        raise DataError("the reply has no commit with checksums. Try again", where)
    return source


def _lock_text(lock: OfficialFiles) -> str:
    names = ("repository", "revision", "files", "sizes")
    return json.dumps({name: getattr(lock, name) for name in names}, indent=2, ensure_ascii=False) + "\n"


def _read_lock(folder: Path, source: OfficialFiles | None = None) -> OfficialFiles | None:
    """Read fetched.json; None if there is none.

    Raises:
        DataError: It is damaged, or of another repository.
    """
    file = folder / LOCK
    if not file.is_file():
        return None
    content: Any = read_json(file)
    try:
        lock = OfficialFiles(**content)
        lock = _checked(replace(lock, files=dict(lock.files), sizes=dict(lock.sizes)), file)
    except (TypeError, ValueError) as error:
        raise DataError("damaged. Move it away; the next fetch pins the data set again", file) from error
    if source is not None and lock.repository != source.repository:
        raise DataError(f"the folder has files of {lock.repository}. Choose another folder with -o", file)
    return lock


def _complete_lock(folder: Path) -> None:
    """Add the SHA-256 of downloaded files to fetched.json, if the hub had only their id in git."""
    lock = _read_lock(folder)
    if lock is None:
        return
    sums = {
        path: checksum_of(folder / path, "")
        for path, checksum in lock.files.items()
        if len(checksum) == 40 and (folder / path).is_file()
    }
    if sums:
        write_atomic(folder / LOCK, _lock_text(replace(lock, files={**lock.files, **sums})))


def _missing(source: OfficialFiles, paths: Sequence[str], folder: Path) -> Iterator[WantedFile]:
    """Yield the files that are not there yet.

    Raises:
        DataError: A file that is there differs.
    """
    for path in paths:
        place, checksum = inside(folder, path, "file"), source.files[path]
        if not place.exists():
            yield WantedFile(source.url(path), place, checksum, source.sizes.get(path))
        elif not place.is_file() or checksum_of(place, checksum) != checksum:
            raise DataError(f"this is not the file of {source.repository} @{source.revision[:7]}. Move it away", place)


def _token() -> str:
    token = os.environ.get("HF_TOKEN", "").strip()
    if token and not re.fullmatch(r"[!-~]+", token):
        raise ConfigError("HF_TOKEN has a space or another character that no token has. Correct or unset it")
    return token


def _by_hand(error: Unavailable, source: OfficialFiles, folder: Path) -> str:
    """Explain which files are not available, why, and where to put them by hand."""
    why = error.reason
    if source.on_hub and error.status in (401, 403):
        why += f"; HF_TOKEN may not read {source.page}" if _token() else "; private or not there: set HF_TOKEN"
    names = first_of(list(source.files) or ["its files"], 3)
    commit = f" at {source.revision[:7]}" if source.revision else ""
    return f"{error.url} cannot be downloaded ({why}). By hand: put {names} of {source.page}{commit} into {folder}, at the same paths"
