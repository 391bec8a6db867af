"""Whole runs of the command line, and of browsers, count as slow: `-m "not slow"` is for the small tests."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright; tests that need it skip, visibly, where either is missing.

    Not for the whole session: while it runs this thread has an event loop, in which other tests cannot start theirs.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).is_file():
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with playwright.sync_playwright() as started:
            running = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            yield running
            running.close()
