"""Question generation and answering, as DSG and TIFA share it: the judge writes questions, the captioner answers them.

The captioner sees the image and not the prompt. An answer that cannot be read is not a "no": the item then has no
score.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from titjudge.core.item_meta import MetaKey
from titjudge.core.types import Ask, Item, Reply, Values
from titjudge.core.words import count_words
from titjudge.metrics._shared import all_answers, checked_meta, image_of

MOST_QUESTIONS = 100  # of one prompt
ANSWER_PARAMS = {"max_tokens": 20}  # as DSG allows
_WORDS_A_QUESTION = 4  # words of a prompt for each expected question, for price estimates

M = TypeVar("M", bound=BaseModel)
Q = TypeVar("Q", bound=BaseModel)
A = TypeVar("A")


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
    return checked_meta(schema, {"questions": ready}, f"{key.name} questions")


async def write_questions(item: Item, ask: Ask, template: str, schema: type[M], planned: Values | None = None) -> M:
    """Have the judge write the questions of a prompt: one request, the same for all its images.

    A dry run plans as many questions as a prompt of this length usually gets; `planned` are further fields of each.
    """
    count = max(1, min(MOST_QUESTIONS, count_words(item.prompt) // _WORDS_A_QUESTION + 2))
    questions = [{"id": n, "question": f"planned {n}", **(planned or {})} for n in range(1, count + 1)]
    reply = await ask(
        template,
        role="judge",
        schema=schema,
        params={"max_tokens": 4096},
        planned={"questions": questions},
        prompt=item.prompt,
    )
    written: M = reply.data
    return written


async def captioner_answers(
    item: Item,
    ask: Ask,
    template: str,
    questions: Sequence[Q],
    read: Callable[[Reply, Q], Awaitable[A]],
    *,
    planned: Callable[[Q], str],
) -> list[A]:
    """Ask the captioner each question about the image.

    Args:
        item: The item.
        ask: Asks the captioner.
        template: The prompt; its variables are fields of a question.
        questions: The questions.
        read: Reads the answer in a reply to a question, or raises Unanswered.
        planned: The reply to a question that a dry run plans.

    Raises:
        Unanswered: A question has no answer, or one that cannot be read.
    """

    async def answer(question: Q) -> A:
        reply = await ask(
            template,
            role="captioner",
            images=[image_of(item)],
            params=ANSWER_PARAMS,
            accept_truncated=True,
            planned=planned(question),
            **question.model_dump(include={"question", "choices"}),
        )
        return await read(reply, question)

    return await all_answers(*map(answer, questions))
