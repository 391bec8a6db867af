"""The inventory of an image: a first look at the whole and at enlarged parts of it, in one request, that lists what is where.

A model sees an image scaled down, often to 768 pixels. Where the image is larger and the prompt long, one look at the whole
misses small things; its parts in the same request show them at their own size, for the price of as many images.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from titjudge.metrics.agent.claims import fenced, shortened
from titjudge.metrics.agent.crops import SLACK, Box, fit_box, place_of

ONE_LOOK = 1_600_000  # pixels of an image that is seen in one look: 1,536 x 1,024 and less
PART = 1024  # pixels of a part's longer side
MANY_CLAIMS = 25  # claims from which an inventory of a large image pays
MOST_ITEMS = 250
_MOST_ACROSS, _OVERLAP = 3, 0.02  # parts; of width and height, on each inner side
_LONGEST = 400  # characters of an item
_NUMBER = re.compile(r"^(?:[-*•]\s*)?(?:\d+\s*[.):]\s*)?")
_PLACE = re.compile(r"\[\s*" + r"(?:\s*[,;]\s*|\s+)".join([r"(\d+(?:\.\d+)?|\.\d+)"] * 4) + r"\s*\]")
_SCALES = (1.0, 100.0, 1000.0)  # fractions, percent, and the thousandths that some models are trained on
_UNSURE = re.compile(r"[(\[]\s*unsure\s*[)\]]|\bunsure\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """One line of an inventory: what is seen, where, and whether the reader is sure of it."""

    text: str
    box: Box | None = None
    sure: bool = True

    @property
    def shown(self) -> str:
        """The line as the orchestrator reads it."""
        place = "" if self.box is None else f" {place_of(self.box)}"
        return f"{fenced(self.text)}{place}{'' if self.sure else ' (unsure)'}"


def parts_of(width: int, height: int) -> list[Box]:
    """Divide an image into parts of some 1,024 pixels a side, nine at most, that overlap a little.

    An image of at most 1.6 million pixels has none: models see it in one look.
    """
    if width * height <= ONE_LOOK:
        return []
    columns, rows = (min(_MOST_ACROSS, math.ceil(side / PART)) for side in (width, height))
    return [(left, top, right, bottom) for top, bottom in _spans(rows) for left, right in _spans(columns)]


def _spans(parts: int) -> list[tuple[float, float]]:
    """Return where each part of a side begins and ends, as fractions of it."""
    return [
        (round(max(0.0, number / parts - _OVERLAP), 3), round(min(1.0, (number + 1) / parts + _OVERLAP), 3))
        for number in range(parts)
    ]


def read_items(text: str) -> tuple[InventoryItem, ...]:
    """Parse an inventory: one item a line, with its place in brackets and "(unsure)" where the reader says so.

    Places are in percent, as the template asks, in fractions or in thousandths: the smallest of these that all of them fit.
    """
    lines = [_NUMBER.sub("", line.strip()) for line in text.splitlines()]
    largest = max((float(side) for match in _PLACE.finditer(text) for side in match.groups()), default=0.0)
    scale = next((scale for scale in _SCALES if largest <= scale * (1 + SLACK)), 0.0)
    return tuple(_item(line, scale) for line in lines if any(map(str.isalnum, line)))[:MOST_ITEMS]


def _item(line: str, scale: float) -> InventoryItem:
    places = [
        (match, box)
        for match in _PLACE.finditer(line)
        if scale and (box := fit_box([float(side) / scale for side in match.groups()], grown=True).box)
    ]
    place, box = places[-1] if places else (None, None)
    words = line if place is None else line[: place.start()] + line[place.end() :]
    said = _UNSURE.sub("", words)
    return InventoryItem(shortened(said.strip(" ,;-–—"), _LONGEST), box, said == words)
