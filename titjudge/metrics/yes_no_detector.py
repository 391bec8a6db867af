"""A detector as the judge of yes/no questions about objects, beside a vision-language model (TIIF-Bench paper, A4.3).

Only questions of three forms can be answered by boxes: whether a thing is there, how many there are, and on which side of another
thing it is. The others stay open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from titjudge.core import item_meta
from titjudge.core.patterns import lazy_pattern
from titjudge.core.score_parts import YesNoAnswers
from titjudge.core.types import Ask, Item, Score
from titjudge.core.words import NUMBER_WORDS
from titjudge.metrics import metric
from titjudge.metrics._shared import all_answers, image_of
from titjudge.metrics.agent.places import ROLE, DetectedBox, detect
from titjudge.metrics.yes_no import checked_questions

Threshold = Annotated[float, Field(gt=0, le=1, description="least score of a box that counts")]
THRESHOLD = 0.7  # of UniDet and Grounding-DINO in A4.3.2
OPEN = "open"  # the answer to a question that boxes cannot answer

_WHERE = r"(?: in the (?:image|picture|painting|photo|scene))?"
_NUMBERS = {word: number for number, word in enumerate(NUMBER_WORDS[:10], 1)}
_COUNT = lazy_pattern(rf"(?:is the number of (.+?)|are there) (\d+|{'|'.join(_NUMBERS)})( .+?)?{_WHERE}", re.IGNORECASE)
_THERE = lazy_pattern(
    r"(?:is|are) there (?:an? |any |some )?(.+?) in the (?:image|picture|painting|photo|scene)", re.IGNORECASE
)
_SIDE = lazy_pattern(
    r"(?:is|are) (?:there )?(?:the |some |an? )?(.+?) (?:(?:(?:on|to|at) (?:the )?)?(left|right|top|bottom)(?: side)? of|(above|below|under)) (?:the |an? )?(.+?)",
    re.IGNORECASE,
)
_MORE = lazy_pattern(  # than the name of a thing
    r"\b(?:and|or|but|with|without|another|others?|one|only|single|exactly|who|that|which|not|no|in|on|at|image|picture|painting|photo|scene|frame|hidden|\w+ing$)\b|,",
    re.IGNORECASE,
)
_MOST_WORDS = 4  # of the name of a thing


class ObjectQuestion(NamedTuple):
    """The condition on boxes in a question.

    Attributes:
        things: The things that are to be found.
        number: How many of the first there should be; None if one or more.
        side: On which side of the second the first should be: left, right, top or bottom; empty for none.
    """

    things: tuple[str, ...]
    number: int | None = None
    side: str = ""


def read_question(text: str) -> ObjectQuestion | None:
    """Read a question; None if boxes cannot answer it."""
    text = text.strip().rstrip("?").strip()
    if match := _COUNT.fullmatch(text):
        thing = (match[1] or match[3] or "").strip()
        written = match[2].lower()
        return _of((thing,), number=_NUMBERS.get(written) or int(written)) if bool(match[1]) != bool(match[3]) else None
    if match := _THERE.fullmatch(text):
        return _of((match[1],))
    if match := _SIDE.fullmatch(text):
        side = (match[2] or match[3]).lower()
        return _of((match[1], match[4]), side={"above": "top", "below": "bottom", "under": "bottom"}.get(side, side))
    return None


def _of(things: tuple[str, ...], *, number: int | None = None, side: str = "") -> ObjectQuestion | None:
    named = tuple(thing.strip().casefold() for thing in things)
    if any(not thing or _MORE.search(thing) or len(thing.split()) > _MOST_WORDS for thing in named):
        return None
    return ObjectQuestion(named, number, side)


def has_readable_question(item: Item) -> bool:
    """Return True if boxes can answer a question about the item."""
    questions = item_meta.QUESTIONS.get(item)
    return item_meta.QUESTIONS.form.fits(questions) and any(map(read_question, questions or ()))


@metric(
    "yes-no-detector",
    roles=(ROLE,),
    range=(0, 1),
    source="TIIF-Bench paper, A4.3: counts and places by a detector; the rules by which questions are read are ours",
    needs=("questions", "gold_answers"),
    applies=has_readable_question,
)
async def yes_no_detector(item: Item, ask: Ask, *, threshold: Threshold = THRESHOLD) -> Score:
    """Fraction of the yes/no questions on existence, number and side of objects that a detector answers as expected.

    Each thing is requested separately. A side is compared by the centres of the best boxes. Parts: as `yes-no`;
    `preds` is `open` for the other questions, which do not count.
    """
    checked = checked_questions(item)
    if isinstance(checked, Score):
        return checked
    questions, gold = checked
    image = image_of(item)
    read = [read_question(text) for text in questions]
    things = list(dict.fromkeys(thing for each in read if each for thing in each.things))

    detected = await all_answers(*(detect((thing,), image, ask, planned=1) for thing in things))
    found = {thing: list(_kept(boxes, thing, threshold)) for thing, boxes in zip(things, detected, strict=True)}
    preds = [OPEN if each is None else "yes" if _holds(each, found) else "no" for each in read]
    hits = [pred == answer for pred, answer in zip(preds, gold, strict=True) if pred != OPEN]
    answers = YesNoAnswers(gold=gold, questions=questions, output="", template="agent/locate", tries=1)
    boxes = {thing: len(each) for thing, each in found.items()}
    return Score.of(sum(hits) / len(hits), preds=preds, boxes=boxes, **answers)


def _kept(boxes: Sequence[DetectedBox], thing: str, threshold: float) -> Iterator[DetectedBox]:
    """Keep the boxes of a thing with enough score, the best first."""
    for each in sorted(boxes, key=lambda each: -each.score):
        if each.has_area and each.score >= threshold and each.name.casefold() == thing:
            yield each


def _holds(question: ObjectQuestion, found: dict[str, list[DetectedBox]]) -> bool:
    boxes = [found[thing] for thing in question.things]
    if question.number is not None:
        return len(boxes[0]) == question.number
    if not all(boxes):
        return False
    if not question.side:
        return True
    (x, y), (other_x, other_y) = ((box[0] + box[2], box[1] + box[3]) for box in (each[0].box for each in boxes))
    return {"left": x < other_x, "right": x > other_x, "top": y < other_y, "bottom": y > other_y}[question.side]
