"""One reader of CSV for manifests, pairs, votes, scores and rankings."""

import csv
import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from titjudge.core.errors import DataError
from titjudge.core.files import csv_rows, csv_text, scan_csv
from titjudge.data.tables import read_table, scan_table, table_columns


def file_of(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8", newline="")
    return path


def test_rows_have_their_names_and_lines(tmp_path: Path) -> None:
    path = file_of(tmp_path, '\ufeffimage, prompt ,note\r\na.png,"one, two\r\nlines",x\r\n,,\r\nb.png,three\r\n')
    assert list(read_table(path, ("image", "prompt"))) == [
        (3, {"image": "a.png", "prompt": "one, two\r\nlines", "note": "x"}),
        (5, {"image": "b.png", "prompt": "three", "note": None}),
    ]


def test_a_bad_row_is_described_and_the_others_are_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, "image,prompt\na.png,one, two\nb.png\nc.png,three\n")
    (_, many), (_, few), (_, good) = scan_csv(path, ("prompt",))
    assert "t.csv:2: 3 cells where the first line has 2 columns. Put a text with commas in quotes" in str(many)
    assert str(few).endswith("t.csv:3: 1 cells where the first line has 2 columns. Add cells")
    assert good == {"image": "c.png", "prompt": "three"}
    with pytest.raises(DataError, match=r"t\.csv:2"):
        list(read_table(path, ("prompt",)))


@pytest.mark.parametrize(
    ("text", "message"), [("", "there are: none"), ("image,text\na,b\n", r"t\.csv:1: .*'prompt' .*image, text")]
)
def test_a_missing_column_says_which_there_are(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(scan_table(file_of(tmp_path, text), ("prompt",)))


@pytest.mark.parametrize("text", ["a,b,a\n1,2,3\n", "a;b; a \n1;2;3\n", '"a",b,a\u00a0\n1,2,3\n'])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"two columns are called 'a'\. Rename"):
        list(scan_csv(file_of(tmp_path, text)))


@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
def test_the_separator_is_what_the_header_has_most_of(tmp_path: Path, mark: str) -> None:
    other = ";" if mark == "," else ","
    text = mark.join(["image", "prompt", f"notes{other} more"]) + "\n" + mark.join(["0.png", f"a cup{other} red", "x"])
    rows = list(read_table(file_of(tmp_path, text)))
    assert rows == [(2, {"image": "0.png", "prompt": f"a cup{other} red", f"notes{other} more": "x"})]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        list(csv_rows(tmp_path / "none.csv"))
    (tmp_path / "latin.csv").write_bytes("image\n\xe4".encode("latin-1"))
    with pytest.raises(DataError, match="Save the file as UTF-8"):
        list(scan_csv(tmp_path / "latin.csv"))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_the_unicode_text_of_a_spreadsheet_is_read(tmp_path: Path, name: str, encoding: str) -> None:
    content = ("" if encoding == "utf-16" else "\ufeff") + "image\tprompt\r\na.png\tein Hüt\r\n"
    raw = content.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert list(read_table(tmp_path / name)) == [(2, {"image": "a.png", "prompt": "ein Hüt"})]


def test_utf16_that_is_torn_or_has_no_mark_is_said(tmp_path: Path) -> None:
    (tmp_path / "torn.csv").write_bytes("image\nab".encode("utf-16")[:-1])
    with pytest.raises(DataError, match=r"not UTF-16-LE text\. Save the file as UTF-8"):
        list(scan_csv(tmp_path / "torn.csv"))
    (tmp_path / "bare.csv").write_bytes("image\n".encode("utf-16-le"))
    with pytest.raises(DataError, match=r"UTF-16 text\. Save the file as UTF-8"):
        list(scan_csv(tmp_path / "bare.csv"))


def test_the_separator_of_tsv_is_always_a_tab(tmp_path: Path) -> None:
    path = file_of(tmp_path, "prompt, long\timage;file\na cat, red; small\t1.png\n", "t.tsv")
    assert table_columns(path) == ("prompt, long", "image;file")
    assert list(read_table(path)) == [(2, {"prompt, long": "a cat, red; small", "image;file": "1.png"})]


def test_a_prompt_of_a_million_letters_is_read(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"prompt\n{'w' * 1_000_000}\n")
    assert [len(record["prompt"]) for _, record in read_table(path)] == [1_000_000]


TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x00"), max_size=12)


@given(rows=st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_csv_and_json_lines_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("same")
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    rows = [
        row for row in rows if not any(re.match(r"'+[=+@\t-]", cell) for cell in row)
    ]  # a spreadsheet's mark of a text
    with (folder / "t.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("a", "b"), *rows])
    (folder / "t.jsonl").write_text("".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in rows))
    found = [[record for _, record in read_table(folder / name, ("a", "b"))] for name in ("t.csv", "t.jsonl")]
    assert found[0] == found[1]


@given(
    cells=st.lists(
        st.from_regex(r"'*[ \t]?[=+@\t＝-]?[a-z' ]*", fullmatch=True).filter(str.strip), min_size=1, max_size=5
    )
)
def test_what_a_spreadsheet_would_run_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str]
) -> None:
    path = tmp_path_factory.mktemp("guarded") / "t.csv"
    path.write_text(csv_text(("a",), [(cell,) for cell in cells]), encoding="utf-8", newline="")
    assert [record["a"] for _, record in read_table(path)] == cells


@pytest.mark.parametrize("formula", ["=1+1", " =1+1", "\n=1+1", "\t@SUM(1)", "＝1", "- 1"])
def test_a_formula_behind_white_space_is_none_either(formula: str) -> None:
    assert csv_text(("a",), [(formula,)]).splitlines()[1].lstrip('"').startswith("'")
