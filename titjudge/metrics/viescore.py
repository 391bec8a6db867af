"""VIEScore: ratings of semantic consistency and perceptual quality (github.com/TIGER-AI-Lab/VIEScore).

The prompts are quoted exactly. Where the official code draws a random integer for an answer that it cannot parse
(`give_up_parsing`), there is no score here.
"""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from titjudge.core.structured_output import plain_number
from titjudge.core.types import Ask, Item, Reply, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import gather_answers, image_of, score_without

Points = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), BeforeValidator(plain_number)]
Listed = BeforeValidator(lambda value: [value] if isinstance(value, int | float) else value)


class Semantics(BaseModel):
    """Answer to `viescore/semantics`: [success in following the prompt]."""

    score: Annotated[list[Points], Listed, Field(min_length=1, max_length=1)]
    reasoning: str = ""


class Quality(BaseModel):
    """Answer to `viescore/quality`: [naturalness, artifacts]."""

    score: Annotated[list[Points], Listed, Field(min_length=2, max_length=2)]
    reasoning: str = ""


def overall(semantics: list[float], quality: list[float]) -> tuple[float, float, float]:
    """Return (SC, PQ, O): the smallest rating of each list, and O = sqrt(SC * PQ), all 0 to 10."""
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
    images = [image_of(item)]
    answers = await gather_answers(
        ask("viescore/semantics", role="captioner", images=images, schema=Semantics, prompt=item.prompt),
        ask("viescore/quality", role="captioner", images=images, schema=Quality),
    )
    if (without := score_without(("semantics", "quality"), answers)) is not None:
        return without
    semantics, quality = (reply.data for reply in answers if isinstance(reply, Reply))
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
