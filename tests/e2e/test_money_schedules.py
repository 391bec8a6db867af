"""A few random schedules of faults and kills, judged by the server's bill; `benchmarks.money_chaos` plays many more."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow(first=True)
def test_random_schedules_keep_the_promises_on_money() -> None:
    """In a process of its own, since schedules fork it: a fork of the tests would inherit their threads."""
    command = [sys.executable, "-m", "benchmarks.money_chaos", "--first", "1", "--schedules", "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "30 schedules, 0 with a problem" in done.stdout
