"""KRIS-Bench: consistency, instruction, quality and knowledge of an edit, 1 to 5 each (github.com/mercurystraw/Kris_Bench).

The prompts are quoted exactly. The published scripts look for the instruction under a name that the data do not have, so that
every judge was sent an empty one; the copy of them that BAGEL uses sends it. These are two families of numbers. They also read
the replies on the ten categories of knowledge in two ways, and BAGEL's copy drops every edit with a missing rating.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Reply, Score, Status, Values
from titjudge.metrics import metric
from titjudge.metrics._shared import UNREADABLE, gather_answers, image_of, sources_of, unreadable
from titjudge.metrics.rubric import Labelled, RubricAnswer, RubricQuestion, questions

PARTS = {"consistency_score": "VC", "instruction_score": "IF", "quality_score": "VQ", "knowledge_score": "KP"}
"""The names of the ratings in replies, and in tables."""
SEVERAL = ("temporal_prediction", "multi-element_composition")
"""The categories whose edits may have several sources."""
_ANY_DIGIT = (r"([1-5])\s*/\s*5", r"([1-5])\s+out\s+of\s+5", r"\b([1-5])\b")
Family = Literal["kris", "bagel"]


def read_rating(text: str, name: str, *, by_name: bool = True, knowledge: Family | None = None) -> int | None:
    """Parse a rating as the published code does: in a JSON object, after its name, as `4/5`, or the first digit from 1 to 5.

    Args:
        text: The reply.
        name: The name of the rating.
        by_name: Whether a number after the name counts before any other, as it does if the category has one source.
        knowledge: For the ten categories of knowledge, the family whose parser is used: a JSON object then decides even
            without a rating. Both families read all other categories alike.
    """
    block = re.search(r"\{[^{}]*" + name + r"[^{}]*\}", text)
    try:
        rating = json.loads(block[0]).get(name) if block else None
        if rating is not None or (block and knowledge):
            return None if rating is None else int(rating)
    except (ValueError, TypeError, RecursionError, OverflowError):
        pass
    colon = r"\s*[:：]\s*" if knowledge == "kris" else r"\s*[:：]?\s*"
    start = rf"{name.removesuffix('_score')}[_\s]*score{colon}([1-5])"
    return _first_digit(text, *([start] if by_name else ()), *_ANY_DIGIT)


def _first_digit(text: str, *patterns: str) -> int | None:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1]) for match in matches if match), None)


def read_knowledge(text: str, family: Family = "kris") -> dict[str, int | None]:
    """Parse the ratings of instruction and knowledge as the scripts of a family do: in one JSON object, or after their names."""
    names = ("instruction_score", "knowledge_score")
    try:
        rated = _rated_object(text, family)
    except (ValueError, RecursionError):
        rated = None
    if rated or (rated is not None and family == "kris"):
        try:
            return {name: None if rated.get(name) is None else int(rated[name]) for name in names}
        except (ValueError, TypeError, AttributeError, OverflowError):
            if family == "bagel":  # the script ends here, and the edit has no rating at all
                return dict.fromkeys(names)
    quote, colon = ("", "[:：]") if family == "kris" else ('"?', ":")
    return {
        name: _first_digit(text, rf"{name.removesuffix('_score')}[_\s]*score{quote}\s*{colon}\s*([1-5])")
        for name in names
    }


def _rated_object(text: str, family: Family) -> Any:
    """Load the JSON value that the scripts of a family read: an object without nested ones, or all text, otherwise an object.

    Raises:
        ValueError, RecursionError: It is not JSON.
    """
    if family == "kris":
        block = re.search(r"\{[^{}]*instruction_score[^{}]*\}", text)
        return json.loads(block[0]) if block else None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return json.loads(_first_block(text))


def _first_block(text: str) -> str:
    """Return the text from the first `{` to the brace that closes it; braces in quotes count."""
    start, depth = max(0, text.find("{")), 0
    for brace in re.finditer("[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth <= 0:
            return text[start : start + brace.end()]
    return ""


def _elements(item: Item) -> Labelled:
    sources = ((f"Reference Image {number}:", source) for number, source in enumerate(sources_of(item), 1))
    return [*sources, ("Predicted Image:", image_of(item))]


def _frames(item: Item) -> Labelled:
    """Put the generated frame at its place among the given ones, which are numbered by their names: `7-2.jpg` is frame 2."""
    sources = sources_of(item)
    matches = [re.search(r"\d+-(\d+)", source.name) for source in sources]
    numbers = [int(match[1]) if match else position for position, match in enumerate(matches, 1)]
    missing = sorted({1, 2, 3, 4} - set(numbers))
    generated = missing[0] if len(missing) == 1 else max(numbers) + 1
    frames = [(number, "Reference", source) for number, source in zip(numbers, sources, strict=True)]
    frames.append((generated, "Generated", image_of(item)))
    return [(f"Frame {number} ({kind}):", image) for number, kind, image in sorted(frames, key=lambda frame: frame[0])]


def _note(protocol: str, options: Values) -> str:
    if protocol != "official" or options.get("family", "kris") != "kris":
        return ""
    return (
        "kris: the judge saw no instruction and no explanation, as in the published scripts. "
        "To send both, as BAGEL does, add --set kris.family=bagel"
    )


@metric(
    "kris",
    roles=("judge",),
    range=(0, 100),
    version="2",  # 1 read knowledge with other parsers, and scored edits without a rating of the instruction
    source="KRIS-Bench, github.com/mercurystraw/Kris_Bench; BAGEL's summarize.py; prompts quoted exactly",
    needs=(item_meta.CATEGORY.name,),
    sources="required",
    note=_note,
)
async def kris(
    item: Item,
    ask: Ask,
    *,
    family: Annotated[
        Family,
        Field(description="Official: `kris` sends no instruction, as published; `bagel` sends it, as BAGEL's copy."),
    ] = "kris",
) -> Score:
    """KRIS-Bench: the mean of three or four ratings of an edit, 1 to 5 each, as 25 * (rating - 1).

    Under the official protocol and in the family `kris`, an edit has a score if its instruction was rated: the mean of the ratings
    that could be read, with the missing ones counted. Elsewhere it has a score if all ratings could be read; in the family `bagel`
    a rating off the scale counts as read, as upstream, but enters no mean.
    """
    official = ask.protocol == "official"
    by_name = item_meta.CATEGORY.required(item) not in SEVERAL
    asked = questions("kris", item, ask, frames=_frames, elements=_elements)
    knowledge = family if "knowledge_score" in asked["instruction"].declared.ratings else None

    def read(text: str, ratings: Sequence[str]) -> dict[str, int | None]:
        text = after_thinking(text)
        if len(ratings) > 1:
            return read_knowledge(text, family)
        return {name: read_rating(text, name, by_name=by_name, knowledge=knowledge) for name in ratings}

    answers = await gather_answers(*(_rate(ask, question, read, family) for question in asked.values()))
    rated: dict[str, int | Unanswered] = {}
    for question, answer in zip(asked.values(), answers, strict=True):
        rated |= dict.fromkeys(question.declared.ratings, answer) if isinstance(answer, Unanswered) else answer
    ratings = {name: rating for name, rating in rated.items() if isinstance(rating, int)}
    missing = {name: rating for name, rating in rated.items() if isinstance(rating, Unanswered)}
    if not missing:
        return _score(ratings, official=official)
    # an outage or a cut reply first, then the rating without which no edit has a score
    name, worst = min(missing.items(), key=lambda pair: (pair[1].status in UNREADABLE, pair[0] != "instruction_score"))
    reason = f"{len(missing)} of {len(rated)} ratings missing: {', '.join(missing)}; {name}: {worst.reason}"
    dropped = family == "bagel" and not all(isinstance(each, _OffScale) for each in missing.values())
    if not official or dropped or name == "instruction_score" or worst.status not in UNREADABLE:
        return Score.none(worst.status, reason, ratings=ratings)
    return _score(ratings, missing, reason, official=official)


class _OffScale(Unanswered):
    """A rating that is a number, but not one from 1 to 5."""


def _score(ratings: dict[str, int], missing: Iterable[str] = (), reason: str = "", *, official: bool) -> Score:
    counted = dict(ratings)
    if not official and ratings["instruction_score"] <= 2 and ratings.get("knowledge_score", 1) > 1:
        counted["knowledge_score"] = 1
        reason = "knowledge lowered to 1: the instruction was not followed"
    percent = {PARTS[name]: 25.0 * (rating - 1) for name, rating in counted.items()}
    parts: Json = {**percent, "ratings": ratings}
    lost, total = [PARTS[name] for name in missing], sum(percent.values())
    asked = len(percent) + len(lost)
    if official:
        parts |= QuestionCounts(questions_asked=asked, questions_skipped=len(lost))
    if lost:
        ends = {"": [total / asked, (total + 100 * len(lost)) / asked]}
        parts["could_be"] = ends | {name: [0.0, 100.0] for name in lost}
    return Score.of(total / len(percent), reason=reason, **parts)


async def _rate(
    ask: Ask,
    question: RubricQuestion,
    read: Callable[[str, Sequence[str]], dict[str, int | None]],
    family: Family,
) -> dict[str, int | Unanswered]:
    """Ask one question, and return its ratings, or why one cannot be used.

    Raises:
        Unanswered: There is no reply.
    """
    ratings = question.declared.ratings
    empty = ask.protocol == "official" and family == "kris"  # as published
    variables = dict.fromkeys(question.declared.variables, "") if empty else {}
    reply, found = await question.rated(ask, lambda text: read(text, ratings), expected="", **variables)
    if isinstance(found, RubricAnswer):
        return {name: getattr(found, name) for name in ratings}
    return {name: _checked(name, rating, reply) for name, rating in found.items()}


def _checked(name: str, rating: int | None, reply: Reply) -> int | Unanswered:
    if rating is None:
        return unreadable(reply, f"no {name} from 1 to 5")
    return rating if 1 <= rating <= 5 else _OffScale(Status.UNPARSED, f"{str(rating)[:20]} is not from 1 to 5", reply)
