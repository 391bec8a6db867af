"""Tables of suites: which images count, and what the means could be for images without a score."""

from pathlib import Path
from typing import Any

from titjudge.core.types import Item, Score, Status
from titjudge.suites.question_data import TableSpec
from titjudge.suites.question_suite import make_tables

TABLE: dict[str, Any] = {"title": "edits", "by": "type", "times": 1}


def item(name: str, kind: str, **meta: Any) -> Item:
    return Item(name, "p", Path(name), "one", name, {"type": kind, **meta})


def scored(*values: float | Status) -> list[Score]:
    return [
        Score(
            name, "m", None if isinstance(value, Status) else value, value if isinstance(value, Status) else Status.OK
        )
        for name, value in zip("abcd", values, strict=False)
    ]


ITEMS = [item("a", "add"), item("b", "add"), item("c", "remove"), item("d", "remove")]


def test_images_without_a_score_are_counted_by_column_and_reason_with_both_bounds_of_the_mean() -> None:
    tables = make_tables(TableSpec(**TABLE, bounds=(1, 5)), ITEMS, scored(4, Status.REFUSED, 2, Status.UNPARSED))
    assert tables[0].rows == (("one", 4, 2, 3, 4, 2),)
    assert tables[1].title == "edits: images without a score"
    assert tables[1].columns == (
        "generator", "category", "refused", "unparsed", "mean", "if all were worst", "if all were best",
    )  # fmt: skip
    assert tables[1].rows == (
        ("one", "overall", 1, 1, 3, 2, 4), ("one", "add", 1, 0, 4, 2.5, 4.5), ("one", "remove", 0, 1, 2, 1.5, 3.5),
    )  # fmt: skip


def test_a_generator_whose_edits_were_all_refused_has_bounds_and_no_mean() -> None:
    _, unscored = make_tables(TableSpec(**TABLE, bounds=(1, 5)), ITEMS[:1], scored(Status.REFUSED))
    assert unscored.rows[0] == ("one", "overall", 1, None, 1, 5)


def test_where_every_image_has_a_score_there_is_no_table_of_those_without() -> None:
    assert len(make_tables(TableSpec(**TABLE, bounds=(1, 5)), ITEMS, scored(1, 2, 3, 4))) == 1


def test_a_part_of_the_score_is_bounded_like_the_score() -> None:
    scores = [Score("a", "m", 4, parts={"SC": 2})]
    _, unscored = make_tables(TableSpec(**TABLE, bounds=(0, 10), value="SC"), ITEMS[:2], scores)
    assert unscored.rows[0] == ("one", "overall", 1, 2, 1, 6)


def test_only_images_with_the_wanted_field_count() -> None:
    marked = [item("a", "add", intersection=True), item("b", "add", intersection="False")]
    (table,) = make_tables(TableSpec(**TABLE, where={"intersection": True}), marked, scored(4, 1))
    assert table.rows == (("one", 1, 1, 4, 4),)


def test_of_several_parts_each_that_a_score_has_counts_alike() -> None:
    table = TableSpec(**TABLE, value=["VC", "KP"], overall="all", bounds=(0, 100))
    scores = [Score("a", "m", 50, parts={"VC": 0, "KP": 100}), Score("c", "m", 25, parts={"VC": 25})]
    means, unscored = make_tables(table, ITEMS, scores)
    assert means.rows == (("one", 4, 2, 125 / 3, 50, 25),)
    assert unscored.rows[0][3:] == (125 / 3, 125 / 6, 425 / 6)  # b lacks two ratings, d the one that its column has


def test_missing_ratings_of_scored_images_have_a_column_and_enter_the_bounds() -> None:
    table = TableSpec(**TABLE, value=["VC", "KP"], overall="all", bounds=(0, 100))
    part = Score("a", "m", 50, parts={"VC": 50, "could_be": {"": [25, 75], "KP": [0, 100]}})
    scores = [part, Score("b", "m", 50, parts={"VC": 50, "KP": 50}), Score("c", "m", None, Status.REFUSED)]
    means, unscored = make_tables(table, ITEMS[:3], scores)
    assert unscored.columns[2:4] == ("refused", "scored in part")
    assert unscored.rows[:2] == (("one", "overall", 1, 1, 50, 25, 75), ("one", "add", 0, 1, 50, 37.5, 62.5))
    assert make_tables(TableSpec(**TABLE, bounds=(0, 100)), ITEMS[:2], scores)[1].rows[0][3:] == (50, 37.5, 62.5)
    assert means.rows[0][3] == 50


def test_a_table_by_a_field_that_the_data_lack_is_left_out() -> None:
    assert make_tables(TableSpec(title="t", by="subtask"), ITEMS, scored(1, 2, 3, 4)) == []
