"""Peak memory of judging many text items against few: `python -m benchmarks.memory [--items 100000]`; a ratio.

Each item is a prompt and a description; the judge is the fake provider, so that what is measured is titjudge.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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


def peak(items: int, folder: Path) -> float:
    """MiB of the whole process."""
    folder.mkdir()
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
    command = [
        sys.executable,
        str(ROOT / "cli.py"),
        "judge",
        "--data",
        str(folder / "data.jsonl"),
        "--config",
        str(folder / "run.yaml"),
    ]
    command += ["--captioner", "fake/x", "--metric", "tit-llm", "--no-report", "--out", str(folder / "run")]
    process = subprocess.Popen(
        command, env={**os.environ, "TITJUDGE_CACHE": str(folder / "cache")}, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the run of {items} items failed")
    return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    items = parser.parse_args().items
    with tempfile.TemporaryDirectory() as folder:
        few, many = peak(1_000, Path(folder) / "few"), peak(items, Path(folder) / "many")
    print(
        f"peak memory, {items:,} text items against 1,000: {many / few:.2f} x ({few:.0f} and {many:.0f} MiB; goal: at most 1.5)"
    )


if __name__ == "__main__":
    main()
