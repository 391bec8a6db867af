"""ImgEdit: three ratings of an edit, 1 to 5, by the rubric of its type (github.com/PKU-YuanGroup/ImgEdit; prompts quoted exactly)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from titjudge.core import item_meta
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Score
from titjudge.metrics import metric
from titjudge.metrics.rubric import RubricQuestion, field_name, questions

_MOST_DIGITS = 4_000  # Python converts no more; such a number is off every scale, as 0 is


def _on_scale(text: str) -> list[int] | None:
    ratings = read_lines(text)
    return ratings if ratings and all(1 <= rating <= 5 for rating in ratings) else None


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
    item_meta.EDIT_TYPE.required(item)
    question = questions("imgedit", item, ask)["ratings"]
    answer, names = await _rated(ask, question), question.declared.ratings
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
    answer = await _rated(ask, questions("imgedit-uge", item, ask)["ratings"])
    return answer if isinstance(answer, Score) else Score.of(answer.score, reason=answer.reasoning)


async def _rated(ask: Ask, question: RubricQuestion) -> Any:
    """Ask for ratings; return the answer under the strict protocol, otherwise the score.

    That is the mean of the lines that the published parser reads, be they fewer than were asked for.

    Raises:
        Unanswered: There are none, or one is off the scale.
    """
    expected = "no line `Name: NUMBER` with a number from 1 to 5, or another number in one"
    reply, ratings = await question.rated(ask, _on_scale, expected=expected)
    if not isinstance(ratings, list):
        return ratings
    asked, total = len(question.declared.ratings), sum(ratings)
    lost = max(0, asked - len(ratings))
    parts: Json = {"ratings": ratings, "output": reply.text}
    parts |= QuestionCounts(questions_asked=asked, questions_skipped=lost)
    if lost:
        parts["could_be"] = {"": [(total + end * lost) / asked for end in (1, 5)]}
    reason = f"{lost} of {asked} ratings missing" if lost else ""
    return Score.of(round(total / len(ratings), 2), reason=reason, **parts)
