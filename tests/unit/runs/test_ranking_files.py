"""`compare_ranks` on good and bad CSV files."""

import json
from pathlib import Path

import pytest

from titjudge.core.errors import DataError
from titjudge.runs.study.ranking_files import compare_ranks


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_ranks_with_labels_gaps_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = "\ufeffmodel,people,tit,clip,link\nInfinity,1,1,4,x\nB,2,2,,y\nC,3,4,2,z\n\nD,4,3,1,w\n"
    found, table = compare_ranks(write(tmp_path / "r.csv", text), "people")
    assert found == {
        "reference": "people",
        "columns": {
            "tit": {"srcc": pytest.approx(0.8), "krcc": pytest.approx(2 / 3), "n": 4},
            "clip": {"srcc": pytest.approx(-1.0), "krcc": pytest.approx(-1.0), "n": 3},
        },
    }
    assert table.columns == ("column", "SRCC", "KRCC", "n")
    negative, *notes = table.notes
    assert negative.startswith("clip: SRCC is negative")
    assert notes == ["model: not a ranking, left out", "link: not a ranking, left out"]
    assert table.caption.startswith("over 3 to 4 rows")


def test_too_few_rows_are_undefined_with_a_reason(tmp_path: Path) -> None:
    found, table = compare_ranks(write(tmp_path / "r.csv", "people,tit,flat\n1,2,1\n2,,1\n3,1,1\n"), "people")
    assert found["columns"]["tit"] == {
        "srcc": None,
        "krcc": None,
        "n": 2,
        "reason": "fewer than 3 with both numbers",
    }
    assert found["columns"]["flat"]["reason"] == "one side does not vary"
    assert len(table.notes) == 2


@pytest.mark.parametrize(
    ("text", "reference", "message"),
    [
        ("people,tit\n1,1\n", "peple", "Did you mean 'people'"),
        ("model,people,tit\nA,1,1\n", "model", "has no numbers"),
        ("people,tit\n1,1\n2,two\n3,3\n", "people", ":3: column 'tit' must be a finite number, not 'two'"),
        ("people,tit\n1,1\n2,inf\n3,3\n", "people", ":3: column 'tit' must be a finite number, not 'inf'"),
        ("people,tit\nfirst,1\n2,2\n", "people", ":2: column 'people' must be a finite number, not 'first'"),
        ("people,tit\n1,1\n2\n", "people", ":3: 1 cells where the first line has 2 columns"),
        ("people,people\n1,1\n", "people", "two columns are called 'people'"),
        ("people,Model,tit\n1,A,1\n2,B,2\n3,A,3\n", "people", ":4: Model 'A' has a row already (2)"),
        ("who,people,tit\nA,1,1\nB,2,2\nA,3,3\n", "people", ":4: who 'A' has a row already (2)"),
        ("people\n1\n2\n", "people", "no column can be compared with 'people'"),
        ("", "people", "the file is empty"),
        ("people,tit\n", "people", "has no numbers"),
        (b"people,tit\n1,\xff\n", "people", "not UTF-8"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, text: str | bytes, reference: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        compare_ranks(write(tmp_path / "r.csv", text), reference)
    assert message in str(caught.value)
    assert "r.csv" in str(caught.value)


def test_a_decimal_comma_and_a_kind_that_several_generators_share(tmp_path: Path) -> None:
    text = "kind;model;people;tit\nopen;A;1;4,5\nopen;B;2;3,25\nclosed;C;3;1,5\n"
    found, _ = compare_ranks(write(tmp_path / "r.csv", text), "people")
    assert found["columns"]["tit"]["srcc"] == pytest.approx(-1.0)


def test_a_missing_file_and_a_folder_are_user_errors(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.csv", "cannot be read"), (tmp_path, "directory")):
        with pytest.raises(DataError, match=message):
            compare_ranks(path, "people")


def test_rankings_are_read_from_json_lines_too(tmp_path: Path) -> None:
    rows = [{"model": name, "people": k, "tit": k if k else None, "clip": -k} for k, name in enumerate("abcde")]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found, _ = compare_ranks(tmp_path / "r.jsonl", "people")
    assert [(name, entry["srcc"], entry["n"]) for name, entry in found["columns"].items()] == [
        ("tit", pytest.approx(1.0), 4),
        ("clip", pytest.approx(-1.0), 5),
    ]
