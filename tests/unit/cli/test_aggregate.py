"""`suites aggregate` makes a command of whatever a suite, or another package, announces."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from titjudge.cli.aggregate import make_command
from titjudge.core.errors import UserError
from titjudge.core.types import Table
from titjudge.suites.aggregation import Aggregated, Aggregation, Flag, Judged

GIVEN: list[dict[str, Any]] = []


def compute(run: Judged | None, **values: Any) -> Aggregated:
    GIVEN.append(values)
    if run is not None:
        run()
    if values["seen"] is None:
        raise UserError("give --seen FILE")
    return Aggregated({"n": 1}, [Table("mine", ("n",), ((1,),))], ["2 files written"])


MINE = Aggregation(
    summary="Mine.",
    help="Compute mine.",
    flags=(
        Flag("seen", "What was seen."),
        Flag("write-seen", "Where it goes.", "DIR", alias="also"),
        Flag("rule", "How.", None, choices=("a", "b"), default="a"),
        Flag("part", "A part.", "N", several=True),
        Flag("run", "A run.", "RUN"),
    ),
    compute=compute,
)


@pytest.fixture(autouse=True)
def _nothing_given() -> None:
    GIVEN.clear()


def test_flags_become_arguments_and_results_are_shown() -> None:
    done = CliRunner().invoke(
        make_command("mine", MINE), ["--seen", "f.json", "--also", "d", "--rule", "b", "--part", "1", "--part", "2"]
    )
    assert [{"seen": Path("f.json"), "write_seen": Path("d"), "rule": "b", "part": ("1", "2")}] == GIVEN
    assert "2 files written" in done.output
    assert "mine" in done.output


def test_a_run_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    done = CliRunner().invoke(make_command("mine", MINE), ["--run", str(tmp_path)])
    assert "not a run folder" in str(done.exception)
    assert isinstance(CliRunner().invoke(make_command("mine", MINE), []).exception, UserError)
