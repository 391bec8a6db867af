"""LMM score: the vision-language model rates image and prompt directly (TIT-Score paper, Table 4)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.structured_output import Number
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric


class Rating(BaseModel):
    """What the model answers."""

    model_config = ConfigDict(extra="ignore")

    reason: str
    score: Number = Field(ge=0, le=100, allow_inf_nan=False)


@metric("lmm-score", roles=("captioner",), range=(0, 100), source="TIT-Score paper, Table 4; template ours")
async def lmm_score(item: Item, ask: Ask) -> Score:
    """Ablation: the captioner model sees image and prompt and rates the match."""
    if item.image is None:
        return Score.none(Status.BAD_INPUT, "this metric needs an image")
    reply = await ask("lmm_score/rate", role="captioner", images=[item.image], schema=Rating, prompt=item.prompt)
    return Score.of(reply.data.score, reason=reply.data.reason)
