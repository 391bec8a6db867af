"""TIT-Score and TIT-Score-LLM: compare the prompt with a description of the image (TIT-Score paper, section 4).

The captioner describes the image without seeing the prompt. TIT-Score is the cosine similarity of the embeddings of
both texts; for TIT-Score-LLM a language model compares them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core import item_meta
from titjudge.core.score_parts import Compared, TokensRead
from titjudge.core.structured_output import Number
from titjudge.core.types import Ask, Item, Reply, Score
from titjudge.metrics import metric

MAX_DESCRIPTION_TOKENS = 512  # "max_new_tokens=512" of the official snippet


class Verdict(BaseModel):
    """What the judge of TIT-Score-LLM answers."""

    model_config = ConfigDict(extra="ignore")

    missing: list[str]
    contradicted: list[str]
    reason: str
    score: Number = Field(ge=0, le=100, allow_inf_nan=False)


async def describe(item: Item, ask: Ask) -> Reply:
    """Have the captioner describe the image, with the paper's instruction (A.4.1).

    An item without an image brings its description in `item.meta["description"]`. A description that hit the token
    limit is accepted only under the official protocol: the published code does not check for it.
    """
    if item.image is None:
        return Reply(str(item_meta.DESCRIPTION.required(item)), flags=("given",))
    return await ask(
        "tit/describe",
        role="captioner",
        images=[item.image],
        params={"max_tokens": MAX_DESCRIPTION_TOKENS},
        accept_truncated=ask.protocol == "official",
    )


@metric("tit", roles=("captioner", "embedder"), range=(-1, 1), source="TIT-Score paper, section 4; README snippet")
async def tit(item: Item, ask: Ask) -> Score:
    """TIT-Score: cosine between the embeddings of prompt and description."""
    description = await describe(item, ask)
    prompt, text = await ask.embed([item.prompt, description.text.strip()])
    # In float64: a float32 sum depends in its seventh digit on the processor's routines.
    cosine = float(prompt.vector.astype("float64") @ text.vector.astype("float64"))
    if ask.protocol == "official":
        cosine = round(cosine, 4)
    read = TokensRead(
        prompt_tokens_used=prompt.tokens_used,
        prompt_tokens=prompt.tokens_total,
        description_tokens_used=text.tokens_used,
        description_tokens=text.tokens_total,
    )
    return Score.of(cosine, status=description.status, **read, description=description.text)


async def _compare(item: Item, ask: Ask, role: str) -> Score:
    description = await describe(item, ask)
    reply = await ask(
        "tit/compare", role=role, schema=Verdict, prompt=item.prompt, description=description.text.strip()
    )
    verdict: Verdict = reply.data
    parts = Compared(missing=verdict.missing, contradicted=verdict.contradicted, description=description.text)
    return Score.of(verdict.score, reason=verdict.reason, status=description.status, **parts)


@metric("tit-llm", roles=("captioner", "judge"), range=(0, 100), source="TIT-Score paper, section 4; template ours")
async def tit_llm(item: Item, ask: Ask) -> Score:
    """TIT-Score-LLM: a language model compares prompt and description."""
    return await _compare(item, ask, "judge")


@metric(
    "self-eval",
    roles=("captioner",),
    range=(0, 100),
    source="TIT-Score paper, Table 4 (self-evaluation); template ours",
)
async def self_eval(item: Item, ask: Ask) -> Score:
    """Ablation: the captioner model judges its own description."""
    return await _compare(item, ask, "captioner")
