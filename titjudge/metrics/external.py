"""Learned metrics that a command of the person's own computes: LMM4LMM, VisionReward, and any other by `external`.

The command and its lines: `titjudge.providers.learned.external`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.learned_metrics import EXTERNAL, Baseline
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import Metric, metric
from titjudge.metrics._shared import image_of, prompt_read


class Answer(BaseModel):
    """What the command answers; the counts are given together or not at all."""

    model_config = ConfigDict(extra="ignore")

    score: float = Field(allow_inf_nan=False)
    tokens_used: int | None = Field(default=None, ge=0)
    tokens_total: int | None = Field(default=None, ge=0)
    parts: dict[str, float] = Field(default_factory=dict)
    reason: str = ""


def external(
    name: str, *, range: tuple[float, float], source: str, summary: str, higher_is_better: bool = True
) -> Metric:
    """Declare a metric computed by the command of `external/NAME`, for an entry point of your own.

    Args:
        name: Name of the metric and of its command (`TITJUDGE_EXTERNAL_NAME`).
        range: The ends of its values.
        source: Where the formula stands.
        summary: One line for the list of metrics.
        higher_is_better: Whether a higher value is a better image.
    """

    async def measure(item: Item, ask: Ask) -> Score:
        reply = await ask(
            "baselines/text", role=f"external/{name}", images=[image_of(item)], schema=Answer, prompt=item.prompt
        )
        return _score(reply.data)

    measure.__doc__ = summary
    return metric(name, roles=(f"external/{name}",), range=range, source=source, higher_is_better=higher_is_better)(
        measure
    )


def _score(found: Answer) -> Score:
    parts: dict[str, Any] = dict(found.parts)
    reasons = [found.reason]
    if found.tokens_used is not None and found.tokens_total is not None:
        read, cut = prompt_read(found.tokens_used, found.tokens_total)
        parts, reasons = {**parts, **read}, [cut, found.reason]
    return Score.of(found.score, reason="; ".join(filter(None, reasons)), **parts)


def _declare(row: Baseline) -> Metric:
    return external(row.key, range=row.range, source=row.source, summary=row.summary)


METRICS: dict[str, Metric] = {row.key: _declare(row) for row in EXTERNAL}
globals().update(METRICS)  # the registry takes their names for attributes of this module
