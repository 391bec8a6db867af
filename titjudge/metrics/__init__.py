"""A metric is an async function `(item, ask) -> Score` with a few facts about itself, attached by `@metric`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from titjudge.types import Ask, Item, Score

MetricFunction = Callable[[Item, Ask], Awaitable[Score]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric function and its facts.

    `roles` are the models it asks (`captioner`, `judge`, `embedder`, or a fixed `provider/model`); `range` is the span
    of its values, higher is better unless `higher_is_better` is False; `needs` are the keys it reads from `item.meta`.
    """

    name: str
    function: MetricFunction
    roles: tuple[str, ...]
    range: tuple[float, float]
    version: str
    source: str
    needs: tuple[str, ...]
    higher_is_better: bool
    summary: str

    async def __call__(self, item: Item, ask: Ask) -> Score:
        return await self.function(item, ask)


def metric(
    name: str,
    *,
    roles: tuple[str, ...],
    range: tuple[float, float],
    version: str = "1",
    source: str = "",
    needs: tuple[str, ...] = (),
    higher_is_better: bool = True,
) -> Callable[[MetricFunction], Metric]:
    """Declare a metric; the first line of the function's docstring becomes its summary.

    Raise `version` whenever the same answers would give another number.
    """

    def declare(function: MetricFunction) -> Metric:
        summary = (function.__doc__ or "").strip().partition("\n")[0]
        return Metric(name, function, roles, range, version, source, needs, higher_is_better, summary)

    return declare
