"""Results side by side: tables by id, columns by key; what is new is not held against a run, and words decide nothing."""

from dataclasses import replace
from typing import Any

import pytest

from titjudge.core.declarations import Declaration
from titjudge.core.run_records import Results, TableRecord
from titjudge.core.tables import Cell, Table, percent
from titjudge.core.types import Score
from titjudge.runs.check.verify import cells, difference, same


def table(id: str, keys: list[str], *rows: list[Any], title: str = "") -> Table:
    titles = tuple(f"the {key}" for key in keys)
    return Table(title or f"Table {id}", titles, tuple(map(tuple, rows)), declared=Declaration(id), keys=tuple(keys))


def results(*tables: Table, **more: Any) -> Results:
    return Results(tables=[TableRecord.of_table(table) for table in tables], **more)


def differences(before: Results, *now: Table, **more: Any) -> dict[str, tuple[Any, Any]]:
    found = cells(before, results(*now, **more), now)
    return {where: (first, second) for where, first, second in found if not same(first, second)}


OLD = table("a", ["name", "mean"], ["g", 1.0])


def test_what_was_added_since_is_not_held_against_a_run() -> None:
    now = (table("new", ["x"], [1]), table("a", ["name", "images", "mean"], ["g", 4, 1.0]), table("b", ["x"], [2]))
    assert differences(results(OLD), *now) == {}


def test_what_is_there_is_compared_wherever_it_stands() -> None:
    now = (table("new", ["x"], [1]), table("a", ["images", "name", "mean"], [4, "g", 2.0]))
    assert list(differences(results(OLD), *now).values()) == [(1.0, 2.0)]
    rows = table("a", ["name", "mean"], ["g", 1.0], ["h", 1.0])
    assert differences(results(OLD), rows) == {"table 'Table a', number of rows": (1, 2)}


def test_a_table_or_column_that_no_longer_comes_out_is_a_difference() -> None:
    assert differences(results(OLD)) == {"table 'Table a'": ("Table a", None)}
    assert list(differences(results(OLD), table("a", ["name"], ["g"]))) == ["table 'Table a', columns"]


def test_two_tables_of_one_id_keep_their_order() -> None:
    twice = OLD, table("a", ["name"], ["h"])
    assert differences(results(*twice), *twice) == {}
    assert differences(results(*twice), OLD) == {"table 'Table a'": ("Table a", None)}


WORDS = table("a", ["name", "share"], [Cell("of 12 pairs"), percent(0.5, (0.25, 0.75), note="few prompts")])


def test_words_decide_nothing() -> None:
    reworded = table("a", ["name", "share"], [Cell("among 12"), percent(0.5, (0.25, 0.75))], title="A better title")
    reworded = replace(reworded, columns=("generator", "part"))
    assert differences(results(WORDS), reworded) == {}


@pytest.mark.parametrize(
    "row",
    [
        [Cell("of 13 pairs"), WORDS.rows[0][1]],
        [WORDS.rows[0][0], percent(0.6, (0.25, 0.75))],
        [WORDS.rows[0][0], percent(0.5, (0.2, 0.75))],
        [WORDS.rows[0][0], percent(0.5)],
        [WORDS.rows[0][0], None],
    ],
)
def test_numbers_among_words_decide(row: list[Any]) -> None:
    assert len(differences(results(WORDS), table("a", ["name", "share"], row))) == 1


def test_a_name_from_the_data_is_compared_letter_by_letter() -> None:
    assert len(differences(results(OLD), table("a", ["name", "mean"], ["h", 1.0]))) == 1


def test_of_sentences_only_their_presence_is_compared() -> None:
    with_reason = {"metrics": {"tit": {"reasons": {"srcc": "too few prompts"}}}}
    assert differences(results(**with_reason), metrics={"tit": {"reasons": {"srcc": "only 3 prompts"}}}) == {}
    assert len(differences(results(**with_reason), metrics={"tit": {}})) == 1
    quoted = {"failures": [{"item": "a", "reason": "no answer"}]}
    assert len(differences(results(**quoted), failures=[{"item": "a", "reason": "another"}])) == 1


@pytest.mark.parametrize(
    ("stored", "now", "is_same"),
    [
        ("2 of 3 facets", "of the facets, 2 of 3", True),
        ("2 of 3 facets", "1 of 3 facets", False),
        ('the "cup" is red', 'the "cup" is blue', False),
        ("", 'the "cup" is blue', False),
    ],
)
def test_a_reason_is_compared_letter_by_letter_if_it_quotes_an_answer(stored: str, now: str, is_same: bool) -> None:
    said = [r'{"score": 1, "reason": "the \"cup\" is blue"}']
    assert (difference(Score.of(1, reason=stored), Score.of(1, reason=now), said) == "") is is_same
