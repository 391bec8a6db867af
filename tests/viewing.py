"""The `view` command as a process of its own, for tests that look at what it serves."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import serving

SERVE = """
import sys
from pathlib import Path
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.web.view.server import serve_view
from titjudge.web import PageAddress
serve_view(Path(sys.argv[1]), open_run=RunFolder, at=PageAddress(port=0), ready=lambda links: print(*links, flush=True))
"""


@contextlib.contextmanager
def viewing(runs: Path) -> Iterator[str]:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    with serving(SERVE, runs) as (_, (link,)):
        yield link
