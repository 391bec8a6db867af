"""Prompts that a run has judged when a provider stops answering, against the prompts that its paid answers could buy.

    python -m benchmarks.outage [--runs 3] [--prompts 40,200] [--answers 20,50,100,200,400,600] [--concurrency 4,8,32]

Two generators, judged by `tit-llm`: four requests per prompt. A loopback server gives so many answers, each after 25 to 75 ms, and
then refuses every request (503), until the run ends by its own rule. "could buy" is answers / 4; "paid answers of other prompts"
are those of prompts that lack a score. Ranges are over the runs.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from PIL import Image

from tests.kit import Scripted, Seen, Server
from titjudge.core.config import load_config
from titjudge.core.errors import FatalProviderError
from titjudge.core.files import write_jsonl
from titjudge.runs.folder.run_folder import RunFolder
from titjudge.runs.session import Session

GENERATORS = ("a", "b")


def judged(place: Path, prompts: int, answers: int, concurrency: int, seed: int) -> tuple[int, int]:
    """Run into an outage; returns the prompts with all scores, and the paid answers of the others."""
    rows = []
    for number, generator in product(range(prompts), GENERATORS):
        file = place / generator / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (number % 256, GENERATORS.index(generator), number // 256)).save(file)
        image = {"image": f"{generator}/{number}.png", "generator": generator}
        rows.append(image | {"prompt_id": str(number), "prompt": f"{number} cubes"})
    write_jsonl(place / "images.jsonl", rows)
    draw, paid = random.Random(seed), 0

    def answer(seen: Seen) -> Scripted:
        nonlocal paid
        if paid >= answers:
            return Scripted(status=503, body={"error": {"message": "away"}})
        paid += 1
        text = f'{{"missing": [], "contradicted": [], "reason": "{paid}", "score": 50}}'
        return Scripted(text, latency=draw.uniform(0.025, 0.075))

    with Server(answer) as server:
        role = {"model": "openai/m", "base_url": server.url, "max_tokens": 100}
        models = {"captioner": role, "judge": role, "limits": {"concurrency": concurrency, "patience": 1}}
        files = {"data": str(place / "images.jsonl"), "out": str(place / "run"), "cache": str(place / "cache")}
        with contextlib.suppress(FatalProviderError):
            Session(load_config(None, {"metrics": ["tit-llm"], "report": False, **models, **files})).run()
    run = RunFolder(place / "run")
    of_item = {item.id: item.prompt_id for item in run.judged()}
    scored = Counter(of_item[item] for (item, _), score in run.scores().items() if score.value is not None)
    whole = sum(count == len(GENERATORS) for count in scored.values())
    return whole, paid - 2 * len(GENERATORS) * whole


def rows(runs: int, prompts: list[int], answers: list[int], concurrency: list[int]) -> Iterator[str]:
    """Yield a line of the table for each setting."""
    for count, given, flight in product(prompts, answers, concurrency):
        if given >= 4 * count:
            continue
        found = []
        for seed in range(runs):
            with tempfile.TemporaryDirectory() as place:
                found.append(judged(Path(place), count, given, flight, seed))
        whole, left = ([low, high] for low, high in ((min(column), max(column)) for column in zip(*found, strict=True)))
        shown = [f"{low}" if low == high else f"{low} to {high}" for low, high in (whole, left)]
        yield f"| {count} | {given} | {flight} | {given // 4} | {shown[0]} | {shown[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    for name, values in (("prompts", "40,200"), ("answers", "20,50,100,200,400,600"), ("concurrency", "4,8,32")):
        parser.add_argument(f"--{name}", type=lambda text: [*map(int, text.split(","))], default=values)
    logging.disable(logging.CRITICAL)
    print("| prompts | answers | requests at once | could buy | judged | paid answers of other prompts |")
    print("| --- | --- | --- | --- | --- | --- |")
    for line in rows(**vars(parser.parse_args())):
        print(line, flush=True)


if __name__ == "__main__":
    main()
