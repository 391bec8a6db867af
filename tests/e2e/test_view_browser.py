"""What `view` serves in a real browser: a run's report works, and one that somebody planted reaches nothing."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from commands import shell
from report_runs import small_run
from test_report_browser import until
from viewing import viewing

from titjudge.report import write_report, write_report_folder

PLANTED = """<!doctype html><title>planted</title><p id=done></p><script>
const found = [];
const note = (what) => { found.push(what); };
(async () => {
  try { await fetch('/api/runs'); note('read the list of runs'); } catch {}
  try { await fetch('ELSEWHERE/'); note('reached another place'); } catch {}
  try { note('cookie ' + document.cookie); } catch {}
  try { localStorage.setItem('a', '1'); note('storage'); } catch {}
  try { void window.top.document.body; note('parent'); } catch {}
  try { void window.top.location.hash; note('key'); } catch {}
  try { window.open('/'); } catch {}
  try { window.top.location = 'ELSEWHERE/'; note('sent the tab away'); } catch {}
  document.querySelector('#done').textContent = found.join(', ') || 'nothing';
  document.querySelector('#done').addEventListener('click', () => { location = 'ELSEWHERE/left'; });
})();
</script>"""


def test_a_report_works_and_a_planted_one_reaches_nothing(browser: Any, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    folder = small_run(runs / "real")
    write_report([folder], runs / "real" / "report.html")
    shutil.copytree(runs / "real", runs / "stranger")
    with viewing(runs) as link, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base = f"http://{urlsplit(link).netloc}"
        (runs / "stranger" / "report.html").write_text(
            PLANTED.replace("ELSEWHERE", base.replace("127.0.0.1", "localhost"))
        )
        page = browser.new_page()
        page.set_default_timeout(60_000)
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(link)
        page.locator("a[href$='/real']").first.click()
        report = page.frame_locator("#report")
        report.locator("html[data-ready]").wait_for()
        frame = next(frame for frame in page.frames if "/report/" in frame.url)
        frame.evaluate("location.hash = '#images'")
        until(frame, "document.body.dataset.view === 'images'")
        assert report.locator("#view-images .rows li").count() > 0
        assert page.title() == "real · Report"
        page.reload()
        report.locator("html[data-ready]").wait_for()
        assert complaints == []
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{base}/report.html{urlsplit(link).fragment.join('#/')}stranger")
        report.locator("#done:not(:empty)").wait_for()
        assert report.locator("#done").inner_text() == "nothing"
        with page.expect_event("framenavigated"):
            report.locator("#done").click()
        assert page.url.startswith(f"{base}/report.html#")
        assert [url for url in asked if "localhost" in url and "left" in url] == []
        assert len(page.context.pages) == 1
        assert page.context.cookies() == []
        page.context.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    opened.set_default_timeout(60_000)
    opened.complaints = []
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    yield opened
    assert opened.complaints == []
    opened.close()


def names(page: Any) -> list[str]:
    return page.locator("#rows .name").all_inner_texts()


def make_list(runs: Path) -> None:
    small_run(runs / "cheap", spent=0.5, updated=1.0, started=0.0)
    small_run(runs / "dear", spent=9.0, updated=2.0, started=0.0)
    small_run(runs / "keyless", status="failed: no key", updated=3.0)
    (runs / "keyless" / "scores.jsonl").write_text("")
    (runs / "keyless" / "results.json").unlink()


def test_the_list_is_sorted_filtered_and_keeps_what_one_chose(tmp_path: Path, page: Any) -> None:
    make_list(tmp_path)
    with viewing(tmp_path) as link:
        page.goto(link)
        page.locator("#rows tr").nth(2).wait_for()
        assert names(page) == ["keyless", "dear", "cheap"]
        assert page.locator("#rows tr").nth(1).bounding_box()["height"] <= 31
        page.locator("#nothing").check()
        assert names(page) == ["dear", "cheap"]
        page.locator("#heads button", has_text="Cost").click()
        page.locator("#heads button", has_text="Cost").click()
        assert names(page) == ["cheap", "dear"]
        page.locator("#choose summary").click()
        page.locator("#columns label", has_text="Models").click()
        page.locator("#columns label", has_text="Scores").click()
        page.reload()
        page.locator("#rows tr").nth(1).wait_for()
        assert names(page) == ["cheap", "dear"]
        titles = page.locator("#heads button").all_inner_texts()
        assert "Models" in titles
        assert "Scores" not in titles
        page.locator("#search").fill("CHE judge")
        assert names(page) == ["cheap"]
        page.locator("#search").fill("")
        page.locator("#state").select_option("complete")
        assert page.locator("#empty").inner_text() == "No run matches."


def test_no_cell_of_the_list_is_cut_off(tmp_path: Path, page: Any) -> None:
    small_run(tmp_path / "a-run-for-step-12000", status="incomplete: budget", spent=12.0483, updated=1.0, started=0.0)
    page.set_viewport_size({"width": 1440, "height": 900})
    with viewing(tmp_path) as link:
        page.goto(link)
        page.locator("#rows tr").wait_for()
        cut = "cells => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText)"
        assert page.locator("#rows td:not(.run)").evaluate_all(cut) == []


def test_the_list_says_first_that_nobody_won(tmp_path: Path, page: Any) -> None:
    """In a narrow column the names of the generators would be all that is seen."""
    shell(tmp_path, "judge", "--out", "runs/first")
    with viewing(tmp_path / "runs") as link:
        page.goto(link)
        page.locator("#rows tr").first.wait_for()
        verdict = page.locator("#rows td.verdict")
        assert verdict.inner_text() == "No clear winner between model_a and model_b."
        assert verdict.get_attribute("title").startswith("No generator is shown to be better than the others")
        assert page.locator("#rows td.scores b").count() == 0


def test_two_ticked_runs_are_compared(tmp_path: Path, page: Any) -> None:
    make_list(tmp_path)
    with viewing(tmp_path) as link:
        page.goto(link)
        page.locator("#rows tr").nth(2).wait_for()
        for name in ("cheap", "dear"):
            assert page.locator("#compare").get_attribute("aria-disabled") == "true"
            page.locator("#rows tr", has_text=name).locator(".tick").check()
        page.locator("#compare").click()
        report = page.frame_locator("#report")
        report.locator("html[data-ready]").wait_for()
        assert page.title() == "cheap · dear · Report"
        assert "cheap · dear" in report.locator("body").inner_text()


def test_a_run_that_goes_on_shows_its_new_scores_at_the_place_of_the_reader(tmp_path: Path, page: Any) -> None:
    folder = small_run(tmp_path / "a", status="running", updated=4e9, started=0.0).path
    (folder / "results.json").unlink()
    lines = (folder / "scores.jsonl").read_text().splitlines(keepends=True)
    (folder / "scores.jsonl").write_text(lines[0])
    with viewing(tmp_path) as link:
        page.goto(link)
        page.locator("#rows .name").click()
        report = page.frame_locator("#report")
        report.locator("html[data-ready]").wait_for()
        frame = next(frame for frame in page.frames if "/report/" in frame.url)
        frame.evaluate("location.hash = '#images?g=model_b'")
        until(frame, "document.body.dataset.view === 'images'")
        assert report.locator(".rows li", has_text="refused").count() == 0
        with (folder / "scores.jsonl").open("a") as file:
            file.write("".join(lines[1:]))
        page.locator("#update").click()
        report.locator(".rows li", has_text="refused").wait_for()
        assert report.locator("#view-images .rows li").count() == 2
        page.locator("#state", has_text="1 without a score").wait_for()


def test_a_report_that_is_a_folder_loads_what_is_looked_at(tmp_path: Path, page: Any) -> None:
    run = small_run(tmp_path / "large")
    write_report_folder([run], run.path / "report")
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if message.type == "error" else None)
    with viewing(tmp_path) as link:
        page.goto(link)
        page.locator("#rows .name").click()
        report = page.frame_locator("#report")
        report.locator("html[data-ready]").wait_for()
        frame = next(frame for frame in page.frames if "/report/" in frame.url)
        frame.evaluate("location.hash = '#images?q=number+1&i=0'")
        detail = report.locator("#view-images .detail")
        detail.get_by_text("The apples are green.").wait_for()
        assert detail.locator("img").first.evaluate("one => one.decode().then(() => one.naturalWidth > 0)")
        page.reload()
        report.locator("html[data-ready]").wait_for()
    assert refused == []


def test_a_planted_report_that_is_a_folder_reaches_nothing_but_its_files(tmp_path: Path, page: Any) -> None:
    folder = small_run(tmp_path / "runs" / "stranger").path / "report"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "0000.js").write_text("document.title = 'its own';")
    with viewing(tmp_path / "runs") as link:
        base = f"http://{urlsplit(link).netloc}"
        elsewhere = base.replace("127.0.0.1", "localhost")
        (folder / "index.html").write_text(
            PLANTED.replace("ELSEWHERE", elsewhere)
            + f"<script src=files/0000.js></script><script src={elsewhere}/view.js></script>"
        )
        answered: list[str] = []
        page.on("response", lambda response: answered.append(response.url))
        page.goto(f"{base}/report.html{urlsplit(link).fragment.join('#/')}stranger")
        report = page.frame_locator("#report")
        report.locator("#done:not(:empty)").wait_for()
        assert report.locator("#done").inner_text() == "nothing"
        frame = next(frame for frame in page.frames if "/report/" in frame.url)
        assert frame.title() == "its own"
        assert any(url.endswith("/files/0000.js") for url in answered)
        assert [url for url in answered if url.startswith(elsewhere)] == []
        assert page.url.startswith(f"{base}/report.html#")
        assert len(page.context.pages) == 1
