"""A few random schedules of faults and kills, judged by the server's bill; `benchmarks.money_chaos` plays many more."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 11, 21])
def test_random_schedules_keep_the_promises_on_money(first: int) -> None:
    """In a process of its own, since schedules fork it: a fork of the tests would inherit their threads."""
    command = [sys.executable, "-m", "benchmarks.money_chaos", "--first", str(first), "--schedules", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 schedules, 0 with a problem" in done.stdout
