"""Scores as a data frame: what is in it, and what stands for scores that are missing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from report_runs import score, small_run, write_run

import titjudge
from titjudge.core.errors import DataError, MissingExtra
from titjudge.core.types import Item, Status
from titjudge.runs.api.frames import COLUMNS
from titjudge.runs.api.judged_scores import JudgedScore, Scores

pandas = pytest.importorskip("pandas")


def one_generator(folder: Path, prefix: str, value: float, **meta: Any) -> Path:
    """A run of one metric whose two images name no generator."""
    items = [Item(f"{prefix}{n}.png", f"a thing {n}", None, "", f"p{n}", meta, sample=n) for n in range(2)]
    metrics = {"tit-llm": {"version": "1", "range": [0, 100]}}
    return write_run(folder, items, [score(items[0], "tit-llm", value)], metrics=metrics).path


def test_every_image_and_metric_has_a_row_with_a_value_or_the_cause(tmp_path: Path) -> None:
    frame = titjudge.frame(small_run(tmp_path / "run").path)
    assert tuple(frame.columns) == (*COLUMNS, "category")
    assert len(frame) == 5 * 2  # four images and one that cannot be used, two metrics
    assert frame["value"].dtype == "float64"
    lost = frame[frame["value"].isna()]
    assert list(lost["status"]) == ["refused", "bad_input", "bad_input"]
    assert list(lost["image"]) == ["b2.png", "../out.png", "../out.png"]
    first = frame.iloc[0]
    assert (first["generator"], first["prompt_id"], first["metric"], first["value"]) == ("model_a", "p1", "tit", 0.9)
    assert first["category"] == "kind 1"
    assert frame.iloc[1]["reason"] == "The apples are green."


def test_an_image_that_was_not_judged_is_missing(tmp_path: Path) -> None:
    frame = titjudge.frame(str(one_generator(tmp_path / "run", "x", 40)))
    assert list(frame["status"]) == ["ok", "missing"]
    assert frame["value"].isna().tolist() == [False, True]
    assert list(frame["sample"]) == [0, 1]


def test_several_runs_have_one_name_for_each_generator_and_columns_never_hide_others(tmp_path: Path) -> None:
    runs = [one_generator(tmp_path / name, name, value, status="new") for name, value in (("one", 40), ("two", 60))]
    frame = titjudge.frame(runs)
    assert list(frame["generator"]) == ["one", "one", "two", "two"]
    assert list(frame["prompt_id"]) == ["p0", "p1"] * 2
    assert set(frame["status"]) == {"ok", "missing"}
    assert set(frame["data_status"]) == {"new"}


def test_the_scores_of_a_judge_have_the_same_form() -> None:
    scores = Scores(
        (JudgedScore("a.png", "tit", 0.5, prompt="a cat"), JudgedScore("b.png", "tit", None, Status.REFUSED))
    )
    frame = titjudge.frame(scores)
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["prompt"]) == ["a cat", ""]
    assert list(frame["status"]) == ["ok", "refused"]
    assert len(titjudge.frame(Scores(()))) == 0


def test_polars_gets_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = ModuleType("polars")
    polars.Float64 = float  # type: ignore[attr-defined]
    polars.DataFrame = lambda columns, **_: columns  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", polars)
    columns = titjudge.frame(one_generator(tmp_path / "run", "x", 40), library="polars")
    assert columns["value"] == [40, None]
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"titjudge\[polars\]"):
        titjudge.frame(tmp_path / "run", library="polars")


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a run folder"):
        titjudge.frame(tmp_path)
