"""Find the runs below a folder and read their state from their files; nothing is written."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.files import open_regular
from titjudge.core.run_records import Results, StoredRun, is_locked
from titjudge.stats.verdict.judged_runs import stored_run
from titjudge.stats.verdict.verdict import verdict
from titjudge.web.view.run_state import (
    RUNNING,
    STOPPED,
    UNREADABLE,
    Identity,
    RunState,
    ScoreTail,
    identity,
    read_results,
    read_state,
    with_results,
    with_scores,
)

_FILE = re.compile(r"\d{4,9}\.js|\d{3,9}/\d{1,9}\.webp", re.ASCII)
TYPES = {".js": "text/javascript", ".webp": "image/webp"}


def index_of(run: Path) -> Path | None:
    """Find the page of the report folder of a run; None if there is none, or it is a link."""
    index = run / "report" / "index.html"
    return index if index.is_file() and _is_itself(index, run) else None


def read_file(folder: Path, name: str) -> bytes | None:
    """Read a file of a report folder, named as its page names it below `files`; None if there is none.

    Names that no report has are refused before the disk is asked, and links are not followed: a folder may come from anybody.
    """
    file = folder / "files" / name
    if not _FILE.fullmatch(name) or not _is_itself(file, folder):
        return None
    try:
        with open_regular(file) as opened:
            return opened.read()
    except (OSError, DataError):
        return None


def _is_itself(file: Path, folder: Path) -> bool:
    """Return True if no part of a path below a folder is a link."""
    return file.resolve() == folder.resolve() / file.relative_to(folder)


_DEPTH = 3  # folders below the runs folder in which runs are looked for
_SILENT = 15.0  # seconds; a live run rewrites its manifest every few seconds


@dataclass(slots=True)
class _CachedRun:
    """The content read from a run, and the identity of its files: an unchanged file is not read again.

    Attributes:
        manifest_state: The state in its manifest.
        state: The same with its results, or with its scores so far.
    """

    tail: ScoreTail
    manifest: Identity = ()
    manifest_state: RunState | None = None
    results: Identity = ()
    state: RunState | None = None


class Runs:
    """The runs below `root`. Unchanged files are not read again, and of scores.jsonl only the new lines are read.

    Args:
        root: The folder.
        open_run: Opens a run folder; without it a run that ended without results has no verdict.
    """

    def __init__(self, root: Path, open_run: Callable[[Path], StoredRun] | None = None) -> None:
        self.root, self._open_run = root, open_run
        self._cached: dict[Path, _CachedRun] = {}
        self._lock = threading.Lock()

    def folders(self) -> dict[str, Path]:
        """Map run ids (the path below the root, `.` for the root itself) to folders. Symbolic links are not followed."""
        return {folder.relative_to(self.root).as_posix(): folder for folder in _find(self.root, _DEPTH)}

    def states(self) -> list[RunState]:
        """Read the state of all runs: running ones first, then the latest."""
        with self._lock:
            folders = self.folders()
            self._cached = {folder: self._cached_run(folder) for folder in folders.values()}
            states = [self._state(name, folder) for name, folder in folders.items()]
        return sorted(states, key=lambda state: (state.status != RUNNING, -(state.updated or 0.0), state.id))

    def state(self, name: str) -> RunState | None:
        """Read the state of one run; None if there is no such run."""
        folder = self.folders().get(name)
        if folder is None:
            return None
        with self._lock:
            self._cached[folder] = self._cached_run(folder)
            return self._state(name, folder)

    def report(self, name: str) -> Path | None:
        """Find the report of a run, a file or the page of a folder; None if there is no such run or report.

        A file that is a link out of the runs folder is none, nor is a folder with links. Of two the one that was written last counts.
        """
        folder = self.folders().get(name)
        return None if folder is None else self._report_of(folder)

    def _report_of(self, folder: Path) -> Path | None:
        reports = [file for file in (self._single_file(folder), index_of(folder)) if file is not None]
        return max(reports, key=lambda file: identity(file)[-1:], default=None)

    def _single_file(self, folder: Path) -> Path | None:
        file = folder / "report.html"
        inside = not file.is_symlink() or file.resolve().is_relative_to(self.root.resolve())
        return file if file.is_file() and inside else None

    def _cached_run(self, folder: Path) -> _CachedRun:
        return self._cached.get(folder) or _CachedRun(ScoreTail(folder / "scores.jsonl"))

    def _state(self, name: str, folder: Path) -> RunState:
        """Read the state of one run from what has changed since the last look."""
        cached, file = self._cached[folder], folder / "manifest.json"
        try:
            if cached.manifest_state is None or cached.manifest != identity(file):
                cached.manifest, cached.manifest_state, cached.state = identity(file), read_state(name, file), None
        except OSError as error:
            cached.manifest_state = None
            return RunState(name, UNREADABLE, problem=f"manifest.json: {error.strerror}")
        status = cached.manifest_state.status
        if status == UNREADABLE:
            return cached.manifest_state
        if (
            status == RUNNING
            and time.time() - (cached.manifest_state.updated or 0.0) > _SILENT
            and not is_locked(folder)
        ):
            status = STOPPED
        state = replace(_whole_state(cached, folder, self._open_run, status), status=status)
        return replace(
            state,
            report=self._report_of(folder) is not None,
            seconds_left=state.seconds_left if status == RUNNING else None,
        )


def _whole_state(
    cached: _CachedRun, folder: Path, open_run: Callable[[Path], StoredRun] | None, status: str
) -> RunState:
    """Add the results to the facts of the manifest; the scores so far while the run goes on, was killed or has no results."""
    assert cached.manifest_state is not None
    file = folder / "results.json"
    running, results = status == RUNNING, () if status in (RUNNING, STOPPED) else identity(file)
    if cached.results != results:
        cached.results, cached.state = results, None
    if cached.state is None and results:
        found = read_results(file)
        cached.results, cached.state = (results, with_results(cached.manifest_state, found)) if found else ((), None)
    if not cached.results and (cached.tail.look() or cached.state is None):
        found = None if running or open_run is None else _so_far(open_run(folder), cached.tail)
        cached.state = (
            with_scores(cached.manifest_state, cached.tail, running=running)
            if found is None
            else with_results(cached.manifest_state, found)
        )
    assert cached.state is not None
    return cached.state


def _so_far(run: StoredRun, tail: ScoreTail) -> Results | None:
    """Compute the results of a run that ended without any, as its report does; None if its files are damaged."""
    try:
        judged = stored_run(run, str(run.path))
    except (OSError, DataError):
        return None
    return judged.results.with_(verdict=verdict([judged]), failures=tail.failures()) if judged.metrics else None


def _find(folder: Path, depth: int) -> Iterator[Path]:
    """Find run folders (folders with a manifest) in a folder and `depth` levels below it."""
    if (folder / "manifest.json").is_file():
        yield folder
    if depth:
        try:
            with os.scandir(folder) as entries:
                below = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return
        for name in below:
            if not name.startswith("."):
                yield from _find(folder / name, depth - 1)
