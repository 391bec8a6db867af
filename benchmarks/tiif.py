"""Reading and aggregating TIIF-Bench answers, beside a plain json loop with pandas and beside reading the files at all.

    python -m benchmarks.tiif [--answers DIR] [--rounds 7]

DIR holds `<generator>/<type>/{short,long}/<idx>.json`, or several such trees. All three run in this process, one after
the other in every round; a ratio is the median over the rounds of ours divided by the reference in the same round.
pandas is imported before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from titjudge.suites.tiif.layout import DIMENSIONS, LENGTHS
from titjudge.suites.tiif.suite import aggregate_answers

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "tiif" / "answers"


def trees(folder: Path) -> list[Path]:
    """`folder` itself, or the trees in it: a tree has short or long three levels down."""
    if any(path.name in LENGTHS for path in folder.glob("*/*/*")):
        return [folder]
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and any(p.name in LENGTHS for p in path.glob("*/*/*"))
    )


def files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield f"{place}/{name}"


def ours(folders: list[Path]) -> dict[tuple[str, str, str], float]:
    found = {}
    for folder in folders:
        for generator, lengths in aggregate_answers(folder)[0]["generators"].items():
            for length, result in lengths.items():
                found[folder.name, generator, length] = result["overall"]
    return found


def loop_and_pandas(folders: list[Path]) -> dict[tuple[str, str, str], float]:
    """What one would write without a library: open, json.load, a row for each file, groupby, means."""
    import pandas as pd

    found = {}
    for folder in folders:
        rows: list[dict[str, Any]] = []
        for path in files(folder):
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
            pairs = zip(record["gt_answers"], record["model_pred"], strict=False)
            hits = [gold.strip().lower() == pred.strip().lower() for gold, pred in pairs]
            generator, kind, length, _ = path.rsplit("/", 4)[1:]
            rows.append(
                {"generator": generator, "type": kind, "length": length, "correct": sum(hits), "questions": len(hits)}
            )
        sums = pd.DataFrame(rows).groupby(["generator", "length", "type"])[["correct", "questions"]].sum()
        types = (100 * sums["correct"] / sums["questions"]).unstack("type")
        parts = {
            name: types[[kind for kind in kinds if kind in types]].mean(axis=1) for name, kinds in DIMENSIONS.items()
        }
        for (generator, length), value in pd.DataFrame(parts).mean(axis=1).items():
            found[folder.name, generator, length] = float(value)
    return found


def reading(folders: list[Path]) -> int:
    """Only the bytes of every file."""
    size = 0
    for folder in folders:
        for path in files(folder):
            with open(path, "rb") as file:
                size += len(file.read())
    return size


def timed(call: Callable[[list[Path]], object], folders: list[Path]) -> float:
    start = time.perf_counter()
    call(folders)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="TIIF-Bench aggregation against plain references")
    parser.add_argument("--answers", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    folders = trees(arguments.answers) if arguments.answers.is_dir() else []
    if not folders:
        print("skipped: no TIIF-Bench answers: --answers DIR with <generator>/<type>/{short,long}/<idx>.json")
        return
    try:
        import pandas  # noqa: F401
    except ImportError:
        print("skipped: the reference needs pandas (pip install 'titjudge[pandas]')")
        return
    one, other = ours(folders), loop_and_pandas(folders)  # also warms caches
    worst = max(abs(other[key] - one[key]) for key in other)
    calls = (ours, loop_and_pandas, reading)
    times = [[timed(call, folders) for call in calls] for _ in range(arguments.rounds)]
    mine, plain, read = (median(column) for column in zip(*times, strict=True))
    count = sum(1 for folder in folders for _ in files(folder))
    print(
        f"{count} files, {arguments.rounds} rounds, largest difference of an overall value {worst:.1e} percent points"
    )
    print(f"ours {1e3 * mine:.1f} ms, json loop and pandas {1e3 * plain:.1f} ms, reading {1e3 * read:.1f} ms (medians)")
    print(f"ratio to json loop and pandas: {median(row[0] / row[1] for row in times):.2f}  (at most 0.50, or)")
    print(f"ratio to reading the files:    {median(row[0] / row[2] for row in times):.2f}  (at most 1.20)")


if __name__ == "__main__":
    main()
