"""Every table that the program makes declares what its numbers are over, and prints it."""

import ast
import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from titjudge.cli.output import declared, show_tables
from titjudge.core.declarations import FACTS, Declaration, Exclusion, Population, Unit
from titjudge.core.run_records import TableRecord
from titjudge.core.tables import Cell, Table
from titjudge.report import tables as renderers

ROOT = Path(__file__).resolve().parents[3] / "titjudge"
PAIRS = Declaration(
    "pairs",
    "two",
    Population.COMMON_OF_TWO,
    Unit.PROMPT,
    correction="p",
    by_column={"n": Population.VOTES, "tier": Population.COMMON_OF_ALL},
    counts="n",
)
EXCLUDED = {"no_score": {"A": [f"p{k}" for k in range(12)], "B": ["p3"]}, "left out": {"C": []}}
SIZES = {Population.COMMON_OF_TWO: [24], Population.VOTES: [90], Population.SAME_PROMPTS: [40]}
TABLE = Table("Title", ("a", "n"), (("x", 1),), ("a note",), declared=PAIRS.over(SIZES, EXCLUDED))


def undeclared(path: Path) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    tables = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Table"]
    return [f"{path}:{call.lineno}" for call in tables if "declared" not in {word.arg for word in call.keywords}]


def test_every_table_of_the_program_is_declared() -> None:
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "Table(" in path.read_text(encoding="utf-8")]
    assert len(paths) > 30
    assert [place for path in paths for place in undeclared(path)] == []


def test_population_unit_and_exclusions_are_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    show_tables([TABLE, TABLE])
    assert capsys.readouterr().out.count("over 24 common prompts of the two; n: 90 votes of people; unit: prompt") == 2
    for render in (renderers.markdown, renderers.latex):
        assert "24 common prompts of the two" in render([TABLE])
        assert "A 12, B 1" in render([TABLE])
    (row,) = csv.DictReader(renderers.csv([TABLE]).splitlines())
    assert (row["population"], row["size"], row["unit"]) == ("common prompts of the two", "24", "prompt")
    assert row["excluded"] == "A 12, B 1 (no score): p0, p1, p2, p3, p4, p5 and 6 more; C (left out)"
    (found,) = declared({"pairs": []}, [TABLE])["declared"]
    assert (found["size"], found["unit"]) == (24, "prompt")
    assert found["excluded"] == {"no_score": {"A": 12, "B": 1}, "left out": {"C": 0}}
    assert found["excluded_ids"] == EXCLUDED
    assert found["by_column"]["n"] == "votes of people"
    assert declared([1], [TABLE]) == [1]


def test_the_caption_names_only_what_the_table_shows() -> None:
    assert "tier" not in TABLE.caption
    assert (
        "tier: common prompts of all"
        in replace(TABLE, columns=("a", "tit: Tier"), keys=("a", "tit:tier")).caption.lower()
    )
    assert "Last: common prompts of all" in replace(TABLE, row_titles={"tier": "Last"}).caption
    assert "tier" not in replace(TABLE, rows=(("tier", 3),)).caption


def test_rows_with_numbers_of_their_own_give_the_size() -> None:
    rows = (("x", 12), ("y", Cell("9 of 12", sort=9)), ("z", None))
    table = replace(TABLE, rows=rows, declared=PAIRS)
    assert table.caption.startswith("over 9 to 12 common prompts of the two")
    assert table.declaration["size"] == [9, 12]
    assert replace(table, rows=rows[:1]).declaration["size"] == 12
    assert "size" not in replace(table, columns=("a", "b")).declaration


def test_families_are_the_unit_in_place_of_prompts() -> None:
    assert PAIRS.over(families=True).caption().endswith("unit: family; adjusted: p")
    assert replace(PAIRS, unit=Unit.VOTE).over(families=True).unit == Unit.VOTE


def test_no_name_speaks_of_people_if_nobody_was_asked() -> None:
    asked = replace(PAIRS, population=Population.OWN_PAIRS, by_column={"srcc": Population.HUMAN_PAIRS})
    record = asked.over({Population.HUMAN_PAIRS: [7]}, constructed=True)
    assert record.caption({"srcc": "SRCC with construction"}).startswith(
        "over pairs that the row scored; SRCC with construction: 7 pairs"
    )
    assert not {"human", "people"} & set(str(record.to_json()).split())
    assert "human pairs" in asked.over({}).caption()


def test_a_reason_is_stored_by_its_id_and_printed_in_words() -> None:
    over = PAIRS.over({}, {Exclusion.OWN_MEAN: {"x": ["p"]}})
    assert over.to_json()["excluded"] == {"too_few_own_mean": {"x": 1}}
    assert "x 1 (too few common prompts or families, own mean): p" in over.caption()


def test_ids_are_in_one_order_whatever_the_rows() -> None:
    assert [*PAIRS.over(5, {"no_score": {"A": ["p10", "p2", "p1"]}}).excluded["no_score"]["A"]] == ["p1", "p2", "p10"]


def test_a_long_list_of_ids_is_cut() -> None:
    record = PAIRS.over(5, {"no_score": {"A": [f"{'x' * 99}{k}" for k in range(300)]}})
    assert record.sizes == {PAIRS.population: [5]}
    assert len(record.left_out) < 300
    assert len(record.to_json()["excluded_ids"]["no_score"]["A"]) == 100


def test_a_list_of_facts_has_no_population() -> None:
    table = Table("Title", ("a",), (("x",),), declared=FACTS)
    assert table.caption == ""
    assert renderers.csv([table]) == "a\nx\n"
    assert declared({}, [table]) == {}


def test_a_stored_table_keeps_what_it_declares() -> None:
    stored = TableRecord.model_validate_json(TableRecord.of_table(TABLE).model_dump_json())
    assert stored.table().caption == replace(TABLE, declared=replace(TABLE.declared, correction="")).caption
    assert "population" not in TableRecord.of_table(Table("old", (), ())).to_json()


def test_the_page_of_populations_lists_every_declaration() -> None:
    page = (ROOT.parent / "docs" / "reference" / "populations.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    declared = set()
    for path in ROOT.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        for call in calls:
            words = {word.arg: word.value for word in call.keywords}
            made = isinstance(call.func, ast.Name) and call.func.id == "Declaration" and len(call.args) > 2
            id = call.args[0] if made else words.get("id") if "correction" in words else None
            declared |= {id.value} if isinstance(id, ast.Constant) else set()
    assert len(declared) > 40
    assert declared == known
