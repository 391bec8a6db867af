"""Handle signals that end a command."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, too, so that files are closed and processes ended."""
    before = None
    with contextlib.suppress(ValueError):  # only the main thread can set signal handlers
        before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def interrupts_noticed() -> Iterator[list[int]]:
    """Note each SIGINT in the list that is given, also where the process ignores it; otherwise act on it at the end.

    For calls into libraries that react to SIGINT themselves. In another thread than the main one nothing is noted.
    """
    noted: list[int] = []
    before: Any = None
    with contextlib.suppress(ValueError):  # only the main thread can set signal handlers
        before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if noted and before is not signal.SIG_IGN:
        signal.raise_signal(signal.SIGINT)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
