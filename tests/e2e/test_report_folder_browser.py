"""The report as a folder in a real browser: opened from the disk, it loads what is looked at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from report_runs import key_of, small_run
from test_report_browser import show, until, visit

__all__ = ["show"]  # a fixture


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("titjudge.report.folder._CHUNK", 2)
    small_run(tmp_path / "run")
    cli(tmp_path, "report", "run", "--format", "folder")
    return tmp_path / "run" / "report" / "index.html"


def test_lists_are_there_at_once_and_details_when_they_are_looked_at(show: Callable[..., Any], index: Path) -> None:
    page = show(index, "#images?q=number+1&i=0")
    detail = page.locator("#view-images .detail")
    detail.get_by_text("The apples are green.").wait_for()
    assert page.evaluate("document.scripts.length") == 1  # what was loaded is taken out again
    assert detail.locator("img").evaluate("one => one.decode().then(() => one.naturalWidth > 0)")
    assert page.locator("#view-images .rows li").count() == 2
    detail.locator(".receipts summary").first.click()
    assert key_of("r0") in detail.locator(".receipt").first.inner_text()
    visit(page, "pairs?i=0")
    page.locator("#view-pairs .detail").get_by_text("three glossy red apples").first.wait_for()
    visit(page, "matrix?m=tit-llm")
    page.locator("#view-matrix .cell-reason", has_text="The apples are green.").first.wait_for()
    assert (
        page.locator("#view-matrix .cell img").evaluate_all(
            "all => Promise.all(all.map(one => one.decode())).then(() => all.length)"
        )
        == 4
    )


def test_a_file_that_is_not_there_is_named(browser: Any, index: Path) -> None:
    for file in (index.parent / "files").glob("*.js"):
        file.unlink()
    page = browser.new_page()
    page.goto(index.as_uri() + "#images?i=0")
    until(page, "document.querySelector('#view-images .detail').textContent.includes('is not beside this page')")
    page.close()
