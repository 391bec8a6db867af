"""Makes the pictures of the report and of the labelling page that the README shows, from the bundled example.

    python docs/make_screenshots.py [--out docs] [--run RUN] [--label]

Needs playwright (pip) and chromium (Debian). Without --run it judges the example with the recorded descriptions and the
local embedder: no key, no network, half a minute.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from titjudge.report import write_report
from titjudge.runs.folder.run_folder import RunFolder

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SHOTS = (
    # name, place in the report, width, height, dark
    ("report-overview", "#overview", 1240, 860, False),
    ("report-matrix", "#matrix", 1440, 900, False),
)
CLAIMS = ("report-claims", "#images?i=3", 1440, 1000, False)  # of a run of the agentic judge, scrolled to its claims
GENERATORS = ("report-generators", "#generators", 1240, 900, False)  # of the same run
AGENT = ("--suite", "known-answer", "--metric", "tit-agent", "--captioner", "recorded", "--judge", "recorded")


def judged(folder: Path, *options: str) -> RunFolder:
    command = [sys.executable, str(ROOT / "cli.py"), "judge", "--out", str(folder), *options]
    subprocess.run(command, check=True, cwd=ROOT)
    return RunFolder(folder)


def shoot(
    browser: Any, report: Path, place: str, width: int, height: int, dark: bool, scrolled: str = ""
) -> Image.Image:
    """A picture of one place in a report; `scrolled` is a selector whose element is brought to the lower edge first."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(report.as_uri() + place)
    page.wait_for_selector("html[data-ready]")
    page.evaluate(  # an image that is not in view yet would not be loaded
        "Promise.all([...document.images].map((image) => {image.loading = 'eager'; return image.decode().catch(() => null)}))"
    )
    if scrolled:
        page.locator(scrolled).first.evaluate("element => element.scrollIntoView({block: 'end'})")
    picture = Image.open(io.BytesIO(page.screenshot()))
    context.close()
    return picture


def shoot_label(browser: Any, folder: Path) -> Image.Image:
    """The labelling page with its first pair, served as `label` serves it."""
    command = [
        sys.executable,
        "-u",
        str(ROOT / "cli.py"),
        "label",
        str(ROOT / "examples" / "known_answer"),
        "--annotators",
        "1",
    ]
    with subprocess.Popen(
        [*command, "--store", str(folder / "labels.sqlite")], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            link = server.stdout.readline().split()[-1]
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(link)
            page.click("#begin")
            page.wait_for_function(
                "[...document.images].filter((image) => image.complete && image.naturalWidth).length >= 2"
            )
            return Image.open(io.BytesIO(page.screenshot()))
        finally:
            server.terminate()


def save(picture: Image.Image, file: Path) -> None:
    picture.save(file, quality=82, method=6)
    print(f"{file}  {picture.width} x {picture.height}  {file.stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder for the pictures")
    parser.add_argument("--run", type=Path, help="a run folder to show instead")
    parser.add_argument("--label", action="store_true", help="the labelling page alone")
    asked = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        save(shoot_label(browser, Path(folder)), asked.out / "label.webp")
        if asked.label:
            return 0
        run = RunFolder(asked.run) if asked.run else judged(Path(folder) / "known-answer")
        report = write_report([run], Path(folder) / "report.html")
        for name, place, width, height, dark in SHOTS:
            save(shoot(browser, report, place, width, height, dark), asked.out / f"{name}.webp")
        name, place, width, height, dark = CLAIMS
        report = write_report([judged(Path(folder) / "agent", *AGENT)], Path(folder) / "agent.html")
        row = ".claims tbody tr:nth-child(25)"
        save(shoot(browser, report, place, width, height, dark, row), asked.out / f"{name}.webp")
        name, *about = GENERATORS
        save(shoot(browser, report, *about), asked.out / f"{name}.webp")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
