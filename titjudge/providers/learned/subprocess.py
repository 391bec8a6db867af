"""Run a command with bounded output and time, and leave no process behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

_TAIL = 8 * 2**10  # bytes of the error output that are kept
_POLL = 0.02  # seconds


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """How a command ended.

    Attributes:
        code: The exit code, negative for a signal.
        late: Its `timeout` (seconds) was over.
        overflow: It wrote more than `limit` bytes.
        last_words: The last line of its error output.
    """

    output: bytes
    code: int
    late: bool
    overflow: bool
    last_words: str
    timeout: float
    limit: int


def run(
    words: Sequence[str],
    data: bytes,
    *,
    timeout: float,
    limit: int,
    environment: Mapping[str, str],
    stopping: Callable[[], bool] = lambda: False,
) -> ProcessOutcome:
    """Run `words` (no shell) with `data` as standard input, for at most `timeout` seconds.

    The command is the head of a new process group, which is ended with it, on time-out, when it writes more than `limit`
    bytes, and when `stopping` returns True.
    """
    with tempfile.TemporaryFile() as source:
        source.write(data)
        source.seek(0)
        try:
            process = subprocess.Popen(
                list(words),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            return ProcessOutcome(b"", 127, False, False, f"{words[0]}: {error.strerror}", timeout, limit)
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = _Reader(process.stdout, limit, keep_end=False), _Reader(process.stderr, _TAIL, keep_end=True)
    try:
        late = not _wait(process, time.monotonic() + timeout, lambda: out.full or stopping())
    finally:  # Ctrl-C does not reach another session
        _end(process)
    for reader, pipe in ((out, process.stdout), (err, process.stderr)):
        reader.join(5)
        if not reader.is_alive():
            pipe.close()
    return ProcessOutcome(
        bytes(out.kept), process.returncode, late and not out.full, out.full, _last_line(err.kept), timeout, limit
    )


class _Reader(threading.Thread):
    """Empties a pipe so that the command never blocks on it; keeps the first `limit` bytes, or the last."""

    def __init__(self, pipe: IO[bytes], limit: int, *, keep_end: bool) -> None:
        super().__init__(daemon=True)
        self.kept, self.full = bytearray(), False
        self._pipe, self._limit, self._keep_end = pipe, limit, keep_end
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), 65_536):
                if self._keep_end:
                    self.kept += chunk
                    del self.kept[: -self._limit]
                elif len(self.kept) + len(chunk) > self._limit:
                    self.full = True
                elif not self.full:
                    self.kept += chunk


def _wait(process: subprocess.Popen[bytes], deadline: float, enough: Callable[[], bool]) -> bool:
    """Whether the command ended by itself."""
    while not enough():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_POLL, deadline - time.monotonic())))
            return True
        if time.monotonic() >= deadline:
            return False
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _last_line(tail: bytearray) -> str:
    lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "")
    return "".join(char if char.isprintable() else " " for char in last)[:300]
