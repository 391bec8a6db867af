"""KRIS-Bench: consistency, instruction, quality and knowledge of an edit, 1 to 5 each (github.com/mercurystraw/Kris_Bench).

The prompts are quoted exactly. The published scripts look for the instruction under a name that the data do not have, so that
every judge was sent an empty one; the copy of them that BAGEL uses sends it. These are two families of numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.structured_output import after_thinking, objects
from titjudge.core.types import Ask, Item, Reply, Score
from titjudge.metrics import metric
from titjudge.metrics._shared import gather_answers, image_of, sources_of, unreadable
from titjudge.metrics.imgedit import Points, RubricAnswer

PARTS = {"consistency_score": "VC", "instruction_score": "IF", "quality_score": "VQ", "knowledge_score": "KP"}
"""The names of the ratings in replies, and in tables."""
KNOWLEDGE = frozenset(
    {"abstract_reasoning", "mathematics", "practical_knowledge", "medicine", "rule-based_reasoning", "biology", "geography",
     "chemistry", "humanities", "physics"}
)  # fmt: skip
"""The categories whose edits show knowledge, which is rated too."""
_ANY_DIGIT = (r"([1-5])\s*/\s*5", r"([1-5])\s+out\s+of\s+5", r"\b([1-5])\b")
Family = Literal["kris", "bagel"]


class ConsistencyRating(RubricAnswer):
    """Answer to `kris/consistency` and its forms for several sources."""

    consistency_score: Points


class InstructionRating(RubricAnswer):
    """Answer to `kris/instruction` and its forms for kinds of edits."""

    instruction_score: Points


class QualityRating(RubricAnswer):
    """Answer to `kris/quality`."""

    quality_score: Points


class KnowledgeRating(RubricAnswer):
    """Answer to `kris/instruction_and_knowledge`."""

    instruction_score: Points
    knowledge_score: Points
    knowledge_reasoning: str = ""


@dataclass(frozen=True, slots=True)
class KrisRequest:
    """One request about an edit.

    Attributes:
        images: Images by their labels, in the order in which they are shown.
        schema: The structured answer, whose fields name the ratings.
        read: Parses a reply as the published code does.
    """

    template: str
    images: Sequence[tuple[str, Path]]
    schema: type[RubricAnswer]
    read: Callable[[str], Mapping[str, int | None]]

    @property
    def ratings(self) -> list[str]:
        """The names of the ratings that it asks for."""
        return [name for name in self.schema.model_fields if name in PARTS]


def read_rating(text: str, name: str, *, by_name: bool = True) -> int | None:
    """Parse a rating as the published code does: in a JSON object, after its name, as `4/5`, or the first digit from 1 to 5.

    Args:
        text: The reply.
        name: The name of the rating.
        by_name: Whether a number after the name counts before any other, as it does where the category has one source.
    """
    block = re.search(r"\{[^{}]*" + name + r"[^{}]*\}", text)
    try:
        return int(json.loads(block[0])[name]) if block else _first_match(text, name, by_name)
    except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
        return _first_match(text, name, by_name)


def _first_match(text: str, name: str, by_name: bool) -> int | None:
    start = rf"{name.removesuffix('_score')}[_\s]*score\s*[:：]?\s*([1-5])"
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in ((start,) if by_name else ()) + _ANY_DIGIT)
    return next((int(match[1]) for match in matches if match), None)


def read_knowledge(text: str) -> dict[str, int | None]:
    """Parse the ratings of instruction and knowledge as the published code does: both in one JSON object, or after their names."""
    names = ("instruction_score", "knowledge_score")
    try:
        if rated := next(iter(objects(text)), None):
            return {name: None if rated.get(name) is None else int(rated[name]) for name in names}
    except (ValueError, TypeError, OverflowError):
        return dict.fromkeys(names)
    matches = {
        name: re.search(rf'"?{name.removesuffix("_score")}[_\s]*score"?\s*:\s*([1-5])', text, re.IGNORECASE)
        for name in names
    }
    return {name: int(match[1]) if match else None for name, match in matches.items()}


def questions(item: Item, *, official: bool) -> list[KrisRequest]:
    """Return the three requests about an edit, by its category.

    Raises:
        DataError: The item has no category.
        Unanswered: It has no image, or no source.
    """
    category = item_meta.CATEGORY.required(item)
    result, sources = image_of(item), sources_of(item)
    pair = [("This is the original image:", sources[0]), ("This is the edited image:", result)]
    if category in ("temporal_prediction", "multi-element_composition"):
        kind = category.partition("_")[0].removesuffix("-element")
        labelled = _frames(sources, result) if kind == "temporal" else _elements(sources, result)
        return [
            _question(f"kris/{kind}_consistency", labelled, ConsistencyRating, by_name=False),
            _question(f"kris/{kind}_instruction", labelled, InstructionRating, by_name=False),
            _question("kris/quality", [("This is the image to evaluate:", result)], QualityRating, by_name=False),
        ]
    middle = _question("kris/instruction", pair, InstructionRating)
    if category in KNOWLEDGE:
        middle = KrisRequest("kris/instruction_and_knowledge", pair, KnowledgeRating, read_knowledge)
    elif category == "viewpoint_change":
        truth = ("This is the ground truth image:", Path(item_meta.REFERENCE_IMAGE.required(item)))
        middle = _question("kris/viewpoint", [*pair, truth], InstructionRating)
    elif category == "anomaly_correction" and not official:
        middle = _question("kris/anomaly", pair, InstructionRating)
    return [
        _question("kris/consistency", pair, ConsistencyRating),
        middle,
        _question("kris/quality", pair[1:], QualityRating),
    ]


def _question(
    template: str, images: Sequence[tuple[str, Path]], schema: type[RubricAnswer], *, by_name: bool = True
) -> KrisRequest:
    (name,) = (name for name in schema.model_fields if name in PARTS)
    return KrisRequest(template, images, schema, partial(_one_rating, name, by_name))


def _one_rating(name: str, by_name: bool, text: str) -> dict[str, int | None]:
    return {name: read_rating(text, name, by_name=by_name)}


def _elements(sources: Sequence[Path], result: Path) -> list[tuple[str, Path]]:
    return [*((f"Reference Image {n}:", source) for n, source in enumerate(sources, 1)), ("Predicted Image:", result)]


def _frames(sources: Sequence[Path], result: Path) -> list[tuple[str, Path]]:
    """Put the generated frame where it belongs among the given ones, which are numbered by their names: `7-2.jpg` is frame 2."""
    matches = [re.search(r"\d+-(\d+)", source.name) for source in sources]
    numbers = [int(match[1]) if match else position for position, match in enumerate(matches, 1)]
    missing = sorted({1, 2, 3, 4} - set(numbers))
    generated = missing[0] if len(missing) == 1 else max(numbers) + 1
    frames = [(number, "Reference", source) for number, source in zip(numbers, sources, strict=True)]
    frames.append((generated, "Generated", result))
    return [(f"Frame {number} ({kind}):", image) for number, kind, image in sorted(frames, key=lambda frame: frame[0])]


@metric(
    "kris",
    roles=("judge",),
    range=(0, 100),
    source="KRIS-Bench, github.com/mercurystraw/Kris_Bench; BAGEL's summarize.py; prompts quoted exactly",
    needs=(item_meta.CATEGORY.name,),
    sources="required",
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
    """KRIS-Bench: the mean of three or four ratings of an edit, 1 to 5 each, as 25 * (rating - 1)."""
    official = ask.protocol == "official"
    requests = questions(item, official=official)
    answers = await gather_answers(*(_rate(item, ask, question, family) for question in requests))
    missing = [answer for answer in answers if isinstance(answer, Unanswered)]
    ratings = {
        name: rating for answer in answers if not isinstance(answer, Unanswered) for name, rating in answer.items()
    }
    if missing and (not official or not ratings):
        raise missing[0]
    return _score(ratings, missing, official=official)


def _score(ratings: dict[str, int], missing: Sequence[Unanswered], *, official: bool) -> Score:
    notes = [f"{len(missing)} of 3 questions without an answer: {missing[0].reason}"] if missing else []
    counted = dict(ratings)
    if not official and ratings["instruction_score"] <= 2 and ratings.get("knowledge_score", 1) > 1:
        counted["knowledge_score"] = 1
        notes.append("knowledge lowered to 1: the instruction was not followed")
    percent = {PARTS[name]: 25.0 * (rating - 1) for name, rating in counted.items()}
    parts: dict[str, Any] = {**percent, "ratings": ratings}
    return Score.of(sum(percent.values()) / len(percent), reason="; ".join(notes), **parts)


async def _rate(item: Item, ask: Ask, question: KrisRequest, family: Family) -> dict[str, int]:
    """Ask one question.

    Raises:
        Unanswered: There is no rating, or one off the scale.
    """
    labels, images = zip(*question.images, strict=True)
    reply = await _reply(item, ask, question, family, labels, images)
    if ask.protocol != "official":
        return {name: getattr(reply.data, name) for name in question.ratings}
    ratings = question.read(after_thinking(reply.text))
    valid = {name: rating for name, rating in ratings.items() if rating is not None and 1 <= rating <= 5}
    if not valid:
        raise unreadable(reply, f"no {' or '.join(question.ratings)} from 1 to 5")
    return valid


async def _reply(
    item: Item, ask: Ask, question: KrisRequest, family: Family, labels: Sequence[str], images: Sequence[Path]
) -> Reply:
    """Ask one question; under the protocol official and the family kris without the instruction, as published."""
    official = ask.protocol == "official"
    empty = official and family == "kris"
    values = {
        "prompt": "" if empty else item.prompt,
        "explanation": "" if empty else item_meta.EXPLANATION.get(item, ""),
    }
    names = {
        "kris/quality": (), "kris/anomaly": ("prompt", "explanation"),
        "kris/instruction_and_knowledge": ("prompt", "explanation"),
    }.get(question.template, ("prompt",))  # fmt: skip
    variables: dict[str, Any] = {name: values[name] for name in names}
    if not official:
        return await ask(
            question.template, role="judge", images=images, schema=question.schema, labels=list(labels), **variables
        )
    planned = json.dumps(dict.fromkeys(question.ratings, 3))
    return await ask(
        question.template, role="judge", images=images, params={"max_tokens": 1000}, planned=planned,
        labels=list(labels), **variables,
    )  # fmt: skip
