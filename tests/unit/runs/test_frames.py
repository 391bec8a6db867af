"""Scores as a data frame: what is in it, and what stands for scores that are missing."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from builders import write_lines
from commands import cli
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


def test_tables_and_runs_are_one_frame_and_only_shared_generators_are_told_apart(tmp_path: Path) -> None:
    run, table = small_run(tmp_path / "run").path, tmp_path / "more.csv"
    table.write_text("prompt_id,generator,score,seed,theme\np1,model_a,1,0,x\np1,model_a,,1,x\np9,new,3,0,y\n")
    frame = titjudge.frame([run, table])
    rows = frame[frame["metric"] == "score"]
    assert list(rows["generator"]) == ["model_a (more.csv)", "model_a (more.csv)", "new"]
    assert list(rows["prompt_id"]) == ["p1", "p1", "p9"]
    assert list(rows["status"]) == ["ok", "missing", "ok"]
    assert rows["value"].tolist()[::2] == [1.0, 3.0]
    assert list(rows["image"]) == ["row 2", "row 3", "row 4"]
    assert list(rows["theme"]) == ["x", "x", "y"]
    assert len(frame) == len(titjudge.frame(run)) + 3
    assert set(titjudge.frame([run, table], metric="score")["metric"]) == {"score"}


def test_a_run_that_is_named_as_a_generator_of_another_run_is_told_apart(tmp_path: Path) -> None:
    named = one_generator(tmp_path / "model_a", "x", 40)
    frame = titjudge.frame([small_run(tmp_path / "run").path, named])
    assert set(frame["generator"]) == {"model_a (run)", "model_a (model_a)", "model_b"}


def test_each_row_of_a_table_is_one_and_its_columns_stay(tmp_path: Path) -> None:
    rows = [("a.png", 0, 0.2), ("a.png", 1, 0.4), ("b.png", 0, None)]
    file = write_lines(tmp_path / "x.jsonl", *(
        {"prompt_id": 7.0, "prompt": "a cat", "generator": "g", "image": image, "repeat": repeat, "rating": value}
        for image, repeat, value in rows
    ))  # fmt: skip
    frame = titjudge.frame(file, metric="rating")
    assert list(frame["data_image"]) == ["a.png", "a.png", "b.png"]
    assert list(frame["repeat"]) == [0, 1, 0]
    assert set(frame["prompt"]) == {"a cat"}
    assert set(frame["prompt_id"]) == {"7"}
    assert frame["value"].tolist()[:2] == [0.2, 0.4]
    assert frame["value"].isna().tolist() == [False, False, True]
    with pytest.raises(DataError, match="'score' is missing"):
        titjudge.frame(file)


@pytest.mark.parametrize("again", ["run", "./run", "link", "absolute"])
def test_nothing_given_twice_counts_twice(again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path / "run").path
    (tmp_path / "link").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    second = str(run) if again == "absolute" else again
    with pytest.raises(DataError, match="given twice"):
        titjudge.frame(["run", second])
    for command in ("judges agreement", "compare generators", "judges costs", "compare bridge"):
        assert "given twice" in cli(tmp_path, *command.split(), "run", second, code=2)
    assert "given twice" in cli(tmp_path, "report", "run", second, "--format", "csv", code=2)
