"""Reports that are made when somebody opens them: of two runs side by side, or of a run that has none yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from titjudge.core.run_records import StoredRun
from titjudge.web.view.score_tail import Identity, identity

_WATCHED = ("scores.jsonl", "results.json")


class MadeReports:
    """Reports in a folder of their own; the run folders are only read.

    Args:
        place: The folder for the reports.
        open_run: Opens a run folder for reading.
    """

    def __init__(self, place: Path, open_run: Callable[[Path], StoredRun]) -> None:
        self._place, self._open = place, open_run
        self._made: dict[tuple[Path, ...], tuple[list[Identity], Path]] = {}
        self._lock = threading.Lock()

    def report(self, folders: Sequence[Path]) -> Path:
        """Make the report of runs, or return the one that was made since they last changed.

        Raises:
            DataError: A folder is not a run, or is damaged.
        """
        from titjudge.report import write_report

        now = [identity(folder / name) for folder in folders for name in _WATCHED]
        with self._lock:  # one at a time: it takes seconds of all processors
            before, file = self._made.get(tuple(folders), ([], self._place / f"{len(self._made)}.html"))
            if before != now:
                write_report([self._open(folder) for folder in folders], file)
                self._made[tuple(folders)] = now, file
        return file
