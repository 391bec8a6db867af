"""RISEBench: consistency, reasoning and plausibility of an edit that takes reasoning (github.com/PhoenixZ810/RISEBench).

The prompts are quoted exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field

from titjudge.core import item_meta
from titjudge.core.errors import DataError
from titjudge.core.structured_output import after_thinking, plain_number
from titjudge.core.types import Ask, Item, Json, Score, Values
from titjudge.metrics import metric
from titjudge.metrics._shared import gather_answers, image_of, rated, score_without, sources_of, unreadable
from titjudge.metrics.imgedit import Points, RubricAnswer

LOGICAL = "logical_reasoning"
SPATIAL = "spatial_reasoning"
CATEGORIES = ("temporal_reasoning", "causal_reasoning", SPATIAL, LOGICAL)
CONSISTENCY, REASONING, PLAUSIBILITY = "ApprConsistency", "Reasoning", "VisualPlausibility"
"""The ratings, by their names in the published tables."""
_FINAL = tuple(
    re.compile(rf"{words}\*{{0,2}}:?\s*([\d*\s,]*)", re.IGNORECASE) for words in ("Final Score", "Final Scores")
)
_NO_SCORE = "no one Final Score on the scale"


class FinalScore(RubricAnswer):
    """Answer to a question with a scale from 1 to 5."""

    final_score: Points


class FinalMark(RubricAnswer):
    """Answer to a question on a logical problem, which is 0 or 1."""

    final_score: Annotated[int, Field(ge=0, le=1), BeforeValidator(plain_number)]


class RiseRequest(NamedTuple):
    """One request about an edit.

    Attributes:
        rating: What it rates.
        variables: Those of the template.
    """

    rating: str
    template: str
    images: Sequence[Path]
    variables: Values


def read_final_score(text: str) -> int | None:
    """Return the number after `Final Score`; None unless there is exactly one behind the first of these words that has any."""
    numbers = (re.findall(r"\d+", match) for words in _FINAL for match in words.findall(text))
    first = next(filter(None, numbers), [])
    return int(first[0]) if len(first) == 1 else None


def questions(item: Item, *, official: bool) -> list[RiseRequest]:
    """Return the two or three requests about an edit, by its category.

    Raises:
        DataError: The item has no known category, or nothing says what is right.
        Unanswered: It has no image, or no source.
    """
    category = item_meta.CATEGORY.required(item)
    if category not in CATEGORIES:
        raise DataError(f"the item's category is not one of {', '.join(CATEGORIES)}: {category!r:.60}")
    source, result = sources_of(item)[0], image_of(item)
    truth = Path(path) if (path := item_meta.REFERENCE_IMAGE.checked(item)) else None
    first = truth if truth and official and category in (SPATIAL, LOGICAL) else source
    if category == LOGICAL:
        return _logical(item, [first, result], truth, result)
    prompt, start = {"prompt": item.prompt}, "spatial_" if category == SPATIAL else ""
    requests = [RiseRequest(CONSISTENCY, f"rise/{start}consistency", [first, result], prompt)]
    if item_meta.CONSISTENCY_FREE.get(item):
        requests.clear()
    if truth and category == SPATIAL:
        requests.append(RiseRequest(REASONING, f"rise/{start}reasoning_by_image", [truth, result], prompt))
    else:
        beside = bool(item_meta.REASONING_IMAGE.get(item))
        template = f"rise/{start}reasoning_with_source" if beside else f"rise/{start}reasoning"
        images = [source, result] if beside else [result]
        reference = {"reference": item_meta.REFERENCE.required(item)}
        requests.append(RiseRequest(REASONING, template, images, prompt | reference))
    return [*requests, RiseRequest(PLAUSIBILITY, f"rise/{start}plausibility", [result], {})]


def _logical(item: Item, pair: Sequence[Path], truth: Path | None, result: Path) -> list[RiseRequest]:
    """Return the two requests about a logical problem: by its answer in words, else by the image of the right result."""
    prompt, answer = {"prompt": item.prompt}, item_meta.REFERENCE_TEXT.get(item)
    if answer:
        reference = {"reference": answer}
        return [
            RiseRequest(CONSISTENCY, "rise/logical_consistency_with_answer", pair, prompt | reference),
            RiseRequest(REASONING, "rise/logical_reasoning", [result], reference),
        ]
    if truth is None:
        raise DataError("the item has neither reference_txt nor an image of the right result")
    wordless = item_meta.WITHOUT_INSTRUCTION.get(item)
    template = f"rise/logical_reasoning_{'without_instruction' if wordless else 'by_image'}"
    return [
        RiseRequest(CONSISTENCY, "rise/logical_consistency", pair, prompt),
        RiseRequest(REASONING, template, [truth, result], {} if wordless else prompt),
    ]


def weighted(category: str, ratings: Mapping[str, float], *, consistency_counts: bool = True) -> float:
    """Combine ratings from 1 to 5 in a score from 0 to 100.

    Args:
        category: Of the edit: its weights are .3 consistency and .7 reasoning for logical problems, .3, .5 and .2 (plausibility) else.
        ratings: By name.
        consistency_counts: Without it the weights are .8 reasoning and .2 plausibility.
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
    official, category = ask.protocol == "official", item_meta.CATEGORY.get(item, "")
    requests = questions(item, official=official)
    answers = await gather_answers(*(_rate(ask, question, category) for question in requests))
    names = [request.rating for request in requests]
    if (without := score_without(names, answers)) is not None:
        return without
    rated = {name: answer for name, answer in zip(names, answers, strict=True) if isinstance(answer, int)}
    counts = CONSISTENCY in rated and not (official and item_meta.CONSISTENCY_FREE_ABSENT.get(item))
    percent: Json = {name: 25.0 * (rating - 1) for name, rating in rated.items()}
    return Score.of(
        weighted(category, rated, consistency_counts=counts),
        accuracy=100.0 * all(rating == 5 for rating in rated.values()),
        ratings=rated,
        **percent,
    )


async def _rate(ask: Ask, question: RiseRequest, category: str) -> int:
    """Ask for a rating; of a logical problem 0 and 1 count as 1 and 5.

    Raises:
        Unanswered: There is none, or it is off the scale.
    """
    logical = category == LOGICAL
    reply, answer = await rated(
        ask,
        question.template,
        schema=FinalMark if logical else FinalScore,
        read=lambda text: read_final_score(after_thinking(text)),
        expected=_NO_SCORE,
        planned=f"**Final Score:** **{1 if logical else 3}**",
        published={"temperature": 0, "max_tokens": 4096},
        images=question.images,
        **question.variables,
    )
    rating: int = answer if isinstance(answer, int) else answer.final_score
    if not (rating in (0, 1) if logical else 1 <= rating <= 5):
        raise unreadable(reply, _NO_SCORE)
    return 4 * rating + 1 if logical else rating
