"""Tables: a number has one look wherever it stands, and its value is kept."""

import pytest

from titjudge.core.tables import Cell, CellFormat, Table, dollars, p_value, percent, plain, text_of


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (percent(0.889, (0.778, 0.972)), "88.9% [77.8, 97.2]"),
        (percent(0.5, note="chance 0.5"), "50.0%, chance 0.5"),
        (plain(0.395, (0.351, None)), "0.395 [0.351, ∞]"),
        (plain(-1.2, (None, 0.4), digits=2), "-1.20 [-∞, 0.40]"),
        (p_value(0.0004), "0.0004"),
        (p_value(0.00002), "<0.0001"),
        (p_value(0.0341), "0.034"),
        (dollars(0.25), "$0.2500"),
        (dollars(1250.0), "$1,250.00"),
        (dollars(2.5, unpriced=3), "at least $2.50"),
        (dollars(None, unpriced=3), "unknown"),
        (Cell(0.05, CellFormat.POINTS, interval=(0.012, 0.088)), "+5.0 pts [+1.2, +8.8]"),
        (0.83374, "0.8337"),
        (0.5, "0.5"),
        (1234, "1,234"),
        (True, "yes"),
        (None, "–"),
    ],
)
def test_a_number_has_one_look(cell: object, text: str) -> None:
    assert text_of(cell) == text


def test_what_is_undefined_stays_none() -> None:
    assert percent(None) is plain(None) is p_value(None) is dollars(None) is None


def test_columns_of_numbers_are_told_apart_also_those_that_were_recorded_as_text() -> None:
    rows = (
        ("a", percent(0.5), "88.9% [77.8, 97.2]", None, "7/8", "–", 3),
        ("b", None, "50.0%", 0.5, "8/8", "0.395", None),
    )
    table = Table("t", tuple("abcdefg"), rows)
    assert table.numeric == (False, True, True, True, True, True, True)


def test_a_table_is_recorded_as_text_and_numbers() -> None:
    table = Table("t", ("a", "b", "c"), (("x", percent(0.5), 0.25),), ("note",))
    assert table.plain_rows == [["x", "50.0%", 0.25]]
