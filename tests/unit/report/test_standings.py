"""Images of each generator: what is missing, what they cost, and who offers the generator."""

from pathlib import Path
from typing import Any

from report_runs import PROMPT, score, write_run

from titjudge.core.tables import Cell, Table
from titjudge.core.types import Item, Score, Status
from titjudge.report.model import load
from titjudge.report.provenance import COST, MISSING
from titjudge.report.standings import IMAGES, Cells
from titjudge.report.verdict import MARGIN, verdict_of


def facts(folder: Path, metas: dict[str, dict[str, Any]], refused: str = "") -> list[Table]:
    """The table of a run of two prompts by generators with these meta."""
    items = [Item(f"{g}{p}", PROMPT, None, g, f"p{p}", meta) for g, meta in metas.items() for p in range(2)]
    scores: list[Score] = []
    for item in items:
        lost = item.id == refused
        scores.append(score(item, "tit", None if lost else 0.5, Status.REFUSED if lost else Status.OK))
    report = load([write_run(folder, items, scores, results={}, metrics={"tit": {"range": [-1, 1]}})])
    return list(Cells.of(report, verdict_of(report)).facts(["b", "a"]))


def shown(table: Table, column: str) -> list[str | None]:
    place = table.columns.index(column)
    return [None if row[place] is None else str(row[place]) for row in table.rows]


def test_price_seconds_vendor_and_licence_stand_beside_each_generator(tmp_path: Path) -> None:
    made = {"made_with": {"cost": 0.04, "seconds": 3.25}, "vendor": "Acme", "licence": "MIT"}
    (table,) = facts(tmp_path, {"a": made, "b": {"vendor": "<b>Other"}})
    assert shown(table, "generator") == ["b", "a"]
    assert shown(table, "USD per image") == [None, "0.0400"]
    assert shown(table, "seconds per image") == [None, "3.2"]
    assert shown(table, "vendor") == ["<b>Other", "Acme"]
    assert shown(table, "licence") == [None, "MIT"]
    assert "refused" not in table.columns


def test_refused_images_are_counted_and_odd_records_are_no_price(tmp_path: Path) -> None:
    (table,) = facts(tmp_path, {"a": {"made_with": "by hand"}, "b": {"made_with": {"cost": "dear"}}}, refused="a0")
    assert shown(table, "refused") == [None, "1"]
    lost = table.rows[1][table.columns.index("without a score")]
    assert isinstance(lost, Cell)
    assert (lost.text, lost.note, lost.order) == ("1", "50.0%", 1)
    assert "USD per image" not in table.columns


def test_no_table_if_nothing_is_known_or_missing(tmp_path: Path) -> None:
    assert facts(tmp_path, {"a": {}, "b": {}}) == []


def test_every_table_of_numbers_of_a_report_declares_its_population() -> None:
    for declared in (IMAGES, MARGIN, MISSING, COST):
        assert declared.population
        assert declared.unit
