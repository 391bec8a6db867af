"""TIT-Score and TIT-Score-LLM: text to image to text (TIT-Score paper, section 4).

1. A vision-language model, the captioner, describes the image. It does not see the prompt.
2. TIT-Score is the cosine similarity of two embeddings, of the prompt and of the description. For
   TIT-Score-LLM a language model, the judge, compares the two texts.

Beside them are LMM scores, for which the captioner sees image and prompt and rates the match (Table 4).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.refusals import refusal
from titjudge.core.score_parts import Compared, Faults, TokensRead
from titjudge.core.structured_output import Number, after_thinking, without_chat_tokens
from titjudge.core.types import Ask, Embedding, Item, Reply, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import FaultsAndScore, image_of, unreadable

MAX_DESCRIPTION_TOKENS = 512  # "max_new_tokens=512" of the official snippet


class TitComparison(FaultsAndScore):
    """What the judge of TIT-Score-LLM answers."""

    model_config = ConfigDict(title="Verdict")  # the name in requests and in keys of answers


async def describe(item: Item, ask: Ask) -> Reply:
    """Have the captioner describe the image of an item; one without an image brings its description along.

    Raises:
        Unanswered: There is no description, or nothing but a thought.
    """
    if item.image is None:
        given = Reply(item_meta.DESCRIPTION.required(item), flags=("given",))
        if reason := refusal(given.text):
            raise Unanswered(Status.REFUSED, reason, given)
        return given
    return await describe_image(item.image, ask)


async def describe_image(image: Path, ask: Ask) -> Reply:
    """Have the captioner describe an image, with the paper's instruction (A.4.1).

    A description that hit the token limit is accepted only under the official protocol: the published code does not check
    for it. The thoughts of a reasoning model (`<think>...</think>`) are not part of the description, nor are control
    tokens at its ends.

    Raises:
        Unanswered: There is no description, nothing but a thought, or a refusal in words.
    """
    reply = await ask(
        "tit/describe",
        role="captioner",
        images=[image],
        params={"max_tokens": MAX_DESCRIPTION_TOKENS},
        accept_truncated=ask.protocol == "official",
        describes=True,
    )
    description = after_thinking(reply.text)
    if (plain := without_chat_tokens(description)) != description.strip():
        description = plain
    if not description.strip():
        raise unreadable(reply, "a thought without a description")
    return replace(reply, text=description)


@metric("tit", roles=("captioner", "embedder"), range=(-1, 1), source="TIT-Score paper, section 4; README snippet")
async def tit(item: Item, ask: Ask) -> Score:
    """TIT-Score: cosine between the embeddings of prompt and description."""
    description = await describe(item, ask)
    prompt, text = await ask.embed([item.prompt, description.text.strip()])
    similarity = cosine(prompt, text)
    if ask.protocol == "official":
        similarity = round(similarity, 4)  # as the published code prints it
    read = TokensRead(
        prompt_tokens_used=prompt.tokens_used,
        prompt_tokens=prompt.tokens_total,
        description_tokens_used=text.tokens_used,
        description_tokens=text.tokens_total,
    )
    return Score.of(similarity, status=description.status, **read, description=description.text)


def cosine(first: Embedding, second: Embedding) -> float:
    """Compute the cosine of two embeddings, which are vectors of length 1.

    It is computed in float64: a float32 sum depends in its seventh digit on the processor.
    """
    return float(first.vector.astype("float64") @ second.vector.astype("float64"))


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
    """Ablation: the captioner model judges the description that it wrote."""
    return await _compare(item, ask, "captioner")


async def _compare(item: Item, ask: Ask, role: str) -> Score:
    """Have a model compare the prompt with the description."""
    description = await describe(item, ask)
    text = description.text.strip()
    reply = await ask("tit/compare", role=role, schema=TitComparison, prompt=item.prompt, description=text)
    verdict: TitComparison = reply.data
    parts = Compared(missing=verdict.missing, contradicted=verdict.contradicted, description=description.text)
    return Score.of(verdict.score, reason=verdict.reason, status=description.status, **parts)


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
    """LMM score that lists missing and contradicted elements before it rates."""
    reply = await ask(
        "lmm_score/critique", role="captioner", images=[image_of(item)], schema=Critique, prompt=item.prompt
    )
    critique: Critique = reply.data
    faults = Faults(missing=critique.missing, contradicted=critique.contradicted)
    return Score.of(critique.score, reason=critique.reason, **faults)
