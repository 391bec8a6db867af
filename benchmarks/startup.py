"""Processor time of commands that send nothing, in alternation; medians of pairs, with bytecode files.

    python -m benchmarks.startup [--against CHECKOUT] [--pairs 15]

Without a checkout it prints `--help` against `python -c "import click"`; with one, each command here against the same there.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {"--help": ["--help"], "judge --help": ["judge", "--help"], "judge --dry-run": ["judge", "--dry-run"]}


def processor_time(root: Path, cache: Path, *arguments: str) -> float:
    """User and system seconds of a Python process in a checkout."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables |= {"PYTHONPATH": str(root), "TITJUDGE_CACHE": str(cache / root.name)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=root, env=variables, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio(pairs: int, one: tuple[Path, list[str]], other: tuple[Path, list[str]]) -> str:
    """The first process against the second: the median of pairs, after a pair that writes the bytecode files."""
    with tempfile.TemporaryDirectory() as cache:
        found = [
            [processor_time(root, Path(cache), *arguments) for root, arguments in (one, other)]
            for _ in range(pairs + 1)
        ][1:]
    first, second = (1000 * statistics.median(times) for times in zip(*found, strict=True))
    middle = statistics.median(a / b for a, b in found)
    return f"{middle:.2f} x ({first:.0f} against {second:.0f} ms of CPU, medians of {pairs} pairs)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout of titjudge")
    parser.add_argument("--pairs", type=int, default=15)
    given = parser.parse_args()
    there = given.against and given.against.resolve()
    click = ["-c", "import click"]
    print("--help against `import click`:", ratio(given.pairs, (ROOT, ["cli.py", "--help"]), (ROOT, click)), flush=True)
    for name, arguments in COMMANDS.items() if there else ():
        line = ["cli.py", *arguments]
        print(f"{name} against {there.name}:", ratio(given.pairs, (ROOT, line), (there, line)), flush=True)


if __name__ == "__main__":
    main()
