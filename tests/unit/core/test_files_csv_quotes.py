"""A quote that is part of a text never swallows the rows below it; cells that go over several lines are read."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.files import csv_columns, csv_rows, scan_csv

FUNCTION_FIXTURE = [HealthCheck.function_scoped_fixture]


def read(folder: Path, text: str, name: str = "t.csv") -> list[list[str]]:
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return [row for _, row in csv_rows(folder / name)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ('image,prompt\n1.png,"a 5\n2.png,a dog\n3.png,a sign 12" wide\n4.png,x\n', 2, 4),
        ('image,prompt\n1.png,"a 5\n2.png,a dog\n3.png,a sign 12"\n4.png,x\n', 2, 4),
        ('image,prompt\n1.png,"a 5\n2.png,a sign 12"\n', 2, 3),
        ('image,prompt\n1.png,x\n2.png,"a 5\n3.png,y\n4.png,z\n', 3, 5),
        ('image,prompt\n1.png,"a 5\n2.png,"red, big"\n', 2, 3),
        ('image,prompt\n1.png,"a 5\n2.png,""\n3.png,z\n', 2, 4),
        ('prompt,image\n"a 5,1.png\na dog,2.png\na 12",3.png\n', 2, 4),
        ('prompt,image\n"a 5,1.png\na 12",2.png\n', 2, 3),
        ('prompt;seed\n"a 5;1\na 12";2\n', 2, 3),
        ('image,"prompt\n1.png,a 5"\n2.png,x\n', 1, 2),
        ("image,prompt,model\n1.png,\"a 5,flux\n2.png,a dog,sd\n3.png,a 12\",sd\n", 2, 4),
        ("model,prompt\nflux,\"a 5\nsd,a dog\nsd,a 12\"\n", 2, 4),
        ("image,prompt\r\n1.png,\"a 5\r\n2.png,a 12\"\r\n", 2, 3),
        ('id,a,b,annotator,preference,reason\n0,p,q,x,a,"too big\n0,p,q,y,a,ok\n1,p,q,x,b,the 12" ruler\n', 2, 4),
        ('id,a,b,annotator,preference,reason\n0,p,q,x,a,"too big\n0,p,q,y,a,ok\n1,p,q,x,b,the ruler of 12"\n', 2, 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_quote_that_swallows_rows_ends_the_reading_with_both_lines(
    tmp_path: Path, text: str, first: int, last: int, ending: str
) -> None:
    if ending == "tsv":
        text = text.replace(",", "\t").replace(";", "\t")
    with pytest.raises(DataError) as caught:
        read(tmp_path, text, f"t.{ending}")
    assert caught.value.line == first
    assert f"line {first} " in str(caught.value)
    assert f"line {last}," in str(caught.value)


PROSE = [
    "a cat\non a mat",
    "A cat sits\non a mat, purring",
    "a cat,\na dog, and\na fox",
    "Red, white\nblue",
    "a cat\n\nNegative prompt: blurry, dark\nSteps: 20, Sampler: Euler, Seed: 5",
    'he said "yes,\nno"',
    "1. a cat\n2. a dog, big",
    "一只猫\n在垫子上,睡觉",
    '{\n  "a": 1,\n  "b": [2, 3]\n}',
    "a\r\nb",
    "\na cat\n",
]


@pytest.mark.parametrize("text", PROSE)
@pytest.mark.parametrize("columns", [("1.png", "{}"), ("{}", "1.png"), ("flux", "{}", "3"), ("7", "{}", "{}"), ("{}",)])
def test_a_text_over_several_lines_is_a_cell(tmp_path: Path, text: str, columns: tuple[str, ...]) -> None:
    rows = [[f"column {n}" for n in range(len(columns))], [text if cell == "{}" else cell for cell in columns]]
    rows += [["x.png", "y", "z"][: len(columns)]]
    for delimiter in ",;\t":
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=delimiter).writerows(rows)
        assert read(tmp_path, out.getvalue()) == rows


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ('1.png,"STOP" sign', ["1.png", '"STOP" sign']),
        ('1.png,a 5" nail', ["1.png", 'a 5" nail']),
        ('1.png,"a ""big"" cat, red"', ["1.png", 'a "big" cat, red']),
        ('1.png,"a \\"big\\" cat, red"', ["1.png", 'a "big" cat, red']),
        ('1.png,"a hat', ["1.png", '"a hat']),
        ('"1.png" ,a cat', ["1.png ", "a cat"]),
        ('1.png,""', ["1.png", ""]),
    ],
)
def test_quotes_within_one_line_are_read(tmp_path: Path, line: str, cells: list[str]) -> None:
    for end in ("", "\n", "\r\n\r\n"):
        assert read(tmp_path, f"image,prompt\n{line}{end}")[1] == cells


@settings(max_examples=200, deadline=None, suppress_health_check=FUNCTION_FIXTURE)
@given(
    st.lists(st.from_regex(r'"?[a-z0-9]{1,5}"?( [a-z0-9"]{1,5}){0,3}"?', fullmatch=True), min_size=1, max_size=8),
    st.sampled_from(",\t"),
)
def test_texts_with_inch_marks_are_read_or_refused(tmp_path: Path, texts: list[str], delimiter: str) -> None:
    """Written without any quoting, as people do."""
    lines = ["image,prompt", *(f"{n}.png,{text}" for n, text in enumerate(texts))]
    try:
        rows = read(tmp_path, "\n".join(lines).replace(",", delimiter) + "\n")
    except DataError:
        return
    assert [row[0] for row in rows[1:]] == [f"{n}.png" for n in range(len(texts))]
    for row, text in zip(rows[1:], texts, strict=True):
        assert row[1].strip('"') in (text.strip('"'), text.strip('"').replace('""', '"'))  # as written, or as CSV


@settings(max_examples=200, deadline=None, suppress_health_check=FUNCTION_FIXTURE)
@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]{1,4}\.png", fullmatch=True),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_what_csv_writes_is_read(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["image", "prompt"], *pairs])
    assert read(tmp_path, out.getvalue())[1:] == [list(pair) for pair in pairs]


def test_names_of_columns_are_plain(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeffBild\u00a0,U\u0308berschrift\u200b\n1.png,x\n", encoding="utf-8")
    assert csv_columns(tmp_path / "t.csv") == ("Bild", "Überschrift")
    assert list(scan_csv(tmp_path / "t.csv")) == [(2, {"Bild": "1.png", "Überschrift": "x"})]
