"""`suites aggregate` makes a command of whatever a suite, or another package, announces."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from titjudge.cli.aggregate import make_command
from titjudge.core.types import Table
from titjudge.suites.aggregation import Aggregated, Aggregation, Source

GIVEN: list[tuple[Source, dict[str, Any]]] = []


def compute(source: Source, **values: Any) -> Aggregated:
    GIVEN.append((source, values))
    return Aggregated({"n": 1}, [Table("mine", ("n",), ((1,),))], ["2 files written"])


MINE = Aggregation(
    summary="Mine.", help="Compute mine.", compute=compute, metrics=("mine",), options={"rule": ("a", "b"), "part": ()}
)


@pytest.fixture(autouse=True)
def _nothing_given() -> None:
    GIVEN.clear()


def test_files_and_options_become_arguments_and_results_are_shown() -> None:
    done = CliRunner().invoke(
        make_command("mine", MINE), ["f.json", "g.json", "--official-files", "d", "--suite-option", "rule=b"]
    )
    assert [(Source((Path("f.json"), Path("g.json")), None, Path("d")), {"rule": "b", "part": ""})] == GIVEN
    assert "2 files written" in done.output
    assert "mine" in done.output


@pytest.mark.parametrize(
    ("given", "says"), [("rul=a", "Did you mean 'rule'?"), ("rule=c", "unknown value 'c'"), ("rule", "KEY=VALUE")]
)
def test_an_unknown_option_or_value_is_refused(given: str, says: str) -> None:
    done = CliRunner().invoke(make_command("mine", MINE), ["f.json", "--suite-option", given])
    assert says in str(done.exception)
    assert GIVEN == []


def test_a_run_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    done = CliRunner().invoke(make_command("mine", MINE), [str(tmp_path)])
    assert "manifest.json" in str(done.exception)
    assert GIVEN == []


def test_an_aggregation_of_files_alone_writes_no_official_files() -> None:
    files_only = make_command("mine", Aggregation("Mine.", "Compute mine.", compute))
    assert [each.name for each in files_only.params] == ["sources", "json_file"]
