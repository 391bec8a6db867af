"""Every table that the program makes declares what its numbers are over, and prints it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from titjudge.cli.output import declared, show_tables
from titjudge.core.declarations import FACTS, Declaration, Population, Unit
from titjudge.core.run_records import TableRecord
from titjudge.core.tables import Table
from titjudge.report import tables as renderers

ROOT = Path(__file__).resolve().parents[3] / "titjudge"
PAIRS = Declaration(
    "pairs", "two", Population.COMMON_OF_TWO, Unit.PROMPT, correction="p", by_column={"n": Population.VOTES}
)
TABLE = Table(
    "Title", ("a", "n"), (("x", 1),), ("a note",), declared=PAIRS, size=24, excluded={"C": "5 common prompts"}
)


def undeclared(path: Path) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    tables = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Table"]
    return [f"{path}:{call.lineno}" for call in tables if "declared" not in {word.arg for word in call.keywords}]


def test_every_table_of_the_program_is_declared() -> None:
    paths = sorted(ROOT.rglob("*.py"))
    assert sum("Table(" in path.read_text(encoding="utf-8") for path in paths) > 30
    assert [place for path in paths for place in undeclared(path)] == []


def test_population_unit_and_exclusions_are_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    show_tables([TABLE, TABLE])
    assert capsys.readouterr().out.count("over common prompts of the two (24)") == 2
    for render in (renderers.markdown, renderers.latex):
        assert "common prompts of the two" in render([TABLE])
    header, row = renderers.csv([TABLE]).splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["population"] == "common prompts of the two"
    (found,) = declared({"pairs": []}, [TABLE])["declared"]
    assert (found["size"], found["unit"], found["excluded"]) == (24, "prompt", {"C": "5 common prompts"})
    assert found["by_column"] == {"n": "votes of people"}
    assert declared([1], [TABLE]) == [1]


def test_a_list_of_facts_has_no_population() -> None:
    table = Table("Title", ("a",), (("x",),), declared=FACTS)
    assert table.caption == ""
    assert renderers.csv([table]) == "a\nx\n"
    assert declared({}, [table]) == {}


def test_a_stored_table_keeps_population_and_unit() -> None:
    stored = TableRecord.model_validate_json(TableRecord.of_table(TABLE).model_dump_json())
    assert stored.table().caption == "over common prompts of the two; unit: prompt"
    assert "population" not in TableRecord.of_table(Table("old", (), ())).to_json()
