"""A judge as a metric of a training loop, in the form of torchmetrics: `from titjudge.torch import JudgeMetric`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from titjudge.core.errors import UserError
from titjudge.runs.api.judge import Judge
from titjudge.runs.api.judged_scores import Scores

__all__ = ["JudgeMetric"]


class _Standalone:
    """What `JudgeMetric` needs of torchmetrics.Metric, if that is not installed: states that are sums over processes."""

    def __init__(self) -> None:
        self._defaults: dict[str, torch.Tensor] = {}

    def add_state(self, name: str, default: torch.Tensor, dist_reduce_fx: str) -> None:
        assert dist_reduce_fx == "sum"
        self._defaults[name] = default
        setattr(self, name, default.clone())

    def reset(self) -> None:
        """Forget all scores."""
        for name, default in self._defaults.items():
            setattr(self, name, default.clone())

    def __call__(self, images: Any, prompts: str | Iterable[str]) -> torch.Tensor:
        """Add a batch, and return the mean of this batch in this process."""
        before = {name: getattr(self, name) for name in self._defaults}
        _Standalone.reset(self)
        try:
            self.update(images, prompts)  # type: ignore[attr-defined]
            return _mean(*(getattr(self, name) for name in ("total", "scored")))
        finally:
            for name, value in before.items():
                setattr(self, name, value + getattr(self, name))

    def _over_processes(self, state: torch.Tensor) -> torch.Tensor:
        """Sum a state over the processes that train together; the state itself stays this process's own."""
        spread = torch.distributed
        if not (spread.is_available() and spread.is_initialized()):
            return state
        summed = state.to("cuda") if spread.get_backend() == "nccl" else state.clone()
        spread.all_reduce(summed)
        return summed.to(state.device)


try:
    from torchmetrics import Metric as _Base
except ImportError:
    _Base = _Standalone


class JudgeMetric(_Base):  # type: ignore[misc]
    """Average a judge's scores over the batches of a training loop: `update`, `compute`, `reset`.

    With torchmetrics installed it is a `torchmetrics.Metric` and goes into its collections and into Lightning's `log`;
    without, a class with the same behaviour. `compute` is over all processes of `torch.distributed`.

    A failure is never a score: the mean is over the images that have one, NaN if none has, and `failed` counts the others.

        metric = JudgeMetric(judge)
        metric.update(images, prompts)  # a batch: 4 x 3 x 64 x 64, floats from 0 to 1, and 4 prompts
        print(metric.compute(), metric.scored, metric.failed)

    Args:
        judge: A `Judge` with one metric. Each process has one, with a separate cap; its answers are cached.
        **options: Passed on to `torchmetrics.Metric`.

    Attributes:
        total: Sum of the scores.
        scored: Number of images with a score.
        failed: Number of images without one.
        scores: The scores of the last batch, in order, as rewards may be made of them.

    Raises:
        UserError: The judge has several metrics.
    """

    is_differentiable = False
    full_state_update = False  # one batch is judged once, not again for the mean of the batch
    total: torch.Tensor
    scored: torch.Tensor
    failed: torch.Tensor

    def __init__(self, judge: Judge, **options: Any) -> None:
        if len(judge.metrics) != 1:
            raise UserError(
                f"a JudgeMetric requires a Judge with one metric, not {', '.join(judge.metrics)}. Choose one of them"
            )
        super().__init__(**options)
        self.judge, self.scores = judge, Scores(())
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("scored", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("failed", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    @property
    def higher_is_better(self) -> bool:
        """True if a higher value of the judge's metric is better."""
        return next(iter(self.judge.metrics.values())).higher_is_better

    def update(self, images: Any, prompts: str | Iterable[str]) -> None:
        """Judge a batch; `images` and `prompts` as for `Judge.score_many`.

        Raises:
            TypeError: An image or a prompt has a wrong type.
            ValueError: There are not as many prompts as images, or an array is not an image.
        """
        self.scores = self.judge.score_many(images, prompts, progress=False)
        values = [score.value for score in self.scores if score.value is not None]
        self.total = self.total + sum(values)
        self.scored = self.scored + len(values)
        self.failed = self.failed + len(self.scores) - len(values)

    def compute(self) -> torch.Tensor:
        """Return the mean score of all batches since the last `reset`, over all processes: shape (), NaN without scores."""
        if isinstance(self, _Standalone):
            return _mean(self._over_processes(self.total), self._over_processes(self.scored))
        return _mean(self.total, self.scored)


def _mean(total: torch.Tensor, scored: torch.Tensor) -> torch.Tensor:
    """Divide; NaN if nothing was scored."""
    return (total / scored).to(torch.float32)
