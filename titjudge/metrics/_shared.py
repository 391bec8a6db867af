"""Helpers of several metrics: require an image, wait for several replies, explain why a reply cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from titjudge.core.errors import Unanswered
from titjudge.core.item_meta import MetaKey
from titjudge.core.score_parts import PromptRead
from titjudge.core.structured_output import Number, after_thinking, first_problem
from titjudge.core.types import Ask, Item, Reply, Score, Status, Values
from titjudge.core.words import count_words, truncated
from titjudge.metrics.answer_rules import begins_like, read_yes_no

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
UNREADABLE = (Status.REFUSED, Status.UNPARSED)
"""The statuses of a question that was answered, but with nothing that can be used; our limit may have cut any other reply."""

_LONGEST_QUOTED = 1_000  # characters of a reply that cannot be read, in the request to answer again
_LEAST_MASS = 0.5  # of the probability of the first token, for the possible answers together


class FaultsAndScore(BaseModel):
    """What a model answers that lists the faults before it rates."""

    model_config = ConfigDict(extra="ignore")

    missing: list[str]
    contradicted: list[str]
    reason: str
    score: Number = Field(ge=0, le=100, allow_inf_nan=False)


def image_of(item: Item) -> Path:
    """Return the image of an item.

    Raises:
        Unanswered: The item has none; its score then has this reason.
    """
    if item.image is None:
        raise Unanswered(Status.BAD_INPUT, "this metric requires an image")
    return item.image


def sources_of(item: Item) -> tuple[Path, ...]:
    """Return the images that an edit was made from, in the order of the instruction.

    Raises:
        Unanswered: The item has none; its score then has this reason.
    """
    if not item.sources:
        raise Unanswered(Status.BAD_INPUT, "this metric judges edits, but the item has no source image")
    return item.sources


async def gather_answers(*questions: Awaitable[T]) -> list[T | Unanswered]:
    """Ask several questions at once and return the answers in order, with an `Unanswered` for each missing one.

    Any other exception is raised after all questions have ended: replies under way are paid for and belong in the
    cache.
    """
    answers: list[T | Unanswered] = []
    for result in await asyncio.gather(*questions, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, Unanswered):
            raise result
        answers.append(result)
    return answers


async def all_answers(*questions: Awaitable[T]) -> list[T]:
    """Ask several questions at once and return the answers in order.

    Raises:
        Unanswered: A question has no answer; names the first one, and how many have none.
    """
    answers = await gather_answers(*questions)
    missing = [(number, answer) for number, answer in enumerate(answers, 1) if isinstance(answer, Unanswered)]
    if missing:
        number, first = missing[0]
        reason = f"{len(missing)} of {len(answers)} questions without an answer; {number}: {first.reason}"
        raise Unanswered(first.status, reason, parts=unread_kinds(answer for _, answer in missing))
    return [answer for answer in answers if not isinstance(answer, Unanswered)]


def checked_meta(schema: type[M], value: object, what: str) -> M:
    """Return the meta of an item as an object of a model.

    Raises:
        Unanswered: They do not validate; the score then has the fault of the item's `what` as its reason.
    """
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        raise Unanswered(Status.BAD_INPUT, f"the item's {what}: {first_problem(error)}") from error


def score_without(names: Iterable[str], answers: Iterable[object]) -> Score | None:
    """Make the score of an image with an unanswered question: no value, and the first such question by its name.

    Returns:
        None if every question has an answer.
    """
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, Unanswered):
            return Score.none(answer.status, f"{name}: {answer.reason}")
    return None


async def yes_or_no(item: Item, ask: Ask, role: str, reply: Reply, question: str, params: Values) -> bool:
    """Return whether a reply to a question about the image is yes or no; ask once more if it cannot be read.

    Raises:
        Unanswered: The second reply cannot be read either.
    """
    answer = read_yes_no(reply.text, question)
    if answer is None:
        said = truncated(after_thinking(reply.text).strip(), _LONGEST_QUOTED)
        again = await ask(
            "repair/yes_no",
            role=role,
            images=[image_of(item)],
            params=params,
            planned="yes",
            question=question,
            answer=said,
        )
        answer = read_yes_no(again.text, question)
    if answer is None:
        raise unreadable(reply, "neither yes nor no")
    return answer


def unread_kinds(failures: Iterable[Unanswered]) -> dict[str, list[str]]:
    """Return as parts of a score what its unreadable replies begin like."""
    kinds = [
        begins_like(failure.reply.text)
        for failure in failures
        if failure.status is Status.UNPARSED and failure.reply is not None
    ]
    return {"unread_as": kinds} if kinds else {}


def unreadable(reply: Reply, why: str) -> Unanswered:
    """Make the exception for a reply that cannot be parsed."""
    return Unanswered(Status.UNPARSED, f"the answer is {why}: {reply.text[:60]!r}", reply)


class Mass(NamedTuple):
    """The probability of all possible answers together, and the message if they have less than half of it."""

    share: float
    warning: str


def mass_of(reply: Reply, *, official: bool) -> Mass:
    """Return the probability that a reply gives to all its choices together.

    Raises:
        Unanswered: They have less than half of it. The published scripts do not check, so the official protocol warns.
    """
    share = min(1.0, sum(probability.lower for probability in reply.probabilities.values()))
    if share >= _LEAST_MASS:
        return Mass(share, "")
    why = f"the possible answers have only {share:.1%} of the probability"
    if reply.first_token is not None and reply.first_token.rest:  # otherwise only the tokens of the answers are known
        why += f"; the likeliest token is {max(reply.first_token.tokens, key=lambda token: token[1])[0][:20]!r}"
    if not official:
        raise Unanswered(Status.UNPARSED, why, reply)
    return Mass(share, why)


def prompt_read(used: int, total: int) -> tuple[PromptRead, str]:
    """Record how many tokens of the prompt a model read, with a reason for the score if it did not read them all."""
    read = PromptRead(prompt_tokens_used=used, prompt_tokens=total, cut=used < total)
    return read, f"only {used} of {total} tokens of the prompt were read" if read["cut"] else ""


MOST_QUESTIONS = 100  # of one prompt
ANSWER_PARAMS = {"max_tokens": 20}  # as DSG allows
_WORDS_A_QUESTION = 4  # words of a prompt for each expected question, for price estimates

Q = TypeVar("Q", bound=BaseModel)
A = TypeVar("A")


class QuestionModel(BaseModel):
    """Base of questions as a model or a data set writes them."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


def ready_questions(item: Item, key: MetaKey[Any], schema: type[M]) -> M | None:
    """Return the questions in the data; None if there are none.

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
