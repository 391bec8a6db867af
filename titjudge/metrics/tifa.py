"""TIFA: multiple-choice questions on the elements of a prompt (ICCV 2023; github.com/Yushi-Hu/tifa).

The judge writes the questions, once for each prompt; the captioner answers each of them about the image. The prompts
are ours; their output formats and the aggregation are TIFA's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.grouping import group_means
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Reply, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import (
    MOST_QUESTIONS,
    QuestionModel,
    captioner_answers,
    image_of,
    ready_questions,
    unreadable,
    write_questions,
)

_LETTER = re.compile(r"\W*(?:[Aa]nswer\s*:)?\W*([A-J])(?:[).:,]|\W*$|\s+(.*)$)")
_KIND = Literal[
    "object",
    "human",
    "animal",
    "food",
    "activity",
    "attribute",
    "counting",
    "color",
    "material",
    "spatial",
    "location",
    "shape",
    "other",
]
_MERGED = {"human": "animal/human", "animal": "animal/human"}


class DraftQuestion(QuestionModel):
    """A multiple-choice question as a model writes it."""

    element: str = ""
    type: _KIND = "other"
    question: str = Field(min_length=1)
    choices: list[str] = Field(min_length=2, max_length=10)
    answer: str


class ChoiceQuestion(DraftQuestion):
    """One multiple-choice question; its choices differ, and `answer` is one of them."""

    @model_validator(mode="after")
    def _consistent(self) -> ChoiceQuestion:
        choices = [plain(choice) for choice in self.choices]
        if len(set(choices)) < len(choices) or not all(choices):
            raise ValueError(f"the choices of '{self.question}' must be different texts")
        if plain(self.answer) not in choices:
            raise ValueError(f"the answer to '{self.question}' must be one of its choices")
        return self


class Quiz(QuestionModel):
    """What the judge answers to `tifa/questions`; questions without one right answer are dropped, and counted."""

    questions: list[DraftQuestion] = Field(min_length=1, max_length=MOST_QUESTIONS)


def usable(drafts: Sequence[DraftQuestion]) -> list[ChoiceQuestion]:
    """Keep the questions with different choices that include the answer."""
    questions = []
    for draft in drafts:
        with contextlib.suppress(ValidationError):
            questions.append(ChoiceQuestion.model_validate(draft.model_dump()))
    return questions


class _ReadyQuiz(QuestionModel):
    questions: list[ChoiceQuestion] = Field(min_length=1, max_length=MOST_QUESTIONS)


def plain(text: str) -> str:
    """Normalise a choice for comparison: lower case, single spaces, no punctuation around it."""
    return re.sub(r"\s+", " ", text.casefold()).strip(" .,;:!?'\"()*`")


def read_choice(text: str, choices: Sequence[str]) -> int | None:
    """Return the index of the choice that an answer names, by letter or words; None if it names none, or two.

    TIFA takes the nearest choice by sentence similarity instead; here nothing is guessed.
    """
    first_line = after_thinking(text).strip().split("\n", 1)[0]
    named = {n for n, choice in enumerate(choices) if plain(choice) == plain(first_line)}
    if match := _LETTER.match(first_line):
        letter, rest = ord(match[1]) - ord("A"), match[2]
        # Words right after a letter must be the choice itself: "A dog" does not name choice A.
        if letter < len(choices) and (rest is None or plain(rest) == plain(choices[letter])):
            named.add(letter)
    return named.pop() if len(named) == 1 else None


@metric(
    "tifa",
    roles=("judge", "captioner"),
    range=(0, 1),
    source="TIFA, github.com/Yushi-Hu/tifa @906437f; prompts ours, without its question filter and its SBERT matching",
)
async def tifa(item: Item, ask: Ask) -> Score:
    """TIFA: fraction of multiple-choice questions about the prompt's elements that the image answers as the prompt does.

    `item.meta["tifa"]` may have the questions, [{"question", "choices", "answer", "type"}, ...].
    """
    image_of(item)
    questions, dropped = await _quiz(item, ask)

    async def read(reply: Reply, question: ChoiceQuestion) -> int:
        place = read_choice(reply.text, question.choices)
        if place is None:
            raise unreadable(reply, "none of the choices")
        return place

    chosen = await captioner_answers(
        item, ask, "tifa/answer", questions, read, planned=lambda question: question.answer
    )
    answers = [question.choices[place] for question, place in zip(questions, chosen, strict=True)]
    right = [plain(answer) == plain(question.answer) for question, answer in zip(questions, answers, strict=True)]
    rows = [
        {**question.model_dump(), "chosen": answer, "right": hit}
        for question, answer, hit in zip(questions, answers, right, strict=True)
    ]
    return Score.of(sum(right) / len(right), by_type=by_type(questions, right), dropped=dropped, questions=rows)


def by_type(questions: Sequence[ChoiceQuestion], right: Sequence[bool]) -> dict[str, float]:
    """Compute the fraction of right answers by type; humans and animals are one type, as in TIFA's tables."""
    hits: dict[str, list[bool]] = {}
    for question, hit in zip(questions, right, strict=True):
        hits.setdefault(_MERGED.get(question.type, question.type), []).append(hit)
    return dict(sorted(group_means(hits).items()))


async def _quiz(item: Item, ask: Ask) -> tuple[list[ChoiceQuestion], int]:
    """Return the questions, and how many were dropped."""
    ready = ready_questions(item, item_meta.TIFA, _ReadyQuiz)
    if ready is not None:
        return ready.questions, 0
    planned = {"choices": ["one", "two", "three", "four"], "answer": "one"}
    quiz = await write_questions(item, ask, "tifa/questions", Quiz, planned)
    questions = usable(quiz.questions)
    if not questions:
        raise Unanswered(Status.UNPARSED, "none of the judge's questions has one right answer among its choices")
    return questions, len(quiz.questions) - len(questions)
