"""`JudgeMetric`, with torchmetrics where it is installed and without."""

import copy
import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from titjudge import Judge, UserError
from titjudge.core import registry
from titjudge.core.types import Score, Status

SCORES = {"a": 1.0, "b": 2.0, "c": 6.0}


def fake_metric() -> Any:
    from titjudge import metric

    @metric("known", roles=(), range=(0, 10))
    async def known(item: Any, ask: Any) -> Score:
        """Give the score of the prompt."""
        value = SCORES.get(item.prompt)
        return Score.of(value) if value is not None else Score.none(Status.REFUSED, "the model declined")

    return known


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setitem(registry.TABLES["metrics"], "known", "known_metric:known")
    monkeypatch.setitem(sys.modules, "known_metric", type(sys)("known_metric"))
    sys.modules["known_metric"].known = fake_metric()  # type: ignore[attr-defined]
    with Judge("known", captioner="fake/x", cache=tmp_path) as made:
        yield made


@pytest.fixture(params=["torchmetrics", "standalone"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "torchmetrics":
        pytest.importorskip("torchmetrics", reason="needs the package torchmetrics")
    else:
        monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "titjudge.torch", raising=False)
    found = importlib.import_module("titjudge.torch")
    yield found
    sys.modules.pop("titjudge.torch", None)


def images(number: int) -> Any:
    import torch

    return torch.rand(number, 3, 4, 4, generator=torch.Generator().manual_seed(number))


def test_the_mean_is_over_what_has_a_score_and_failures_are_counted(module: Any, judge: Judge) -> None:
    import torch

    metric = module.JudgeMetric(judge)
    assert math.isnan(metric(images(1), "refused"))
    metric.update(images(2), ["a", "b"])
    metric.update(images(2), ["c", "refused"])
    assert metric.compute() == torch.tensor(3.0)
    assert (int(metric.scored), int(metric.failed)) == (3, 2)
    assert [score.value for score in metric.scores] == [6.0, None]
    assert metric(images(1), ["c"]) == torch.tensor(6.0)  # that batch alone
    assert metric.compute() == torch.tensor(15 / 4)
    metric.reset()
    metric.update(images(1), "a")
    assert metric.compute() == torch.tensor(1.0)
    assert metric.higher_is_better
    assert copy.deepcopy(metric).judge is judge


def test_a_judge_with_several_metrics_is_refused(module: Any) -> None:
    with Judge(["tit", "lmm-score"], captioner="fake/x") as several, pytest.raises(UserError, match="tit, lmm-score"):
        module.JudgeMetric(several)


def test_without_torchmetrics_states_are_summed_over_processes_and_stay_each_ones_own(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "titjudge.torch", raising=False)
    metric = importlib.import_module("titjudge.torch").JudgeMetric(judge)
    sys.modules.pop("titjudge.torch")
    other_process = {torch.float64: 6.0, torch.int64: 1}  # its sum of scores and their number
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda state: state.add_(other_process[state.dtype]))
    metric.update(images(2), ["a", "b"])
    assert [float(metric.compute()) for _ in range(2)] == [3.0, 3.0]
    assert (float(metric.total), int(metric.scored)) == (3.0, 2)
