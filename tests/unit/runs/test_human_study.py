"""Which metric of a run is meant."""

from pathlib import Path

import pytest
from report_runs import small_run

from titjudge.core.errors import ConfigError, DataError
from titjudge.runs.study.human_study import choose_metric


def test_a_metric_that_a_run_lacks_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'tit-ll'\. Did you mean 'tit-llm'\? Known: tit, tit-llm"):
        choose_metric(["tit-llm", "tit"], "tit-ll", small_run(tmp_path / "run").path)


@pytest.mark.parametrize("wanted", ["tit", None])
def test_of_a_run_without_scores_it_is_said_that_there_are_none(tmp_path: Path, wanted: str | None) -> None:
    with pytest.raises(DataError, match="the run has no scores"):
        choose_metric([], wanted, small_run(tmp_path / "run").path)
