"""What `view` serves in a real browser: a run's report works, and one that somebody planted reaches nothing."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from report_runs import small_run
from test_report_browser import CHROMIUM, FLAGS, until
from viewing import viewing

from titjudge.report import write_report

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    pytest.skip("playwright is not installed", allow_module_level=True)

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


def test_a_report_works_and_a_planted_one_reaches_nothing(tmp_path: Path) -> None:
    if not Path(CHROMIUM).is_file():
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
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
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
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
            assert len(browser.contexts[0].pages) == 1
            assert page.context.cookies() == []
            browser.close()
