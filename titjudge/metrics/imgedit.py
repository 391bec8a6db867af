"""ImgEdit: three ratings of an edit, 1 to 5, by the rubric of its type (github.com/PKU-YuanGroup/ImgEdit; prompts quoted exactly)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from titjudge.core import item_meta
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking, plain_number
from titjudge.core.types import Ask, Item, Reply, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import edit_images, unreadable

_MOST_DIGITS = 4_000  # Python converts no more; such a number is off every scale, as 0 is
RATINGS: dict[str, tuple[str, str, str]] = {
    "add": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Coherence"),
    "adjust": ("Prompt Compliance", "Visual Seamlessness", "Physical & Detail Fidelity"),
    "replace": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
    "remove": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
    "background": ("Instruction Compliance", "Visual Seamlessness", "Physical Consistency"),
    "style": ("Style Fidelity", "Content Preservation", "Rendering Quality"),
    "extract": ("Object Identity", "Mask Precision", "Visual Quality"),
    "action": ("Action Fidelity", "Identity Preservation", "Visual & Anatomical Coherence"),
    "compose": ("Instruction Compliance", "Visual Naturalness", "Physical Consistency & Fine Detail"),
}
"""The ratings that the rubric of each type of edit asks for, in its order."""
Points = Annotated[int, Field(ge=1, le=5), BeforeValidator(plain_number)]


class RubricAnswer(BaseModel):
    """An answer to a rubric: the reasons, and below them the ratings."""

    model_config = ConfigDict(extra="ignore")

    reasoning: str = ""


class EditScore(RubricAnswer):
    """Answer to `imgedit/uge`."""

    score: Points


@cache
def answer_model(edit_type: str) -> type[RubricAnswer]:
    """Make the model of an answer with the three ratings of a type of edit."""
    fields: dict[str, Any] = {field_name(rating): (Points, ...) for rating in RATINGS[edit_type]}
    return create_model("Ratings", __base__=RubricAnswer, **fields)


def field_name(rating: str) -> str:
    """Return the field of a rating: `physical_detail_integrity` of `Physical & Detail Integrity`."""
    return re.sub(r"\W+", "_", rating.lower())


def capped(ratings: Sequence[int]) -> list[int]:
    """Lower the second and third rating to the first, as the rubrics demand."""
    return [min(rating, ratings[0]) for rating in ratings]


def read_lines(text: str) -> list[int]:
    """Parse the numbers at the ends of lines `Name: 4` as the published code does: none for `4/5`, `4.5` or `**Name: 4**`.

    Source: `extract_scores_and_average`, Benchmark/Basic/step1_get_avgscore.py @547185d.
    """
    parts = [line.strip().split(": ") for line in after_thinking(text).splitlines()]
    digits = [part[1] for part in parts if len(part) == 2 and part[1].isdecimal()]
    return [int(number) if len(number) <= _MOST_DIGITS else 0 for number in digits]


@metric(
    "imgedit",
    roles=("judge",),
    range=(1, 5),
    version="2",  # 1 asked again for a blank reply
    source="ImgEdit-Bench Basic, github.com/PKU-YuanGroup/ImgEdit @547185d; prompts quoted exactly",
    needs=(item_meta.EDIT_TYPE.name,),
    sources="required",
)
async def imgedit(item: Item, ask: Ask) -> Score:
    """ImgEdit: the mean of three ratings, 1 to 5, by the rubric of the edit's type; none may be higher than the first."""
    edit_type = item_meta.EDIT_TYPE.required(item)
    names = RATINGS[edit_type]
    if ask.protocol == "official":
        return await _published(item, ask, f"imgedit/{edit_type}", names)
    reply = await _ask(item, ask, f"imgedit/{edit_type}", schema=answer_model(edit_type))
    answered = [getattr(reply.data, field_name(name)) for name in names]
    ratings = capped(answered)
    parts: dict[str, Any] = dict(zip(names, ratings, strict=True))
    if ratings != answered:
        parts["given"] = dict(zip(names, answered, strict=True))
    return Score.of(sum(ratings) / 3, reason=_reason(reply, answered, ratings), **parts)


@metric(
    "imgedit-uge",
    roles=("judge",),
    range=(1, 5),
    version="2",  # 1 asked again for a blank reply
    source="ImgEdit-Bench UGE, github.com/PKU-YuanGroup/ImgEdit @547185d; prompt quoted exactly",
    sources="required",
)
async def imgedit_uge(item: Item, ask: Ask) -> Score:
    """ImgEdit UGE: one rating of a hard edit, 1 to 5."""
    if ask.protocol == "official":
        return await _published(item, ask, "imgedit/uge", ("Score",))
    reply = await _ask(item, ask, "imgedit/uge", schema=EditScore)
    return Score.of(reply.data.score, reason=reply.data.reasoning)


async def _published(item: Item, ask: Ask, template: str, names: Sequence[str]) -> Score:
    """Score by the published parser: the mean of the lines that it reads, be they fewer than were asked for.

    Raises:
        Unanswered: It reads none, or a rating off the scale.
    """
    reply = await _ask(item, ask, template, planned="\n".join(f"{name}: 3" for name in names), accept_empty=True)
    ratings = read_lines(reply.text)
    if not ratings or not all(1 <= rating <= 5 for rating in ratings):
        raise unreadable(reply, "no line `Name: NUMBER` with a number from 1 to 5, or another number in one")
    asked, total, lost = len(names), sum(ratings), max(0, len(names) - len(ratings))
    parts: dict[str, Any] = {"ratings": ratings, "output": reply.text}
    parts |= QuestionCounts(questions_asked=asked, questions_skipped=lost)
    if lost:
        parts["could_be"] = {"": [(total + end * lost) / asked for end in (1, 5)]}
    reason = f"{lost} of {asked} ratings missing" if lost else ""
    return Score.of(round(total / len(ratings), 2), reason=reason, **parts)


async def _ask(item: Item, ask: Ask, template: str, **how: Any) -> Reply:
    images = edit_images(item)
    return await ask(template, role="judge", images=images, prompt=item.prompt, **how)


def _reason(reply: Reply, answered: Sequence[int], ratings: Sequence[int]) -> str:
    """Return the judge's reason, with a note where ratings were lowered."""
    if answered == ratings:
        return str(reply.data.reasoning)
    changes = ", ".join(f"{old} to {new}" for old, new in zip(answered, ratings, strict=True) if old != new)
    return f"{reply.data.reasoning} (lowered {changes}: no rating may be higher than the first)".strip()
