"""The second template of the ladder: a grandstand full of small people, seen in perspective; those in front hide a part of those behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from titjudge.apps.scenes.bays import BayTemplate
from titjudge.apps.scenes.scene import Look
from titjudge.apps.scenes.sprites import RGB, Pen, Point, Strokes, rgb
from titjudge.apps.scenes.template import HUES, RowOfThings, Sprite, unlike

_SKIN = ((240, 200, 170), (198, 142, 104), (146, 96, 66), (226, 176, 146))
_HAIR = ((84, 54, 30), (34, 30, 30), (44, 32, 26), (196, 150, 80))
_TROUSERS = (74, 76, 84)
_EDGE = (34, 30, 34)


class Stand(BayTemplate):
    """A grandstand, seen in perspective from above its front.

    Attributes:
        pairs: Kind -> the property that is told apart, and its two states, one of these at random.
        hands: Pose -> where both hands are.
        painted: Patterns, things that are held, and the seat.
    """

    name = "stand"
    pairs: Mapping[str, Mapping[str, Any]]
    hands: Mapping[str, Sequence[Point]]
    painted: Mapping[str, Strokes]

    # ------------------------------------------------------------------ what is asked

    def heap_look(self, rng: Random) -> Look:
        return {"hue": rng.choice(HUES)}

    def row(self, rng: Random, kind: str) -> RowOfThings:
        hue = rng.choice(HUES)
        second = rng.choice(unlike(hue))
        if kind == "colour":
            return RowOfThings({"hue": hue}, "hue", (hue, second))
        if kind == "hat":
            return RowOfThings({"hue": hue}, "hat", rng.choice((("none", second), (second, "none"))))
        look = {"hue": hue, "held hue": second} if kind == "held" else {"hue": hue}
        return RowOfThings(look, self.pairs[kind]["feature"], rng.choice(self.pairs[kind]["states"]))

    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        return [{"hue": hue} for hue in rng.sample(("red", "green", "blue", "orange"), 3 if way == "row" else 2)]

    # ------------------------------------------------------------------ the words

    def name_of(self, look: Look) -> str:
        return f"person in {look['hue']}"

    def many(self, look: Look) -> str:
        return f"people in {look['hue']}" if "hue" in look else "people"

    def beside_text(self) -> list[Sprite]:
        return [Sprite({"hue": "black", "pose": "up"}, across, 0.0) for across in (-0.7, 0.7)]

    # ------------------------------------------------------------------ the image

    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        dark = tuple(c * 3 // 5 for c in wall)
        draw.rectangle((0, 0, 9999, 9999), fill=tuple(c * 2 // 5 for c in wall))
        draw.rectangle((0, float(corners[-1, :, 1].min()), 9999, 9999), fill=(88, 128, 78))
        rows, columns = corners.shape[0] - 1, corners.shape[1] - 1
        outline = [*corners[0], *corners[-1, ::-1]]
        draw.polygon([tuple(point) for point in outline], fill=dark)
        for row in range(rows):
            for column in range(columns):
                quad = np.array(
                    [
                        corners[row, column],
                        corners[row, column + 1],
                        corners[row + 1, column + 1],
                        corners[row + 1, column],
                    ]
                )
                middle = quad.mean(axis=0)
                quad = middle + (quad - middle) * 0.955
                draw.polygon([tuple(point) for point in quad], fill=wall)
                for share in (0.25, 0.5, 0.75):
                    left, right = quad[0] + (quad[3] - quad[0]) * share, quad[1] + (quad[2] - quad[1]) * share
                    draw.line([tuple(left), tuple(right)], fill=tuple(c * 19 // 20 for c in wall), width=2)

    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        if "seat" in look:
            pen.strokes(self.painted["seat"], {"edge": _EDGE})
            return
        pose, shirt, skin, low = look.get("pose", "down"), rgb(look["hue"]), _SKIN[variant], 0.0
        if pose == "kneeling":
            low = 0.24
            pen.box(-0.17, 0.0, 0.17, 0.14, _TROUSERS, _EDGE)
        else:
            pen.box(-0.14, 0.0, -0.01, 0.38, _TROUSERS, _EDGE)
            pen.box(0.01, 0.0, 0.14, 0.38, _TROUSERS, _EDGE)
        pen.shape([(-0.16, 0.34 - low), (0.16, 0.34 - low), (0.19, 0.71 - low), (-0.19, 0.71 - low)], shirt, _EDGE)
        pen.strokes(self.painted.get(look.get("pattern", ""), ()), {})
        held, hands = look.get("held", "nothing"), self.hands[pose]
        if held != "nothing":
            hands = hands[0], (0.3, 0.72)
        for side, (x, y) in zip((-1, 1), hands, strict=True):
            shoulder = (side * 0.17, 0.66 - low)
            pen.line([shoulder, (x, y - low)], _EDGE, 0.13)
            pen.line([shoulder, (x, y - low)], shirt, 0.09)
            pen.oval(x, y - low, 0.06, 0.06, skin, _EDGE, 0.02)
        pen.oval(0, 0.85 - low, 0.13, 0.145, _HAIR[variant], _EDGE)
        pen.oval(0, 0.82 - low, 0.1, 0.11, skin)
        if look.get("hat", "none") != "none":
            pen.box(-0.17, 0.93 - low, 0.17, 0.98 - low, rgb(look["hat"]), _EDGE)
            pen.box(-0.11, 0.96 - low, 0.11, 1.22 - low, rgb(look["hat"]), _EDGE)
        if held != "nothing":
            pen.strokes(self.painted[held], {"edge": _EDGE, "hue": rgb(look["held hue"])})
