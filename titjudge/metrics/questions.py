"""Questions that the data bring along, asked of a judge one by one or all in one request; the score is their weighted mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import first_problem
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._questions import unreadable
from titjudge.metrics._shared import gather_answers, image_of, is_stand_in
from titjudge.metrics.answer_rules import RULES, Question

_SKIPPED = (Status.REFUSED, Status.TRUNCATED, Status.UNPARSED)  # anything else is asked again by the next run


def _known_rule(name: str) -> str:
    if name not in RULES:
        raise ValueError(f"there is no answer rule '{name}': {', '.join(RULES)}")
    return name


class Asking(BaseModel):
    """How questions are put to a judge, and what becomes of its replies.

    Attributes:
        template: The prompt. It is given `prompt`, `fields` (what else is known of the prompt) and `question` (its words),
            or, where all are asked in one request, `questions` (question, category, ...).
        each: One request for each question, or one for each image.
        answer: The rule that reads a reply.
        tries: How often a reply that cannot be read is asked for again, in all.
        max_tokens: Most tokens of a reply.
        temperature: Sampling temperature; null leaves it to the model.
        unanswered: An image with a question without an answer has no score ("none"), or the mean of the others ("skip").
        parents: A question whose parents were answered "no" counts as "no": by the parents' own answers ("direct"), or so
            that a zero is handed down in the order of the questions ("chained").
        image: The score of an image is the mean of its answers, or 1 where all of them are the best and else 0.
    """

    model_config = ConfigDict(extra="forbid")

    template: str = "questions/yes_no"
    each: Literal["question", "image"] = "question"
    answer: Annotated[str, AfterValidator(_known_rule)] = "yes-no"
    tries: int = Field(default=1, ge=1, le=20)
    max_tokens: int = Field(default=512, ge=1)
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    unanswered: Literal["none", "skip"] = "none"
    parents: Literal["direct", "chained"] = "direct"
    image: Literal["mean", "all"] = "mean"


class Asked(Asking):
    """The questions of one image (`item.meta["asked"]`) and how they are asked."""

    questions: list[Question] = Field(min_length=1, max_length=500)


def has_questions(item: Item) -> bool:
    """Whether questions come with the item."""
    return "asked" in item.meta


@metric(
    "questions",
    roles=("judge",),
    range=(0, 1),
    source="the suite's own (its YAML file)",
    needs=("asked",),
    applies=has_questions,
)
async def questions(item: Item, ask: Ask) -> Score:
    """Weighted mean of a judge's answers to the questions that come with a prompt, asked as its suite says.

    `item.meta["asked"]` is an `Asked`; suites of YAML files make it.
    """
    image_of(item)
    try:
        asked = Asked.model_validate(item.meta.get("asked"))
    except ValidationError as error:
        return Score.none(Status.BAD_INPUT, f"the item's questions: {first_problem(error)}")
    together = asked.each == "image"
    batches = [asked.questions] if together else [[question] for question in asked.questions]
    replies = await gather_answers(*(_answers(item, ask, asked, batch) for batch in batches))
    missing = [reply for reply in replies if isinstance(reply, Unanswered)]
    fatal = [each for each in missing if asked.unanswered == "none" or each.status not in _SKIPPED]
    if fatal or len(missing) == len(replies):
        worst = (fatal or missing)[0]
        counted = "" if len(replies) == 1 else f"{len(missing)} of {len(replies)} questions without an answer; "
        raise Unanswered(worst.status, f"{counted}{worst.reason}", worst.reply)
    answers: list[float | None] = []
    for batch, reply in zip(batches, replies, strict=True):
        answers += [None] * len(batch) if isinstance(reply, Unanswered) else reply
    counted_answers = after_parents(asked, answers)
    shown = [
        {"question": question.question, "category": question.category, "answer": answer, "counted": counted}
        for question, answer, counted in zip(asked.questions, answers, counted_answers, strict=True)
    ]
    mean = weighted_mean(asked.questions, counted_answers)
    return Score.of(float(mean == 1) if asked.image == "all" else mean, questions=shown)


async def _answers(item: Item, ask: Ask, asked: Asked, batch: Sequence[Question]) -> list[float]:
    fields = {key: value for key, value in item.meta.items() if key != "asked"}
    given: dict[str, Any] = {"prompt": item.prompt, "fields": fields}
    if asked.each == "question":
        given["question"] = batch[0].question
    else:
        given["questions"] = [question.model_dump(include={"question", "category", "most"}) for question in batch]
    params: dict[str, Any] = {"max_tokens": asked.max_tokens}
    if asked.temperature is not None:
        params["temperature"] = asked.temperature
    for attempt in range(asked.tries):
        reply = await ask(asked.template, role="judge", images=[image_of(item)], params=params, sample=attempt, **given)
        found = RULES[asked.answer](reply.text, batch)
        if found:
            return found
        if is_stand_in(ask, reply):
            return [0.0] * len(batch)
        if found is not None:
            break
    raise unreadable(reply, f"not what the rule '{asked.answer}' reads")


def after_parents(asked: Asked, answers: Sequence[float | None]) -> list[float | None]:
    """Set to zero what makes no sense, because a parent was answered "no".

    Raises:
        Unanswered: a parent does not exist.
    """
    counted = list(answers)
    places = {question.id: place for place, question in enumerate(asked.questions)}
    for place, question in enumerate(asked.questions):
        for parent in question.parents:
            if parent not in places:
                reason = f"question {question.id} has the parent {parent}, which does not exist"
                raise Unanswered(Status.BAD_INPUT, reason)
            if (counted if asked.parents == "chained" else answers)[places[parent]] == 0:
                counted[place] = 0.0
                break
    return counted


def weighted_mean(asked: Sequence[Question], answers: Sequence[float | None]) -> float:
    """Average the answers that there are, each as a share of the best one."""
    given = [
        (each.weight, answer / each.most) for each, answer in zip(asked, answers, strict=True) if answer is not None
    ]
    return sum(weight * share for weight, share in given) / sum(weight for weight, _ in given)
