"""RISEBench: consistency, reasoning and plausibility of an edit that takes reasoning (github.com/PhoenixZ810/RISEBench).

The prompts are quoted exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from titjudge.core import item_meta
from titjudge.core.errors import DataError, must_be
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import gather_answers, score_without, unreadable
from titjudge.metrics.rubric import RubricQuestion, questions

LOGICAL = "logical_reasoning"
CATEGORIES = ("temporal_reasoning", "causal_reasoning", "spatial_reasoning", LOGICAL)
CONSISTENCY, REASONING, PLAUSIBILITY = "ApprConsistency", "Reasoning", "VisualPlausibility"
"""The ratings, by their names in the published tables."""
_FINAL = tuple(
    re.compile(rf"{words}\*{{0,2}}:?\s*([\d*\s,]*)", re.IGNORECASE) for words in ("Final Score", "Final Scores")
)
_NO_SCORE = "no one Final Score on the scale"


def read_final_score(text: str) -> int | None:
    """Return the number after `Final Score`; None unless there is exactly one behind the first of these words that has any."""
    numbers = (re.findall(r"\d+", match) for words in _FINAL for match in words.findall(text))
    first = next(filter(None, numbers), [])
    return int(first[0]) if len(first) == 1 else None


def weighted(category: str, ratings: Mapping[str, float], *, consistency_counts: bool = True) -> float:
    """Combine ratings from 1 to 5 in a score from 0 to 100.

    Args:
        category: Of the edit: its weights are 0.3 consistency and 0.7 reasoning for logical problems, otherwise 0.3, 0.5
            and 0.2 (plausibility).
        ratings: By name.
        consistency_counts: Without it the weights are 0.8 reasoning and 0.2 plausibility.
    """
    reasoning = ratings[REASONING]
    if category == LOGICAL:
        score = 0.3 * ratings[CONSISTENCY] + 0.7 * reasoning
    elif consistency_counts:
        score = 0.3 * ratings[CONSISTENCY] + 0.5 * reasoning + 0.2 * ratings[PLAUSIBILITY]
    else:
        score = 0.2 * ratings[PLAUSIBILITY] + 0.8 * reasoning
    return 25 * ((max(1, score * 0.5) if reasoning == 1 else score) - 1)


@metric(
    "rise",
    roles=("judge",),
    range=(0, 100),
    version="2",  # 1 took `"consistency_free": null` for true, and asked again for a blank reply
    source="RISEBench, github.com/PhoenixZ810/RISEBench @5f22651; prompts quoted exactly",
    needs=(item_meta.CATEGORY.name,),
    sources="required",
)
async def rise(item: Item, ask: Ask) -> Score:
    """RISEBench: consistency, reasoning and plausibility, 1 to 5 each, weighted, as 25 * (score - 1); accuracy is all 5."""
    official, category = ask.protocol == "official", item_meta.CATEGORY.required(item)
    if category not in CATEGORIES:
        raise DataError(must_be("'category'", f"one of {', '.join(CATEGORIES)}", category))
    truth = item_meta.REFERENCE_IMAGE.checked(item)
    if category == LOGICAL and not (truth or item_meta.REFERENCE_TEXT.get(item)):
        raise DataError("the item has neither reference_txt nor an image of the right result. Add one of them")
    asked = questions("rise", item, ask)
    answers = await gather_answers(*(_rate(ask, question) for question in asked.values()))
    if (without := score_without(asked, answers)) is not None:
        return without
    rated = {name: answer for name, answer in zip(asked, answers, strict=True) if isinstance(answer, int)}
    counts = CONSISTENCY in rated and not (official and item_meta.CONSISTENCY_FREE_ABSENT.get(item))
    percent: Json = {name: 25.0 * (rating - 1) for name, rating in rated.items()}
    return Score.of(
        weighted(category, rated, consistency_counts=counts),
        accuracy=100.0 * all(rating == 5 for rating in rated.values()),
        ratings=rated,
        **percent,
    )


async def _rate(ask: Ask, question: RubricQuestion) -> int:
    """Ask for a rating; of a logical problem 0 and 1 count as 1 and 5.

    Raises:
        Unanswered: There is none, or it is off the scale.
    """
    read = lambda text: read_final_score(after_thinking(text))  # noqa: E731
    reply, answer = await question.rated(ask, read, expected=_NO_SCORE)
    rating: int = answer if isinstance(answer, int) else answer.final_score
    low, high = question.declared.scale
    if not low <= rating <= high:
        raise unreadable(reply, _NO_SCORE)
    return 4 * rating + 1 if low == 0 else rating
