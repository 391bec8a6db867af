"""How a process ends: what is registered and printed comes first, and other threads are waited for."""

import subprocess
import sys

import pytest

ENDS = "import atexit, sys; from titjudge.core.signals import end; atexit.register(print, 'handler'); "
THREAD = "import threading, time; threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start(); "


def ended(script: str) -> tuple[list[str], int]:
    """What a process of its own prints, and its exit code; no forked one, whose end is that of `multiprocessing`."""
    process = subprocess.run([sys.executable, "-c", ENDS + script], capture_output=True, text=True, timeout=60)
    return (process.stdout + process.stderr).split(), process.returncode


@pytest.mark.parametrize(
    ("before", "printed"), [("", "last handler"), (THREAD, "last thread handler")], ids=["alone", "beside a thread"]
)
def test_a_process_ends_after_its_threads_handlers_and_output(before: str, printed: str) -> None:
    assert ended(f"{before}print('last'); end(5)") == (printed.split(), 5)


def test_an_output_that_cannot_be_written_is_no_success() -> None:
    assert ended("sys.stdout = open('/dev/full', 'w'); print('last'); end(0)") == ([], 1)


TERMINATED = """
import os, signal, time
from titjudge.core.signals import terminated_like_ctrl_c
def stopped(after):
    time.monotonic = lambda: after
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        print(after)
with terminated_like_ctrl_c():
    for after in (100.0, 100.9, 102.0):
        stopped(after)
"""


def test_a_sigterm_that_is_sent_twice_counts_once() -> None:
    """`timeout` sends it to the process, and at once to its group."""
    assert ended(TERMINATED) == (["100.0", "102.0", "handler"], 0)
