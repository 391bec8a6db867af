"""Learned metrics computed by a command of the user's: LMM4LMM, VisionReward, and any other by `external`.

`titjudge.providers.learned.external` describes the command's input and output.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.types import Ask, Item, Score
from titjudge.data.learned_metrics import TABLE
from titjudge.metrics import Metric, metric
from titjudge.metrics._shared import image_of, prompt_read


class CommandAnswer(BaseModel):
    """What the command answers; the counts are given together or not at all."""

    model_config = ConfigDict(extra="ignore", title="Answer")  # its name in the keys of caches on disk

    score: float = Field(allow_inf_nan=False)
    tokens_used: int | None = Field(default=None, ge=0)
    tokens_total: int | None = Field(default=None, ge=0)
    parts: dict[str, float] = Field(default_factory=dict)
    reason: str = ""


def external(
    name: str, *, range: tuple[float, float], source: str, summary: str, higher_is_better: bool = True
) -> Metric:
    """Declare a metric that the command of the model `external/NAME` computes, for an entry point of your own.

    Args:
        name: Name of the metric and of its command (`TITJUDGE_EXTERNAL_NAME`).
        range: Its lowest and highest value.
        source: The paper or code that defines it.
        summary: One line for the list of metrics.
        higher_is_better: Whether a higher value is a better image.
    """

    async def measure(item: Item, ask: Ask) -> Score:
        reply = await ask(
            "baselines/text", role=f"external/{name}", images=[image_of(item)], schema=CommandAnswer, prompt=item.prompt
        )
        return _score(reply.data)

    measure.__doc__ = summary
    return metric(name, roles=(f"external/{name}",), range=range, source=source, higher_is_better=higher_is_better)(
        measure
    )


def _score(answer: CommandAnswer) -> Score:
    """Make the score of an answer, with a reason where the command says that it did not read the whole prompt."""
    parts: dict[str, Any] = dict(answer.parts)
    if answer.tokens_used is None or answer.tokens_total is None:
        return Score.of(answer.score, reason=answer.reason, **parts)
    read, cut = prompt_read(answer.tokens_used, answer.tokens_total)
    return Score.of(answer.score, reason="; ".join(filter(None, (cut, answer.reason))), **parts, **read)


def _of_row(key: str) -> Metric:
    row = TABLE[key]
    return external(row.key, range=row.range, source=row.source, summary=row.summary)


lmm4lmm, visionreward = _of_row("lmm4lmm"), _of_row("visionreward")
