"""EditScore: success, over-editing and quality of an edit, rated 0 to 25 (github.com/VectorSpaceLab/EditScore; prompts quoted exactly).

Its models are LoRA adapters of Qwen2.5-VL and Qwen3-VL that were tuned to these prompts; any judge can be asked. Where the official
code takes a random integer, or 12.5, for an answer that it cannot parse, there is no score here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking, plain_number
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import all_answers, edit_images
from titjudge.metrics.viescore import overall
from titjudge.metrics.viescore_edit import Rated, ask_ratings, find_ratings, missing_ratings, on_scale

_TOP = 25  # what the prompts ask for; scores are given on 0 to 10
_SAMPLING: Mapping[str, Any] = {
    "max_tokens": 512,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 20,
}  # mllm_tools/qwen3vl.py
_STRAIGHT = str.maketrans("“”‘’", "\"\"''")
_PLANNED = '{"reasoning": "", "score": [12, 12]}'
Points = Annotated[float, Field(ge=0, le=_TOP, allow_inf_nan=False), BeforeValidator(plain_number)]


class Ratings(BaseModel):
    """Answer to `editscore/semantics` ([success, over-editing]) and to `editscore/quality` ([naturalness, artifacts])."""

    model_config = ConfigDict(extra="ignore")

    reasoning: str = ""
    score: Annotated[list[Points], Field(min_length=2, max_length=2)]


def read_ratings(text: str) -> list[float] | None:
    """Parse ratings from 0 to 25 as `EditScore.evaluate` does; None where it guesses, fails or takes other numbers.

    Source: `mllm_output_to_dict`, editscore/utils.py @6e0f1b9.
    """
    return on_scale(find_ratings(after_thinking(text).translate(_STRAIGHT), _repaired), _TOP)


def _read_both(text: str) -> list[float] | None:
    """Parse success and over-editing, both of which the official code needs."""
    ratings = read_ratings(text)
    return ratings if ratings is not None and len(ratings) > 1 else None


def _repaired(block: str) -> list[Any]:
    """Return the ratings of an object that json-repair can mend."""
    import json_repair

    value = json_repair.loads(block)
    ratings = value.get("score") if isinstance(value, dict) else None
    return ratings if isinstance(ratings, list) else []


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
    images = edit_images(item)
    if len(images) > 2:
        raise Unanswered(Status.BAD_INPUT, "EditScore compares a result with one source, and there are several")
    rate = partial(
        ask_ratings, ask, schema=Ratings, planned=_PLANNED, expected="two ratings from 0 to 25",
        params=_SAMPLING, named_images=named_images,
    )  # fmt: skip
    questions = [
        question
        for sample in range(passes)
        for question in (
            rate("editscore/semantics", read=_read_both, images=images, sample=sample, prompt=item.prompt),
            rate("editscore/quality", read=read_ratings, images=images[-1:], sample=sample),
        )
    ]
    answers = await all_answers(*questions)
    return _mean(answers[0::2], answers[1::2], official=ask.protocol == "official")


def _mean(semantics: Sequence[Rated], quality: Sequence[Rated], *, official: bool) -> Score:
    """Average the scores of all passes (`average_last` of the official code)."""
    passes = [overall(*pair) for pair in zip(_in_tens(semantics), _in_tens(quality), strict=True)]
    sc, pq, value = map(fmean, zip(*passes, strict=True))
    parts: dict[str, Any] = {"SC": sc, "PQ": pq}
    if official:
        lost = sum(map(missing_ratings, quality))
        parts |= QuestionCounts(questions_asked=4 * len(quality), questions_skipped=lost)
    for names, rated in ((("success", "over_edit"), semantics), (("naturalness", "artifacts"), quality)):
        parts |= {name: fmean(column) for name, column in zip(names, zip(*_in_tens(rated), strict=False), strict=False)}
    return Score.of(value, reason=semantics[-1].reason, quality_reason=quality[-1].reason, **parts)


def _in_tens(rated: Sequence[Rated]) -> list[list[float]]:
    """Return the ratings of each answer on 0 to 10."""
    return [[rating / (_TOP / 10) for rating in answer.ratings] for answer in rated]
