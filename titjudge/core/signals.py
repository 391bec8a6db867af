"""Handle signals that end a command."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

INTERRUPTED = 130  # exit code
_ECHO = 1.0  # seconds in which a second SIGTERM is the first: `timeout` sends it to the process, and then to its group
_terminated = -math.inf  # when the last SIGTERM that counts came, by `time.monotonic`


def terminated_like_ctrl_c() -> contextlib.AbstractContextManager[None]:
    """Handle SIGTERM as Ctrl-C is handled at that moment: answers are awaited, files closed, processes ended."""
    return _handled(signal.SIGTERM, _interrupt)


@contextlib.contextmanager
def interrupts_call(handle: Callable[[], None], loop: AbstractEventLoop) -> Iterator[None]:
    """Call `handle` in a running event loop at each Ctrl-C and SIGTERM, even if the process ignores Ctrl-C.

    Otherwise `asyncio.run` cancels its task, and drops the others with the answers that they wait for. Outside the main
    thread nothing is handled.
    """
    with terminated_like_ctrl_c(), _handled(signal.SIGINT, signal.default_int_handler):
        with contextlib.suppress(RuntimeError):
            loop.add_signal_handler(signal.SIGINT, handle)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def ended_by_ctrl_c() -> contextlib.AbstractContextManager[None]:
    """End the process at once at Ctrl-C, with a line and no traceback: for imports, before a command has begun."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return _handled(signal.SIGINT, _end)
    return contextlib.nullcontext()


def end_interrupted() -> NoReturn:
    """End the process of an interrupted command without waiting for its threads.

    A model that a thread still loads can take a minute, and Python prints what Ctrl-C cuts off in its shutdown.
    """
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    _end_at_once(INTERRUPTED)


def end(code: int) -> NoReturn:
    """End the process, and leave its memory to the system: to free each object takes 15% of the time of a dry run.

    Python ends it as usual if another thread is alive, or if a profiler or `python -i` goes on.
    """
    if threading.active_count() == 1 and not (sys.flags.interactive or sys.getprofile() or sys.gettrace()):
        _end_at_once(code)
    sys.exit(code)


def _end_at_once(code: int) -> NoReturn:
    """Run the exit handlers and end the process; if the last of its output cannot be printed, the code is not 0."""
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


@contextlib.contextmanager
def _handled(number: int, handler: Any) -> Iterator[None]:
    before = None
    with contextlib.suppress(ValueError):  # only the main thread can set signal handlers
        before = signal.signal(number, handler)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(number, before)


@contextlib.contextmanager
def interrupts_noticed() -> Iterator[list[int]]:
    """Note each SIGINT in the list that is given, even if the process ignores it; otherwise act on it at the end.

    For calls into libraries that react to SIGINT themselves. Outside the main thread nothing is noted.
    """
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    with _handled(signal.SIGINT, lambda number, frame: noted.append(number)):
        yield noted
    if noted and before is not signal.SIG_IGN:
        signal.raise_signal(signal.SIGINT)


def _interrupt(number: int, frame: Any) -> None:
    global _terminated
    if time.monotonic() - _terminated < _ECHO:
        return
    _terminated = time.monotonic()
    if not callable(signal.getsignal(signal.SIGINT)):  # a shell starts what runs in the background so
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _end(number: int, frame: Any) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"titjudge: interrupted\n")
    os._exit(INTERRUPTED)
