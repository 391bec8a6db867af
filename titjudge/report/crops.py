"""Small crops of an image at the places where an agentic judge decided claims."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError
from titjudge.core.score_parts import claims, place
from titjudge.data.image_decoding import open_image, upright
from titjudge.data.images import read
from titjudge.report.judged_images import Judged
from titjudge.report.thumbnails import encode

Place = tuple[float, float, float, float]  # left, top, right, bottom; fractions of width and height

EDGE, QUALITY = 160, 70  # pixels of the longer side; of WebP
MOST = 8  # crops of one image
ROOM = 4_000_000  # bytes of all crops of a report, in Base64
_AROUND = 0.25  # of the place's width and height, on each side
_LEAST = 0.05  # of the image's width and height


class ClaimCrops:
    """Cut crops until the space in a report is used up.

    Args:
        room: Bytes of all crops, in Base64.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._room = room

    def of_claims(self, parts: Mapping[str, Any], judged: Judged | None) -> tuple[list[str], dict[int, int]]:
        """Cut out the places of claims, claims that are not met first.

        Returns:
            Crops as WebP in Base64, and which of them belongs to the claim of a number. Nothing if the image is not the
            one that was judged, cannot be read, or no space is left.
        """
        rows = sorted(claims(parts), key=lambda claim: claim.get("verdict") != "not_met")
        places = {claim["number"]: spot for claim in rows if (spot := _place(claim))}
        distinct = list(dict.fromkeys(places.values()))[:MOST]
        crops = self._cut(judged, distinct) if judged is not None and distinct else []
        order = {spot: number for number, spot in enumerate(distinct[: len(crops)])}
        return crops, {claim: order[spot] for claim, spot in places.items() if spot in order}

    def _cut(self, judged: Judged, places: Sequence[Place]) -> list[str]:
        """Cut the places out of an image; nothing if it must not be shown, cannot be read, or no space is left."""
        if self._room <= 0 or judged.path is None:
            return []
        try:
            raw = read(judged.path)
            if judged.refusal(raw):
                return []
            crops = [base64.b64encode(content).decode() for content in cut(raw, judged.path, places)]
        except (DataError, OSError, ValueError):
            return []
        self._room -= sum(map(len, crops))
        return crops


def cut(raw: bytes, path: Path, places: Sequence[Place]) -> list[bytes]:
    """Cut places with some of their surroundings out of an image, as WebP.

    Raises:
        DataError: It is not an image.
    """
    with open_image(raw, path) as image:
        whole = upright(image)
        width, height = whole.size
        boxes = [
            (round(left * width), round(top * height), round(right * width), round(bottom * height))
            for left, top, right, bottom in map(_widened, places)
        ]
        return [encode(whole.crop(box), EDGE, QUALITY) for box in boxes]


def _widened(place: Place) -> Place:
    left, right = _span(place[0], place[2])
    top, bottom = _span(place[1], place[3])
    return left, top, right, bottom


def _span(start: float, end: float) -> tuple[float, float]:
    margin = max(_AROUND * (end - start), (_LEAST - (end - start)) / 2)
    return max(0.0, start - margin), min(1.0, end + margin)


def _place(claim: Mapping[str, Any]) -> Place | None:
    """Return the place in the image at which a claim was decided, if there is one."""
    if not isinstance(claim.get("number"), int):
        return None
    box = place(claim.get("place"))
    return box if box is not None and box[0] < box[2] and box[1] < box[3] else None
