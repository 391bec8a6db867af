"""The `view` command as a process of its own, for tests that look at what it serves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SERVE = """
import sys
from pathlib import Path
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.web.view.server import serve_view
serve_view(Path(sys.argv[1]), open_run=RunFolder, ready=lambda links: print(*links, flush=True))
"""


@contextlib.contextmanager
def viewing(runs: Path) -> Iterator[str]:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(runs)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
