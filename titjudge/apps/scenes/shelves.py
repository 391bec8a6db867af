"""The third template of the ladder: shelves with small things of several materials, on, inside, behind and beside each other, in perspective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from titjudge.apps.scenes.bays import BayRow, BaySprite, BayTemplate, Look
from titjudge.apps.scenes.palette import near
from titjudge.apps.scenes.sprites import RGB, Pen, rgb
from titjudge.apps.scenes.template import SIZES, Point, Rung
from titjudge.apps.scenes.textures import Pixels

_HUES = ("red", "orange", "green", "blue", "purple", "black")
_MADE_OF = {"wood": "wooden", "metal": "metal", "glass": "glass", "brick": "brick", "striped cloth": "striped"}
_UNLIKE = {  # materials that are not to be taken for each other
    "wood": ("metal", "glass", "striped cloth"),
    "metal": ("wood", "brick", "striped cloth"),
    "glass": ("wood", "brick", "striped cloth"),
    "brick": ("metal", "glass"),
    "striped cloth": ("wood", "metal", "glass"),
}
_STATES = {  # thing -> its states and what is said of them
    "candle": ("burning", "out"),
    "jar": ("closed", "open"),
    "bottle": ("upright", "upside down"),
}
_HANDS = ("up", "right", "down", "left")
_PHRASES = {
    "burning": "burns",
    "out": "does not burn",
    "closed": "has its lid on",
    "open": "has no lid",
    "upright": "stands upright",
    "upside down": "stands on its head",
    "handle left": "has its handle on the left",
    "handle right": "has its handle on the right",
    "large": "is large",
    "small": "is small",
    "empty": "is empty",
    "taken": "has one on it",
}
_TONES = (1.0, 0.93, 1.05, 0.97)  # of things that are else alike
_WHITE, _PALE = (250, 248, 240), (236, 226, 200)


class Shelves(BayTemplate):
    """Shelves of compartments, seen in perspective."""

    name = prefix = "shelves"
    bay = "compartment"
    kinds = (
        "count",
        "material",
        "colour",
        "state",
        "facing",
        "size",
        "detail",
        "relation",
        "arrangement",
        "text",
        "extra",
    )
    about = (
        "**Shelves**: compartments with things of wood, metal, glass, brick and striped cloth, in perspective from the front, the left or the"
        " right, in five lights and three styles; on, inside, behind, between and touching each other."
    )
    about_errors: ClassVar[Mapping[str, str]] = {
        "count": "a close group of 6 to 30 bottles has one more or one fewer",
        "material": "one of up to fifteen things is of another material",
        "colour": "one of up to fifteen has another colour",
        "state": "one of up to fifteen burns, has a lid or stands on its head, or does not",
        "facing": "one of up to fifteen is mirrored",
        "size": "one of up to fifteen is small, or is not",
        "detail": "the hand of one of up to fifteen clocks points elsewhere",
        "relation": "a thing is not on, inside, behind or touching another, or is",
        "arrangement": "two of four things in a row change places",
        "text": "one letter of a label (Latin, Cyrillic or Greek, four fonts)",
        "extra": "one thing more, on a mat that should be empty",
    }
    rungs: ClassVar[Mapping[int, Rung]] = {
        1: Rung(*SIZES[1], 5, 5, 27, 14),
        2: Rung(*SIZES[2], 8, 5, 21, 12),
        3: Rung(*SIZES[3], 10, 6, 18, 11),
    }
    cameras: ClassVar[Mapping[str, tuple[float, float]]] = {
        "from the front": (0.0, 10.0),
        "obliquely from the left": (30.0, 10.0),
        "obliquely from the right": (-30.0, 10.0),
    }
    walls: ClassVar[Mapping[str, RGB]] = {
        "pale green": (200, 220, 200),
        "cream": (234, 224, 198),
        "pale grey": (208, 210, 212),
    }
    pitch, heap_pitch, height, hidden, text_up = (0.92, 0.84), (0.56, 0.46), 3.0, 0.6, 0.9
    ways: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "relation": ("on", "off", "inside", "outside", "behind", "touching", "apart"),
        "arrangement": ("row",),
    }
    exchanged: ClassVar[Mapping[str, str]] = {
        "on": "off", "off": "on", "inside": "outside", "outside": "inside", "touching": "apart", "apart": "touching"
    }  # fmt: skip

    opening = (
        "Wooden shelves of {groups} compartments with small things, seen {camera}: {rows} rows, lettered A to {last} from the top, of {columns}"
        " compartments each, numbered from the left. All compartments are {wall} inside. Left and right are those of the picture. Light:"
        " {light}."
    )
    closing = (
        "In all that is not mentioned the things of one compartment are alike, but for small differences of shade; there is nothing else"
        " in any compartment."
    )
    crowd, label, are, seats = "group", "stands a label", "are", "round mats"

    # ------------------------------------------------------------------ what is asked

    def heap(self, rng: Random) -> Look:
        return {"thing": "bottle", "hue": rng.choice(_HUES)}

    def row(self, rng: Random, about: str) -> BayRow:
        hue = rng.choice(_HUES)
        if about == "material":
            made_of = rng.choice(tuple(_UNLIKE))
            return BayRow(
                {"thing": rng.choice(("block", "ball", "vase"))}, about, made_of, rng.choice(_UNLIKE[made_of])
            )
        if about == "colour":
            second = rng.choice([other for other in _HUES if not near(other, hue)])
            return BayRow(
                {"thing": rng.choice(("block", "ball", "vase", "bottle", "cup")), "hue": hue}, "hue", hue, second
            )
        if about == "state":
            thing = rng.choice(tuple(_STATES))
            return BayRow({"thing": thing, "hue": hue}, "state", *rng.sample(_STATES[thing], 2))
        if about == "facing":
            return BayRow({"thing": "cup", "hue": hue}, "facing", *rng.sample(("handle left", "handle right"), 2))
        if about == "detail":
            return BayRow({"thing": "clock", "hue": hue}, "hand", *rng.sample(_HANDS, 2))
        if about == "size":
            return BayRow({"thing": rng.choice(("block", "vase", "bottle")), "hue": hue}, "size", "large", "small")
        return BayRow({"thing": rng.choice(("block", "ball", "cup")), "hue": hue}, "there", "empty", "taken")

    def other_hues(self, rng: Random, hue: str) -> list[str]:
        return rng.sample([other for other in _HUES if not near(other, hue)], 3)

    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        hues = rng.sample(("red", "green", "blue", "orange"), 2)
        one: Look = {"thing": rng.choice(("ball", "vase", "bottle")), "hue": hues[0]}
        if way in ("on", "off"):
            return [one, {"thing": "block", "material": rng.choice(("wood", "brick", "metal"))}]
        if way in ("inside", "outside"):
            return [{"thing": "ball", "hue": hues[0]}, {"thing": "jar", "hue": hues[1], "state": "closed"}]
        if way == "behind":
            return rng.sample([one, {"thing": "block", "material": rng.choice(("wood", "brick", "metal"))}], 2)
        if way == "row":
            things, made_of = rng.sample(("block", "ball", "vase"), 3), rng.sample(("wood", "metal", "brick"), 2)
            looks: list[Look] = [{"thing": "bottle", "hue": hues[0]}, {"thing": things[0], "hue": hues[1]}]
            looks += [
                {"thing": thing, "material": material} for thing, material in zip(things[1:], made_of, strict=True)
            ]
            return rng.sample(looks, 4)
        return [{"thing": "block", "hue": hues[0]}, {"thing": "ball", "hue": hues[1]}]

    # ------------------------------------------------------------------ the words

    def phrase(self, feature: str, value: str) -> str:
        if feature == "hue":
            return f"is {value}"
        if feature == "material":
            return f"is made of {value}"
        if feature == "hand":
            return f"has its hand pointing {'to the ' if value in ('left', 'right') else ''}{value}"
        return _PHRASES[value]

    def name_of(self, look: Look) -> str:
        if look["thing"] == "jar":
            return "glass jar"
        return f"{look['hue'] if 'hue' in look else _MADE_OF[look['material']]} {look['thing']}"

    def many(self, look: Look) -> str:
        return {"jar": f"jars with {look.get('hue')} rims", "clock": f"clocks with {look.get('hue')} rims"}.get(
            look["thing"], f"{look['hue']} {look['thing']}s" if "hue" in look else f"{look['thing']}s"
        )

    def arrangement(self, way: str, names: Sequence[str]) -> str:
        one, other = names[:2]
        if way == "row":
            return f"from left to right the {one}, the {other}, the {names[2]} and the {names[3]}; the {other} is between the {one} and the {names[2]}"
        return {
            "on": f"the {one} stands on top of the {other}",
            "off": f"the {one} stands beside the {other}, to the right of it, and not on it",
            "inside": f"the {one} lies inside the {other}",
            "outside": f"the {one} lies outside the {other}, to the right of it",
            "behind": f"the {one} stands behind the {other}, which hides a part of it",
            "touching": f"the {one} on the left and the {other} on the right touch each other",
            "apart": f"the {one} on the left and the {other} on the right do not touch",
        }[way]

    def of_colours(self, look: Look, hues: Sequence[str]) -> str:
        return f"{look['thing']}s in {', '.join(hues)}" if len(hues) > 1 else f"{look['thing']}s"

    # ------------------------------------------------------------------ where things are

    def member(self, look: Look, place: Point) -> list[BaySprite]:
        if "there" not in look:
            return super().member(look, place)
        thing = {"thing": look["thing"], "hue": look["hue"]} if look["there"] == "taken" else {}
        return [BaySprite({"thing": "mat"}, place[0], place[1] + 0.01), BaySprite(thing, *place)]

    def spots(self, looks: Sequence[Look], way: str) -> list[BaySprite]:
        if way == "row":
            return [BaySprite(look, across, 0.6) for look, across in zip(looks, (-1.5, -0.5, 0.5, 1.5), strict=True)]
        one, other = looks
        if way == "on":
            return [BaySprite(other, 0.0, 0.6), BaySprite(one, 0.0, 0.59, lift=0.68)]
        if way == "off":
            return [BaySprite(other, 0.0, 0.6), BaySprite(one, 1.0, 0.59)]
        if way in ("inside", "outside"):
            return [BaySprite(other, 0.0, 0.6), BaySprite(one, 0.0 if way == "inside" else 0.8, 0.66, scale=0.55)]
        if way == "behind":
            return [BaySprite(one, -0.12, 0.9), BaySprite(other, 0.12, 0.5)]
        apart = 0.3 if way == "touching" else 0.58
        return [BaySprite(one, -apart, 0.6), BaySprite(other, apart, 0.6)]

    # ------------------------------------------------------------------ the image

    def corner(self, column: float, row: float, rung: Rung) -> tuple[float, float, float]:
        return column, rung.rows - row, 0.0

    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        draw.rectangle((0, 0, 9999, 9999), fill=(112, 104, 98))
        outline = np.concatenate([corners[0], corners[1:, -1], corners[-1, -2::-1], corners[-2:0:-1, 0]])
        middle = outline.mean(axis=0)
        draw.polygon([tuple(middle + (point - middle) * 1.008) for point in outline], fill=(126, 82, 46))
        for row in range(corners.shape[0] - 1):
            for column in range(corners.shape[1] - 1):
                top, bottom = corners[row, column : column + 2], corners[row + 1, column : column + 2]
                quad = np.array([top[0], top[1], bottom[1], bottom[0]]) + np.array([(3, 3), (-3, 3), (-3, -3), (3, -3)])
                draw.polygon([tuple(point) for point in quad], fill=wall)
                deep = np.array(
                    [quad[3], quad[2], quad[2] + (quad[1] - quad[2]) * 0.78, quad[3] + (quad[0] - quad[3]) * 0.78]
                )
                draw.polygon([tuple(point) for point in deep], fill=tuple(c * 15 // 16 for c in wall))

    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        thing, tone = look["thing"], _TONES[variant]
        if thing == "mat":
            pen.oval(0, 0.02, 0.36, 0.15, (150, 120, 96), (90, 70, 56))
            return
        fill = tuple(min(255, round(c * tone)) for c in rgb(look.get("hue", "black")))
        hue: RGB = (fill[0], fill[1], fill[2])
        edge: RGB = (hue[0] // 3, hue[1] // 3, hue[2] // 3) if "hue" in look else (52, 44, 40)
        if thing in _PAINTERS:
            _PAINTERS[thing](pen, look, hue, edge)
            return
        outlines = _OUTLINES[thing]
        if "material" in look:
            _clad(pen, outlines, look["material"], tone)
        for k, outline in enumerate(outlines):
            pale = tuple(c + (255 - c) // 2 for c in hue)
            pen.shape(outline, None if "material" in look else pale if k else hue, edge)
        if "hue" in look and thing != "block":
            pen.oval(-0.13, 0.5, 0.05, 0.08, tuple(c + (255 - c) * 2 // 3 for c in hue))


def _round(x: float, y: float, radius: float) -> list[Point]:
    return [(x + radius * float(np.cos(a)), y + radius * float(np.sin(a))) for a in np.linspace(0, 2 * np.pi, 28)]


_OUTLINES: Mapping[str, Sequence[Sequence[Point]]] = {
    "block": (
        [(-0.36, 0), (0.36, 0), (0.36, 0.58), (-0.36, 0.58)],
        [(-0.36, 0.58), (0.36, 0.58), (0.27, 0.8), (-0.27, 0.8)],
    ),
    "ball": (_round(0, 0.37, 0.37),),
    "vase": (
        [(-0.16, 0), (0.16, 0), (0.33, 0.36), (0.25, 0.62), (0.12, 0.76), (0.2, 0.94), (-0.2, 0.94), (-0.12, 0.76), (-0.25, 0.62), (-0.33, 0.36)],
    ),
}  # fmt: skip


def _clad(pen: Pen, outlines: Sequence[Sequence[Point]], material: str, tone: float) -> None:
    """Lay a material over the outlines."""
    if material == "glass":
        for outline in outlines:
            pen.shape(outline, (214, 232, 240, 120))
        pen.line([(-0.2, 0.2), (-0.2, 0.5)], _WHITE, 0.07)
        pen.line([(-0.08, 0.16), (-0.08, 0.3)], _WHITE, 0.04)
        return
    mask = pen.like()
    for outline in outlines:
        mask.shape(outline, (0, 0, 0, 255))
    pen.texture(_texture(material, tone), mask)


@lru_cache(32)
def _texture(material: str, tone: float) -> Pixels:
    """Return the pixels of a material, 200 across and 170 up: a hundred to the unit."""
    y, x = np.mgrid[0:170, 0:200].astype(np.float64)
    if material == "wood":
        grain = np.sin(y / 2.6 + 2.2 * np.sin(x / 26)) * 0.5 + np.sin(y / 7 + x / 50) * 0.5
        picture = np.array((178, 122, 66)) * (1 + 0.32 * grain[..., None])
    elif material == "metal":
        shine = np.exp(-(((x - 82) / 8) ** 2)) + 0.45 * np.exp(-(((x - 122) / 7) ** 2))
        picture = np.array((104, 112, 122)) * (1 + 1.35 * shine[..., None])
    elif material == "brick":
        row = (y // 14).astype(int)
        mortar = (y % 14 < 3.4) | ((x + 14 * (row % 2)) % 28 < 3.4)
        picture = np.where(mortar[..., None], np.array((230, 220, 206)), np.array((164, 66, 46)))
    else:  # striped cloth
        picture = np.where((x // 13 % 2 == 0)[..., None], np.array((186, 36, 60)), np.array((248, 244, 234)))
    return np.asarray(np.clip(picture * tone, 0, 255), np.uint8)


def _bottle(pen: Pen, look: Look, hue: RGB, edge: RGB) -> None:
    body = [(-0.2, 0), (0.2, 0), (0.2, 0.46), (0.1, 0.62), (0.1, 0.84), (-0.1, 0.84), (-0.1, 0.62), (-0.2, 0.46)]
    over = look.get("state") == "upside down"

    def turned(points: Sequence[Point]) -> list[Point]:
        return [(x, 1.0 - y if over else y) for x, y in points]

    pen.shape(turned(body), hue, edge)
    pen.oval(0, 0.1 if over else 0.9, 0.16, 0.13, _PALE, edge, 0.04)
    pen.shape(turned([(-0.2, 0.12), (0.2, 0.12), (0.2, 0.34), (-0.2, 0.34)]), edge, edge)


def _cup(pen: Pen, look: Look, hue: RGB, edge: RGB) -> None:
    side = 1 if look.get("facing") == "handle right" else -1
    pen.oval(side * 0.26, 0.34, 0.17, 0.19, None, edge, 0.09)
    pen.shape([(-0.22, 0), (0.22, 0), (0.28, 0.64), (-0.28, 0.64)], hue, edge)
    pen.oval(0, 0.64, 0.28, 0.08, tuple(c + (255 - c) * 2 // 3 for c in hue), edge)


def _jar(pen: Pen, look: Look, hue: RGB, edge: RGB) -> None:
    pen.shape(
        [(-0.36, 0), (0.36, 0), (0.38, 0.7), (0.3, 0.82), (-0.3, 0.82), (-0.38, 0.7)], (214, 232, 240, 90), (70, 84, 96)
    )
    pen.line([(-0.27, 0.16), (-0.27, 0.6)], _WHITE, 0.06)
    pen.box(-0.3, 0.8, 0.3, 0.88, hue, edge)
    if look.get("state") == "closed":
        pen.box(-0.34, 0.88, 0.34, 1.02, (120, 78, 42), (50, 34, 22))
        pen.oval(0, 1.07, 0.09, 0.07, (120, 78, 42), (50, 34, 22))


def _candle(pen: Pen, look: Look, hue: RGB, edge: RGB) -> None:
    pen.box(-0.14, 0.06, 0.14, 0.72, hue, edge)
    pen.oval(0, 0.04, 0.26, 0.07, (150, 146, 140), (60, 58, 56))
    pen.line([(0, 0.7), (0, 0.82)], (30, 26, 26), 0.05)
    if look.get("state") == "burning":
        pen.shape([(0, 1.22), (0.12, 0.95), (0.07, 0.8), (-0.07, 0.8), (-0.12, 0.95)], (255, 176, 30), (200, 90, 10))
        pen.oval(0, 0.9, 0.05, 0.08, (255, 244, 170))


def _clock(pen: Pen, look: Look, hue: RGB, edge: RGB) -> None:
    pen.oval(0, 0.42, 0.42, 0.42, hue, edge)
    pen.oval(0, 0.42, 0.33, 0.33, _WHITE, edge)
    x, y = {"up": (0.0, 0.3), "down": (0.0, -0.3), "left": (-0.3, 0.0), "right": (0.3, 0.0)}[look["hand"]]
    pen.line([(0, 0.42), (x, 0.42 + y)], (20, 18, 22), 0.09)
    pen.oval(0, 0.42, 0.06, 0.06, (20, 18, 22))


_PAINTERS = {"bottle": _bottle, "cup": _cup, "jar": _jar, "candle": _candle, "clock": _clock}
