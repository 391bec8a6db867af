"""What DSG and TIFA share: the judge writes questions on a prompt, the captioner model answers each about the image.

The captioner does not see the prompt. An answer that cannot be read is no "no": the item then has no score.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import first_problem
from titjudge.core.types import Ask, Item, Reply, Status
from titjudge.metrics._shared import gather_answers, image_of, is_stand_in

MOST_QUESTIONS = 100  # of one prompt
_ANSWER_TOKENS = 20  # as DSG allows
_WORDS_A_QUESTION = 4  # of a prompt, for price estimates

A = TypeVar("A")
M = TypeVar("M", bound=BaseModel)


class QuestionModel(BaseModel):
    """Base of what a model, or a data set, says of questions."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


def ready_questions(item: Item, key: str, schema: type[M]) -> M | None:
    """Return the questions that the data bring along in `item.meta[key]`; None where there are none.

    Raises:
        Unanswered: they do not validate.
    """
    ready = item.meta.get(key)
    if ready is None:
        return None
    try:
        return schema.model_validate({"questions": ready})
    except ValidationError as error:
        raise Unanswered(Status.BAD_INPUT, f"the item's {key} questions: {first_problem(error)}") from error


async def write_questions(item: Item, ask: Ask, template: str, schema: type[M]) -> tuple[M, int]:
    """Have the judge write the questions of a prompt: one request, the same for all its images.

    Returns:
        The questions, and how many to expect where a dry run made them up (else 0).
    """
    reply = await ask(template, role="judge", schema=schema, params={"max_tokens": 4096}, prompt=item.prompt)
    expected = max(1, min(MOST_QUESTIONS, len(item.prompt.split()) // _WORDS_A_QUESTION + 2))
    return reply.data, expected if is_stand_in(ask, reply) else 0


async def ask_captioner(item: Item, ask: Ask, template: str, **variables: Any) -> Reply:
    """Ask one question about the image."""
    params = {"max_tokens": _ANSWER_TOKENS}
    images = [image_of(item)]
    return await ask(template, role="captioner", images=images, params=params, accept_truncated=True, **variables)


def unreadable(reply: Reply, why: str) -> Unanswered:
    """Say of an answer that it cannot be read."""
    return Unanswered(Status.UNPARSED, f"the answer is {why}: {reply.text[:60]!r}", reply)


async def all_answers(*questions: Awaitable[A]) -> list[A]:
    """Ask all questions at once and return the answers in order.

    Raises:
        Unanswered: one has no answer; says which, and how many have none.
    """
    answers = await gather_answers(*questions)
    missing = [(number, answer) for number, answer in enumerate(answers, 1) if isinstance(answer, Unanswered)]
    if missing:
        number, first = missing[0]
        reason = f"{len(missing)} of {len(answers)} questions without an answer; {number}: {first.reason}"
        raise Unanswered(first.status, reason)
    return [answer for answer in answers if not isinstance(answer, Unanswered)]
