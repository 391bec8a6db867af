"""The published prompt files of suites, downloaded at a pinned revision and checked (`official_files.json`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from titjudge.core.errors import DataError, UserError, nearest
from titjudge.core.files import write_atomic

HOST = "https://raw.githubusercontent.com"
_TIMEOUT = 60  # seconds without a byte
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class OfficialFiles:
    """Files of one suite: their repository on GitHub, its commit, and the SHA-256 of each path."""

    repository: str
    revision: str
    files: dict[str, str]


def official_files() -> dict[str, OfficialFiles]:
    """Read which files of which suites are known."""
    text = (Path(__file__).parent / "official_files.json").read_text(encoding="utf-8")
    return {suite: OfficialFiles(**known) for suite, known in json.loads(text).items()}


def fetch_suite(suite: str, folder: Path, say: Callable[[str], None] = lambda line: None) -> int:
    """Download the files of a suite that the folder lacks; returns how many came.

    Args:
        suite: Its name.
        folder: Where they go, each at its path in the repository.
        say: Told of each file that came.

    Raises:
        UserError: The suite's files are not known here, or cannot be reached.
        DataError: A file that is there, or that came, is not the published one; it is left alone, or not written.
    """
    known = official_files()
    if suite not in known:
        raise UserError(f"no files of '{suite}' are known here.{nearest(suite, known)} There are: {', '.join(known)}")
    source, came = known[suite], 0
    for path, checksum in source.files.items():
        place = folder / path
        if place.exists():
            if hashlib.sha256(place.read_bytes()).hexdigest() != checksum:
                raise DataError(
                    f"this is not the file of {source.repository} @{source.revision[:7]}: move it away", place
                )
            continue
        content = _download(f"{HOST}/{source.repository}/{source.revision}/{quote(path)}", source, folder)
        if hashlib.sha256(content).hexdigest() != checksum:
            raise DataError(
                f"what came is not the file of {source.repository} @{source.revision[:7]}: not written", place
            )
        write_atomic(place, content)
        came += 1
        say(f"{place} ({len(content):,} bytes)")
    return came


def _download(url: str, source: OfficialFiles, folder: Path) -> bytes:
    try:
        with urlopen(url, timeout=_TIMEOUT) as reply:
            content: bytes = reply.read(_LARGEST)
            return content
    except (URLError, OSError) as error:
        first, *more = source.files
        rest = f" and {len(more)} more" if more else ""
        raise UserError(
            f"{url} cannot be had ({getattr(error, 'reason', error)}). By hand: put {first}{rest} of "
            f"github.com/{source.repository} at {source.revision[:7]} into {folder}, at the same paths"
        ) from error
