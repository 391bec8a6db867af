"""Questions from a prompt, answers from an image: DSG (yes/no with dependencies) and TIFA (multiple choice).

The judge writes the questions, once for each prompt; the captioner model answers each about the image, without seeing the
prompt. Sources: github.com/j-min/DSG (ICLR 2024) and github.com/Yushi-Hu/tifa (ICCV 2023). The words of the requests for
questions are ours; forms, aggregation and DSG's request for an answer are theirs. An answer that cannot be read is no "no"
here: the item has then no score.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import Whole, after_thinking
from titjudge.core.types import Ask, Item, Reply, Score, Status
from titjudge.metrics import metric

MOST = 100  # questions of one prompt
_ANSWER_TOKENS = 20  # as DSG allows
_WORDS_A_QUESTION = 4  # of a prompt, for price estimates
_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_LETTER = re.compile(r"\W*(?:[Aa]nswer\s*:)?\W*([A-J])(?:[).:,]|\W*$|\s+(.*)$)")
_KIND = Literal[
    "object", "human", "animal", "food", "activity", "attribute", "counting", "color", "material", "spatial", "location",
    "shape", "other",
]  # fmt: skip
_MERGED = {"human": "animal/human", "animal": "animal/human"}


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


# -- DSG ---------------------------------------------------------------------------------------------------------------


class SceneQuestion(_Model):
    """One fact of a prompt as a question; `parents` are the facts without which it makes no sense."""

    id: Whole = Field(ge=1)
    tuple: str = ""
    question: str = Field(min_length=1)
    parents: list[Whole] = Field(default_factory=list)


class SceneGraph(_Model):
    """What the judge answers to `dsg/questions`; a parent of 0 is DSG's way of saying that there is none."""

    questions: list[SceneQuestion] = Field(min_length=1, max_length=MOST)

    @model_validator(mode="after")
    def _consistent(self) -> SceneGraph:
        ids = [each.id for each in self.questions]
        if len(set(ids)) < len(ids):
            raise ValueError("two questions have the same id")
        parents = {each.id: [parent for parent in each.parents if parent != 0] for each in self.questions}
        for id_, above in parents.items():
            unknown = [parent for parent in above if parent not in parents]
            if unknown:
                raise ValueError(f"question {id_} has the parent {unknown[0]}, which does not exist")
        _refuse_circles(parents)
        return self


def _refuse_circles(parents: Mapping[int, Sequence[int]]) -> None:
    settled: set[int] = set()
    while len(settled) < len(parents):
        ready = {id_ for id_, above in parents.items() if id_ not in settled and settled.issuperset(above)}
        if not ready:
            circle = next(id_ for id_ in parents if id_ not in settled)
            raise ValueError(f"question {circle} depends on itself by way of its parents")
        settled |= ready


def valid_questions(yes: Mapping[int, bool], parents: Mapping[int, Sequence[int]]) -> dict[int, bool]:
    """Whether a question makes sense: none of its direct parents was answered "no".

    DSG's rule (`calc_vqa_score`): the parents' own answers count, whether or not they make sense themselves; parent 0 is
    the root.
    """
    return {id_: all(parent == 0 or yes[parent] for parent in parents.get(id_, ())) for id_ in yes}


def dsg_score(yes: Mapping[int, bool], parents: Mapping[int, Sequence[int]]) -> tuple[float, float]:
    """(with dependencies, without): the fraction of questions answered "yes", a question with a "no" above it being a "no".

    Raises:
        ValueError: there are no questions (upstream says 0.0).
    """
    if not yes:
        raise ValueError("no questions, no score")
    valid = valid_questions(yes, parents)
    return sum(yes[id_] and valid[id_] for id_ in yes) / len(yes), sum(yes.values()) / len(yes)


def read_yes_no(text: str) -> bool | None:
    """True, False, or None where an answer starts with neither yes nor no (any case, signs before it ignored)."""
    match = _YES_NO.match(after_thinking(text))
    return None if match is None else match[1].lower() == "yes"


@metric(
    "dsg",
    roles=("judge", "captioner"),
    range=(0, 1),
    source="DSG, github.com/j-min/DSG @2fdce11; dsg/questions ours, dsg/answer theirs",
)
async def dsg(item: Item, ask: Ask) -> Score:
    """Davidsonian Scene Graph: fraction of yes/no questions about the prompt's facts that hold; a child of a "no" does not.

    `item.meta["dsg"]` may hold ready questions, [{"id", "question", "parents"}, ...]; else the judge writes them.
    """
    if item.image is None:
        return Score.none(Status.BAD_INPUT, "this metric needs an image")
    image = item.image
    graph = await _scene_graph(item, ask)
    if isinstance(graph, Score):
        return graph

    async def one(question: SceneQuestion) -> bool:
        reply = await ask(
            "dsg/answer",
            role="captioner",
            images=[image],
            params={"max_tokens": _ANSWER_TOKENS},
            accept_truncated=True,
            question=question.question,
        )
        answer = read_yes_no(reply.text)
        if answer is None and reply.model_version != "estimate":
            raise Unanswered(Status.UNPARSED, f"the answer is neither yes nor no: {reply.text[:60]!r}", reply)
        return bool(answer)

    answers = await _all([one(each) for each in graph.questions])
    if isinstance(answers, Score):
        return answers
    yes = {each.id: answer for each, answer in zip(graph.questions, answers, strict=True)}
    parents = {each.id: each.parents for each in graph.questions}
    value, plain = dsg_score(yes, parents)
    valid = valid_questions(yes, parents)
    shown = [{**each.model_dump(), "yes": yes[each.id], "valid": valid[each.id]} for each in graph.questions]
    return Score.of(value, without_dependencies=plain, questions=shown)


async def _scene_graph(item: Item, ask: Ask) -> SceneGraph | Score:
    ready = item.meta.get("dsg")
    if ready is not None:
        try:
            return SceneGraph.model_validate({"questions": ready})
        except ValidationError as error:
            return Score.none(Status.BAD_INPUT, f"the item's dsg questions: {_first(error)}")
    reply = await ask("dsg/questions", role="judge", schema=SceneGraph, params=_QUESTION_PARAMS, prompt=item.prompt)
    graph: SceneGraph = reply.data
    planned = _planned(reply, item.prompt)
    if planned:
        return SceneGraph(questions=[SceneQuestion(id=n + 1, question=f"planned {n}") for n in range(planned)])
    return graph


# -- TIFA --------------------------------------------------------------------------------------------------------------


class DraftQuestion(_Model):
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


class Quiz(_Model):
    """What the judge answers to `tifa/questions`; questions without one right answer are dropped, and counted."""

    questions: list[DraftQuestion] = Field(min_length=1, max_length=MOST)


def usable(drafts: Sequence[DraftQuestion]) -> list[ChoiceQuestion]:
    """The questions whose choices differ and hold the answer."""
    found = []
    for draft in drafts:
        try:
            found.append(ChoiceQuestion.model_validate(draft.model_dump()))
        except ValidationError:
            continue
    return found


class _ReadyQuiz(_Model):
    questions: list[ChoiceQuestion] = Field(min_length=1, max_length=MOST)


def plain(text: str) -> str:
    """A choice as it is compared: case, outer signs and runs of blanks do not count."""
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
    if item.image is None:
        return Score.none(Status.BAD_INPUT, "this metric needs an image")
    image = item.image
    quiz = await _quiz(item, ask)
    if isinstance(quiz, Score):
        return quiz
    questions, dropped = quiz

    async def one(question: ChoiceQuestion) -> str:
        reply = await ask(
            "tifa/answer",
            role="captioner",
            images=[image],
            params={"max_tokens": _ANSWER_TOKENS},
            accept_truncated=True,
            question=question.question,
            choices=question.choices,
        )
        chosen = read_choice(reply.text, question.choices)
        if chosen is None and reply.model_version == "estimate":
            chosen = 0
        if chosen is None:
            raise Unanswered(Status.UNPARSED, f"the answer is none of the choices: {reply.text[:60]!r}", reply)
        return question.choices[chosen]

    answers = await _all([one(each) for each in questions])
    if isinstance(answers, Score):
        return answers
    right = [plain(answer) == plain(each.answer) for each, answer in zip(questions, answers, strict=True)]
    shown = [
        {**each.model_dump(), "chosen": answer, "right": hit}
        for each, answer, hit in zip(questions, answers, right, strict=True)
    ]
    return Score.of(sum(right) / len(right), by_type=by_type(questions, right), dropped=dropped, questions=shown)


def by_type(questions: Sequence[ChoiceQuestion], right: Sequence[bool]) -> dict[str, float]:
    """The fraction of right answers for each type of question; humans and animals are one type, as in TIFA's tables."""
    hits: dict[str, list[bool]] = {}
    for question, hit in zip(questions, right, strict=True):
        hits.setdefault(_MERGED.get(question.type, question.type), []).append(hit)
    return {kind: sum(each) / len(each) for kind, each in sorted(hits.items())}


async def _quiz(item: Item, ask: Ask) -> tuple[list[ChoiceQuestion], int] | Score:
    """The questions, and how many were dropped."""
    ready = item.meta.get("tifa")
    if ready is not None:
        try:
            return _ReadyQuiz.model_validate({"questions": ready}).questions, 0
        except ValidationError as error:
            return Score.none(Status.BAD_INPUT, f"the item's tifa questions: {_first(error)}")
    reply = await ask("tifa/questions", role="judge", schema=Quiz, params=_QUESTION_PARAMS, prompt=item.prompt)
    planned = _planned(reply, item.prompt)
    if planned:
        choices = ["one", "two", "three", "four"]
        return [ChoiceQuestion(question=f"planned {n}", choices=choices, answer="one") for n in range(planned)], 0
    drafts: list[DraftQuestion] = reply.data.questions
    found = usable(drafts)
    if not found:
        return Score.none(Status.UNPARSED, "none of the judge's questions has one right answer among its choices")
    return found, len(drafts) - len(found)


# -- both --------------------------------------------------------------------------------------------------------------

_QUESTION_PARAMS = {"max_tokens": 4096}


def _planned(reply: Reply, prompt: str) -> int:
    """How many questions a dry run expects of a prompt (0 when this is none)."""
    if reply.model_version != "estimate":
        return 0
    return max(1, min(MOST, len(prompt.split()) // _WORDS_A_QUESTION + 2))


async def _all(questions: Sequence[Awaitable[Any]]) -> list[Any] | Score:
    """The answers in order; a Score without a value when one is missing. Everything else is raised."""
    found = await asyncio.gather(*questions, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, Unanswered):
            raise each
    missing = [(n, each) for n, each in enumerate(found, 1) if isinstance(each, Unanswered)]
    if not missing:
        return found
    number, first = missing[0]
    return Score.none(
        first.status, f"{len(missing)} of {len(found)} questions without an answer; {number}: {first.reason}"
    )


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc'])) or '(top)'}: {problem['msg']}"
