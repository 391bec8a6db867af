"""A published board of the bundled example: `verify` accepts it, and its page works in a real browser."""

import gzip
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import shell
from page_layout import serious_faults
from test_report_browser import VENDOR, show, until, visit

from titjudge.runs.check.verify import VerificationResult, verify

__all__ = ["show"]  # a fixture
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    shell(folder, "judge", "--out", "first", "--no-report")
    assert "check it with `verify" in shell(
        folder, "report", "first", "--format", "site", "--out", "board", "--full-images"
    )
    shutil.rmtree(folder / "first")
    return Path(folder / "board")


def verified(run: Path) -> VerificationResult:
    """What `verify` finds, in a thread: the browser of this one has an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(verify, run).result()


def test_the_copy_of_the_run_is_verified_with_its_images(board: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(board, moved)
    found = verified(moved / "runs" / "first")
    assert found.holds, found.problems[:3]
    assert found.checked["images"] == found.checked["scores"] == 24
    assert found.checked["cells"] > 100


def test_a_changed_score_or_image_of_the_board_is_found(board: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(board, moved)
    scores = moved / "runs" / "first" / "scores.jsonl.gz"
    first, *others = gzip.decompress(scores.read_bytes()).splitlines(keepends=True)
    record = orjson.loads(first)
    changed = orjson.dumps(record | {"value": record["value"] + 0.01}) + b"\n" + b"".join(others)
    scores.write_bytes(gzip.compress(changed))
    one, other, *_ = sorted((moved / "images").rglob("*.jpg"))
    shutil.copy(one, other)
    assert {problem.kind for problem in verified(moved / "runs" / "first").problems} >= {"score", "picture"}


def test_the_verdict_reads_without_scripts(browser: Any, board: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, java_script_enabled=False)
    page = context.new_page()
    page.goto((board / "index.html").as_uri())
    assert page.locator(".lead").is_visible()
    assert page.locator(".ranking tbody tr").count() == 5  # four generators, and the margin of the best
    context.close()


def test_the_link_to_one_cell_of_the_board_opens_it(show: Callable[..., Any], board: Path) -> None:
    page = show(board / "index.html", "#matrix")
    page.locator(".cell-pictures").first.click()
    page.locator("#closeup[open]").wait_for()
    link = page.url
    assert "p=ka_" in link
    other = show(board / "index.html", link[link.index("#") :])
    other.locator("#closeup[open]").wait_for()
    assert other.locator(".closeup-prompt").inner_text() == page.locator(".closeup-prompt").inner_text()


def test_images_are_files_by_their_content_and_large_ones_the_whole_images(
    show: Callable[..., Any], board: Path
) -> None:
    page = show(board / "index.html", "#images?i=0")
    small = page.locator("#view-images .the-image img")
    assert "thumbnails/" in small.get_attribute("src")
    page.locator("#view-images .zoom").click()
    large = page.locator("#picture .stage img")
    assert "images/" in large.get_attribute("src")
    until(page, "document.querySelector('#picture .stage img').naturalWidth > 300")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_views_fit_the_window_show_their_images_and_axe_finds_nothing_serious(
    browser: Any, board: Path, width: int, dark: bool
) -> None:
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((board / "index.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    page.evaluate((VENDOR / "axe.min.js").read_text(encoding="utf-8"))
    for name in page.evaluate("[...document.querySelectorAll('nav a')].map((link) => link.dataset.view)"):
        visit(page, name)
        shown = f"[...document.querySelectorAll('#view-{name} img')].slice(0, 3)"
        until(page, f"{shown}.every((image) => image.complete && image.naturalWidth > 0)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert serious_faults(page, name) == []
    assert complaints == []
    context.close()
