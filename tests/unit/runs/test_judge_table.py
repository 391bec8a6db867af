"""Tables in, tables with scores out."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from titjudge import Judge, UserError

pandas = pytest.importorskip("pandas")


def encoded(red: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 6), (red, 40, 80)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def judge(tmp_path: Path) -> Any:
    with Judge(["lmm-score", "self-eval"], captioner="fake/x", cache=tmp_path / "cache") as made:
        yield made


def test_a_frame_comes_back_with_columns_and_its_bad_rows_are_named(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(1))
    images = [tmp_path / "a.png", {"bytes": encoded(2), "path": None}, {"bytes": None, "path": str(tmp_path / "a.png")},
              Image.new("RGB", (8, 6)), np.zeros((6, 8, 3)), None, math.nan, b"no image", encoded(3), encoded(4)]  # fmt: skip
    prompts = [*"abcdefgh", None, math.nan]
    frame = pandas.DataFrame({"image": images, "prompt": prompts}, index=[f"row{n}" for n in range(10)])
    before = frame.copy()
    found = judge.judge_table(frame)
    pandas.testing.assert_frame_equal(frame, before)
    assert list(found.columns) == ["image", "prompt"] + [
        f"{metric}{end}" for metric in ("lmm-score", "self-eval") for end in ("", "_status", "_reason")
    ]
    assert list(found.index) == list(frame.index)
    for metric in ("lmm-score", "self-eval"):
        assert list(found[f"{metric}_status"]) == ["ok"] * 5 + ["bad_input"] * 5
        assert list(found[metric][:5]) == [0.0] * 5
        assert found[metric].dtype == np.float64
        assert found[metric][5:].isna().all()
        reasons = list(found[f"{metric}_reason"][5:])
        assert "not None" in reasons[0]
        assert "not nan" in reasons[1]
        assert "not an image" in reasons[2]
        assert reasons[3:] == ["the prompt is empty"] * 2


def test_a_bad_row_is_no_rival_of_the_others(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"image": [encoded(1), None, encoded(2)], "prompt": "p"})
    with Judge("pairwise", judge="fake/x", cache=tmp_path) as judge:
        found = judge.judge_table(frame)
    assert found["pairwise_status"][1] == "bad_input"
    assert "there is no other image" not in "".join(found["pairwise_reason"])


def test_what_cannot_be_a_table_is_said_in_a_line(judge: Judge) -> None:
    frame = pandas.DataFrame({"image": [encoded(1)], "prompt": ["p"], "lmm-score": [1.0]})
    with pytest.raises(UserError, match=r"unknown column 'promt'\. Did you mean 'prompt'"):
        judge.judge_table(frame, prompt="promt")
    with pytest.raises(UserError, match="already has a column 'lmm-score'"):
        judge.judge_table(frame)
    with pytest.raises(TypeError, match=r"a pandas\.DataFrame or a datasets\.Dataset, not \[1\]"):
        judge.judge_table([1])
    assert list(judge.judge_table(frame, prefix="new_")["new_lmm-score"]) == [0.0]


def test_a_data_set_comes_back_with_columns(judge: Judge) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    made = datasets.Dataset.from_dict(
        {"picture": [{"bytes": encoded(1), "path": None}, {"bytes": b"no image", "path": None}], "text": ["a", "b"]},
        features=datasets.Features({"picture": datasets.Image(), "text": datasets.Value("string")}),
    )
    found = judge.judge_table(made, image="picture", prompt="text")
    assert found.column_names[2:5] == ["lmm-score", "lmm-score_status", "lmm-score_reason"]
    assert list(found["lmm-score_status"]) == ["ok", "bad_input"]
    assert found["lmm-score"][0] == 0
    assert math.isnan(found["lmm-score"][1])


def test_a_table_of_edits_has_a_column_of_sources(tmp_path: Path) -> None:
    frame = pandas.DataFrame({
        "after": [encoded(11), encoded(1), encoded(1)], "before": [encoded(1), encoded(1), None], "edit": "make it red",
    })  # fmt: skip
    with Judge(["preservation-l1", "lmm-score"], captioner="fake/x", cache=tmp_path) as judge:
        found = judge.judge_table(frame, image="after", prompt="edit", sources="before")
        without = judge.judge_table(frame, image="after", prompt="edit")
        with pytest.raises(UserError, match="unknown column 'befor'"):
            judge.judge_table(frame, image="after", prompt="edit", sources=["befor"])
    assert list(found["preservation-l1"][:2]) == pytest.approx([10 / 255 / 3, 0])
    assert list(found["preservation-l1_status"]) == ["ok", "ok", "bad_input"]
    assert "not None" in found["preservation-l1_reason"][2]
    assert set(found["lmm-score_status"]) == {"bad_input"}  # it does not look at sources
    assert "no source image" in without["preservation-l1_reason"][0]
    assert set(without["lmm-score_status"]) == {"ok"}


def test_a_data_set_of_edits_has_several_columns_of_sources(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    cells = {name: [{"bytes": encoded(red), "path": None}] for name, red in (("a", 1), ("b", 9), ("image", 5))}
    kinds = {name: datasets.Image() for name in cells} | {"prompt": datasets.Value("string")}
    made = datasets.Dataset.from_dict({**cells, "prompt": ["put both together"]}, features=datasets.Features(kinds))
    with Judge("viescore-edit", judge="fake/x", cache=tmp_path) as judge:
        found = judge.judge_table(made, sources=["a", "b"])
    assert list(found["viescore-edit_status"]) == ["ok"]
