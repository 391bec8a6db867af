"""Find the runs below a folder and read their state from their files; nothing is written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from titjudge.core.errors import DataError
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
        spent: USD.
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
    started: float | None = None
    updated: float | None = None
    suite: str = ""
    metrics: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    report: bool = False
    problem: str = ""


class Runs:
    """The runs below `root`. Line counts are cached: reading the states again reads only new lines."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._counts: dict[Path, tuple[int, int, int]] = {}  # inode, bytes read, lines
        self._lock = threading.Lock()

    def folders(self) -> dict[str, Path]:
        """Map run ids (the path below the root, `.` for the root itself) to folders. Symbolic links are not followed."""
        return {folder.relative_to(self.root).as_posix(): folder for folder in _find(self.root, _DEPTH)}

    def states(self) -> list[RunState]:
        """Read the state of all runs: running ones first, then the latest."""
        with self._lock:
            states = [self._state(name, folder) for name, folder in self.folders().items()]
        return sorted(states, key=lambda state: (state.status != "running", -(state.updated or 0.0), state.id))

    def report(self, name: str) -> Path | None:
        """Find the report of a run; None if there is no such run or report, or it is a link out of the runs folder."""
        folder = self.folders().get(name)
        if folder is None:
            return None
        file = folder / "report.html"
        inside = file.is_file() and file.resolve().is_relative_to(self.root.resolve())
        return file if inside else None

    def _state(self, name: str, folder: Path) -> RunState:
        try:
            manifest = Manifest.read(folder / "manifest.json", "the command that made it makes it again")
        except OSError as error:
            return RunState(name, "unreadable", problem=f"manifest.json: {error.strerror}")
        except DataError as error:
            return RunState(name, "unreadable", problem=f"manifest.json: {error.message}")
        status, metrics, progress = manifest.status, tuple(manifest.metrics), manifest.progress
        if status == "running" and time.time() - (manifest.updated or 0.0) > _SILENT and not is_locked(folder):
            status = "stopped"
        items = progress.total if progress else None
        return RunState(
            name,
            status,
            total=items * len(metrics) if items is not None and metrics else None,
            scores=self._lines(folder / "scores.jsonl"),
            items=items,
            failed=progress.failed if progress else None,
            spent=manifest.spent,
            started=manifest.started,
            updated=manifest.updated,
            suite=manifest.suite.name,
            metrics=metrics,
            models=tuple(sorted({role.model for role in manifest.roles.values()} - {""})),
            report=self.report(name) is not None,
        )

    def _lines(self, file: Path) -> int:
        try:
            with file.open("rb") as handle:
                facts = os.fstat(handle.fileno())
                inode, start, lines = self._counts.get(file, (facts.st_ino, 0, 0))
                if inode != facts.st_ino or facts.st_size < start:
                    start = lines = 0
                handle.seek(start)
                while block := handle.read(_BLOCK):
                    lines += block.count(b"\n")
                    start += len(block)
        except OSError:
            return 0
        self._counts[file] = (facts.st_ino, start, lines)
        return lines


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
