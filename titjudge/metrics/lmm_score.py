"""LMM score: the vision-language model rates how well an image matches its prompt (TIT-Score paper, Table 4)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.structured_output import Number
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of


class Rating(BaseModel):
    """What the model answers."""

    model_config = ConfigDict(extra="ignore")

    reason: str
    score: Number = Field(ge=0, le=100, allow_inf_nan=False)


@metric("lmm-score", roles=("captioner",), range=(0, 100), source="TIT-Score paper, Table 4; template ours")
async def lmm_score(item: Item, ask: Ask) -> Score:
    """Ablation: the captioner model sees image and prompt and rates the match."""
    reply = await ask("lmm_score/rate", role="captioner", images=[image_of(item)], schema=Rating, prompt=item.prompt)
    return Score.of(reply.data.score, reason=reply.data.reason)
