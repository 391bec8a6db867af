"""The plain lines of a run that goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from titjudge.cli.progress import Plain, line
from titjudge.engine.roles import RoleStats
from titjudge.runs.loop import Progress


def test_what_goes_wrong_is_said_at_once_and_not_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    tally = RoleStats()
    engine: Any = SimpleNamespace(
        roles=SimpleNamespace(open=lambda: [SimpleNamespace(tally=tally)]), budget=SimpleNamespace(spent=0.0)
    )
    shown = Plain(None)
    shown.show(Progress(), engine)
    assert capsys.readouterr().err == ""
    tally.errors, tally.trouble = 3, "cannot connect to 127.0.0.1:9: refused"
    for _ in range(3):
        shown.show(Progress(), engine)
        tally.errors += 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "3 errors met (cannot connect to 127.0.0.1:9: refused)" in line


@pytest.mark.parametrize(
    ("begun", "done", "bad", "said"),
    [
        (64, 5, 5, None),  # nothing is judged yet
        (64, 25, 5, None),  # most of what was paid is for items in flight
        (70, 65, 5, "about $2.69 in all"),  # $1 for 60 that are judged and half of 10 in flight: 110 are left
        (175, 180, 5, None),
    ],
)
def test_the_cost_of_a_run_is_foretold_from_what_was_judged(begun: int, done: int, bad: int, said: str | None) -> None:
    engine: Any = SimpleNamespace(
        roles=SimpleNamespace(open=lambda: [SimpleNamespace(tally=RoleStats(asked=128, spent=1.0))]),
        budget=SimpleNamespace(spent=1.0),
    )
    text = line(Progress(total=180, begun=begun, done=done, bad=bad), engine, 3.0)
    assert (" left" in text) == (done > bad and done < 180), (
        "bad lines are read in no time, and tell nothing of the rest"
    )
    assert ("in all" in text) == (said is not None)
    assert said is None or said in text
