"""The second template of the ladder: a grandstand full of small people, seen in perspective; those in front hide a part of those behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from titjudge.apps.scenes.bays import BayRow, BaySprite, BayTemplate, Look
from titjudge.apps.scenes.palette import near
from titjudge.apps.scenes.scene import Thing
from titjudge.apps.scenes.sprites import RGB, Pen, rgb
from titjudge.apps.scenes.template import SIZES, Point, Rung

_HUES = ("red", "orange", "green", "blue", "purple", "black")
_PAIRS = {  # kind -> what is told apart, and its two states
    "pattern": ("pattern", (("plain", "striped"), ("plain", "dotted"), ("striped", "plain"), ("dotted", "plain"))),
    "pose": ("pose", (("down", "up"), ("up", "down"), ("down", "kneeling"), ("kneeling", "down"))),
    "facing": ("pose", (("left up", "right up"), ("right up", "left up"))),
    "held": ("held", (("flag", "balloon"), ("balloon", "umbrella"), ("umbrella", "flag"), ("flag", "nothing"), ("nothing", "balloon"))),
    "size": ("size", (("large", "small"),)),
    "extra": ("there", (("empty", "taken"),)),
}  # fmt: skip
_PHRASES = {
    "plain": "wears a plain shirt",
    "striped": "wears a shirt with white stripes",
    "dotted": "wears a shirt with white dots",
    "down": "has both arms down",
    "up": "has both arms up",
    "kneeling": "kneels",
    "left up": "raises only the arm on the left side of the picture",
    "right up": "raises only the arm on the right side of the picture",
    "flag": "holds up a flag",
    "balloon": "holds up a balloon",
    "umbrella": "holds up an umbrella",
    "nothing": "holds nothing",
    "large": "is tall",
    "small": "is short like a child",
    "empty": "is empty",
    "taken": "is taken",
}
_SKIN = ((240, 200, 170), (198, 142, 104), (146, 96, 66), (226, 176, 146))
_HAIR = ((84, 54, 30), (34, 30, 30), (44, 32, 26), (196, 150, 80))
_TROUSERS = (74, 76, 84)
_EDGE = (34, 30, 34)


class Stand(BayTemplate):
    """A grandstand, seen in perspective from above its front."""

    name = prefix = "stand"
    bay = "block"
    kinds = ("count", "colour", "pattern", "pose", "facing", "hat", "held", "size", "text", "arrangement", "extra")
    about = (
        "A **stand**: blocks of people on a grandstand, in perspective from the middle, the left or the right, in five lights and three"
        " styles; those in front hide a part of those behind."
    )
    about_errors: ClassVar[Mapping[str, str]] = {
        "count": "a close crowd of 6 to 30 people has one more or one fewer",
        "colour": "one of up to fifteen people wears another colour",
        "pattern": "the shirt of one of up to fifteen is plain, striped or dotted",
        "pose": "one of up to fifteen kneels, or has both arms up, or does not",
        "facing": "one of up to fifteen raises the other arm",
        "hat": "one of up to fifteen wears a hat, or none",
        "held": "one of up to fifteen holds up another thing (flag, balloon, umbrella), or none",
        "size": "one of up to fifteen is short, or is not",
        "text": "one letter of a strip (Latin, Cyrillic or Greek, four fonts)",
        "arrangement": "two people change places (left, right, between, behind), or hold hands, or do not",
        "extra": "one person more, on a seat that should be empty",
    }
    rungs: ClassVar[Mapping[int, Rung]] = {
        1: Rung(*SIZES[1], 5, 5, 30, 14),
        2: Rung(*SIZES[2], 8, 5, 25, 12),
        3: Rung(*SIZES[3], 10, 6, 22, 11),
    }
    cameras: ClassVar[Mapping[str, tuple[float, float]]] = {
        "from the middle": (0.0, 32.0),
        "from the left": (7.0, 32.0),
        "from the right": (-7.0, 32.0),
    }
    walls: ClassVar[Mapping[str, RGB]] = {
        "pale grey": (206, 208, 210),
        "cream": (232, 222, 196),
        "pale blue": (190, 208, 226),
    }
    pitch, heap_pitch, height = (0.8, 0.8), (0.56, 0.42), 3.1
    ways: ClassVar[Mapping[str, tuple[str, ...]]] = {"arrangement": ("row", "behind", "touching", "apart")}
    exchanged: ClassVar[Mapping[str, str]] = {"touching": "apart", "apart": "touching"}
    text_up, hidden = 1.42, 0.6

    opening = (
        "A grandstand of {groups} blocks of people, seen {camera} and from above: {rows} tiers, lettered A to {last} from the top, of {columns}"
        " blocks each, numbered from the left. Its floors are {wall}. Left and right are those of the picture. Light: {light}."
    )
    closing = (
        "Hair and skin differ from one to the next. In all else that is not mentioned the people of one block are alike:"
        " they stand, have their arms down and nothing in their hands, and wear plain shirts and no hats. Nobody else is there."
    )
    crowd, label, are, seats = "crowd", "two people in black hold up a strip", "stand", "seats"

    # ------------------------------------------------------------------ what is asked

    def heap(self, rng: Random) -> Look:
        return {"hue": rng.choice(_HUES)}

    def row(self, rng: Random, about: str) -> BayRow:
        hue = rng.choice(_HUES)
        second = rng.choice([other for other in _HUES if not near(other, hue)])
        if about == "colour":
            return BayRow({"hue": hue}, "hue", hue, second)
        if about == "hat":
            return BayRow({"hue": hue}, "hat", *rng.choice((("none", second), (second, "none"))))
        feature, pairs = _PAIRS[about]
        look = {"hue": hue, "held hue": second} if about == "held" else {"hue": hue}
        return BayRow(look, feature, *rng.choice(pairs))

    def other_hues(self, rng: Random, hue: str) -> list[str]:
        return rng.sample([other for other in _HUES if not near(other, hue)], 3)

    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        return [{"hue": hue} for hue in rng.sample(("red", "green", "blue", "orange"), 3 if way == "row" else 2)]

    # ------------------------------------------------------------------ the words

    def phrase(self, feature: str, value: str) -> str:
        if feature == "hue":
            return f"wears {value}"
        if feature == "hat":
            return "wears no hat" if value == "none" else f"wears a tall {value} hat"
        return _PHRASES[value]

    def name_of(self, look: Look) -> str:
        return f"person in {look['hue']}"

    def many(self, look: Look) -> str:
        return f"people in {look['hue']}"

    def arrangement(self, way: str, names: Sequence[str]) -> str:
        one, other, last = (*names, "")[:3]
        return {
            "row": f"from left to right the {one}, the {other} and the {last}; the {other} stands between the two others",
            "behind": f"the {one} stands behind the {other}, who hides a part of the {one}",
            "touching": f"the {one} on the left and the {other} on the right hold hands",
            "apart": f"the {one} on the left and the {other} on the right do not touch each other",
        }[way]

    def of_colours(self, look: Look, hues: Sequence[str]) -> str:
        *first, last = hues
        return f"people in {', '.join(first)} or {last}" if first else "people"

    # ------------------------------------------------------------------ where things are

    def member(self, look: Look, place: Point) -> list[BaySprite]:
        if "there" not in look:
            return super().member(look, place)
        person = {"hue": look["hue"]} if look["there"] == "taken" else {}
        return [BaySprite({"seat": "grey"}, place[0], place[1] + 0.04), BaySprite(person, *place)]

    def spots(self, looks: Sequence[Look], way: str) -> list[BaySprite]:
        if way == "row":
            return [BaySprite(look, across, 0.3) for look, across in zip(looks, (-0.8, 0.0, 0.8), strict=True)]
        if way == "behind":
            return [BaySprite(looks[0], -0.1, 0.55), BaySprite(looks[1], 0.1, 0.15)]
        poses = ("reach right", "reach left") if way == "touching" else ("down", "down")
        return [
            BaySprite({**look, "pose": pose}, across, 0.3)
            for look, pose, across in zip(looks, poses, (-0.38, 0.38), strict=True)
        ]

    def beside_text(self, thing: Thing) -> list[BaySprite]:
        return [BaySprite({"hue": "black", "pose": "up"}, across, 0.0) for across in (-0.7, 0.7)]

    # ------------------------------------------------------------------ the image

    def corner(self, column: float, row: float, rung: Rung) -> tuple[float, float, float]:
        return column, 0.42 * (rung.rows - row), 0.8 * (rung.rows - row)

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
            pen.box(-0.2, 0.0, 0.2, 0.36, (150, 146, 150), _EDGE)
            pen.box(-0.2, 0.0, 0.2, 0.12, (120, 116, 122), _EDGE)
            return
        pose, shirt, skin, low = look.get("pose", "down"), rgb(look["hue"]), _SKIN[variant], 0.0
        if pose == "kneeling":
            low = 0.24
            pen.box(-0.17, 0.0, 0.17, 0.14, _TROUSERS, _EDGE)
        else:
            pen.box(-0.14, 0.0, -0.01, 0.38, _TROUSERS, _EDGE)
            pen.box(0.01, 0.0, 0.14, 0.38, _TROUSERS, _EDGE)
        pen.shape([(-0.16, 0.34 - low), (0.16, 0.34 - low), (0.19, 0.71 - low), (-0.19, 0.71 - low)], shirt, _EDGE)
        self._pattern(pen, look.get("pattern", "plain"))
        held = look.get("held", "nothing")
        hands = {"up": ((-0.31, 1.02), (0.31, 1.02)), "left up": ((-0.31, 1.02), (0.27, 0.38)), "right up": ((-0.27, 0.38), (0.31, 1.02)),
                 "reach right": ((-0.27, 0.38), (0.4, 0.46)), "reach left": ((-0.4, 0.46), (0.27, 0.38))}.get(pose, ((-0.27, 0.38), (0.27, 0.38)))  # fmt: skip
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
            self._held(pen, held, rgb(look["held hue"]))

    @staticmethod
    def _pattern(pen: Pen, pattern: str) -> None:
        white = (248, 246, 240)
        if pattern == "striped":
            for y in (0.41, 0.53, 0.65):
                pen.box(-0.16, y - 0.025, 0.16, y + 0.025, white)
        if pattern == "dotted":
            for x, y in ((-0.09, 0.62), (0.09, 0.62), (0, 0.53), (-0.09, 0.43), (0.09, 0.43)):
                pen.oval(x, y, 0.038, 0.038, white)

    @staticmethod
    def _held(pen: Pen, held: str, hue: RGB) -> None:
        pen.line([(0.3, 0.66), (0.3, 1.1)], _EDGE, 0.035)
        if held == "flag":
            pen.shape([(0.3, 1.36), (0.3, 1.06), (0.66, 1.21)], hue, _EDGE)
        elif held == "balloon":
            pen.oval(0.3, 1.22, 0.14, 0.17, hue, _EDGE)
        else:
            pen.shape([(0.04, 1.06), (0.1, 1.2), (0.3, 1.32), (0.5, 1.2), (0.56, 1.06)], hue, _EDGE)
