"""KRIS-Bench: consistency, instruction, quality and knowledge of an edit, 1 to 5 each (github.com/mercurystraw/Kris_Bench).

The prompts are quoted exactly. The published scripts look for the instruction under a name that the data do not have, so that
every judge was sent an empty one; the copy of them that BAGEL uses sends it. These are two families of numbers. They also read
the replies on the ten categories of knowledge in two ways, and BAGEL's copy drops every edit with a missing rating.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from titjudge.core import item_meta
from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import QuestionCounts
from titjudge.core.structured_output import after_thinking
from titjudge.core.types import Ask, Item, Json, Reply, Score, Status, Values
from titjudge.metrics import metric
from titjudge.metrics._shared import UNREADABLE, gather_answers, image_of, rated, sources_of, unreadable
from titjudge.metrics.imgedit import Points, RubricAnswer

PARTS = {"consistency_score": "VC", "instruction_score": "IF", "quality_score": "VQ", "knowledge_score": "KP"}
"""The names of the ratings in replies, and in tables."""
KNOWLEDGE = frozenset(
    """
    abstract_reasoning mathematics practical_knowledge medicine rule-based_reasoning biology geography chemistry
    humanities physics
    """.split()
)
"""The categories whose edits show knowledge, which is rated too."""
_VARIABLES = {
    "kris/quality": (),
    "kris/anomaly": ("prompt", "explanation"),
    "kris/instruction_and_knowledge": ("prompt", "explanation"),
}
"""Variables of the templates, other than the prompt alone."""
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


def read_rating(text: str, name: str, *, by_name: bool = True, knowledge: Family | None = None) -> int | None:
    """Parse a rating as the published code does: in a JSON object, after its name, as `4/5`, or the first digit from 1 to 5.

    Args:
        text: The reply.
        name: The name of the rating.
        by_name: Whether a number after the name counts before any other, as it does where the category has one source.
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
    """Load the JSON value that the scripts of a family read: an object without nested ones, or all of the text, else an object.

    Raises:
        ValueError, RecursionError: It is no JSON.
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


def questions(item: Item, *, official: bool, family: Family = "kris") -> list[KrisRequest]:
    """Return the three requests about an edit, by its category; `family` decides how replies about knowledge are read.

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
    knowledge = family if category in KNOWLEDGE else None
    middle = _question("kris/instruction", pair, InstructionRating)
    if knowledge:
        read = partial(read_knowledge, family=knowledge)
        middle = KrisRequest("kris/instruction_and_knowledge", pair, KnowledgeRating, read)
    elif category == "viewpoint_change":
        truth = ("This is the ground truth image:", Path(item_meta.REFERENCE_IMAGE.required(item)))
        middle = _question("kris/viewpoint", [*pair, truth], InstructionRating)
    elif category == "anomaly_correction" and not official:
        middle = _question("kris/anomaly", pair, InstructionRating)
    return [
        _question("kris/consistency", pair, ConsistencyRating, knowledge=knowledge),
        middle,
        _question("kris/quality", pair[1:], QualityRating, knowledge=knowledge),
    ]


def _question(template: str, images: Sequence[tuple[str, Path]], schema: type[RubricAnswer], **how: Any) -> KrisRequest:
    (name,) = (name for name in schema.model_fields if name in PARTS)
    return KrisRequest(template, images, schema, lambda text: {name: read_rating(text, name, **how)})


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


def _note(protocol: str, options: Values) -> str:
    if protocol != "official" or options.get("family", "kris") != "kris":
        return ""
    return (
        "kris: the judge saw no instruction and no explanation, as in the published scripts. "
        "To send both, as BAGEL does, add --metric-option kris.family=bagel"
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
    requests = questions(item, official=official, family=family)
    answers = await gather_answers(*(_rate(item, ask, question, family) for question in requests))
    rated: dict[str, int | Unanswered] = {}
    for request, answer in zip(requests, answers, strict=True):
        rated |= dict.fromkeys(request.ratings, answer) if isinstance(answer, Unanswered) else answer
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


async def _rate(item: Item, ask: Ask, question: KrisRequest, family: Family) -> dict[str, int | Unanswered]:
    """Ask one question, and return its ratings, or why one cannot be used.

    Raises:
        Unanswered: There is no reply.
    """
    labels, images = zip(*question.images, strict=True)
    values = {"prompt": item.prompt, "explanation": item_meta.EXPLANATION.get(item, "")}
    empty = ask.protocol == "official" and family == "kris"  # as published
    names = _VARIABLES.get(question.template, ("prompt",))
    variables: Json = {name: "" if empty else values[name] for name in names}
    reply, found = await rated(
        ask,
        question.template,
        schema=question.schema,
        read=lambda text: question.read(after_thinking(text)),
        expected="",
        planned=json.dumps(dict.fromkeys(question.ratings, 3)),
        published={"max_tokens": 1000},
        images=images,
        labels=list(labels),
        **variables,
    )
    if isinstance(found, RubricAnswer):
        return {name: getattr(found, name) for name in question.ratings}
    return {name: _checked(name, rating, reply) for name, rating in found.items()}


def _checked(name: str, rating: int | None, reply: Reply) -> int | Unanswered:
    if rating is None:
        return unreadable(reply, f"no {name} from 1 to 5")
    return rating if 1 <= rating <= 5 else _OffScale(Status.UNPARSED, f"{str(rating)[:20]} is not from 1 to 5", reply)
