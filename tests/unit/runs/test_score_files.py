"""Tables of scores by prompt and generator: what is read, averaged and refused."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from titjudge.core.errors import ConfigError, DataError, MissingExtra
from titjudge.runs.study.score_files import read_scores

HEAD = "prompt_id,generator,score,theme\n"
ROWS = "p1,a,0.5,food\np1,b,0.25,food\np2,a,1,city\np2,b,,city\n"


def table_file(folder: Path, text: str, name: str = "scores.csv") -> Path:
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


@pytest.mark.parametrize("name", ["scores.csv", "scores.csv.gz", "scores.jsonl"])
def test_text_formats_say_the_same(tmp_path: Path, name: str) -> None:
    text = HEAD + ROWS
    if name.endswith(".jsonl"):
        records = [
            {"prompt_id": "p1", "generator": "a", "score": 0.5, "theme": "food"},
            {"prompt_id": "p1", "generator": "b", "score": 0.25, "theme": "food"},
            {"prompt_id": "p2", "generator": "a", "score": 1, "theme": "city"},
            {"prompt_id": "p2", "generator": "b", "score": None, "theme": "city"},
        ]
        text = "".join(json.dumps(record) + "\n" for record in records)
    found = read_scores(table_file(tmp_path, text, name), by=["theme"])
    assert found.generators == ("a", "b")
    assert found.prompts == ("p1", "p2")
    np.testing.assert_array_equal(found.means, [[0.5, 0.25], [1.0, np.nan]])
    np.testing.assert_array_equal(found.slices["theme"]["city"], [[np.nan, np.nan], [1.0, np.nan]])
    assert found.missing == 1


def test_parquet_says_the_same(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "scores.parquet"
    columns = {"prompt_id": [1, 1, 2, 2], "generator": list("abab"), "score": [0.5, 0.25, 1.0, float("nan")]}
    parquet.write_table(pyarrow.table(columns), file)
    found = read_scores(file)
    assert found.prompts == ("1", "2")
    assert found.missing == 1
    file.write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match=r"scores\.parquet: cannot be read as parquet"):
        read_scores(file)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"titjudge\[parquet\]"):
        read_scores(table_file(tmp_path, "", "scores.parquet"))


def test_images_of_a_prompt_are_averaged_first_and_their_spread_is_kept(tmp_path: Path) -> None:
    rows = "".join(f"p1,a,{seed},{value}\n" for seed, value in enumerate((1, 2, 3)))
    found = read_scores(table_file(tmp_path, "prompt_id,generator,seed,score\n" + rows + "p1,b,0,5\np2,a,0,7\n"))
    np.testing.assert_array_equal(found.means, [[2.0, 5.0], [7.0, np.nan]])
    assert found.images[0, 0] == 3
    assert found.seed_variance == (pytest.approx(1.0), None)


def test_answers_to_an_image_are_averaged_before_images(tmp_path: Path) -> None:
    text = "prompt_id,generator,seed,sample,score\n" + "p,a,0,0,0\np,a,0,1,1\np,a,1,0,4\np,a,1,1,5\np,b,0,0,1\n"
    found = read_scores(table_file(tmp_path, text))
    np.testing.assert_array_equal(found.means, [[2.5, 1.0]])
    assert found.judge_variance[0] == pytest.approx(0.5)
    assert found.seed_variance[0] == pytest.approx(8.0)  # images 0.5 and 4.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HEAD + "p1,a,1,x\np1,a,1,x\n",
            r"scores\.csv:3: prompt 'p1' has generator 'a' a second time \(first in row 2\)",
        ),
        (
            HEAD + "p1,a,good,x\n",
            r"scores\.csv:2: 'score' must be a number, not 'good'\. Leave the cell empty if there is no score",
        ),
        (HEAD + "p1,a,nan,x\n", r"scores\.csv:2: 'score' must be a number, not 'nan'"),
        (HEAD + 'p1,a,"re\nfused",x\n', r"scores\.csv:3: 'score' must be a number, not 're\\nfused'"),
        (HEAD + "p1,a,1,x\np1,b,-1e300,x\n", r"scores\.csv:3: 'score' is too large: -1e\+300"),
        (HEAD + ",a,1,x\n", r"scores\.csv:2: 'prompt_id' is empty"),
        (HEAD + "p1,a,1,x\np1,b,1,y\n", r"scores\.csv:3: 'theme' is 'y' here and 'x' in another row of prompt 'p1'"),
        (HEAD, r"scores\.csv: no row has a score"),
        ("prompt_id,score\np,1\n", r"scores\.csv:1: the column 'generator' is missing"),
        ("prompt_id,generator,mos\np,a,1\n", r"the column 'score' is missing. Choose another with --metric .*mos"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_row(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_scores(table_file(tmp_path, text), by=["theme"])
    assert "\n" not in str(caught.value)


def test_other_formats_damaged_archives_and_unknown_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one of \.csv, \.csv\.gz, \.jsonl, \.parquet"):
        read_scores(table_file(tmp_path, "", "scores.xlsx"))
    with pytest.raises(DataError, match="missing: no such file or run folder"):
        read_scores(tmp_path / "missing")
    cut = table_file(tmp_path, HEAD + "".join(f"p{k},a,{k},x\n" for k in range(300)), "cut.csv.gz")
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"cut\.csv\.gz: cannot be read"):
        read_scores(cut)
    with pytest.raises(ConfigError, match=r"unknown column 'them'\. Did you mean 'theme'"):
        read_scores(table_file(tmp_path, HEAD + ROWS), by=["them"])
    with pytest.raises(ConfigError, match="prompt_length requires the texts of the prompts"):
        read_scores(table_file(tmp_path, HEAD + ROWS), by=["prompt_length"])


def test_length_of_a_prompt_as_a_category(tmp_path: Path) -> None:
    text = f"prompt_id,generator,score,prompt\np,a,1,a red cup\nq,a,0,{'word ' * 50}\n"
    found = read_scores(table_file(tmp_path, text), by=["prompt_length"])
    assert list(found.slices["prompt_length"]) == ["1 to 15 words", "41 to 100 words"]


def test_samples_are_images_where_no_other_column_tells_them_apart(tmp_path: Path) -> None:
    found = read_scores(table_file(tmp_path, "prompt_id,generator,sample,score\np,a,0,0\np,a,1,1\np,b,0,1\n"))
    assert found.seed_variance[0] == pytest.approx(0.5)
    assert found.judge_variance == (None, None)


def test_a_number_in_place_of_missing_scores_is_named(tmp_path: Path) -> None:
    rows = [f"p{n},{g},{-1 if n in (3, 5) and g == 'b' else 60 + n}\n" for n in range(8) for g in "ab"]
    file = table_file(tmp_path, "prompt_id,generator,score\n" + "".join(rows))
    with pytest.raises(DataError, match=r"2 of 16 scores are -1.*--range"):
        read_scores(file)
    assert read_scores(file, bounds=(-1, 100)).means.min() == -1


def test_ids_of_prompts_are_read_however_a_program_writes_whole_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{n},a,{n}\n{n}.0,b,{n}\n" for n in range(3))
    assert read_scores(table_file(tmp_path, f"prompt_id,generator,score\n{rows}")).prompts == ("0", "1", "2")
