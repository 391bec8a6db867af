"""One table in every format: the same numbers in the same words."""

import csv
import io
from pathlib import Path

import pytest

from titjudge.core.errors import ConfigError
from titjudge.core.tables import Table, p_value, percent, plain
from titjudge.report.html import write_page
from titjudge.report.tables import escape_latex, escape_markdown, latex, markdown, write_tables

TABLE = Table(
    "Agreement <of> metrics",
    ("metric", "accuracy", "p", "SRCC", "pairs"),
    (("tit_1", percent(0.889, (0.778, 0.972)), p_value(0.0004), plain(0.395), 1200), ("=tit", None, None, None, 3)),
    ("a note",),
)
WORDS = ("88.9%", "[77.8, 97.2]", "0.0004", "0.395", "a note")


def test_every_format_has_the_same_words(tmp_path: Path) -> None:
    write_page("t", ["a line"], [], [TABLE], tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    for word in WORDS:
        assert word in page
        assert escape_markdown(word) in markdown([TABLE])
        assert word == "a note" or escape_latex(word) in latex([TABLE])
    assert "1,200" in page
    assert "Agreement &lt;of&gt; metrics" in page
    assert "<of>" not in page + markdown([TABLE])


def test_a_csv_holds_the_rows_and_no_formula(tmp_path: Path) -> None:
    write_tables([TABLE], tmp_path / "t.csv")
    head, first, second = csv.reader(io.StringIO((tmp_path / "t.csv").read_text(encoding="utf-8")))
    assert head == list(TABLE.columns)
    assert first == ["tit_1", "88.9% [77.8, 97.2]", "0.0004", "0.395", "1200"]
    assert second == ["'=tit", "", "", "", "3"]


def test_columns_of_numbers_are_set_to_the_right() -> None:
    assert r"\begin{tabular}{lrrrr}" in latex([TABLE])
    assert "|---|--:|--:|--:|--:|" in markdown([TABLE])


def test_another_suffix_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.md, \.tex, \.csv"):
        write_tables([TABLE], tmp_path / "t.txt")
