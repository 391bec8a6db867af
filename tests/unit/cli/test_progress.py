"""The plain lines of a run that goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from titjudge.cli.progress import Plain
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
