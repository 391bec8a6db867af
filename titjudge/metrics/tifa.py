"""TIFA: multiple-choice questions on the elements of a prompt (ICCV 2023; github.com/Yushi-Hu/tifa).

The judge writes the questions, once for each prompt; the captioner model answers each about the image. The words of the
requests are ours; their forms and the aggregation are TIFA's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._questions import (
    MOST_QUESTIONS,
    QuestionModel,
    all_answers,
    ask_captioner,
    ready_questions,
    unreadable,
    write_questions,
)
from titjudge.metrics._shared import image_of, is_stand_in

_LETTER = re.compile(r"\W*(?:[Aa]nswer\s*:)?\W*([A-J])(?:[).:,]|\W*$|\s+(.*)$)")
_KIND = Literal[
    "object", "human", "animal", "food", "activity", "attribute", "counting", "color", "material", "spatial", "location",
    "shape", "other",
]  # fmt: skip
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
            raise ValueError(f"the choices of '{self.question}' are not different texts")
        if plain(self.answer) not in choices:
            raise ValueError(f"the answer to '{self.question}' is none of its choices")
        return self


class Quiz(QuestionModel):
    """What the judge answers to `tifa/questions`; questions without one right answer are dropped, and counted."""

    questions: list[DraftQuestion] = Field(min_length=1, max_length=MOST_QUESTIONS)


def usable(drafts: Sequence[DraftQuestion]) -> list[ChoiceQuestion]:
    """Keep the questions whose choices differ and hold the answer."""
    found = []
    for draft in drafts:
        try:
            found.append(ChoiceQuestion.model_validate(draft.model_dump()))
        except ValidationError:
            continue
    return found


class _ReadyQuiz(QuestionModel):
    questions: list[ChoiceQuestion] = Field(min_length=1, max_length=MOST_QUESTIONS)


def plain(text: str) -> str:
    """Write a choice as it is compared: case, outer signs and runs of blanks do not count."""
    return re.sub(r"\s+", " ", text.casefold()).strip(" .,;:!?'\"()*`")


def read_choice(text: str, choices: Sequence[str]) -> int | None:
    """Which choice an answer names, by its letter or its words; None where it names none, or two by two readings.

    TIFA takes the nearest choice by sentence similarity instead; here nothing is guessed.
    """
    said = after_thinking(text).strip()
    words = plain(said.split("\n", 1)[0])
    by_words = [n for n, choice in enumerate(choices) if plain(choice) == words]
    match = _LETTER.match(said.split("\n", 1)[0])
    by_letter = [ord(match[1]) - ord("A")] if match else []
    found = {
        *by_words,
        *(n for n in by_letter if n < len(choices) and _agrees(match[2] if match else None, choices[n])),
    }
    return found.pop() if len(found) == 1 else None


def _agrees(rest: str | None, choice: str) -> bool:
    """Whether what follows a letter without a sign between them is the choice itself ("A dog" is no choice A)."""
    return rest is None or plain(rest) == plain(choice)


@metric(
    "tifa",
    roles=("judge", "captioner"),
    range=(0, 1),
    source="TIFA, github.com/Yushi-Hu/tifa @906437f; prompts ours, without its question filter and its SBERT matching",
)
async def tifa(item: Item, ask: Ask) -> Score:
    """TIFA: fraction of multiple-choice questions about the prompt's elements that the image answers as the prompt does.

    `item.meta["tifa"]` may hold ready questions, [{"question", "choices", "answer", "type"}, ...].
    """
    image_of(item)
    questions, dropped = await _quiz(item, ask)

    async def answer(question: ChoiceQuestion) -> str:
        asked = {"question": question.question, "choices": question.choices}
        reply = await ask_captioner(item, ask, "tifa/answer", **asked)
        chosen = read_choice(reply.text, question.choices)
        if chosen is None and not is_stand_in(ask, reply):
            raise unreadable(reply, "none of the choices")
        return question.choices[chosen or 0]

    answers = await all_answers(*map(answer, questions))
    right = [plain(answer) == plain(each.answer) for each, answer in zip(questions, answers, strict=True)]
    shown = [
        {**each.model_dump(), "chosen": answer, "right": hit}
        for each, answer, hit in zip(questions, answers, right, strict=True)
    ]
    return Score.of(sum(right) / len(right), by_type=by_type(questions, right), dropped=dropped, questions=shown)


def by_type(questions: Sequence[ChoiceQuestion], right: Sequence[bool]) -> dict[str, float]:
    """Compute the fraction of right answers for each type of question; humans and animals are one type, as in TIFA's tables."""
    hits: dict[str, list[bool]] = {}
    for question, hit in zip(questions, right, strict=True):
        hits.setdefault(_MERGED.get(question.type, question.type), []).append(hit)
    return {kind: sum(each) / len(each) for kind, each in sorted(hits.items())}


async def _quiz(item: Item, ask: Ask) -> tuple[list[ChoiceQuestion], int]:
    """Return the questions, and how many were dropped."""
    ready = ready_questions(item, "tifa", _ReadyQuiz)
    if ready is not None:
        return ready.questions, 0
    quiz, expected = await write_questions(item, ask, "tifa/questions", Quiz)
    if expected:
        choices = ["one", "two", "three", "four"]
        return [ChoiceQuestion(question=f"planned {n}", choices=choices, answer="one") for n in range(expected)], 0
    questions = usable(quiz.questions)
    if not questions:
        raise Unanswered(Status.UNPARSED, "none of the judge's questions has one right answer among its choices")
    return questions, len(quiz.questions) - len(questions)
