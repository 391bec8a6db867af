"""VIEScore for edits, as GEdit-Bench uses it: success and over-editing beside the source, quality of the result alone.

The prompts are quoted exactly. Where the official code draws a random integer for an answer that it cannot parse, or asks
for ever, there is no score here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from titjudge.core.errors import Unanswered
from titjudge.core.numbers import is_number
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import UNREADABLE, edit_images, gather_answers, score_without, unreadable
from titjudge.metrics.viescore import Quality, overall

_DELIMITER = "||V^=^V||"
_TRIES = 2  # the script asks both questions once more, and guesses after that
_BARE_PAIR = re.compile(r'"?(\w+)"?:([^",:{}\[\]\\]*)')


class EditSemantics(Quality):
    """Answer to `viescore/edit_semantics`: [success of the edit, degree of over-editing]."""


class Rated(NamedTuple):
    """Ratings from 0 to 10, and the reason for them."""

    ratings: list[float]
    reason: str


def read_ratings(text: str) -> list[float] | None:
    """Parse ratings from 0 to 10 as the published code does; None where it guesses, asks for ever or takes other numbers.

    Source: `mllm_output_to_dict`, GEdit-Bench/viescore/utils.py of Step1X-Edit @570eba6.
    """
    return on_scale(find_ratings(after_thinking(text), _bare), 10)


def on_scale(ratings: list[Any], top: float) -> list[float] | None:
    """Return ratings as numbers; None unless there are some, all of them numbers from 0 to `top`."""
    valid = bool(ratings) and all(is_number(rating) and 0 <= rating <= top for rating in ratings)
    return [float(rating) for rating in ratings] if valid else None


def find_ratings(text: str, mend: Callable[[str], list[Any]]) -> list[Any]:
    """Find the ratings in an answer: in its JSON object, or else a list of two, or a number, that stands alone.

    Args:
        text: The answer.
        mend: Finds them in an object that is no JSON.
    """
    if text.count(_DELIMITER) == 2:
        block = text.split(_DELIMITER)[1]
    elif "{" in text and "}" in text:
        block = text[text.find("{") : text.rfind("}") + 1]
    else:
        listed = re.fullmatch(r"[^\[]*\[(\d+), ?(\d+)\][^\]]*", text, re.DOTALL)
        return [int(number) for number in listed.groups()] if listed else _alone(text)
    block = block.strip().replace("\n", "")
    try:
        rating = json.loads(block)["score"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return mend(block)
    return rating if isinstance(rating, list) else [rating]


def _alone(text: str) -> list[Any]:
    """Return the number that is the whole text."""
    return [int(text)] if re.fullmatch(r"\s*[+-]?\d{1,4}\s*", text) else []


def _bare(block: str) -> list[Any]:
    """Return the rating of an object whose values, and perhaps keys, lack their quotes: `{score: 8, reasoning: fine}`."""
    pairs = [_BARE_PAIR.fullmatch(pair.strip()) for pair in block.strip("{}").split(",")]
    values = {pair[1]: pair[2].strip() for pair in pairs if pair}
    rating = values.get("score", "")
    return [float(rating)] if all(pairs) and re.fullmatch(r"-?\d+(\.\d+)?", rating) else []


@metric(
    "viescore-edit",
    roles=("judge",),
    range=(0, 10),
    version="2",  # 1 asked a question with a blank reply again, and the other one not
    source="VIEScore (tie) as GEdit-Bench has it, github.com/stepfun-ai/Step1X-Edit @570eba6; prompts quoted exactly, no random guesses",
    sources="required",
)
async def viescore_edit(item: Item, ask: Ask) -> Score:
    """VIEScore of an edit: sqrt(min(success, over-editing) * min(naturalness, artifacts)), each rated 0 to 10."""
    official = ask.protocol == "official"
    answers = await _ask_both(item, ask, 0)
    for attempt in range(1, _TRIES if official else 1):
        if not any(isinstance(answer, Unanswered) and answer.status in UNREADABLE for answer in answers):
            break
        answers = await _ask_both(item, ask, attempt)
    if (without := score_without(("semantics", "quality"), answers)) is not None:
        return without
    semantics, quality = (answer for answer in answers if isinstance(answer, Rated))
    return _score(semantics, quality, official=official)


def _score(semantics: Rated, quality: Rated, *, official: bool) -> Score:
    """Make the score of ratings, of which there may be any number under the official protocol."""
    sc, pq, value = overall(semantics.ratings, quality.ratings)
    parts: dict[str, Any] = {"SC": sc, "PQ": pq}
    if official:
        lost = {"SC": missing_ratings(semantics), "PQ": missing_ratings(quality)}
        parts |= QuestionCounts(questions_asked=4, questions_skipped=sum(lost.values()))
        if any(lost.values()):
            parts["could_be"] = {"": [0.0, value]} | {name: [0.0, parts[name]] for name, count in lost.items() if count}
    parts |= zip(("success", "over_edit"), semantics.ratings, strict=False)
    parts |= zip(("naturalness", "artifacts"), quality.ratings, strict=False)
    return Score.of(value, reason=semantics.reason, quality_reason=quality.reason, **parts)


def missing_ratings(rated: Rated) -> int:
    """Count the ratings that were asked for and not given: each question asks for two, and the published parser takes one."""
    return max(0, 2 - len(rated.ratings))


async def _ask_both(item: Item, ask: Ask, attempt: int) -> list[Rated | Unanswered]:
    images = edit_images(item)
    return await gather_answers(
        _rate(ask, "viescore/edit_semantics", images, EditSemantics, attempt, prompt=item.prompt),
        _rate(ask, "viescore/edit_quality", images[-1:], Quality, attempt),
    )


async def _rate(
    ask: Ask, template: str, images: list[Path], schema: type[Quality], attempt: int, **variables: Any
) -> Rated:
    params = {"max_tokens": 1400} if ask.protocol == "official" else None
    return await ask_ratings(
        ask, template, schema=schema, read=read_ratings, expected="ratings from 0 to 10",
        planned='{"score": [5, 5], "reasoning": ""}', images=images, params=params, sample=attempt, **variables,
    )  # fmt: skip


async def ask_ratings(
    ask: Ask,
    template: str,
    *,
    schema: type[Any],
    read: Callable[[str], list[float] | None],
    expected: str,
    planned: str,
    **question: Any,
) -> Rated:
    """Ask a judge for ratings.

    Args:
        ask: Asks the models.
        template: The question.
        schema: Of the answer under the strict protocol.
        read: Parses the ratings of an answer under the official protocol.
        expected: What must be in such an answer, for the message where it is not.
        planned: Such an answer, for the estimate of a price.
        question: Images, parameters and variables of the question.

    Raises:
        Unanswered: There are none.
    """
    if ask.protocol != "official":
        reply = await ask(template, role="judge", schema=schema, **question)
        return Rated(reply.data.score, reply.data.reasoning)
    reply = await ask(template, role="judge", planned=planned, accept_empty=True, **question)
    ratings = read(reply.text)
    if ratings is None:
        raise unreadable(reply, f"no list of {expected}")
    return Rated(ratings, reply.text)
