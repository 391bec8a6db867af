"""How long a published board takes to write, and how large it is.

    python -m benchmarks.site [--generators 60] [--prompts 200] [--edge 1024] [--format jpg]

A run with made images, descriptions and scores is written first; what is measured is `report RUN --format site` without full images,
by the clock and in processor time, then the same command again, and the size. The images are renderings of the bundled example with
noise of their own, so that no two are the same file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import orjson
from PIL import Image

from titjudge.core.files import write_atomic
from titjudge.core.run_records import MetricResult, Results
from titjudge.core.serialization import json_bytes, score_record
from titjudge.core.types import Item, Score, Status
from titjudge.runs.folder.run_folder import RunFolder, listed_record
from titjudge.runs.outcome import verdict_on
from titjudge.runs.publishing import publish

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "known_answer"


def make_images(folder: Path, names: Sequence[str], edge: int) -> None:
    """Write an image of its own for each name."""
    folder.mkdir(parents=True)
    bases = [
        Image.open(path).convert("RGB").resize((edge, edge)) for path in sorted((EXAMPLE / "images").glob("*.jpg"))
    ]

    def make(number: int) -> None:
        pixels = np.asarray(bases[number % len(bases)], dtype=np.int16)
        noise = np.random.default_rng(number).integers(-6, 7, (edge // 8, edge // 8, 3), dtype=np.int16)
        whole = np.clip(pixels + np.kron(noise, np.ones((8, 8, 1), dtype=np.int16)), 0, 255).astype(np.uint8)
        Image.fromarray(whole).save(folder / names[number], quality=92)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        list(pool.map(make, range(len(names))))


def make_run(folder: Path, generators: int, prompts: int, edge: int, suffix: str) -> Path:
    """Write a run folder; one image in a hundred was refused."""
    chance = random.Random(0)
    texts = [orjson.loads(line)["prompt"] for line in (EXAMPLE / "prompts.jsonl").read_bytes().splitlines()]
    told = [orjson.loads(line)["description"] for line in (EXAMPLE / "descriptions.jsonl").read_bytes().splitlines()]
    words = sorted({word for text in told for word in text.split()})
    pairs = list(product(range(generators), range(prompts)))
    names = [f"{g:02}-{p:03}.{suffix}" for g, p in pairs]
    make_images(folder / "images", names, edge)
    items, scores, replies = [], [], []
    for (g, p), name in zip(pairs, names, strict=True):
        path = folder / "images" / name
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        item = Item(name, f"{p}. {texts[p % len(texts)]}", path, f"generator-{g:02}", f"prompt-{p:03}")
        description = " ".join(chance.choices(words, k=250))
        key = f"reply:{hashlib.sha256(name.encode()).hexdigest()}"
        value = min(1.0, max(0.0, chance.gauss(0.5 + g / 300, 0.1)))
        status = Status.REFUSED if chance.random() < 0.01 else Status.OK
        items.append(item)
        scores.append(Score(item.id, "tit-llm", 100 * value if status is Status.OK else None, status, description[:200],
                            {"description": description}, (key,), item.generator, item.prompt_id))  # fmt: skip
        replies.append({
            "key": key, "item": name, "role": "judge", "template": "tit/describe", "provider": "openai", "model": "gpt-4o",
            "params": {"max_tokens": 512}, "messages": [["user", "Describe.", {"image": digest}]], "text": description, "status": "ok",
            "reason": "", "usage": [900, 300, 0, 0, 700], "finish_reason": "stop", "model_version": "gpt-4o", "endpoint": "",
            "list_cost": 0.004, "seconds": 1.0, "flags": [], "sample": 0, "attempt": 0, "cached": False,
        })  # fmt: skip
    run = folder / "run"
    lines = {
        "items": map(listed_record, items),
        "scores": map(score_record, scores),
        "replies": replies,
        "vectors": (),
        "billing": (),
    }
    for name, records in lines.items():
        write_atomic(run / f"{name}.jsonl", b"".join(json_bytes(record) + b"\n" for record in records))
    metric = {"version": "1", "range": [0, 100], "higher_is_better": True}
    manifest = {
        "schema_version": 1, "status": "complete", "started": 1.0, "updated": 2.0, "metrics": {"tit-llm": metric},
        "identity": {"suite": "folder", "data": str(folder / "images")}, "roles": {"judge": {"model": "openai/gpt-4o", "asked": len(items)}},
    }  # fmt: skip
    write_atomic(run / "manifest.json", json_bytes(manifest))
    write_verdict(run, len(items))
    return run


def write_verdict(run: Path, images: int) -> None:
    """Write results.json with its verdict, as `judge` does."""
    folder = RunFolder(run)
    known = Results(items=images, metrics={"tit-llm": MetricResult(mean=50.0, images=images)})
    write_atomic(run / "results.json", json_bytes(known.with_(verdict=verdict_on(folder, known).to_json()).to_json()))


def size_of(folder: Path, under: str = "") -> float:
    """Return the size of files in MB."""
    return sum(file.stat().st_size for file in (folder / under).rglob("*") if file.is_file()) / 1e6


def timed(run: Path, board: Path) -> str:
    wall, cpu = time.perf_counter(), time.process_time()
    made = publish([run], board)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return f"{wall:.1f} s by the clock, {cpu:.1f} s of processor time, {made.written:,} files written"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", type=int, default=60)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--edge", type=int, default=1024)
    parser.add_argument("--format", default="jpg", choices=("jpg", "png", "webp"))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="site-"))
    try:
        run, board = make_run(folder, given.generators, given.prompts, given.edge, given.format), folder / "board"
        print(
            f"{given.generators} generators x {given.prompts} prompts, {given.edge} pixels, {given.format}, {size_of(folder, 'images'):.0f} MB"
        )
        print(f"first:  {timed(run, board)}")
        print(f"again:  {timed(run, board)}")
        parts = ", ".join(
            f"{name} {size_of(board, name):.1f}" for name in ("thumbnails", "runs", "prompts", "generators")
        )
        print(
            f"board:  {size_of(board):.1f} MB ({parts}); index.html {(board / 'index.html').stat().st_size / 1e3:.0f} kB"
        )
        matrix = max(file.stat().st_size for file in board.glob("matrix*.html"))
        print(f"a page of the matrix: {matrix / 1e3:.0f} kB")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
