"""`compare cascade` on a sweep as `sweep` leaves it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_sweep import IMAGES, data, server, sweep_file
from test_sweep import swept as run_sweep

from titjudge.cli.dispatch import run_command
from titjudge.testing import Server

__all__ = ["data", "server"]  # fixtures


@pytest.mark.slow
def test_a_real_sweep_gives_a_cascade_whose_prices_are_those_of_the_sweep(
    tmp_path: Path, data: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = {"gpt-4o": {"input": 1, "output": 1}, "gpt-4.1": {"input": 10, "output": 10}}
    found = run_sweep(sweep_file(tmp_path, data, prices=prices))
    assert run_command("python cli.py", ["compare", "cascade", str(tmp_path / "out"), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["recommended"]["judges"] == ["tit-llm (openai/gpt-4.1)"]
    (one,) = told["singles"]
    assert one["price"] == pytest.approx(2 * (found.rows[0].price or 0) / 1000)
    assert told["left_out"] == {"tit-llm (openai/gpt-4o)": "no better than guessing (p 1)"}  # it is always wrong
    assert told["pairs"] == IMAGES // 3 * (IMAGES // 3 - 1) // 2 * 3


def test_nothing_is_recommended_where_no_judge_is_better_than_guessing(
    tmp_path: Path, data: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    run_sweep(sweep_file(tmp_path, data, judges=["openai/gpt-4o"]))
    assert (
        run_command("python cli.py", ["compare", "cascade", str(tmp_path / "out"), "--json", str(tmp_path / "c")]) == 0
    )
    said = capsys.readouterr().out
    assert "recommended: nothing: by these pairs (18) no judge agrees with people more often than guessing" in said
    assert "left out: tit-llm: no better than guessing (p 1)" in said
    assert json.loads((tmp_path / "c").read_text())["recommended"] is None
