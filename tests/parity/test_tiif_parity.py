"""TIIF-Bench against the official numbers: 3,144 real answers and their expected results; skips where these are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from titjudge.metrics.ocr import text_errors, words_from_questions
from titjudge.metrics.yes_no import parse
from titjudge.suites.tiif.answers import answers_as_scores, read_answers, results
from titjudge.suites.tiif.dataset import read_set, with_full_numbers
from titjudge.suites.tiif.layout import DIMENSIONS, LENGTHS, SIZES
from titjudge.suites.tiif.summary_files import dimension_text, read_dimension_text, read_xlsx, write_xlsx

EVALUATORS = ("gpt-4o", "qwen2.5-vl-72b")
GENERATORS = ("DALLE3", "Show-o", "sd35")
TOLERANCE = 1e-4


@pytest.fixture
def tiif(shared: Path) -> Path:
    if not (shared / "tiif" / "expected.json").is_file():
        pytest.skip("the shared TIIF answers are not there")
    return shared / "tiif"


@pytest.fixture
def expected(tiif: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tiif / "expected.json").read_text())
    return found


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("length", LENGTHS)
def test_official_values(tiif: Path, expected: dict[str, Any], evaluator: str, generator: str, length: str) -> None:
    found = results(read_answers(tiif / "answers" / evaluator))["generators"][generator][length]
    wanted = expected["dimensions"][evaluator][generator][length]
    ours = {name: found["dimensions"][name] for name in DIMENSIONS}
    ours |= {"overall": found["overall"], "basic_avg": found["basic"], "advanced_avg": found["advanced"]}
    ours |= {"overall_if_per_image_macro": found["per_image"]["overall"]}
    ours |= {"overall_micro_all_questions": 100 * found["correct"] / found["questions"]}
    for name, value in ours.items():
        assert value == pytest.approx(wanted[name], abs=TOLERANCE), name
        assert round(value / 100, 4) == round(wanted[name] / 100, 4), name
    for name in ("files", "questions", "correct"):
        assert found[name] == wanted[name]
    assert sum(value is not None for value in found["types"].values()) == wanted["types_present"]
    assert found["problems"] == []


def test_every_type(tiif: Path, expected: dict[str, Any]) -> None:
    seen = 0
    for evaluator, models in expected["per_type"].items():
        cells = read_answers(tiif / "answers" / evaluator).cells
        for generator, types in models.items():
            for key, wanted in types.items():
                kind, length = key.split("/")
                cell = cells[generator, length][kind]
                assert (cell.files, cell.questions, cell.correct) == tuple(
                    wanted[name] for name in ("files", "questions", "correct")
                )
                assert cell.accuracy() == pytest.approx(100 * wanted["accuracy"], abs=TOLERANCE)
                seen += 1
    assert seen == 78


def test_hard_answers_parse_as_listed(tiif: Path, expected: dict[str, Any]) -> None:
    folders = {"GPT-4o": "gpt-4o", "QwenVL": "qwen2.5-vl-72b"}
    for case in expected["parse_cases"]:
        _, _, run, rest = case["path"].split("/", 3)
        record = json.loads((tiif / "answers" / folders[run.rsplit("_", 1)[1]] / rest).read_text(encoding="utf-8"))
        assert parse(record["model_output"], case["n_questions"]) == case["expected_pred"], case["path"]


def test_every_saved_output_parses_to_what_was_saved(tiif: Path) -> None:
    files = sorted((tiif / "answers").rglob("*.json"))
    assert len(files) == 3144
    for file in files:
        record = json.loads(file.read_text(encoding="utf-8"))
        assert parse(record["model_output"], len(record["questions"])) == record["model_pred"], file


def test_gned_pairs_exactly(tiif: Path) -> None:
    pairs = json.loads((tiif / "gned_pairs.json").read_text())["pairs"]
    assert len(pairs) == 12
    for pair in pairs:
        assert text_errors(pair["gt"], pair["ocr"])[:2] == (pair["gned"], pair["recall@0.3"])


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_official_files_keep_the_values(tiif: Path, expected: dict[str, Any], evaluator: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    answers = read_answers(tiif / "answers" / evaluator)
    write_xlsx(answers, tmp_path / "result_summary.xlsx")
    (tmp_path / "d.txt").write_text(dimension_text(answers), encoding="utf-8")
    table = read_xlsx(tmp_path / "result_summary.xlsx")["generators"]
    text = read_dimension_text(tmp_path / "d.txt")["generators"]
    import openpyxl

    sheet = openpyxl.load_workbook(tmp_path / "result_summary.xlsx")["Accuracy"]
    means = {row[0]: float(row[-1]) for row in sheet.iter_rows(min_row=4, values_only=True)}
    for generator in GENERATORS:
        wanted = expected["dimensions"][evaluator][generator]
        assert means[generator] == round(wanted["excel_Mean_Accuracy"], 4)
        for length in LENGTHS:
            assert table[generator][length]["overall"] == pytest.approx(wanted[length]["overall"], abs=TOLERANCE)
            assert text[generator][length]["overall"] == pytest.approx(wanted[length]["overall"], abs=0.0151)
            for name in DIMENSIONS:
                value = text[generator][length]["dimensions"][name]
                assert value == pytest.approx(wanted[length][name], abs=0.0151)


def test_sizes_and_numbering_of_the_published_sets(tiif: Path) -> None:
    for name, sizes in SIZES.items():
        assert {kind: len(lines) for kind, lines in read_set(tiif / "data", name).items()} == sizes
    mini = with_full_numbers(read_set(tiif / "data", "testmini"), tiif / "data")
    assert [line.full for line in mini["real_world"]][:4] == [27, 0, 8, 9]
    assert all(line.full is not None for line in mini["style"])
    assert all(line.full == line.number for kind, lines in mini.items() for line in lines if kind == "numeracy")


def test_answers_bear_the_numbers_of_the_full_set(tiif: Path) -> None:
    mini = with_full_numbers(read_set(tiif / "data", "testmini"), tiif / "data")
    questions = {f"{kind}/{line.full}": list(line.questions) for kind, lines in mini.items() for line in lines}
    for score in answers_as_scores(tiif / "answers" / "gpt-4o"):
        kind, _, number = score.prompt_id.split("/")
        assert score.parts["questions"] == questions[f"{kind}/{number}"]


def test_words_asked_for_come_from_the_questions(tiif: Path) -> None:
    lines = read_set(tiif / "data", "full")["text"]
    words = [words_from_questions(line.questions) for line in lines]
    assert [len(found) for found in words] == [len(line.questions) for line in lines]
    assert sum(map(len, words)) == 2088
