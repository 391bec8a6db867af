"""Question generation and answering, as DSG and TIFA share it: the judge writes questions, the captioner answers them.

The captioner sees the image and not the prompt. An answer that cannot be read is not a "no": the item then has no
score.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import first_problem
from titjudge.core.types import Ask, Item, Reply, Status
from titjudge.core.words import count_words
from titjudge.metrics._shared import image_of, is_stand_in

MOST_QUESTIONS = 100  # of one prompt
_ANSWER_TOKENS = 20  # as DSG allows
_WORDS_A_QUESTION = 4  # words of a prompt for each expected question, for price estimates

M = TypeVar("M", bound=BaseModel)


class QuestionModel(BaseModel):
    """Base of questions as a model or a data set writes them."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


def ready_questions(item: Item, key: str, schema: type[M]) -> M | None:
    """Return the questions that the data hold in `item.meta[key]`; None where there are none.

    Raises:
        Unanswered: They do not validate.
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
        The questions; and, in a dry run, whose reply is a stand-in, how many questions to expect (else 0).
    """
    reply = await ask(template, role="judge", schema=schema, params={"max_tokens": 4096}, prompt=item.prompt)
    expected = max(1, min(MOST_QUESTIONS, count_words(item.prompt) // _WORDS_A_QUESTION + 2))
    return reply.data, expected if is_stand_in(ask, reply) else 0


async def ask_captioner(item: Item, ask: Ask, template: str, **variables: Any) -> Reply:
    """Ask one question about the image."""
    params = {"max_tokens": _ANSWER_TOKENS}
    images = [image_of(item)]
    return await ask(template, role="captioner", images=images, params=params, accept_truncated=True, **variables)
