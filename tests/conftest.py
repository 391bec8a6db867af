"""What every test shares: no network but loopback, no models from a hub, no stray keys or caches.

The whole suite runs in as many processes as there are processors (at most eight); files named on the command line run in
one, where a debugger works and nothing waits for workers. `-n 4` and `-n 0` say otherwise.

A test that takes more than about three seconds is marked `@pytest.mark.slow`; `python -m pytest -m "not slow"` leaves
those out. Most that are slow start a process: `commands.cli` runs a command without one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    TOKENIZERS_PARALLELISM="false",
    TQDM_DISABLE="1",
)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the tests run side by side already

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What `-n auto` means: see the module."""
    if any(str(argument).partition("::")[0].endswith(".py") for argument in config.args):
        return 0
    usable = getattr(os, "sched_getaffinity", None)
    return min(8, len(usable(0)) if usable else os.cpu_count() or 1)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TITJUDGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def example() -> Path:
    return ROOT / "examples" / "known_answer"


@pytest.fixture
def shared() -> Path:
    """The folder of data that is not ours to copy; tests that need it skip, visibly, where it is not there."""
    if not SHARED.is_dir():
        pytest.skip("the shared data folder is not beside the project")
    return SHARED
