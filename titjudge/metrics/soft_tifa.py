"""Soft-TIFA (GenEval 2): the probability of the right answer to each question, at the first token of the reply."""

from __future__ import annotations

import math
from collections.abc import Sequence

from titjudge.core.answer_probabilities import Probability, tokens_by_choice
from titjudge.core.score_parts import Bounds
from titjudge.core.types import Ask, Item, Json, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import Mass, all_answers, image_of, mass_of
from titjudge.metrics.answer_rules import VisualQuestion
from titjudge.metrics.questions import answer_rows, has_questions, questions_of

_NUMBERS = "one two three four five six seven eight nine ten".split()
_OTHERS = [  # further numbers that may be the answer to "How many"
    *"zero no none eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),
    *"twenty dozen several many".split(),
    *map(str, range(21)),
]


def tokens_of(question: VisualQuestion, *, official: bool) -> list[str]:
    """List the tokens that count as the right answer: its spellings, and for a "How many" question also the digits.

    The official script takes the first token of each spelling: for a digit after a space that is the space alone, in
    its model's vocabulary, and for a count above ten it uses the word "other" in place of the digits.
    """
    if not question.question.startswith("How many"):
        spellings = ["Yes", "yes"] if official else ["Yes", "yes", "YES"]
        return [blank + spelling for blank in ("", " ") for spelling in spellings]
    word = question.answer
    digits = str(_NUMBERS.index(word) + 1) if word in _NUMBERS else "other"
    words = [blank + spelling for blank in ("", " ") for spelling in dict.fromkeys([word, word.capitalize()])]
    if official:
        return [*words, digits, " " if digits != "other" else " other"]
    return [*words, digits, f" {digits}"] if digits != "other" else words


def choices_of(question: VisualQuestion, *, official: bool) -> dict[str, list[str]]:
    """List the tokens of the right answer, and those of the other possible answers."""
    right = tokens_of(question, official=official)
    others = (*_NUMBERS, *_OTHERS) if question.question.startswith("How many") else ("No",)
    spellings = tokens_by_choice(others).values()
    return {"right": right, "other": [token for tokens in spellings for token in tokens if token not in right]}


@metric(
    "soft-tifa",
    roles=("judge",),
    range=(0, 1),
    version="2",  # 1 scored whatever the model began with
    source="GenEval 2, arXiv 2512.16853; evaluation.py @a6e82d2",
    needs=("asked",),
    applies=has_questions,
)
async def soft_tifa(item: Item, ask: Ask) -> Score:
    """Soft-TIFA: how likely the right answers to the questions on a prompt are, as their geometric mean.

    `item.meta["asked"]` is as for `questions`. Parts: am (the arithmetic mean), mass (the least probability that the
    possible answers to a question have) and questions. Where only the likeliest tokens are known, the others count as 0,
    and lower and upper bound the geometric mean.
    """
    asked, variables = questions_of(item)
    official = ask.protocol == "official"

    async def probability(question: VisualQuestion) -> tuple[Probability, Mass]:
        choices = choices_of(question, official=official)
        reply = await ask(
            asked.template,
            role="judge",
            images=[image_of(item)],
            choices=choices,
            question=question.question,
            **variables,
        )
        return reply.probabilities["right"], mass_of(reply, official=official)

    right, masses = zip(*await all_answers(*map(probability, asked.questions)), strict=True)
    lower, upper = zip(*right, strict=True)
    least = min(masses)
    value, most = geometric_mean(lower), geometric_mean(upper)
    bounds: Json = {**Bounds(lower=value, upper=most)} if most > value else {}
    rows = answer_rows(asked.questions, lower, lower)
    return Score.of(value, reason=least.warning, am=sum(lower) / len(lower), mass=least.share, questions=rows, **bounds)


def geometric_mean(values: Sequence[float]) -> float:
    """Compute the geometric mean; one zero makes it zero."""
    return math.exp(sum(map(math.log, values)) / len(values)) if all(values) else 0.0
