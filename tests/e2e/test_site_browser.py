"""A published board of the bundled example: `verify` accepts it, and every page reads in a real browser without scripts."""

import gzip
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import shell
from test_report_browser import VENDOR

from titjudge.runs.check.verify import VerificationResult, verify

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    shell(folder, "judge", "--out", "first", "--no-report")
    assert "check it with `verify" in shell(folder, "report", "first", "--site", "board", "--full-images")
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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_pages_fit_the_window_show_their_images_without_scripts_and_axe_finds_nothing_serious(
    browser: Any, board: Path, width: int, dark: bool
) -> None:
    scheme = "dark" if dark else "light"
    for scripts in (False, True):
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            java_script_enabled=scripts,
            bypass_csp=scripts,
        )
        page, complaints = context.new_page(), list[str]()
        page.on("console", lambda message: complaints.append(message.text))  # noqa: B023
        for name in ("index.html", "prompts.html", "prompts/ka_01.html", "generators/model_a.html", "matrix.html", "methods.html",
                     "failures.html"):  # fmt: skip
            page.goto((board / name).as_uri())
            if not scripts:
                assert page.locator("h1").count() == 1
                continue
            shown = "image => image.complete && image.naturalWidth > 0"
            images = page.locator("img")
            for at in range(min(3, images.count())):
                images.nth(at).scroll_into_view_if_needed()
                page.wait_for_function(shown, arg=images.nth(at).element_handle())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert page.evaluate("getComputedStyle(document.body).margin") == "0px", name  # the style sheet was loaded
            page.evaluate((VENDOR / "axe.min.js").read_text(encoding="utf-8"))
            found = page.evaluate("axe.run(document, {resultTypes: ['violations'], preload: false})")["violations"]
            assert [
                (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
            ] == [], name
        assert complaints == []
        context.close()
