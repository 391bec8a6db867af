"""Questions of the data set, asked one by one or in one request; the score is the weighted mean of the answers.

Soft-TIFA (GenEval 2): the probability of the right answer to each question, at the first token of the reply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from titjudge.core import item_meta
from titjudge.core.answer_probabilities import Probability, tokens_by_choice
from titjudge.core.errors import Unanswered, unknown
from titjudge.core.score_parts import Bounds
from titjudge.core.types import Ask, Item, Json, Reply, Score, Status, Values
from titjudge.core.words import NUMBER_WORDS
from titjudge.metrics import metric
from titjudge.metrics._shared import (
    UNREADABLE,
    Mass,
    all_answers,
    checked_meta,
    gather_answers,
    image_of,
    mass_of,
    unread_kinds,
    unreadable,
    yes_or_no,
)
from titjudge.metrics.answer_rules import RULES, VisualQuestion


def _known_rule(name: str) -> str:
    if name not in RULES:
        raise ValueError(unknown("answer rule", name, RULES))
    return name


class Asking(BaseModel):
    """How questions are put to a judge, and how its replies become a score.

    Attributes:
        template: The prompt. Its variables are `prompt`, `fields` (the other columns of the prompt) and `question`, or,
            if all questions go into one request, `questions` (objects with question, category and most).
        each: One request for each question, or one for each image.
        answer: The rule that parses a reply (`answer_rules`).
        tries: Maximum number of requests for a question whose reply cannot be parsed.
        max_tokens: Maximum number of tokens of a reply.
        max_tokens_again: The same for further requests of a question, each made if the reply before it was cut.
        repetition_penalty: Penalty of tokens that were written already; null leaves it to the model.
        accept_empty: A reply without a word is read by the rule; if not, it is kept as `unparsed`.
        temperature: Sampling temperature; null leaves it to the model.
        unanswered: An image with an unanswered question has no score ("none"), or the mean of the others ("skip"), if the
            judge refused or its reply cannot be parsed; a reply that stays cut leaves the image without a score.
        parents: A question with a parent answered "no" counts as "no": by the parents' own answers ("direct"), or by
            their counted ones, so that a "no" passes down the tree ("chained").
        image: The score of an image is the mean of its answers, or 1 if every answer is the best one and otherwise 0.
    """

    model_config = ConfigDict(extra="forbid")

    template: str = "questions/yes_no"
    each: Literal["question", "image"] = "question"
    answer: Annotated[str, AfterValidator(_known_rule)] = "yes-no"
    tries: int = Field(default=1, ge=1, le=20)
    max_tokens: int = Field(default=512, ge=1)
    max_tokens_again: list[Annotated[int, Field(ge=1)]] = []
    repetition_penalty: float | None = Field(default=None, gt=0)
    accept_empty: bool = False
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    unanswered: Literal["none", "skip"] = "none"
    parents: Literal["direct", "chained"] = "direct"
    image: Literal["mean", "all"] = "mean"


class Asked(Asking):
    """The questions of one image (`item.meta["asked"]`) and how they are asked."""

    questions: list[VisualQuestion] = Field(min_length=1, max_length=500)


def has_questions(item: Item) -> bool:
    """Return True if the data set has questions about the item."""
    return item_meta.ASKED.is_in(item)


def questions_of(item: Item) -> tuple[Asked, Json]:
    """Return the questions of an item, and the template's variables that are the same for all of them.

    Raises:
        Unanswered: The item has no image, or its questions do not validate.
    """
    image_of(item)
    asked = checked_meta(Asked, item_meta.ASKED.get(item), "questions")
    return asked, {"prompt": item.prompt, "fields": item_meta.without(item, item_meta.ASKED)}


def answer_rows(
    questions: Sequence[VisualQuestion], answers: Sequence[float | None], counted: Sequence[float | None]
) -> list[Json]:
    """Return the parts of a score for each question: its answer, and its value."""
    return [
        {"question": question.question, "category": question.category, "answer": answer, "counted": count}
        for question, answer, count in zip(questions, answers, counted, strict=True)
    ]


@metric(
    "questions",
    roles=("judge",),
    range=(0, 1),
    version="3",  # 2 did not read sentences such as "No dog is visible.", and asked nothing again
    source="the suite's own (its YAML file)",
    needs=("asked",),
    applies=has_questions,
)
async def questions(item: Item, ask: Ask) -> Score:
    """Weighted mean of a judge's answers to the questions that come with a prompt, with the wording of its suite.

    `item.meta["asked"]` is an `Asked`; suites of YAML files make it.
    """
    asked, shared = questions_of(item)
    together = asked.each == "image"
    batches = [asked.questions] if together else [[question] for question in asked.questions]
    replies = await gather_answers(*(_answers(item, ask, asked, batch, shared) for batch in batches))
    _check_missing(asked, replies)
    answers: list[float | None] = []
    for batch, reply in zip(batches, replies, strict=True):
        answers += [None] * len(batch) if isinstance(reply, Unanswered) else reply
    counted = after_parents(asked, answers)
    mean = weighted_mean(asked.questions, counted)
    rows = answer_rows(asked.questions, answers, counted)
    return Score.of(float(mean == 1) if asked.image == "all" else mean, questions=rows)


def _check_missing(asked: Asked, replies: Sequence[list[float] | Unanswered]) -> None:
    """Check that enough questions have an answer.

    Raises:
        Unanswered: None has one, or one has none that the suite does not skip.
    """
    missing = [reply for reply in replies if isinstance(reply, Unanswered)]
    fatal = [reply for reply in missing if asked.unanswered == "none" or reply.status not in UNREADABLE]
    if fatal or len(missing) == len(replies):
        worst = (fatal or missing)[0]
        share = "" if len(replies) == 1 else f"{len(missing)} of {len(replies)} questions without an answer; "
        raise Unanswered(worst.status, f"{share}{worst.reason}", worst.reply, parts=unread_kinds(missing))


async def _answers(item: Item, ask: Ask, asked: Asked, batch: Sequence[VisualQuestion], shared: Values) -> list[float]:
    """Ask for the answers to a batch of questions, again if the reply cannot be parsed."""
    variables = dict(shared)
    if asked.each == "question":
        variables["question"] = batch[0].question
    else:
        variables["questions"] = [question.model_dump(include={"question", "category", "most"}) for question in batch]
    for attempt in range(asked.tries):
        reply = await _uncut(item, ask, asked, attempt, RULES[asked.answer].write(batch), variables)
        answers = RULES[asked.answer].read(reply.text, batch)
        if answers:
            return answers
        if answers is not None:  # [] is a reply that the published script does not ask for again
            break
    if asked.answer == "yes-no" and asked.each == "question":
        return [float(await yes_or_no(item, ask, "judge", reply, batch[0].question, {"max_tokens": asked.max_tokens}))]
    raise unreadable(reply, f"not what the rule '{asked.answer}' reads")


async def _uncut(item: Item, ask: Ask, asked: Asked, attempt: int, planned: str, variables: Values) -> Reply:
    """Ask once, and again with the next limit for as long as the reply is cut."""
    options = {"temperature": asked.temperature, "repetition_penalty": asked.repetition_penalty}
    sampling = {name: value for name, value in options.items() if value is not None}
    *limits, last = asked.max_tokens, *asked.max_tokens_again

    async def put(limit: int) -> Reply:
        params = {"max_tokens": limit, **sampling}
        return await ask(
            asked.template,
            role="judge",
            images=[image_of(item)],
            params=params,
            sample=attempt,
            accept_empty=asked.accept_empty,
            planned=planned,
            **variables,
        )

    for limit in limits:
        try:
            return await put(limit)
        except Unanswered as failure:
            if failure.status is not Status.TRUNCATED:
                raise
    return await put(last)


def after_parents(asked: Asked, answers: Sequence[float | None]) -> list[float | None]:
    """Count as "no" (0) every question with a parent that was answered "no".

    Raises:
        Unanswered: A parent does not exist.
    """
    counted = list(answers)
    index = {question.id: i for i, question in enumerate(asked.questions)}
    for i, question in enumerate(asked.questions):
        for parent in question.parents:
            if parent not in index:
                reason = f"question {question.id} has the parent {parent}, which does not exist"
                raise Unanswered(Status.BAD_INPUT, reason)
            if (counted if asked.parents == "chained" else answers)[index[parent]] == 0:
                counted[i] = 0.0
                break
    return counted


def weighted_mean(questions: Sequence[VisualQuestion], answers: Sequence[float | None]) -> float:
    """Compute the weighted mean of the answers that are not None, each as a share of the best answer."""
    shares = [(q.weight, answer / q.most) for q, answer in zip(questions, answers, strict=True) if answer is not None]
    return sum(weight * share for weight, share in shares) / sum(weight for weight, _ in shares)


_NUMBERS = NUMBER_WORDS[:10]
_OTHERS = [  # further numbers that may be the answer to "How many"
    *("zero", "no", "none", *NUMBER_WORDS[10:], "dozen", "several", "many"),
    *map(str, range(21)),
]


def tokens_of(question: VisualQuestion, *, official: bool) -> list[str]:
    """List the tokens that count as the right answer: its spellings, and for a "How many" question also the digits.

    The official script takes the first token of each spelling: for a digit after a space that is the space alone, in
    its model's vocabulary, and for a count above ten it uses the word "other" instead of the digits.
    """
    if not question.question.startswith("How many"):
        spellings = ["Yes", "yes"] if official else ["Yes", "yes", "YES"]
        return [blank + spelling for blank in ("", " ") for spelling in spellings]
    word = question.answer
    digits = str(_NUMBERS.index(word) + 1) if word in _NUMBERS else "other"
    words = [blank + spelling for blank in ("", " ") for spelling in dict.fromkeys([word, word.capitalize()])]
    if official:
        return [*words, digits, " " if digits != "other" else " other"]
    return [*words, digits, f" {digits}"] if digits != "other" else words


def choices_of(question: VisualQuestion, *, official: bool) -> dict[str, list[str]]:
    """List the tokens of the right answer, and of the other possible answers."""
    right = tokens_of(question, official=official)
    others = (*_NUMBERS, *_OTHERS) if question.question.startswith("How many") else ("No",)
    spellings = tokens_by_choice(others).values()
    return {"right": right, "other": [token for tokens in spellings for token in tokens if token not in right]}


@metric(
    "soft-tifa",
    roles=("judge",),
    range=(0, 1),
    version="2",  # 1 scored whatever the model began with
    source="GenEval 2, arXiv 2512.16853; evaluation.py @a6e82d2",
    needs=("asked",),
    applies=has_questions,
)
async def soft_tifa(item: Item, ask: Ask) -> Score:
    """Soft-TIFA: how likely the right answers to the questions on a prompt are, as their geometric mean.

    `item.meta["asked"]` is as for `questions`. Parts: am (the arithmetic mean), mass (the least probability that the
    possible answers to a question have) and questions. If only the likeliest tokens are known, the others count as 0,
    and lower and upper bound the geometric mean.
    """
    asked, variables = questions_of(item)
    official = ask.protocol == "official"

    async def probability(question: VisualQuestion) -> tuple[Probability, Mass]:
        choices = choices_of(question, official=official)
        reply = await ask(
            asked.template,
            role="judge",
            images=[image_of(item)],
            choices=choices,
            question=question.question,
            **variables,
        )
        return reply.probabilities["right"], mass_of(reply, official=official)

    right, masses = zip(*await all_answers(*map(probability, asked.questions)), strict=True)
    lower, upper = zip(*right, strict=True)
    least = min(masses)
    value, most = geometric_mean(lower), geometric_mean(upper)
    bounds: Json = {**Bounds(lower=value, upper=most)} if most > value else {}
    rows = answer_rows(asked.questions, lower, lower)
    return Score.of(value, reason=least.warning, am=sum(lower) / len(lower), mass=least.share, questions=rows, **bounds)


def geometric_mean(values: Sequence[float]) -> float:
    """Compute the geometric mean; one zero makes it zero."""
    return math.exp(sum(map(math.log, values)) / len(values)) if all(values) else 0.0
