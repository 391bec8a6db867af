"""Tickets for reports: each opens a page once, and then, where its report is a folder, the files of that folder alone.

A page asks for its files when they are looked at, which may be hours later; it has no key, since it may come from anybody.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAGE_SECONDS = 60.0  # in which a page must be opened
_FILES_SECONDS = 24 * 3600.0  # without a look, after which its files are closed


@dataclass(slots=True)
class _Ticket:
    """What a ticket opens.

    Attributes:
        runs: Ids of the runs whose report may be opened; none once it was.
        until: When the ticket ends, by the clock.
        folder: The folder whose files may be read; None before the page is opened, and where it needs none.
    """

    runs: tuple[str, ...]
    until: float
    folder: Path | None = None


class Tickets:
    """The tickets that are out. Methods are called from one thread.

    Args:
        clock: Tells the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[str, _Ticket] = {}

    def give(self, runs: Sequence[str]) -> str:
        """Make a ticket for the report of runs."""
        self._tickets = {name: ticket for name, ticket in self._tickets.items() if ticket.until > self._clock()}
        name = secrets.token_urlsafe(24)
        self._tickets[name] = _Ticket(tuple(runs), self._clock() + _PAGE_SECONDS)
        return name

    def take(self, name: str) -> tuple[str, ...]:
        """Return the runs whose report a ticket opens, once; none if it opens nothing."""
        ticket = self._standing(name)
        if ticket is None:
            return ()
        runs, ticket.runs = ticket.runs, ()
        return runs

    def keep(self, name: str, folder: Path) -> None:
        """Let a ticket that was taken open the files of a folder from now on."""
        if (ticket := self._standing(name)) is not None:
            ticket.folder, ticket.until = folder, self._clock() + _FILES_SECONDS

    def folder(self, name: str) -> Path | None:
        """Return the folder whose files a ticket opens; None if it opens none."""
        ticket = self._standing(name)
        if ticket is None or ticket.folder is None:
            return None
        ticket.until = self._clock() + _FILES_SECONDS
        return ticket.folder

    def _standing(self, name: str) -> _Ticket | None:
        ticket = self._tickets.get(name)
        return ticket if ticket is not None and ticket.until > self._clock() else None
