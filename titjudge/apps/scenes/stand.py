"""The second template of the ladder: a grandstand full of small people, seen in perspective; those in front hide a part of those behind."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from titjudge.apps.scenes.bays import BayTemplate, polygon, quads, shaded
from titjudge.apps.scenes.objects import COLOURS
from titjudge.apps.scenes.scene import Look
from titjudge.apps.scenes.sprites import RGB, Pen, Strokes, rgb
from titjudge.apps.scenes.template import HUES, RowOfThings, Sprite, unlike

_SKIN = ((240, 200, 170), (198, 142, 104), (146, 96, 66), (226, 176, 146))
_HAIR = ((84, 54, 30), (34, 30, 30), (44, 32, 26), (196, 150, 80))
_TROUSERS = (74, 76, 84)
_EDGE = (34, 30, 34)


class Stand(BayTemplate):
    """A grandstand, seen in perspective from above its front.

    Attributes:
        pairs: Kind -> the property that is told apart, and its two states, one of these at random.
        painted: Strokes of the parts of people by pose, of patterns, of things that are held, and of the seat.
    """

    name = "stand"
    pairs: Mapping[str, Mapping[str, Any]]
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
        draw.rectangle((0, 0, 9999, 9999), fill=shaded(wall, 2, 5))
        draw.rectangle((0, float(corners[-1, :, 1].min()), 9999, 9999), fill=(88, 128, 78))
        polygon(draw, [*corners[0], *corners[-1, ::-1]], shaded(wall, 3, 5))
        for quad in quads(corners):
            middle = quad.mean(axis=0)
            quad = middle + (quad - middle) * 0.955
            polygon(draw, quad, wall)
            for share in (0.25, 0.5, 0.75):
                left, right = quad[:2] + (quad[:1:-1] - quad[:2]) * share
                draw.line([tuple(left), tuple(right)], fill=shaded(wall, 19, 20), width=2)

    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        pose, held, hat = look.get("pose", "down"), look.get("held", "nothing"), look.get("hat", "none")
        way = "kneeling" if pose == "kneeling" else "standing"
        parts = [f"{way} body", look.get("pattern", ""), pose if held == "nothing" else "holding", f"{way} head"]
        parts += [f"{way} hat"] * (hat != "none") + [held]
        colours = {"skin": _SKIN[variant], "hair": _HAIR[variant], "trousers": _TROUSERS, "edge": _EDGE}
        named = {"shirt": look.get("hue", ""), "hat": hat, "hue": look.get("held hue", "")}
        colours |= {name: rgb(hue) for name, hue in named.items() if hue in COLOURS}
        for part in ["seat"] if "seat" in look else parts:
            pen.strokes(self.painted.get(part, ()), colours)
