"""Ratings of image and prompt by published prompts: VIEScore (any vision-language model) and UnifiedReward (its own).

The prompts are quoted exactly. Where upstream puts a random integer for an answer that it cannot read (VIEScore,
`give_up_parsing`), here there is no score.
"""

from __future__ import annotations

import asyncio
import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import after_thinking, plain_number
from titjudge.core.types import Ask, Item, Reply, Score, Status
from titjudge.metrics import metric

Points = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), BeforeValidator(plain_number)]
Listed = BeforeValidator(lambda value: [value] if isinstance(value, int | float) else value)


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Semantics(_Model):
    """Answer to `viescore/semantics`: [success in following the prompt]."""

    score: Annotated[list[Points], Listed, Field(min_length=1, max_length=1)]
    reasoning: str = ""


class Quality(_Model):
    """Answer to `viescore/quality`: [naturalness, artifacts]."""

    score: Annotated[list[Points], Listed, Field(min_length=2, max_length=2)]
    reasoning: str = ""


def overall(semantics: list[float], quality: list[float]) -> tuple[float, float, float]:
    """(SC, PQ, O): the smallest of each list, and O = sqrt(SC * PQ), all 0 to 10."""
    sc, pq = min(semantics), min(quality)
    return sc, pq, math.sqrt(sc * pq)


@metric(
    "viescore",
    roles=("captioner",),
    range=(0, 10),
    source="VIEScore, github.com/TIGER-AI-Lab/VIEScore; prompts quoted exactly, no random guesses",
)
async def viescore(item: Item, ask: Ask) -> Score:
    """VIEScore: sqrt(semantic consistency * perceptual quality), both rated 0 to 10 by a vision-language model."""
    if item.image is None:
        return Score.none(Status.BAD_INPUT, "this metric needs an image")
    images = [item.image]
    found = await asyncio.gather(
        ask("viescore/semantics", role="captioner", images=images, schema=Semantics, prompt=item.prompt),
        ask("viescore/quality", role="captioner", images=images, schema=Quality),
        return_exceptions=True,
    )
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, Unanswered):
            raise each
    for name, each in zip(("semantics", "quality"), found, strict=True):
        if isinstance(each, Unanswered):
            return Score.none(each.status, f"{name}: {each.reason}")
    semantics, quality = (reply.data for reply in found if isinstance(reply, Reply))
    sc, pq, value = overall(semantics.score, quality.score)
    naturalness, artifacts = quality.score
    return Score.of(
        value,
        reason=semantics.reasoning,
        SC=sc,
        PQ=pq,
        naturalness=naturalness,
        artifacts=artifacts,
        quality_reason=quality.reasoning,
    )


# -- UnifiedReward -----------------------------------------------------------------------------------------------------

_NUMBER = r"\s*\**\s*([-+]?\d+(?:\.\d+)?)"
_FINAL = re.compile(r"final score\**\s*:" + _NUMBER, re.IGNORECASE)
_AXES = ("alignment", "coherence", "style")


def read_final_score(text: str) -> float | None:
    """The number after the last "Final Score:", None where there is none from 1 to 5."""
    return _in_range(_FINAL.findall(after_thinking(text)))


def read_axes(text: str) -> dict[str, float] | None:
    """Alignment, coherence and style from their lines ("Alignment Score (1-5): 2.69"), None unless all three are there."""
    answer = after_thinking(text)
    found = {
        axis: _in_range(re.findall(rf"{axis} score\**\s*\(1-5\)\**\s*:{_NUMBER}", answer, re.IGNORECASE))
        for axis in _AXES
    }
    whole = {axis: value for axis, value in found.items() if value is not None}
    return whole if len(whole) == len(_AXES) else None


def _in_range(numbers: list[str]) -> float | None:
    value = float(numbers[-1]) if numbers else None
    return value if value is not None and 1 <= value <= 5 else None


async def _rated(item: Item, ask: Ask, template: str, most: int) -> Reply | Score:
    if item.image is None:
        return Score.none(Status.BAD_INPUT, "this metric needs an image")
    params = {"max_tokens": most, "temperature": 0}
    return await ask(template, role="captioner", images=[item.image], params=params, prompt=item.prompt)


@metric(
    "unifiedreward",
    roles=("captioner",),
    range=(1, 5),
    source="UnifiedReward 1.0, github.com/CodeGoat24/UnifiedReward; prompt quoted exactly; captioner CodeGoat24/UnifiedReward-qwen-7b",
)
async def unifiedreward(item: Item, ask: Ask) -> Score:
    """UnifiedReward 1.0, point-wise: the "Final Score" (1 to 5) for alignment and quality together."""
    reply = await _rated(item, ask, "unifiedreward/point", 512)
    if isinstance(reply, Score):
        return reply
    value = read_final_score(reply.text)
    if value is None:
        return _unread(reply, "no 'Final Score:' from 1 to 5", 1.0)
    return Score.of(value, output=reply.text)


@metric(
    "unifiedreward-2",
    roles=("captioner",),
    range=(1, 5),
    source="UnifiedReward 2.0, github.com/CodeGoat24/UnifiedReward; prompt quoted exactly; captioner CodeGoat24/UnifiedReward-2.0-qwen-7b",
)
async def unifiedreward_2(item: Item, ask: Ask) -> Score:
    """UnifiedReward 2.0, point-wise: the alignment score (1 to 5); coherence and style are kept beside it."""
    reply = await _rated(item, ask, "unifiedreward/point_2", 4096)
    if isinstance(reply, Score):
        return reply
    axes = read_axes(reply.text)
    if axes is None:
        return _unread(reply, "no alignment, coherence and style score from 1 to 5 each", 1.0)
    parts: dict[str, Any] = {**axes, "output": reply.text}
    return Score.of(axes["alignment"], **parts)


def _unread(reply: Reply, why: str, planned: float) -> Score:
    parts: dict[str, Any] = {"output": reply.text}
    if reply.model_version == "estimate":  # a dry run expects a good answer
        return Score.of(planned, **parts)
    return Score.none(Status.UNPARSED, f"the answer has {why}", **parts)
