"""Find the runs below a folder and read their state from their files; nothing is written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from titjudge.core.errors import DataError
from titjudge.core.files import open_regular
from titjudge.core.run_records import Manifest, is_locked

_DEPTH = 3  # folders below the runs folder in which runs are looked for
_BLOCK = 1 << 20
_SILENT = 15.0  # seconds; a live run rewrites its manifest every few seconds


@dataclass(frozen=True, slots=True)
class RunState:
    """One run as the page shows it.

    Attributes:
        id: Its path below the runs folder.
        status: The status in the manifest, `stopped` if that is `running` but no process writes the run, or `unreadable`.
        total: Number of (item, metric) pairs; None while unknown.
        scores: Lines of scores.jsonl; a resumed run can have more lines than pairs.
        spent: USD; None while it is unknown.
        unpriced: Requests whose price nobody knows; their cost is not in `spent`.
        started: Unix seconds, as `updated`.
        report: Whether there is a report.
        problem: Why the run cannot be read.
    """

    id: str
    status: str
    total: int | None = None
    scores: int = 0
    items: int | None = None
    failed: int | None = None
    spent: float | None = None
    unpriced: int = 0
    started: float | None = None
    updated: float | None = None
    suite: str = ""
    metrics: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    report: bool = False
    problem: str = ""


@dataclass(slots=True)
class _Known:
    """What was read of a run, and the identity of the files it was read from: an unchanged file is not read again.

    Attributes:
        counted: Bytes of scores.jsonl in which the lines are counted.
        lines: These lines.
    """

    manifest: tuple[int, ...] = ()
    state: RunState | None = None
    scores: tuple[int, ...] = ()
    counted: int = 0
    lines: int = 0


class Runs:
    """The runs below `root`. What has not changed is not read again, and of scores.jsonl only the new lines are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, _Known] = {}
        self._lock = threading.Lock()

    def folders(self) -> dict[str, Path]:
        """Map run ids (the path below the root, `.` for the root itself) to folders. Symbolic links are not followed."""
        return {folder.relative_to(self.root).as_posix(): folder for folder in _find(self.root, _DEPTH)}

    def states(self) -> list[RunState]:
        """Read the state of all runs: running ones first, then the latest."""
        with self._lock:
            folders = self.folders()
            self._known = {folder: self._known.get(folder) or _Known() for folder in folders.values()}
            states = [self._state(name, folder, self._known[folder]) for name, folder in folders.items()]
        return sorted(states, key=lambda state: (state.status != "running", -(state.updated or 0.0), state.id))

    def report(self, name: str) -> Path | None:
        """Find the report of a run; None if there is no such run or report, or it is a link out of the runs folder."""
        folder = self.folders().get(name)
        if folder is None:
            return None
        return folder / "report.html" if self._has_report(folder) else None

    def _has_report(self, folder: Path) -> bool:
        file = folder / "report.html"
        if not file.is_file():
            return False
        return not file.is_symlink() or file.resolve().is_relative_to(self.root.resolve())

    def _state(self, name: str, folder: Path, known: _Known) -> RunState:
        file = folder / "manifest.json"
        try:
            identity = _identity(os.stat(file))
            if known.state is None or known.manifest != identity:
                known.manifest, known.state = identity, _read(name, file)
        except OSError as error:
            known.state = None
            return RunState(name, "unreadable", problem=f"manifest.json: {error.strerror}")
        state = known.state
        if state.status == "unreadable":
            return state
        status = state.status
        if status == "running" and time.time() - (state.updated or 0.0) > _SILENT and not is_locked(folder):
            status = "stopped"
        scores = _lines(folder / "scores.jsonl", known)
        return replace(state, status=status, scores=scores, report=self._has_report(folder))


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    """Return what changes when a file is written or replaced."""
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _read(name: str, file: Path) -> RunState:
    """Read what the manifest says of a run.

    Raises:
        OSError: It cannot be read.
    """
    try:
        manifest = Manifest.read(file, "the command that made it makes it again")
    except DataError as error:
        return RunState(name, "unreadable", problem=f"manifest.json: {error.message}")
    progress, metrics = manifest.progress, tuple(manifest.metrics)
    items = progress.total if progress else None
    return RunState(
        name,
        manifest.status,
        total=items * len(metrics) if items is not None and metrics else None,
        items=items,
        failed=progress.failed if progress else None,
        spent=manifest.spent,
        unpriced=manifest.unpriced,
        started=manifest.started,
        updated=manifest.updated,
        suite=manifest.suite.name,
        metrics=metrics,
        models=tuple(sorted({role.model for role in manifest.roles.values()} - {""})),
    )


def _lines(file: Path, known: _Known) -> int:
    """Count the lines of a file; only what was added since is read."""
    try:
        facts = os.stat(file)
        if (identity := _identity(facts)) == known.scores:
            return known.lines
        if identity[:2] != known.scores[:2] or facts.st_size < known.counted:
            known.counted = known.lines = 0
        with open_regular(file) as handle:
            handle.seek(known.counted)
            while block := handle.read(_BLOCK):
                known.lines += block.count(b"\n")
                known.counted += len(block)
    except (OSError, DataError):
        known.scores, known.counted, known.lines = (), 0, 0
        return 0
    known.scores = identity
    return known.lines


def _find(folder: Path, depth: int) -> Iterator[Path]:
    """Find run folders (those with a manifest) in a folder and `depth` levels below it."""
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
