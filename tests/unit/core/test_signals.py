"""How a process ends: what is registered and printed comes first, and other threads are waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import start

ENDS = "import atexit, sys; from titjudge.core.signals import end; atexit.register(print, 'handler'); "
THREAD = "import threading, time; threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start(); "


@pytest.mark.parametrize(
    ("before", "printed"), [("", "last handler"), (THREAD, "last thread handler")], ids=["alone", "beside a thread"]
)
def test_a_process_ends_after_its_threads_handlers_and_output(tmp_path: Path, before: str, printed: str) -> None:
    with start(tmp_path, script=f"{ENDS}{before}print('last'); end(5)") as process:
        out, err = process.communicate(timeout=30)
    assert (out.split(), err, process.returncode) == (printed.split(), "", 5)


def test_an_output_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    script = f"{ENDS}sys.stdout = open('/dev/full', 'w'); print('last'); end(0)"
    with start(tmp_path, script=script) as process:
        process.communicate(timeout=30)
    assert process.returncode == 1
