"""VIEScore (github.com/TIGER-AI-Lab/VIEScore), its form for edits that GEdit-Bench uses, and EditScore, which continues it.

The prompts are quoted exactly. If the official code draws a random integer for an answer that it cannot parse
(`give_up_parsing`), or asks for ever, there is no score here. The models of EditScore are LoRA adapters of Qwen2.5-VL and
Qwen3-VL that were tuned to its prompts; any judge can be asked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.numbers import is_number
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking, plain_number
from titjudge.core.types import Ask, Item, Json, Reply, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import UNREADABLE, all_answers, gather_answers, score_without
from titjudge.metrics.rubric import RubricQuestion, questions

_DELIMITER = "||V^=^V||"
_TRIES = 2  # the script asks both questions once more, and guesses after that
_BARE_PAIR = re.compile(r'"?(\w+)"?:([^",:{}\[\]\\]*)')
_TOP = 25  # of the answers that the prompts of EditScore ask for; its scores are given on 0 to 10
_STRAIGHT = str.maketrans("“”‘’", "\"\"''")

Points = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), BeforeValidator(plain_number)]
EditPoints = Annotated[float, Field(ge=0, le=_TOP, allow_inf_nan=False), BeforeValidator(plain_number)]
Listed = BeforeValidator(lambda value: [value] if isinstance(value, int | float) else value)


class Semantics(BaseModel):
    """Answer to `viescore/semantics`: [success in following the prompt]."""

    score: Annotated[list[Points], Listed, Field(min_length=1, max_length=1)]
    reasoning: str = ""


class Quality(BaseModel):
    """Answer to `viescore/quality`: [naturalness, artifacts]."""

    score: Annotated[list[Points], Listed, Field(min_length=2, max_length=2)]
    reasoning: str = ""


def overall(semantics: list[float], quality: list[float]) -> tuple[float, float, float]:
    """Return (SC, PQ, O): the smallest rating of each list, and O = sqrt(SC * PQ), all 0 to 10."""
    sc, pq = min(semantics), min(quality)
    return sc, pq, math.sqrt(sc * pq)


class EditSemantics(Quality):
    """Answer to `viescore/edit_semantics`: [success of the edit, degree of over-editing]."""


class Ratings(BaseModel):
    """Answer to `editscore/semantics` ([success, over-editing]) and to `editscore/quality` ([naturalness, artifacts])."""

    model_config = ConfigDict(extra="ignore")

    reasoning: str = ""
    score: Annotated[list[EditPoints], Field(min_length=2, max_length=2)]


@metric(
    "viescore",
    roles=("captioner",),
    range=(0, 10),
    source="VIEScore, github.com/TIGER-AI-Lab/VIEScore; prompts quoted exactly, no random guesses",
)
async def viescore(item: Item, ask: Ask) -> Score:
    """VIEScore: sqrt(semantic consistency * perceptual quality), both rated 0 to 10 by a vision-language model."""
    asked = questions("viescore", item, ask)
    schemas = {"semantics": Semantics, "quality": Quality}
    answers = await gather_answers(*(ask(schema=schemas[name], **asked[name].request) for name in asked))
    if (without := score_without(asked, answers)) is not None:
        return without
    semantics, quality = (reply.data for reply in answers if isinstance(reply, Reply))
    sc, pq, value = overall(semantics.score, quality.score)
    naturalness, artifacts = quality.score
    return Score.of(
        value,
        reason=semantics.reasoning,
        SC=sc,
        PQ=pq,
        naturalness=naturalness,
        artifacts=artifacts,
        quality_reason=quality.reasoning,
    )


class Rated(NamedTuple):
    """Ratings from 0 to 10, and the reason for them."""

    ratings: list[float]
    reason: str


def read_ratings(text: str) -> list[float] | None:
    """Parse ratings from 0 to 10 as the published code does; None if it guesses, asks for ever or takes other numbers.

    Source: `mllm_output_to_dict`, GEdit-Bench/viescore/utils.py of Step1X-Edit @570eba6.
    """
    return on_scale(find_ratings(after_thinking(text), _bare), 10)


def on_scale(ratings: list[Any], top: float) -> list[float] | None:
    """Return ratings as numbers; None unless there are some, all of them numbers from 0 to `top`."""
    valid = bool(ratings) and all(is_number(rating) and 0 <= rating <= top for rating in ratings)
    return [float(rating) for rating in ratings] if valid else None


def find_ratings(text: str, mend: Callable[[str], list[Any]]) -> list[Any]:
    """Find the ratings in an answer: in its JSON object, or otherwise a list of two, or a number, without other text.

    Args:
        text: The answer.
        mend: Finds them in an object that is not JSON.
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
    """Return the rating of an object whose values, and perhaps keys, are not quoted: `{score: 8, reasoning: fine}`."""
    pairs = [_BARE_PAIR.fullmatch(pair.strip()) for pair in block.strip("{}").split(",")]
    values = {pair[1]: pair[2].strip() for pair in pairs if pair}
    rating = values.get("score", "")
    return [float(rating)] if all(pairs) and re.fullmatch(r"-?\d+(\.\d+)?", rating) else []


def read_edit_ratings(text: str) -> list[float] | None:
    """Parse ratings from 0 to 25 as `EditScore.evaluate` does; None if it guesses, fails or takes other numbers.

    Source: `mllm_output_to_dict`, editscore/utils.py @6e0f1b9.
    """
    return on_scale(find_ratings(after_thinking(text).translate(_STRAIGHT), _repaired), _TOP)


def _read_both(text: str) -> list[float] | None:
    """Parse success and over-editing, both of which the official code needs."""
    ratings = read_edit_ratings(text)
    return ratings if ratings is not None and len(ratings) > 1 else None


def _repaired(block: str) -> list[Any]:
    """Return the ratings of an object that json-repair can repair."""
    import json_repair

    value = json_repair.loads(block)
    ratings = value.get("score") if isinstance(value, dict) else None
    return ratings if isinstance(ratings, list) else []


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
    asked = questions("viescore-edit", item, ask)
    schemas = {"semantics": EditSemantics, "quality": Quality}
    for attempt in range(_TRIES if ask.protocol == "official" else 1):
        answers = await gather_answers(
            *(
                _rate(ask, asked[name], schemas[name], read_ratings, expected="ratings from 0 to 10", sample=attempt)
                for name in asked
            )
        )
        if not any(isinstance(answer, Unanswered) and answer.status in UNREADABLE for answer in answers):
            break
    if (without := score_without(asked, answers)) is not None:
        return without
    semantics, quality = (answer for answer in answers if isinstance(answer, Rated))
    return _edit_score(ask, [semantics], [quality], bounded=True)


@metric(
    "editscore",
    roles=("judge",),
    range=(0, 10),
    version="2",  # 1 asked again for a blank reply
    source="EditScore, arXiv 2509.23909, github.com/VectorSpaceLab/EditScore @6e0f1b9; prompts quoted exactly, no random guesses",
    sources="required",
)
async def editscore(
    item: Item,
    ask: Ask,
    *,
    passes: Annotated[int, Field(ge=1, le=64, description="answers to each question; their mean counts")] = 1,
    named_images: Annotated[bool, Field(description="write <img1>: before the images, as for Qwen2.5-VL")] = False,
) -> Score:
    """EditScore: sqrt(min(success, over-editing) * min(naturalness, artifacts)), 0 to 10, the mean of several answers."""
    if len(item.sources) > 1:
        raise Unanswered(
            Status.BAD_INPUT, f"EditScore compares a result with one source, but the item has {len(item.sources)}"
        )
    readers = {"semantics": _read_both, "quality": read_edit_ratings}
    rate = partial(
        _rate, ask, schema=Ratings, expected="two ratings from 0 to 25", unit=_TOP / 10, named_images=named_images
    )
    asked = questions("editscore", item, ask)
    answers = await all_answers(
        *(rate(asked[name], read=readers[name], sample=sample) for sample in range(passes) for name in asked)
    )
    return _edit_score(ask, answers[0::2], answers[1::2])


async def _rate(
    ask: Ask,
    question: RubricQuestion,
    schema: type[Any],
    read: Callable[[str], list[float] | None],
    *,
    expected: str,
    unit: float = 1,
    **further: Any,
) -> Rated:
    """Ask for ratings of an edit, and return them on 0 to 10: divided by `unit`.

    Raises:
        Unanswered: There are none.
    """
    reply, found = await question.rated(ask, read, schema=schema, expected=f"no list of {expected}", **further)
    ratings, reason = (found, reply.text) if isinstance(found, list) else (found.score, found.reasoning)
    return Rated([rating / unit for rating in ratings], reason)


def _edit_score(ask: Ask, semantics: Sequence[Rated], quality: Sequence[Rated], *, bounded: bool = False) -> Score:
    """Average the scores of all passes (`average_last` of EditScore).

    Under the official protocol there may be any number of ratings: each question asks for two, and the published parser takes
    one. With `bounded` the score has bounds for the missing ones.
    """
    passes = [overall(first.ratings, second.ratings) for first, second in zip(semantics, quality, strict=True)]
    sc, pq, value = map(fmean, zip(*passes, strict=True))
    parts: Json = {"SC": sc, "PQ": pq}
    if ask.protocol == "official":
        lost = {
            name: sum(max(0, 2 - len(answer.ratings)) for answer in answers)
            for name, answers in (("SC", semantics), ("PQ", quality))
        }
        parts |= QuestionCounts(questions_asked=4 * len(quality), questions_skipped=sum(lost.values()))
        if bounded and any(lost.values()):
            parts["could_be"] = {"": [0.0, value]} | {name: [0.0, parts[name]] for name, count in lost.items() if count}
    for names, answers in ((("success", "over_edit"), semantics), (("naturalness", "artifacts"), quality)):
        columns = zip(*(answer.ratings for answer in answers), strict=False)
        parts |= {name: fmean(column) for name, column in zip(names, columns, strict=False)}
    return Score.of(value, reason=semantics[-1].reason, quality_reason=quality[-1].reason, **parts)
