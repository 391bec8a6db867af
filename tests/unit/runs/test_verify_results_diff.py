"""Results side by side: tables by their titles, columns by their names; what is new is named and not held against a run."""

from __future__ import annotations

from typing import Any

from titjudge.runs.check.verify import added, cells, same


def results(*tables: tuple[str, list[str], list[list[Any]]]) -> dict[str, Any]:
    return {"tables": [{"title": title, "columns": columns, "rows": rows} for title, columns, rows in tables]}


def differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {where: (first, second) for where, first, second in cells(before, now) if not same(first, second)}


OLD = ("A", ["name", "mean"], [["g", 1.0]])


def test_what_was_added_since_is_named() -> None:
    now = results(
        ("New", ["x"], [[1]]), ("A", ["name", "images", "mean"], [["g", 4, 1.0]]), ("A by theme", ["x"], [[2]])
    )
    assert differences(results(OLD), now) == {}
    assert added(results(OLD), now) == ["the table 'New'", "the table 'A by theme'", "the column 'images' of 'A'"]
    assert added(now, now) == []


def test_what_is_there_is_compared_wherever_it_stands() -> None:
    now = results(("New", ["x"], [[1]]), ("A", ["images", "name", "mean"], [[4, "g", 2.0]]))
    assert list(differences(results(OLD), now).values()) == [(1.0, 2.0)]
    rows = results(("A", ["name", "mean"], [["g", 1.0], ["h", 1.0]]))
    assert differences(results(OLD), rows) == {"table 'A', number of rows": (1, 2)}


def test_a_table_or_column_that_no_longer_comes_out_is_a_difference() -> None:
    assert differences(results(OLD), results()) == {"table 'A'": ("A", None)}
    assert differences(results(OLD), results(("A", ["name"], [["g"]]))) == {
        "table 'A', columns": (["name", "mean"], ["name"])
    }


def test_two_tables_of_one_title_keep_their_order() -> None:
    twice = results(OLD, ("A", ["name"], [["h"]]))
    assert differences(twice, twice) == {}
    assert differences(twice, results(OLD)) == {"table 'A'": ("A", None)}
