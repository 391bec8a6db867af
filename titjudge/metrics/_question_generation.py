"""Question generation and answering, as DSG and TIFA share it: the judge writes questions, the captioner answers them.

The captioner sees the image and not the prompt. An answer that cannot be read is not a "no": the item then has no
score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from titjudge.core.errors import Unanswered
from titjudge.core.item_meta import MetaKey
from titjudge.core.structured_output import first_problem
from titjudge.core.types import Ask, Item, Planned, Reply, Status
from titjudge.core.words import count_words
from titjudge.metrics._shared import image_of

MOST_QUESTIONS = 100  # of one prompt
_ANSWER_TOKENS = 20  # as DSG allows
_WORDS_A_QUESTION = 4  # words of a prompt for each expected question, for price estimates

M = TypeVar("M", bound=BaseModel)


class QuestionModel(BaseModel):
    """Base of questions as a model or a data set writes them."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


def ready_questions(item: Item, key: MetaKey[Any], schema: type[M]) -> M | None:
    """Return the questions that the data hold; None where there are none.

    Raises:
        Unanswered: They do not validate.
    """
    ready = key.get(item)
    if ready is None:
        return None
    try:
        return schema.model_validate({"questions": ready})
    except ValidationError as error:
        raise Unanswered(Status.BAD_INPUT, f"the item's {key.name} questions: {first_problem(error)}") from error


async def write_questions(
    item: Item, ask: Ask, template: str, schema: type[M], planned: Mapping[str, Any] | None = None
) -> M:
    """Have the judge write the questions of a prompt: one request, the same for all its images.

    A dry run plans as many questions as a prompt of this length usually gets; `planned` are further fields of each.
    """
    count = max(1, min(MOST_QUESTIONS, count_words(item.prompt) // _WORDS_A_QUESTION + 2))
    questions = [{"id": n, "question": f"planned {n}", **(planned or {})} for n in range(1, count + 1)]
    reply = await ask(
        template, role="judge", schema=schema, params={"max_tokens": 4096}, planned={"questions": questions},
        prompt=item.prompt,
    )  # fmt: skip
    written: M = reply.data
    return written


async def ask_captioner(item: Item, ask: Ask, template: str, *, planned: Planned, **variables: Any) -> Reply:
    """Ask one question about the image."""
    params = {"max_tokens": _ANSWER_TOKENS}
    images = [image_of(item)]
    return await ask(
        template, role="captioner", images=images, params=params, accept_truncated=True, planned=planned, **variables
    )
