"""Soft-TIFA (GenEval 2): how likely a model's answer to each question is the right one, at its first token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from titjudge.core.score_parts import Bounds
from titjudge.core.structured_output import first_problem
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._questions import all_answers
from titjudge.metrics._shared import image_of
from titjudge.metrics.answer_rules import Question
from titjudge.metrics.questions import Asked, has_questions

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def tokens_of(question: Question, *, official: bool) -> list[str]:
    """List the tokens that are the right answer: its spellings, and of a number to "How many" also the digits.

    The script reads the first token of each spelling: of a digit behind a blank that is the blank alone, in the tokens of its
    model, and of a count that has no digits the word "other" stands in their place.
    """
    if not question.question.startswith("How many"):
        spellings = ["Yes", "yes"] if official else ["Yes", "yes", "YES"]
        return [blank + each for blank in ("", " ") for each in spellings]
    word = question.answer
    digits = str(_NUMBERS.index(word) + 1) if word in _NUMBERS else "other"
    words = [blank + each for blank in ("", " ") for each in dict.fromkeys([word, word.capitalize()])]
    if official:
        return [*words, digits, " " if digits != "other" else " other"]
    return [*words, digits, f" {digits}"] if digits != "other" else words


@metric(
    "soft-tifa",
    roles=("judge",),
    range=(0, 1),
    source="GenEval 2, arXiv 2512.16853; evaluation.py @a6e82d2",
    needs=("asked",),
    applies=has_questions,
)
async def soft_tifa(item: Item, ask: Ask) -> Score:
    """Soft-TIFA: how likely the right answers to the questions on a prompt are, as their geometric mean.

    `item.meta["asked"]` is as for `questions`. Parts: am (the arithmetic mean) and questions; where only the likeliest
    tokens are known, the others count for nothing, and lower and upper are what the geometric mean is at least and at most.
    """
    image = image_of(item)
    try:
        asked = Asked.model_validate(item.meta.get("asked"))
    except ValidationError as error:
        return Score.none(Status.BAD_INPUT, f"the item's questions: {first_problem(error)}")
    fields = {key: value for key, value in item.meta.items() if key != "asked"}

    async def chance(question: Question) -> tuple[float, float]:
        choices = {"right": tokens_of(question, official=ask.protocol == "official")}
        reply = await ask(
            asked.template, role="judge", images=[image], choices=choices, prompt=item.prompt,
            question=question.question, fields=fields,
        )  # fmt: skip
        found = reply.probabilities["right"]
        return found.lower, found.upper

    chances = await all_answers(*map(chance, asked.questions))
    lower, upper = zip(*chances, strict=True)
    shown = [
        {"question": question.question, "category": question.category, "answer": low, "counted": low}
        for question, low in zip(asked.questions, lower, strict=True)
    ]
    value, most = geometric_mean(lower), geometric_mean(upper)
    told: dict[str, Any] = {**Bounds(lower=value, upper=most)} if most > value else {}
    return Score.of(value, am=sum(lower) / len(lower), questions=shown, **told)


def geometric_mean(values: Sequence[float]) -> float:
    """Compute the geometric mean; one zero makes it zero."""
    return math.exp(sum(map(math.log, values)) / len(values)) if all(values) else 0.0
