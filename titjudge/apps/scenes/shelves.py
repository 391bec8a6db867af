"""The third template of the ladder: shelves with small things of several materials, on, inside, behind and beside each other, in perspective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from titjudge.apps.scenes.bays import BayTemplate, polygon, quads, shaded
from titjudge.apps.scenes.scene import Look
from titjudge.apps.scenes.sprites import RGB, Pen, Point, rgb
from titjudge.apps.scenes.template import HUES, RowOfThings, any_of, unlike
from titjudge.apps.scenes.textures import Pixels
from titjudge.core.files import read_yaml

_TONES = (1.0, 0.93, 1.05, 0.97)  # of things that are else alike
_WHITE = (250, 248, 240)


class Shelves(BayTemplate):
    """Shelves of compartments, seen in perspective.

    Attributes:
        unlike: Material -> those that are not to be taken for it.
        rows: Kind -> the property that is told apart, the things that have it, and its states, where all have the same.
        states: Thing -> its states.
        made_of: Material -> its adjective.
    """

    name = "shelves"
    unlike: Mapping[str, Sequence[str]]
    rows: Mapping[str, tuple[str, Sequence[str], Sequence[str]]]
    states: Mapping[str, Sequence[str]]
    made_of: Mapping[str, str]

    # ------------------------------------------------------------------ what is asked

    def heap_look(self, rng: Random) -> Look:
        return {"thing": "bottle", "hue": rng.choice(HUES)}

    def row(self, rng: Random, kind: str) -> RowOfThings:
        hue = rng.choice(HUES)
        if kind == "material":
            made_of = rng.choice(tuple(self.unlike))
            thing = rng.choice(("block", "ball", "vase"))
            return RowOfThings({"thing": thing}, kind, (made_of, rng.choice(self.unlike[made_of])))
        second = rng.choice(unlike(hue)) if kind == "colour" else ""
        feature, things, states = self.rows[kind]
        look = {"thing": any_of(rng, things), "hue": hue}
        if kind == "colour":
            states = hue, second
        elif kind not in ("size", "extra"):
            states = rng.sample(states or self.states[look["thing"]], 2)
        return RowOfThings(look, feature, states)

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

    def name_of(self, look: Look) -> str:
        if look["thing"] == "jar":
            return "glass jar"
        return f"{look['hue'] if 'hue' in look else self.made_of[look['material']]} {look['thing']}"

    def many(self, look: Look) -> str:
        thing = look["thing"]
        if "hue" not in look:
            return f"{thing}s"
        return f"{thing}s with {look['hue']} rims" if thing in ("jar", "clock") else f"{look['hue']} {thing}s"

    # ------------------------------------------------------------------ the image

    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        draw.rectangle((0, 0, 9999, 9999), fill=(112, 104, 98))
        outline = np.concatenate([corners[0], corners[1:, -1], corners[-1, -2::-1], corners[-2:0:-1, 0]])
        middle = outline.mean(axis=0)
        polygon(draw, middle + (outline - middle) * 1.008, (126, 82, 46))
        for quad in quads(corners):
            quad = quad + np.array([(3, 3), (-3, 3), (-3, -3), (3, -3)])
            polygon(draw, quad, wall)
            deep = quad[:1:-1] + (quad[:2] - quad[:1:-1]) * 0.78
            polygon(draw, [quad[3], quad[2], deep[1], deep[0]], shaded(wall, 15, 16))

    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        tone, states = _TONES[variant], _things()[look["thing"]]
        strokes = states[next((value for value in look.values() if value in states), next(iter(states)))]
        red, green, blue = (min(255, round(c * tone)) for c in rgb(look.get("hue", "black")))
        hue: RGB = red, green, blue
        colours: dict[str, tuple[int, ...] | None] = {"edge": (52, 44, 40), "hue": None, "half": None, "shine": None}
        if "hue" in look:
            pale = tuple(c + (255 - c) * 2 // 3 for c in hue)
            half = tuple(c + (255 - c) // 2 for c in hue)
            colours = {"edge": tuple(c // 3 for c in hue), "hue": hue, "half": half, "shine": pale, "pale": pale}
        elif "material" in look:
            _clad(pen, [places for form, places, *_ in strokes if form == "shape"], look["material"], tone)
        pen.strokes(strokes, colours)


@cache
def _things() -> dict[str, Any]:
    """Read how each thing is painted: by its state, or by nothing if it has none."""
    return read_yaml(Path(__file__).with_name("shelf_things.yaml"), "a list of things")


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
