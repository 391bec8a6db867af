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
  try { void window.top.document.body; if (window.top !== window) note('parent'); } catch {}
  try { window.open('/'); } catch {}
  document.querySelector('#done').textContent = found.join(', ') || 'nothing';
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
            page.locator("a[href*='real/report.html']").first.wait_for()
            page.goto(f"{base}/runs/real/report.html")
            page.wait_for_selector("html[data-ready]")
            page.evaluate("location.hash = '#images'")
            until(page, "document.body.dataset.view === 'images'")
            assert page.locator("#view-images .rows li").count() > 0
            page.wait_for_timeout(50)
            assert complaints == []
            page.goto(f"{base}/runs/stranger/report.html")
            page.wait_for_function("document.querySelector('#done').textContent")
            assert page.locator("#done").inner_text() == "nothing"
            assert len(browser.contexts[0].pages) == 1
            browser.close()
