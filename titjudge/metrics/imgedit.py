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
from titjudge.core.types import Ask, Item, Json, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import edit_images, rated

_MOST_DIGITS = 4_000  # Python converts no more; such a number is off every scale, as 0 is
RATINGS = {
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
    fields: Json = {field_name(rating): (Points, ...) for rating in RATINGS[edit_type]}
    return create_model("Ratings", __base__=RubricAnswer, **fields)


def _on_scale(text: str) -> list[int] | None:
    ratings = read_lines(text)
    return ratings if ratings and all(1 <= rating <= 5 for rating in ratings) else None


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
    answer = await _rated(item, ask, f"imgedit/{edit_type}", names, answer_model(edit_type))
    if isinstance(answer, Score):
        return answer
    answered = [getattr(answer, field_name(name)) for name in names]
    ratings, reason = capped(answered), answer.reasoning
    parts: Json = dict(zip(names, ratings, strict=True))
    if ratings != answered:
        parts["given"] = dict(zip(names, answered, strict=True))
        changes = ", ".join(f"{old} to {new}" for old, new in zip(answered, ratings, strict=True) if old != new)
        reason = f"{reason} (lowered {changes}: no rating may be higher than the first)".strip()
    return Score.of(sum(ratings) / 3, reason=reason, **parts)


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
    answer = await _rated(item, ask, "imgedit/uge", ("Score",), EditScore)
    return answer if isinstance(answer, Score) else Score.of(answer.score, reason=answer.reasoning)


async def _rated(item: Item, ask: Ask, template: str, names: Sequence[str], schema: type[RubricAnswer]) -> Any:
    """Ask for ratings; return the answer under the strict protocol, else the score.

    That is the mean of the lines that the published parser reads, be they fewer than were asked for.

    Raises:
        Unanswered: There are none, or one is off the scale.
    """
    reply, ratings = await rated(
        ask,
        template,
        schema=schema,
        read=_on_scale,
        expected="no line `Name: NUMBER` with a number from 1 to 5, or another number in one",
        planned="\n".join(f"{name}: 3" for name in names),
        images=edit_images(item),
        prompt=item.prompt,
    )
    if not isinstance(ratings, list):
        return ratings
    asked, total, lost = len(names), sum(ratings), max(0, len(names) - len(ratings))
    parts: Json = {"ratings": ratings, "output": reply.text}
    parts |= QuestionCounts(questions_asked=asked, questions_skipped=lost)
    if lost:
        parts["could_be"] = {"": [(total + end * lost) / asked for end in (1, 5)]}
    reason = f"{lost} of {asked} ratings missing" if lost else ""
    return Score.of(round(total / len(ratings), 2), reason=reason, **parts)
