"""Score the items of a trust card: each once, many at a time."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import BudgetExhausted
from titjudge.core.types import Item, Score, Status
from titjudge.engine.ask import ONCE, Sample
from titjudge.engine.pipeline import Engine
from titjudge.engine.roles import Role
from titjudge.engine.scoring import score_item
from titjudge.metrics import Metric
from titjudge.stats.equality import score_distance

# Least difference between the best and the worst images that counts, as a share of the spread of all scores.
CLEAR = 0.1


def spread(values: Iterable[float], limits: tuple[float, float]) -> float:
    """Return the difference between the greatest and the least score, at most the difference of the metric's `limits`.

    If the scores do not differ, or there are none, it is the difference of the limits, or 1 if they are infinite.
    """
    ordered = sorted(values)
    whole = limits[1] - limits[0]
    default = whole if math.isfinite(whole) else 1.0
    return min(score_distance(ordered[0], ordered[-1], default), whole) if ordered else default


def span(by_level: Mapping[int, Sequence[float]], limits: tuple[float, float]) -> float:
    """Return the difference between the mean score of images without errors and the mean score of images with the most errors.

    Args:
        by_level: Scores by number of errors; a higher score is better.
        limits: The metric's range; its ends may be infinite.

    Returns:
        A positive number: the spread of all scores if the means do not clearly differ in the right direction.
    """
    levels = sorted(level for level, values in by_level.items() if values)
    whole = spread((value for values in by_level.values() for value in values), limits)
    if len(levels) > 1:
        best, worst = (sum(by_level[level]) / len(by_level[level]) for level in (levels[0], levels[-1]))
        if best - worst > CLEAR * whole:
            return best - worst
    return whole


IN_FLIGHT = 64


def versions_of(roles: Iterable[Role[Any, Any, Any]]) -> dict[str, list[str]]:
    """List the versions of the models that have answered, by role."""
    return {role.name: sorted({version for version, _ in role.tally.versions if version}) for role in roles}


@dataclass(slots=True)
class Prober:
    """Score items, each once, many at a time.

    Attributes:
        engine: Asks the models.
        name: Name of the metric.
        metric: The metric whose models are probed.
        on_score: Called with each score.
        alias: The roles that answer instead of captioner and judge.
        scores: Scores by the id of the item.
        prompts: Number of prompts.
        stopped: Why no more questions were sent; empty if nothing stopped it.
    """

    engine: Engine
    name: str
    metric: Metric
    on_score: Any = None
    alias: Mapping[str, str] | None = None
    scores: dict[str, Score] = field(default_factory=dict)
    prompts: int = 0
    stopped: str = ""

    async def score(self, items: Iterable[Item], sample: Sample = ONCE) -> None:
        """Score the items that have no score yet; after the cap is reached, without a value."""
        gate = asyncio.Semaphore(IN_FLIGHT)
        unscored = {item.id: item for item in items if item.id not in self.scores}

        async def score_one(item: Item) -> None:
            async with gate:
                try:
                    score = await score_item(self.engine, item, self.name, self.metric, alias=self.alias, sample=sample)
                except BudgetExhausted as error:
                    self.stopped = f"incomplete: {error}"
                    score = replace(Score.none(Status.BUDGET, str(error)), item_id=item.id, prompt_id=item.prompt_id)
                finally:
                    if item.image is not None:
                        self.engine.images.forget(item.image)
            self.scores[item.id] = score
            if self.on_score is not None:
                self.on_score(score)

        started = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as tasks:
                for item in unscored.values():
                    tasks.create_task(score_one(item))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        if "embedder" in self.metric.roles:  # it embeds many items at once, so its time is the wall time
            self.engine.roles.embedded.seconds += time.perf_counter() - started

    def value(self, item: Item | str) -> float | None:
        """Return the value of an item, negated if lower is better; None without one."""
        score = self.scores.get(item if isinstance(item, str) else item.id)
        if score is None or score.value is None:
            return None
        return score.value if self.metric.higher_is_better else -score.value

    @property
    def limits(self) -> tuple[float, float]:
        """The range of `value`."""
        low, high = self.metric.range
        return (low, high) if self.metric.higher_is_better else (-high, -low)

    def span(self, items: Iterable[Item]) -> float:
        """Compute the unit of effects from the scores of these images (`span`)."""
        by_level: dict[int, list[float]] = {}
        for item in items:
            value = self.value(item)
            if value is not None:
                by_level.setdefault(int(item_meta.LEVEL.get(item, 0)), []).append(value)
        return span(by_level, self.limits)

    def reach(self, span: float) -> float:
        """Return the largest possible change of a score, in spans: over the metric's range, otherwise over the scores seen."""
        low, high = self.limits
        values = [value for item in self.scores if (value := self.value(item)) is not None]
        whole = high - low if math.isfinite(high - low) else spread(values, self.limits)
        return max(1.0, whole / span)
