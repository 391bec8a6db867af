"""Yes/no questions about an image, all in one request (TIIF-Bench paper, 3.3 and A3.2; eval_with_vlm.py)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from titjudge.core import item_meta
from titjudge.core.errors import ConfigError, DataError, must_be
from titjudge.core.score_parts import YesNoAnswers
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Reply, Score, Status
from titjudge.metrics import metric
from titjudge.metrics._shared import image_of
from titjudge.metrics.answer_rules import is_undecided, read_yes_no

TEMPLATES = ("tiif/questions_1", "tiif/questions_2", "tiif/questions_3")
PAPER_TEMPLATE = "tiif/questions_3"  # the one that the paper shows
TRIES = 3  # the official code has no limit
_ANSWER = re.compile(r"(yes|no)\b", re.IGNORECASE)


def parse(text: str, count: int, *, strict: bool = False, questions: Sequence[str] = ()) -> list[str] | None:
    """Read the answers in a model's reply by the official rule; None when there are not exactly `count`.

    The lines that start with the word yes or no (any case) are the answers; every other line is ignored. With
    `strict` a reply with a line for each of the `questions` is read by `read_yes_no`, too; the thoughts of a reasoning model are cut off first, and a reply with a line such as `yes/no` or `no idea` is
    not read.
    """
    if strict:
        text = after_thinking(text)
    lines = text.strip().split("\n")
    if strict and any(map(is_undecided, lines)):
        return None
    matches = (_ANSWER.match(line.strip()) for line in lines)
    answers = [match[1].lower() for match in matches if match]
    if len(answers) != count and strict:  # sentences: one line for each question
        lines = [line for line in lines if line.strip()]
        read = [read_yes_no(*pair) for pair in zip(lines, questions, strict=False)]
        if len(lines) == count == len(read) and None not in read:
            return ["yes" if answer else "no" for answer in read]
    return answers if len(answers) == count else None


def draw_template(item_id: str, seed: int, sample: int) -> str:
    """Draw one of the three official templates by item, seed and attempt; the official code draws at every call."""
    digest = hashlib.sha256(f"{item_id}\x00{seed}\x00{sample}".encode()).digest()
    return TEMPLATES[int.from_bytes(digest[:8], "big") % len(TEMPLATES)]


def choose_template(item: Item, protocol: str, sample: int) -> str:
    """Choose the template of an attempt: from `meta["template"]` (1, 2, 3 or a prompt name), otherwise the protocol's."""
    template = item_meta.TEMPLATE.get(item)
    if template in (1, 2, 3):
        return TEMPLATES[template - 1]
    if isinstance(template, str) and template != "random":
        return template
    if protocol == "official" or template == "random":
        return draw_template(item.id, _whole(item_meta.TEMPLATE_SEED.get(item, 0)), sample)
    return PAPER_TEMPLATE


def _whole(seed: Any) -> int:
    try:
        return int(seed)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(must_be("'template_seed'", "a whole number", seed)) from error


def checked_questions(item: Item) -> tuple[list[str], list[str]] | Score:
    """Return questions and gold answers (lowercase) of an item, or the Score that names what is wrong with them."""
    questions, gold = item_meta.QUESTIONS.get(item), item_meta.GOLD_ANSWERS.get(item)
    if not questions or not gold:
        return Score.none(Status.MISSING, "the item has no questions, or no gold answers to them")
    texts = item_meta.QUESTIONS.form
    if not texts.fits(questions) or not texts.fits(gold) or len(questions) != len(gold):
        reason = "questions and gold_answers are not two lists of strings of the same length"
        return Score.none(Status.BAD_INPUT, reason)
    answers = [answer.strip().lower() for answer in gold]
    if not {"yes", "no"}.issuperset(answers):
        return Score.none(Status.BAD_INPUT, "a gold answer is neither yes nor no")
    return list(questions), answers


@metric(
    "yes-no",
    roles=("judge",),
    range=(0, 1),
    version="3",  # 2 did not read sentences such as "There is no dog." under the strict protocol
    source="TIIF-Bench paper, 3.3 and A3.2; eval_with_vlm.py",
    needs=("questions", "gold_answers"),
)
async def yes_no(item: Item, ask: Ask) -> Score:
    """Fraction of yes/no questions about the image that the judge answers as expected.

    `item.meta` has `questions` and `gold_answers`, two lists of one length; `template` (1, 2, 3, "random" or a prompt
    name) and `template_seed` are optional. Temperature is 1 under the official protocol and 0 under the strict one.
    If a reply has another number of answers, the question is asked again, three times in all; then the item is
    unparsed.
    """
    checked = checked_questions(item)
    if isinstance(checked, Score):
        return checked
    image_of(item)
    questions, gold = checked
    strict = ask.protocol != "official"
    answers = YesNoAnswers(gold=gold, questions=questions, output="", template="", tries=0)
    for attempt in range(TRIES):
        template = choose_template(item, ask.protocol, attempt)
        try:
            reply = await _ask(item, ask, template, attempt, questions, gold)
        except ConfigError as error:
            if template != item_meta.TEMPLATE.get(item):
                raise
            return Score.none(Status.BAD_INPUT, f"the item's template cannot be used: {error}")
        answers.update({"output": reply.text, "template": template, "tries": attempt + 1})
        preds = parse(reply.text, len(questions), strict=strict, questions=questions)
        if preds is not None:
            hits = sum(pred == answer for pred, answer in zip(preds, gold, strict=True))
            return Score.of(hits / len(gold), status=reply.status, preds=preds, **answers)
    reason = f"{TRIES} replies, none with exactly {len(questions)} lines that start with yes or no"
    return Score.none(Status.UNPARSED, reason, **answers)


async def _ask(
    item: Item, ask: Ask, template: str, attempt: int, questions: Sequence[str], gold: Sequence[str]
) -> Reply:
    """Ask all questions in one request; a dry run plans with the gold answers."""
    return await ask(
        template,
        role="judge",
        images=[image_of(item)],
        params={"temperature": 1.0 if ask.protocol == "official" else 0.0},
        sample=attempt,
        planned="\n".join(gold),
        questions=questions,
    )
