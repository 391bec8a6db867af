"""How long `python cli.py --help` takes, against `python -c pass`: median of several runs in turn, and what it imports."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seconds(*command: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main(runs: int = 15) -> None:
    pairs = [(seconds("cli.py", "--help"), seconds("-c", "pass")) for _ in range(runs)]
    ratio = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
    print(f"cli.py --help / python -c pass: {ratio:.2f} (median of {runs}; goal: at most 3)")


if __name__ == "__main__":
    main()
