"""LMM scores: the vision-language model sees image and prompt and rates the match (TIT-Score paper, Table 4)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core.score_parts import Faults
from titjudge.core.structured_output import Number
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import FaultsAndScore, image_of


class Rating(BaseModel):
    """What the model answers."""

    model_config = ConfigDict(extra="ignore")

    reason: str
    score: Number = Field(ge=0, le=100, allow_inf_nan=False)


class Critique(FaultsAndScore):
    """What the model answers: the faults before the score, as a model without thinking rates what it has written."""


@metric("lmm-score", roles=("captioner",), range=(0, 100), source="TIT-Score paper, Table 4; template ours")
async def lmm_score(item: Item, ask: Ask) -> Score:
    """Ablation: the captioner model sees image and prompt and rates the match."""
    reply = await ask("lmm_score/rate", role="captioner", images=[image_of(item)], schema=Rating, prompt=item.prompt)
    return Score.of(reply.data.score, reason=reply.data.reason)


@metric("lmm-critique", roles=("captioner",), range=(0, 100), source="TIT-Score paper, Table 4; template ours")
async def lmm_critique(item: Item, ask: Ask) -> Score:
    """LMM score that lists what is missing and what is contradicted before it rates."""
    reply = await ask(
        "lmm_score/critique", role="captioner", images=[image_of(item)], schema=Critique, prompt=item.prompt
    )
    critique: Critique = reply.data
    faults = Faults(missing=critique.missing, contradicted=critique.contradicted)
    return Score.of(critique.score, reason=critique.reason, **faults)
