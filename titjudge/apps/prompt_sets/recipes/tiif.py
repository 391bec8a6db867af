"""TIIF-Bench (paper, 3.2, 3.3 and A3.1): a short and a long prompt on concepts of one or more pools, with questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from titjudge.apps.prompt_sets.recipes._drafts import (
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
from titjudge.apps.prompt_sets.recipes.seeds import POOL_TASKS, TIIF_TYPES
from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import Whole
from titjudge.core.types import Ask, Item, Json, Status
from titjudge.metrics import task

CONCEPTS_KEPT = "every concept kept"
QUESTION_CHECKS = ("a question for each concept", "some answers no", "answers hold for the text")
_LEAST_RATIO = 1.5  # least number of words of the long prompt, as a multiple of the short prompt's number
_MOST_SHORT = 40  # most words of the short prompt
_EXPECTED_WORDS = 60  # of the long prompt beyond the short one, as a dry run expects it


class Sentence(Draft):
    """What is answered to `recipes/tiif_short`."""

    prompt: str = Field(min_length=1)


class GoldQuestion(Draft, title="Question"):
    """A question about an image of the prompt, and its gold answer."""

    concept: Whole = Field(ge=1)
    question: str = Field(min_length=1)
    answer: Literal["yes", "no"]


class Questions(Draft):
    """What is answered to `recipes/tiif_questions`."""

    questions: list[GoldQuestion] = Field(min_length=1, max_length=30)


class TextAnswers(Draft, title="Answers"):
    """What is answered to `recipes/answer_from_text`."""

    answers: list[Literal["yes", "no", "unsaid"]]


@task("tiif", roles=("judge",), source="TIIF-Bench paper, 3.2, 3.3; A3.1 quoted, other templates ours")
async def tiif(item: Item, ask: Ask) -> list[Json]:
    """Write a short and a long prompt of the same concepts, and yes / no questions with gold answers, some of them no."""
    concepts, kind = [str(concept) for concept in item_meta.CONCEPTS.required(item)], str(item_meta.TYPE.required(item))

    def check(text: str) -> list[str]:
        return [*unsaid_concepts(text, concepts), *not_english(text)]

    def check_short(draft: Sentence) -> list[str]:
        count = len(words(draft.prompt))
        return check(draft.prompt) + ([f"it has {count} words, more than {_MOST_SHORT}"] if count > _MOST_SHORT else [])

    draft = await drafted(
        ask,
        "recipes/tiif_short",
        Sentence,
        check_short,
        {"prompt": f"{item.id}: see {' and '.join(concepts)}"},
        kind=meta_prompt(kind),
        concepts=numbered(concepts),
    )
    short = draft.prompt
    long = await _expanded(item, ask, short, check)
    questions = (await checked_questions(ask, [short, long], concepts)).questions
    shared = {
        "type": kind,
        "concepts": concepts,
        "questions": [question.question for question in questions],
        "gold_answers": [question.answer for question in questions],
        "checks": [CONCEPTS_KEPT, IN_ENGLISH, *QUESTION_CHECKS],
    }
    if written := [word for text in re.findall('"([^"]+)"', " ".join(concepts)) for word in text.split()]:
        shared["text_words"] = written
    lines = [
        {"prompt_id": f"{item.prompt_id}_{length}", "prompt": text, "length": length, "pair": item.prompt_id, **shared}
        for length, text in (("short", short), ("long", long))
    ]
    return lines


def meta_prompt(kind: str) -> str:
    """Write the meta prompt of a combination of pools: its name, and the tasks of its pools if they are known."""
    tasks = [POOL_TASKS[pool] for pool in TIIF_TYPES.get(kind, ())]
    return f"{kind}: {'; '.join(tasks)}" if tasks else kind


def unsaid_concepts(text: str, concepts: Sequence[str]) -> list[str]:
    """Check that a prompt contains every concept, in any inflection of its words."""
    return [f"it does not say '{concept}'" for concept in concepts if not keeps(text, concept)]


async def _expanded(item: Item, ask: Ask, short: str, check: Callable[[str], list[str]]) -> str:
    """Ask the judge to expand the short prompt, with TIIF-Bench's own prompt, until the result passes the checks.

    Raises:
        Unanswered: No draft passed.
    """
    problems: Sequence[str] = ()
    for attempt in range(DRAFTS):
        planned = f"{short} {filler(item, _EXPECTED_WORDS)}"
        reply = await ask("recipes/tiif_long", role="judge", sample=attempt, planned=planned, prompt=short)
        text = " ".join(reply.text.split())
        problems = check(text)
        if len(words(text)) < _LEAST_RATIO * len(words(short)):
            problems = [*problems, f"it is shorter than {_LEAST_RATIO} times the short one"]
        if not problems:
            return text
    raise Unanswered(Status.UNPARSED, f"{DRAFTS} long versions failed their checks: {'; '.join(problems)}", reply)


async def checked_questions(ask: Ask, texts: Sequence[str], concepts: Sequence[str]) -> Questions:
    """Write yes / no questions on the first text, one or more for each concept, with answers that are true for all texts."""

    async def check_questions(draft: Questions) -> list[str]:
        covered = {question.concept for question in draft.questions}
        if unknown := sorted(covered - set(range(1, len(concepts) + 1))):
            return [f"there is no concept {unknown[0]}"]
        if missing := [concept for number, concept in enumerate(concepts, 1) if number not in covered]:
            return [f"no question is about '{missing[0]}'"]
        if all(question.answer == "yes" for question in draft.questions):
            return ["no question has the answer no"]
        return [problem for text in texts for problem in await _contradicted(ask, text, draft)]

    planned = [
        {"concept": number, "question": f"Is there {concept}?", "answer": "no" if number == 1 else "yes"}
        for number, concept in enumerate(concepts, 1)
    ]
    return await drafted(
        ask,
        "recipes/tiif_questions",
        Questions,
        check_questions,
        {"questions": planned},
        prompt=texts[0],
        concepts=numbered(concepts),
    )


async def _contradicted(ask: Ask, text: str, draft: Questions) -> list[str]:
    """Have a model answer the questions from the text alone, and name those whose gold answer is another."""
    listed = numbered(question.question for question in draft.questions)
    planned = {"answers": [question.answer for question in draft.questions]}
    reply = await ask(
        "recipes/answer_from_text", role="judge", schema=TextAnswers, planned=planned, prompt=text, questions=listed
    )
    answers = reply.data.answers
    if len(answers) != len(draft.questions):
        return [f"{len(answers)} answers came to {len(draft.questions)} questions"]
    return [
        f"'{question.question}' is answered {answer} from the text, not {question.answer}"
        for question, answer in zip(draft.questions, answers, strict=True)
        if answer != question.answer
    ]
