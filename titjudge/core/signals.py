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


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
