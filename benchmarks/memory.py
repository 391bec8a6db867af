"""Peak memory over many text items: `python -m benchmarks.memory [--items 100000]`; a ratio.

Each item is a prompt and a description; the judge is the fake provider, so that what is measured is titjudge. With `--commands`
it is the peak of verify, compare, report and merge too, in MiB: `python -m benchmarks.memory --commands --items 1000000` writes
10 GB below `--folder` and takes about 20 minutes of one core. The shards to merge are dealt out of the one run, record by record.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from titjudge.core.serialization import with_checksum

ROOT = Path(__file__).resolve().parents[1]
SHARDS = 8
WORDS = [
    "a",
    "lamp",
    "left",
    "of",
    "a",
    "red",
    "car",
    "under",
    "a",
    "pale",
    "sky",
    "beside",
    "two",
    "dogs",
    "and",
    "a",
    "quiet",
    "tower",
    "of",
    "old",
    "stone",
]


def measured(*arguments: str | Path, cache: Path) -> tuple[float, float, float]:
    """Peak (MiB), wall and processor seconds of a command."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "cli.py"), *map(str, arguments)],
        env={**os.environ, "TITJUDGE_CACHE": str(cache)},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{arguments[0]} failed")
    return usage.ru_maxrss / 1024, time.monotonic() - begun, usage.ru_utime + usage.ru_stime


def judged(items: int, folder: Path) -> tuple[float, float, float]:
    """Judge text items; the run is `folder/run`."""
    folder.mkdir(exist_ok=True)
    with (folder / "data.jsonl").open("w") as file:
        for i in range(items):
            text = " ".join(WORDS[(i * 7 + k) % len(WORDS)] for k in range(60))
            record = {
                "id": f"i{i}",
                "prompt": f"{i // 4} {text}",
                "prompt_id": str(i // 4),
                "generator": f"g{i % 4}",
                "description": text,
            }
            file.write(json.dumps(record) + "\n")
    (folder / "run.yaml").write_text("judge: {model: fake/x, options: {remember: false}}\n")
    command = ["judge", "--data", folder / "data.jsonl", "--config", folder / "run.yaml", "--captioner", "fake/x"]
    command += ["--metric", "tit-llm", "--no-report", "--out", folder / "run"]
    return measured(*command, cache=folder / "cache")


def dealt(run: Path, folder: Path) -> list[Path]:
    """Deal the records of a run to shards, by whole prompts, as `judge --shard` writes them."""
    shards = [folder / f"shard-{number}" for number in range(1, SHARDS + 1)]
    manifest = json.loads((run / "manifest.json").read_bytes())
    for number, shard in enumerate(shards, 1):
        shard.mkdir(parents=True)
        own = {**manifest, "identity": {**manifest["identity"], "shard": f"{number}/{SHARDS}"}}
        (shard / "manifest.json").write_text(json.dumps(with_checksum(own)))
    prompts: dict[str, int] = {}
    shard_of: dict[str, int] = {}
    for name in ("items", "replies", "vectors", "billing", "scores"):
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context((shard / f"{name}.jsonl").open("wb")) for shard in shards]
            with (run / f"{name}.jsonl").open("rb") as lines:
                for place, line in enumerate(lines):
                    record = orjson.loads(line)
                    if name == "items":
                        shard_of[record["id"]] = prompts.setdefault(record["prompt_id"], len(prompts)) % SHARDS
                        line = orjson.dumps(record | {"place": place}) + b"\n"
                    files[shard_of[record["id" if name == "items" else "item"]]].write(line)
    return shards


def commands(items: int, folder: Path, run: Path | None) -> None:
    """Print the peak of each command over a run of so many items."""
    if run is None:
        show(items, "judge", *judged(items, folder))
        run = folder / "run"
    cache = folder / "cache"
    show(items, "verify", *measured("verify", run, cache=cache))
    show(items, "compare generators", *measured("compare", "generators", run, cache=cache))
    show(items, "report", *measured("report", run, "--out", folder / "report.html", cache=cache))
    shards = dealt(run, folder / "shards")
    show(
        items, f"merge of {SHARDS}", *measured("merge", *shards, "--no-report", "--out", folder / "whole", cache=cache)
    )
    if (folder / "whole" / "scores.jsonl").stat().st_size != (run / "scores.jsonl").stat().st_size:
        sys.exit("the merge has other scores than the run")


def show(items: int, what: str, peak: float, wall: float, cpu: float) -> None:
    print(f"{items:,} text items, {what}: {peak:,.0f} MiB, {cpu:,.0f} s of one core, {wall:,.0f} s in all", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--commands", action="store_true", help="measure verify, compare, report and merge")
    parser.add_argument("--folder", type=Path, help="where to write; it is left there")
    parser.add_argument("--run", type=Path, help="with --commands: a run that was judged already")
    options = parser.parse_args()
    items = options.items
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.commands:
            commands(items, folder, options.run)
            return
        few, many = judged(1_000, folder / "few")[0], judged(items, folder / "many")[0]
    print(
        f"peak memory, {items:,} text items against 1,000: {many / few:.2f} x ({few:.0f} and {many:.0f} MiB; goal: at most 1.5)"
    )


if __name__ == "__main__":
    main()
