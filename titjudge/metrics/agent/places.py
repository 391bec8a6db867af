"""Places of the things that claims are about, proposed by a detector before the first look.

An orchestrator that knows only a description has to ask where a thing is before it can look at it enlarged. A detector (a
zero-shot object detector on this machine, or any model that answers with boxes) proposes these places in one request. It
may be wrong, and
misses things: a proposal is not evidence, so no verdict can rest on it, and it is not a look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from titjudge.core.errors import Unanswered
from titjudge.core.score_parts import PlaceRow, PlacesPart
from titjudge.core.structured_output import Number
from titjudge.core.types import Ask
from titjudge.metrics.agent.claims import Claim, fenced, shortened
from titjudge.metrics.agent.looks import ENDS_ITEM, SMALLEST, Box, fit_box, place_of

ROLE = "detector"
MOST_THINGS = 50  # of one image that are asked for; further ones are left out
MOST_OF_A_THING, MOST_PLACES = 4, 40  # that the orchestrator is shown
_LONGEST_NAME = 60  # characters
_LEAST = SMALLEST + 0.002  # width and height of a place: of a box that can be looked at, however it is rounded
_SAME_PLACE = 0.5  # overlap (intersection over union) from which two boxes of one name are one thing
_DECODING = {"temperature": 0, "max_tokens": 4096}
_CAVEAT = "places proposed by a detector (may be wrong or missing, and never settle a claim)"


class DetectedBox(BaseModel):
    """One box, as a detector answers."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    name: str
    box: list[Number]
    score: Annotated[Number, BeforeValidator(lambda value: 1.0 if value is None else value)] = Field(
        default=1.0, ge=0, le=1
    )

    @property
    def has_area(self) -> bool:
        """Whether the box has four sides, with a width and a height."""
        return len(self.box) == 4 and self.box[0] < self.box[2] and self.box[1] < self.box[3]


class Detection(BaseModel):
    """The answer of a detector."""

    model_config = ConfigDict(extra="ignore")

    boxes: list[DetectedBox]


@dataclass(frozen=True, slots=True)
class Place:
    """A box in which a thing may be, with the detector's score (0 to 1)."""

    thing: str
    box: Box
    score: float


@dataclass(frozen=True, slots=True)
class Places:
    """The proposals of a detector.

    Attributes:
        things: The names that it was asked for.
        proposed: The best places, by thing in the order of the names, the best first.
        failed: The status and the reason, if there was no usable answer.
    """

    things: tuple[str, ...] = ()
    proposed: tuple[Place, ...] = ()
    failed: str = ""

    @property
    def shown(self) -> str:
        """The places as text for the judge; empty if there are none."""
        by_thing: dict[str, list[str]] = {}
        for place in self.proposed:
            score = f"{place.score:.2f}".removeprefix("0")
            by_thing.setdefault(place.thing, []).append(f"{place_of(place.box)} {score}")
        lines = "; ".join(f"{fenced(thing)} {', '.join(boxes)}" for thing, boxes in by_thing.items())
        return f"{_CAVEAT}: {lines}" if lines else ""

    @property
    def smallest(self) -> float:
        """Side of the smallest place, as a share of the side of a square as large as the image."""
        return math.sqrt(min((b[2] - b[0]) * (b[3] - b[1]) for b in (place.box for place in self.proposed)))

    def to_json(self) -> PlacesPart:
        rows = [PlaceRow(thing=place.thing, box=list(place.box), score=place.score) for place in self.proposed]
        return PlacesPart(things=list(self.things), proposed=rows, failed=self.failed)


async def locate(claims: Sequence[Claim], image: Path, ask: Ask) -> Places | None:
    """Ask the detector for the places of all things that claims are about; None if no detector is configured.

    Raises:
        Unanswered: The detector cannot be reached, or the image cannot be used. Any other answer that is not usable
            proposes nothing.
    """
    if not ask.has_role(ROLE):
        return None
    named = (shortened(thing, _LONGEST_NAME) for claim in claims for thing in claim.things)
    things = tuple(dict.fromkeys(named))[:MOST_THINGS]
    if not things:
        return Places()
    try:
        boxes = await detect(things, image, ask, planned=0.5)
    except Unanswered as failure:
        if failure.status in ENDS_ITEM:
            raise
        return Places(things, failed=f"{failure.status}: {failure.reason}")
    return Places(things, _best(things, boxes))


async def detect(things: tuple[str, ...], image: Path, ask: Ask, *, planned: float) -> list[DetectedBox]:
    """Ask the detector for the boxes of things; a dry run plans one of each, with the score `planned`.

    Raises:
        Unanswered: There is no usable answer.
    """
    reply = await ask(
        "agent/locate",
        role=ROLE,
        images=[image],
        schema=Detection,
        params=_DECODING,
        planned={"boxes": [{"name": thing, "box": [0, 0, 0.5, 0.5], "score": planned} for thing in things]},
        things=things,
    )
    detected: Detection = reply.data
    return detected.boxes


def _best(things: Sequence[str], boxes: Sequence[DetectedBox]) -> tuple[Place, ...]:
    """Choose the best places of each thing, leaving out what is in none of the names, no box, or the same place again."""
    usable = [(each.name.casefold(), _usable(each.box), each.score) for each in boxes if each.has_area]
    ranked = sorted(((name, box, score) for name, box, score in usable if box), key=lambda row: -row[2])
    kept: dict[str, list[Place]] = {thing: [] for thing in things}
    for name, box, score in ranked:
        of_thing = kept.get(name)
        if of_thing is None or len(of_thing) >= MOST_OF_A_THING or sum(map(len, kept.values())) >= MOST_PLACES:
            continue
        if all(_overlap(box, place.box) < _SAME_PLACE for place in of_thing):
            of_thing.append(Place(name, box, round(score, 3)))
    return tuple(place for thing in things for place in kept[thing])


def _usable(box: Sequence[float]) -> Box | None:
    """Round a box with an area, extended if it is too small for a look; None if it is not a box in the image."""
    wider, higher = (max(0.0, _LEAST - (box[side + 2] - box[side])) / 2 for side in (0, 1))
    left, top, right, bottom = box
    grown = (left - wider, top - higher, right + wider, bottom + higher)
    return fit_box([round(side, 3) for side in grown], grown=True).box


def _overlap(one: Box, other: Box) -> float:
    """Compute intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, width) * max(0.0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared)
