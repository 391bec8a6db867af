"""TIIF-Bench (paper, 3.2, 3.3 and A3.1): concepts from two pools become a short and a long prompt with yes / no questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import Whole
from titjudge.core.types import Ask, Item, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import is_stand_in
from titjudge.metrics.recipes._drafts import (
    DRAFTS,
    IN_ENGLISH,
    Draft,
    drafted,
    filler,
    keeps,
    not_english,
    numbered,
    words,
)
from titjudge.metrics.recipes.seeds import POOL_TASKS, TIIF_TYPES

CONCEPTS_KEPT = "every concept kept"
QUESTION_CHECKS = ("a question for each concept", "some answers no", "answers hold for the text")
_LONGER = 1.5  # times the words of the short prompt, at least
_MOST_SHORT = 40  # words


class Sentence(Draft):
    """What is answered to `recipes/tiif_short`."""

    prompt: str = Field(min_length=1)


class Question(Draft):
    """A question about an image of the prompt, and its gold answer."""

    concept: Whole = Field(ge=1)
    question: str = Field(min_length=1)
    answer: Literal["yes", "no"]


class Questions(Draft):
    """What is answered to `recipes/tiif_questions`."""

    questions: list[Question] = Field(min_length=1, max_length=30)


class Answers(Draft):
    """What is answered to `recipes/answer_from_text`."""

    answers: list[Literal["yes", "no", "unsaid"]]


@metric("tiif", roles=("judge",), range=(0, 1), source="TIIF-Bench paper, 3.2, 3.3; A3.1 quoted, other templates ours")
async def tiif(item: Item, ask: Ask) -> Score:
    """Write a short and a long prompt of the same concepts, and yes / no questions with gold answers, some of them no."""
    concepts, kind = [str(each) for each in item.meta["concepts"]], str(item.meta["type"])

    def wrong(text: str) -> list[str]:
        return [*unsaid_concepts(text, concepts), *not_english(text)]

    def check_short(draft: Sentence) -> list[str]:
        count = len(words(draft.prompt))
        return wrong(draft.prompt) + ([f"it has {count} words, more than {_MOST_SHORT}"] if count > _MOST_SHORT else [])

    short = (
        await drafted(
            ask,
            "recipes/tiif_short",
            Sentence,
            check_short,
            {"prompt": filler(item, 15)},
            kind=meta_prompt(kind),
            concepts=numbered(concepts),
        )
    ).prompt
    long = await _longer(item, ask, short, wrong)

    made = await checked_questions(ask, [short, long], concepts)
    shared = {
        "type": kind,
        "concepts": concepts,
        "questions": [each.question for each in made.questions],
        "gold_answers": [each.answer for each in made.questions],
        "checks": [CONCEPTS_KEPT, IN_ENGLISH, *QUESTION_CHECKS],
    }
    lines = [
        {"prompt_id": f"{item.prompt_id}_{length}", "prompt": text, "length": length, "pair": item.prompt_id, **shared}
        for length, text in (("short", short), ("long", long))
    ]
    return Score.of(1, lines=lines)


def meta_prompt(kind: str) -> str:
    """Say what the prompts of a combination of pools are about; a combination that is not TIIF-Bench's is its name alone."""
    tasks = [POOL_TASKS[pool] for pool in dict.fromkeys(TIIF_TYPES.get(kind, ()))]
    return f"{kind}: {'; '.join(tasks)}" if tasks else kind


def unsaid_concepts(text: str, concepts: Sequence[str]) -> list[str]:
    """Name the concepts that a prompt does not say in any form of their words."""
    return [f"it does not say '{concept}'" for concept in concepts if not keeps(text, concept)]


async def _longer(item: Item, ask: Ask, short: str, wrong: Callable[[str], list[str]]) -> str:
    problems: Sequence[str] = ()
    for attempt in range(DRAFTS):
        reply = await ask("recipes/tiif_long", role="judge", sample=attempt, prompt=short)
        text = " ".join(reply.text.split())
        if is_stand_in(ask, reply):
            return filler(item, 60)
        problems = wrong(text)
        if len(words(text)) < _LONGER * len(words(short)):
            problems = [*problems, f"it is shorter than {_LONGER} times the short one"]
        if not problems:
            return text
    raise Unanswered(Status.UNPARSED, f"{DRAFTS} long versions failed their checks: {'; '.join(problems)}", reply)


async def checked_questions(ask: Ask, texts: Sequence[str], concepts: Sequence[str]) -> Questions:
    """Write yes / no questions about the first text, at least one for each concept, whose answers all texts give."""

    async def check_questions(draft: Questions) -> list[str]:
        asked = {each.concept for each in draft.questions}
        if extra := sorted(asked - set(range(1, len(concepts) + 1))):
            return [f"there is no concept {extra[0]}"]
        if left := [concept for number, concept in enumerate(concepts, 1) if number not in asked]:
            return [f"no question is about '{left[0]}'"]
        if all(each.answer == "yes" for each in draft.questions):
            return ["no question has the answer no"]
        return [problem for text in texts for problem in await _contradicted(ask, text, draft)]

    made = await drafted(
        ask, "recipes/tiif_questions", Questions, check_questions, {}, prompt=texts[0], concepts=numbered(concepts)
    )
    if ask.dry_run is not None:
        for text in texts:
            await _contradicted(ask, text, made)
    return made


async def _contradicted(ask: Ask, text: str, made: Questions) -> list[str]:
    """Name the questions whose gold answer the text itself does not give."""
    questions = numbered(each.question for each in made.questions)
    reply = await ask("recipes/answer_from_text", role="judge", schema=Answers, prompt=text, questions=questions)
    given = reply.data.answers
    if len(given) != len(made.questions):
        return [f"{len(given)} answers came to {len(made.questions)} questions"]
    return [
        f"'{each.question}' is answered {answer} from the text, not {each.answer}"
        for each, answer in zip(made.questions, given, strict=True)
        if answer != each.answer
    ]
