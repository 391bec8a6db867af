"""How long a report of LPG-Bench size takes to write and to open, and how large it is.

    python -m benchmarks.report [--items 2600] [--pairs 12832] [--keep FILE]
    python -m benchmarks.report --folder --items 100000 --edge 64

With --folder the report is a folder, and what is measured besides is the matrix: until its first rows are there with their
reasons, and the longest and the mean frame while it is scrolled through.

Reference for the time: only making the same thumbnails. Reference for the size: the 15 MB that a report may have. Where
playwright and chromium are there, the page is also opened: seconds until it can be used, and until a filter has answered.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.serialization import score_record
from titjudge.core.types import Item, Score, Status
from titjudge.report import write_report, write_report_folder
from titjudge.report.html import LIMIT, images_in
from titjudge.report.model import load
from titjudge.report.thumbnails import thumbnails
from titjudge.runs.folder.run_folder import RunFolder, listed_record

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "known_answer"
GENERATORS = 13
OPENS = 3  # seconds
METRICS = ("tit", "tit-llm", "lmm-score")
SCROLL = """new Promise((done) => {
    const list = document.querySelector('#view-matrix .scroller'), frames = []; let last = performance.now();
    const step = (now) => { frames.push(now - last); last = now; list.scrollTop += 40;
        if (frames.length < 300) requestAnimationFrame(step); else done([Math.max(...frames.slice(1)), frames.slice(1).reduce((a, b) => a + b) / 299]); };
    requestAnimationFrame(step); })"""  # 40 pixels a frame, as a wheel that is turned without a pause
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLE / name).read_text(encoding="utf-8").splitlines()]


def mixed(text: str, chance: random.Random, pool: list[str]) -> str:
    """A text of the same length in which every fifth word is another: no two compress as if they were one."""
    return " ".join(chance.choice(pool) if chance.random() < 0.2 else word for word in text.split())


def make_images(folder: Path, count: int, edge: int) -> list[Path]:
    """`count` paths to JPEG files of `edge` pixels; 96 distinct pictures, the rest are links to them."""
    from PIL import Image, ImageOps

    folder.mkdir(parents=True)
    distinct = []
    for number, path in enumerate(sorted((EXAMPLE / "images").glob("*.jpg")) * 4):
        with Image.open(path) as image:
            turned = ImageOps.mirror(image) if number >= 48 else image
            made = folder / f"base{number}.jpg"
            turned.rotate(90 * (number // 24 % 2)).resize((edge, edge)).save(made, quality=92)
            distinct.append(made)
    paths = []
    for number in range(count):
        path = folder / f"{number:06}.jpg"
        os.link(distinct[number % len(distinct)], path)
        paths.append(path)
    return paths


def make_run(folder: Path, items: int, pairs: int, edge: int) -> RunFolder:
    chance = random.Random(0)
    prompts = [record["prompt"] for record in lines("prompts.jsonl")]
    described = [record["description"] for record in lines("descriptions.jsonl")]
    pool = sorted({word for text in (*prompts, *described) for word in text.split()})
    paths = make_images(folder / "images", items, edge)
    groups = -(-items // GENERATORS)
    texts = [mixed(prompts[group % len(prompts)], chance, pool) for group in range(groups)]
    digests = {path.stat().st_ino: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    made: list[Item] = []
    scores, replies = [], []
    for number, path in enumerate(paths):
        group, generator = divmod(number, GENERATORS)
        item = Item(path.name, texts[group], path, f"generator-{generator}", f"prompt-{group}")
        description = mixed(described[number % len(described)], chance, pool)
        made.append(item)
        for metric in METRICS:
            key = f"{number:032x}{METRICS.index(metric):032x}"
            value = chance.random() * (1 if metric == "tit" else 100)
            missing = [" ".join(chance.sample(pool, 4)) for _ in range(3)]
            reason = " ".join(chance.sample(pool, 40))
            parts: dict[str, Any] = {"description": description}
            if metric == "tit":
                parts |= {"prompt_tokens_used": 256, "prompt_tokens": 330}
            else:
                parts |= {"missing": missing, "contradicted": missing[:1]}
            text = (
                description if metric == "tit" else json.dumps({"missing": missing, "reason": reason, "score": value})
            )
            asked = f"Compare.\n{item.prompt}\nwith\n{description}\nand answer." if metric != "tit" else "Describe."
            replies.append({
                "key": key, "item": item.id, "role": "judge", "template": f"{metric}/ask", "provider": "openai", "model": "gpt-4o",
                "params": {"max_tokens": 512}, "messages": [["user", asked, {"image": digests[path.stat().st_ino]}]], "text": text, "status": "ok",
                "usage": [900, 300, 0, 0, 700], "model_version": "gpt-4o-2024-08-06", "list_cost": 0.004, "cached": False,
            })  # fmt: skip
            failed = chance.random() < 0.01
            scores.append(Score(item.id, metric, None if failed else value, Status.REFUSED if failed else Status.OK, reason, parts,
                                (key,), item.generator, item.prompt_id))  # fmt: skip
    every = [
        pair
        for group in range(groups)
        for pair in itertools.combinations(made[group * GENERATORS : (group + 1) * GENERATORS], 2)
    ]
    chosen = chance.sample(every, min(pairs, len(every)))
    results = {
        "pairs": [
            {"prompt_id": a.prompt_id, "a": a.id, "b": b.id, "preference": chance.choice(["a", "b", "tie"])}
            for a, b in chosen
        ]
    }
    run = folder / "run"
    run.mkdir()
    for name, records in (
        ("items", map(listed_record, made)),
        ("scores", map(score_record, scores)),
        ("replies", replies),
    ):
        (run / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    (run / "results.json").write_bytes(orjson.dumps(results))
    manifest = {
        "status": "complete",
        "metrics": {name: {"range": [0, 1 if name == "tit" else 100]} for name in METRICS},
    }
    (run / "manifest.json").write_bytes(orjson.dumps(manifest))
    return RunFolder(run)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def open_page(file: Path) -> dict[str, float] | str:
    """Seconds until the page can be used, until the pairs are there, and until a search has answered; or why not measured."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "not measured: playwright is not installed"
    chromium = shutil.which("chromium")
    if chromium is None:
        return "not measured: chromium is not installed"
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 900})

        def until(expression: str) -> None:
            while not page.evaluate(f"Boolean({expression})"):
                time.sleep(0.005)

        def load() -> None:
            page.goto(file.as_uri())
            until("document.documentElement.dataset.ready")

        def pairs() -> None:
            page.evaluate("location.hash = '#pairs'")
            until("document.querySelectorAll('#view-pairs .rows li').length")

        def search() -> None:
            page.evaluate("location.hash = '#images?q=bowl'")
            until("document.querySelector('#view-images .found').textContent.includes(' of ')")

        def matrix() -> None:
            page.evaluate("location.hash = '#matrix'")
            until("document.querySelector('#view-matrix .cell-reason')?.textContent")

        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        opened = timed(load)[0]
        spent = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        found = {
            "open": opened,
            "open: processor time": spent["TaskDuration"],
            "all pairs, worst first": timed(pairs)[0],
            "search": timed(search)[0],
            "matrix": timed(matrix)[0],
        }
        longest, mean = page.evaluate(SCROLL)
        found |= {"longest frame": longest / 1000, "mean frame": mean / 1000}
        browser.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=2600)
    parser.add_argument("--pairs", type=int, default=12832)
    parser.add_argument("--edge", type=int, default=1024, help="pixels of each image")
    parser.add_argument("--folder", action="store_true", help="write the report as a folder")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the report")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), asked.items, asked.pairs, asked.edge)
        if asked.folder:
            seconds, report = timed(lambda: write_report_folder([run], Path(folder) / "report"))
        else:
            seconds, report = timed(lambda: write_report([run], Path(folder) / "report.html"))
        room = (
            2_000_000_000
            if asked.folder
            else sum(map(len, report.read_bytes().partition(b'id="image-data">')[2:])) * 3 // 4
        )
        shown, lost = images_in(report.read_bytes())
        if lost:
            raise SystemExit(f"{len(lost):,} of {shown + len(lost):,} images are not shown: {lost[0]}")
        pictures = [entry.shown for entry in load([run]).entries if entry.shown is not None]
        alone, _ = timed(lambda: thumbnails(pictures, room))
        size = report.stat().st_size
        print(f"items {asked.items:,} of {asked.edge} pixels  pairs {asked.pairs:,}  cores {os.cpu_count()}")
        print(f"write          {seconds:6.1f} s   {seconds / alone:4.2f} x only making the thumbnails ({alone:.1f} s)")
        print(f"size           {size / 1e6:6.2f} MB  {size / LIMIT:4.2f} x the limit of {LIMIT / 1e6:.0f} MB")
        opened = open_page(report)
        if isinstance(opened, str):
            print(f"open           {opened}")
        else:
            for what, took in opened.items():
                print(f"{what:<22} {took:6.3f} s   {took / OPENS:4.2f} x the {OPENS} s allowed")
        if asked.keep:
            (shutil.copytree if asked.folder else shutil.copyfile)(
                report.parent if asked.folder else report, asked.keep
            )
    return 0 if asked.folder or size <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
