"""Which metric of a run is meant."""

import json
from pathlib import Path

import pytest
from report_runs import small_run

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.types import Note
from titjudge.runs.study.compared_runs import run_scores
from titjudge.runs.study.human_study import choose_metric


def test_a_metric_that_a_run_lacks_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'tit-ll'\. Did you mean 'tit-llm'\? Known: tit, tit-llm"):
        choose_metric(["tit-llm", "tit"], "tit-ll", small_run(tmp_path / "run").path)


@pytest.mark.parametrize("wanted", ["tit", None])
def test_of_a_run_without_scores_it_is_said_that_there_are_none(tmp_path: Path, wanted: str | None) -> None:
    with pytest.raises(DataError, match="the run has no scores"):
        choose_metric([], wanted, small_run(tmp_path / "run").path)


def test_a_metric_without_any_score_is_chosen_only_by_name(tmp_path: Path) -> None:
    run, notes = small_run(tmp_path / "run").path, list[Note]()
    assert choose_metric(["tit-llm", "tit"], None, run, notes, {"tit-llm"}) == "tit"
    assert choose_metric(["tit-llm", "tit"], "tit-llm", run, notes, {"tit-llm"}) == "tit-llm"
    assert [(note.id, str(note)) for note in notes] == [
        ("metric_chosen", "by tit; no other of tit, tit-llm has a score")
    ]


def test_generators_are_compared_by_a_metric_that_has_scores(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    file = run.path / "scores.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        if record["metric"] == "tit-llm":
            record |= {"value": None, "status": "failed"}
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run_scores([run.path]).metric == "tit"
    with pytest.raises(DataError, match="no image has a score of tit-llm"):
        run_scores([run.path], "tit-llm")
