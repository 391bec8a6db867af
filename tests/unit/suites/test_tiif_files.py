from pathlib import Path

import pytest

from titjudge.core.errors import DataError
from titjudge.suites.tiif.answers import AnswerCounts
from titjudge.suites.tiif.layout import TypeCounts
from titjudge.suites.tiif.summary_files import dimension_text, read_dimension_text, read_xlsx, rounded, write_xlsx

openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def answers() -> AnswerCounts:
    found = AnswerCounts()
    found.cells["=1+1", "short"] = {"text": TypeCounts(2, 3, 1, 0.75), "numeracy": TypeCounts(1, 4, 3, 0.75)}
    found.cells["=1+1", "long"] = {"text": TypeCounts(1, 2, 2, 1.0)}
    found.cells["with space", "short"] = {"text": TypeCounts(1, 3, 3, 1.0), "style": TypeCounts()}
    return found


def test_xlsx_has_the_official_shape(answers: AnswerCounts, tmp_path: Path) -> None:
    write_xlsx(answers, tmp_path / "s.xlsx")
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    assert book.sheetnames == ["Accuracy", "Total_Questions", "Correct_Answers"]
    rows = list(book["Accuracy"].iter_rows(values_only=True))
    assert rows[0] == ("Attribute", "numeracy", None, "style", None, "text", None, "Mean_Accuracy")
    assert rows[1] == ("Type", "long", "short", "long", "short", "long", "short", None)
    assert rows[2] == (None,) * 8
    assert rows[3] == ("with space", "nan", "nan", "nan", "nan", "nan", "1.0000", "1.0000")
    assert rows[4] == ("=1+1", "nan", "0.7500", "nan", "nan", "1.0000", "0.3333", "0.6944")
    assert book["Accuracy"]["A5"].data_type == "s"  # a name, not a formula
    assert list(book["Correct_Answers"].iter_rows(values_only=True))[4][6] == "1.0000"


def test_xlsx_comes_back_exactly(answers: AnswerCounts, tmp_path: Path) -> None:
    write_xlsx(answers, tmp_path / "s.xlsx")
    short = read_xlsx(tmp_path / "s.xlsx")["generators"]["=1+1"]["short"]
    assert short["types"]["text"] == pytest.approx(100 / 3, abs=1e-12)
    assert short["types"]["shape+2d"] is None
    assert (short["questions"], short["correct"]) == (7, 4)
    assert short["dimensions"]["reasoning"] == 75.0
    assert short["overall"] == pytest.approx((75 + 100 / 3) / 2)


def test_xlsx_with_accuracies_only(answers: AnswerCounts, tmp_path: Path) -> None:
    write_xlsx(answers, tmp_path / "s.xlsx")
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    del book["Total_Questions"], book["Correct_Answers"]
    book.save(tmp_path / "s.xlsx")
    found = read_xlsx(tmp_path / "s.xlsx")["generators"]
    assert found["=1+1"]["short"]["types"]["text"] == pytest.approx(33.33)


def test_bad_xlsx_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "s.xlsx"
    path.write_bytes(b"PK not really")
    with pytest.raises(DataError, match="not an xlsx file"):
        read_xlsx(path)
    book = openpyxl.Workbook()
    book.save(path)
    with pytest.raises(DataError, match="unknown sheet 'Accuracy'"):
        read_xlsx(path)
    book.active.title = "Accuracy"
    book.save(path)
    with pytest.raises(DataError, match="must start with"):
        read_xlsx(path)
    for row in (["Attribute", "text"], ["Type", "short"], [], ["g", "high"]):
        book.active.append(row)
    book.save(path)
    with pytest.raises(DataError, match="must be a number, not 'high'"):
        read_xlsx(path)


def test_rounding_is_the_official_one(answers: AnswerCounts) -> None:
    assert rounded(answers)["=1+1"]["short"]["text"] == 0.3333
    assert rounded(answers)["with space"]["short"]["style"] is None


def test_dimension_text_round_trip(answers: AnswerCounts, tmp_path: Path) -> None:
    text = dimension_text(answers)
    assert text.startswith("\n==== Basic_Following_Overall - Overall ====\n")
    assert "\n==== Advanced_Attribute+Reasoning - Attribute+Reasoning ====\n" in text
    path = tmp_path / "d.txt"
    path.write_text(text, encoding="utf-8")
    found = read_dimension_text(path)["generators"]
    assert set(found) == {"=1+1", "with space"}
    assert found["with space"]["short"]["dimensions"]["text"] == 100.0
    assert found["with space"]["long"]["overall"] is None
    assert found["=1+1"]["short"]["basic"] == 75.0
    assert found["=1+1"]["short"]["advanced"] == pytest.approx(33.33)
    assert found["=1+1"]["short"]["overall"] == pytest.approx(54.16, abs=0.011)
    assert next(iter(found["=1+1"]["long"]["dimensions"])) == "attribute"


def test_dimension_text_as_pandas_prints_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"overall-short": [0.5, None], "overall-long": [0.1234, 1.0]}, index=["a b", "c"])
    frame.index.name = "Model"
    path = tmp_path / "d.txt"
    path.write_text(f"\n==== Overall average score of 9 sub-attributes ====\n{frame.round(4)}\n")
    found = read_dimension_text(path)["generators"]
    assert found["a b"]["long"]["overall"] == pytest.approx(12.34)
    assert found["c"]["short"]["overall"] is None


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "no rows"),
        (b"\xe9", "not UTF-8 text"),
        (b"==== Unknown - Section ====\ng  0.1  0.2\n", "unknown section"),
        (b"==== Real_Complex - Complex ====\ng  0.1  0.2\n..   ...   ...\n", "d.txt:3: the rows were cut"),
        (b"==== Real_Complex - Complex ====\ng  0.1  high\n", "must be a number, not 'high'"),
    ],
)
def test_bad_dimension_text(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "d.txt").write_bytes(content)
    with pytest.raises(DataError, match=match):
        read_dimension_text(tmp_path / "d.txt")
