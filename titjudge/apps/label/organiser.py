"""The page of the organiser: who has done how much, and how far people agree so far."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import Any

from titjudge.apps.label.forms import collect
from titjudge.apps.label.questions import ExportRules
from titjudge.apps.label.service import Service
from titjudge.core.errors import UserError
from titjudge.core.tables import Table, text_of

_EVERY = 20.0  # seconds between two computations of the tables: the pages of annotators wait for the same processor


class Organiser:
    """Describes a labelling for its organiser. Methods may be called from any thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tables: list[dict[str, Any]] = []
        self._why_none = ""
        self._computed = 0.0
        self._row = -1
        self._lock = threading.Lock()

    def overview(self) -> dict[str, Any]:
        """Return `people`, everybody's progress, and `tables`, what `label export` would print, or `no_tables`, why not.

        `seats` is how many people may come by an open link; 0 where everybody has a link of their own.
        """
        with self._lock:
            self._compute()
            return {
                "people": [asdict(progress) for progress in self._service.progress()],
                "seats": self._service.seats,
                "tables": self._tables,
                "no_tables": self._why_none,
                "export": f"python cli.py label export {self._service.store.path} labelled",
            }

    def _compute(self) -> None:
        """Compute the tables anew, where there are new answers and the last time was `_EVERY` seconds ago."""
        row, _ = self._service.store.prompts_after(0)
        if row == self._row or (time.monotonic() - self._computed < _EVERY and self._row >= 0):
            return
        try:
            labelling = collect(self._service.store.path)
            self._tables = [_table_json(table) for table in labelling.form.export(labelling, ExportRules()).tables]
            self._why_none = ""
        except UserError as error:  # there is no answer yet that counts
            self._tables, self._why_none = [], str(error)
        self._row, self._computed = row, time.monotonic()


def _table_json(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": list(table.columns),
        "rows": [[text_of(value) for value in row] for row in table.rows],
        "notes": list(table.notes),
    }
