"""The first template of the ladder: cabinets of 25, 40 or 60 boxes with small things, seen straight from above.

A group is what is in one box. An error is one object of one box (one more or less, mirrored, in another state, size, colour
or kind), one letter, two things that changed places, or a thing in an empty box. Boxes are drawn by Pillow, in about half a second
an image, without a renderer. Lengths within a box are in units (the size of one object), from its middle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from titjudge.apps.scenes.scene import Look, Scene, ThingGroup, with_article
from titjudge.apps.scenes.sprites import RGB, Point, grained, label, lay, rgb
from titjudge.apps.scenes.template import (
    HUES,
    LETTERS,
    NOTHING,
    RULES,
    Box,
    RowOfThings,
    Rung,
    Sprite,
    Template,
    members,
    unlike,
)
from titjudge.apps.scenes.textures import Pixels, surface
from titjudge.core.files import read_yaml

_THINGS = tuple("star button block leaf bottle fish cup key".split())
_PAINTED = read_yaml(Path(__file__).with_name("cabinet_things.yaml"), "a list of things")
_PLURALS = {"leaf": "leaves", "fish": "fish"}
_MARGIN = 36  # pixels, for the letters and numbers of the rows and columns
_FINE = 8  # how much larger an object is drawn before it is scaled down


class Cabinet(Template):
    """A collector's cabinet, seen straight from above.

    Attributes:
        states: The distinguished property (facing, state) -> thing -> its first and its other state.
    """

    name = "cabinet"
    gap = 5
    states: Mapping[str, Mapping[str, Sequence[str]]]

    # ------------------------------------------------------------------ what is asked

    def heap_look(self, rng: Random) -> Look:
        return {"of": rng.choice(_THINGS), "hue": rng.choice(HUES)}

    def heap(self, rng: Random) -> tuple[int, Look, int]:
        look, order = self.heap_look(rng), rng.randrange(1 << 30)
        return rng.randint(6, 30), look, order

    def row(self, rng: Random, kind: str) -> RowOfThings:
        noun = rng.choice(tuple(self.states[kind]) if kind in self.states else _THINGS)
        hue, across = rng.choice(HUES), rng.choice((4, 5))
        second = rng.choice([other for other in _THINGS if other != noun])
        other_hue, rule = rng.choice(unlike(hue)), rng.choice(RULES)
        feature, states = {
            "size": ("size", ("large", "small")),
            "kind": ("of", (noun, second)),
            "colour": ("hue", (hue, other_hue)),
        }.get(kind) or (kind, self.states[kind][noun])
        return RowOfThings({"of": noun, "hue": hue}, feature, states, rule, across)

    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        nouns = rng.sample(("star", "button", "block", "leaf", "bottle")[: 3 if way in ("touching", "apart") else 5], 3)
        if way in ("inside", "outside"):
            nouns[0] = "ring"
        hues = rng.sample(("red", "green", "blue", "orange"), 3)
        looks: list[Look] = [{"hue": hue, "of": noun} for hue, noun in zip(hues, nouns, strict=True)]
        return looks if way in ("row", "column") else looks[:2]

    # ------------------------------------------------------------------ the words

    def many(self, look: Look) -> str:
        noun = look.get("of", "thing")
        if noun == "lamp":
            return f"lamps with {with_article(look['hue'])} base"
        return f"{look.get('hue', '')} {_PLURALS.get(noun, f'{noun}s')}".strip()

    def name_of(self, look: Look) -> str:
        return f"{look['hue']} {look['of']}"

    # ------------------------------------------------------------------ where things are

    def sprites(self, group: ThingGroup, rng: Random | None) -> list[Sprite]:
        if group.form == "row":
            row = [
                Sprite(look, x * 1.4, -(row - (rows - 1) / 2) * 1.45, 0.8 if look.get("size") == "small" else 1.0)
                for look, x, row, rows in members(group)
            ]
            return [_displaced(sprite, rng, 0.12, 14) for sprite in row]
        if group.form == "count":
            heap = [Sprite(group.looks[0], *point) for point in _heap(group.number, Random(str(group.order)))]
            heap = [_displaced(sprite, rng, 0.06, 8) for sprite in heap]
            return sorted(heap, key=lambda sprite: (-sprite.up, sprite.across))
        shift = _displaced(Sprite({}, 0.0, 0.0), rng, 0.4)  # one for all things, also drawn if it is not used
        if group.form == "place":
            return [_moved(sprite, shift.across, shift.up) for sprite in self.arranged(group)]
        if group.form == "contents" and group.value != NOTHING:
            return [_displaced(Sprite(group.looks[0], 0.0, 0.0), rng, 1.5, 30)]
        return []

    def inside(self, group: ThingGroup, rung: Rung, scene: Scene) -> Box:
        (w, h), (column, row) = _box_size(rung), group.cell
        left, top = _MARGIN + column * w, _MARGIN + row * h
        return left + self.gap, top + self.gap, left + w - self.gap, top + h - self.gap

    # ------------------------------------------------------------------ the image

    def part(self, group: ThingGroup, rung: Rung, scene: Scene, grain: int | None) -> NDArray[np.float32]:
        left, top, right, bottom = self.inside(group, rung, scene)
        w, h = right - left, bottom - top
        rng = Random(f"{grain}/{group.name}") if grain is not None else None
        canvas = self.floor(scene, h, w)
        if group.form == "text":
            at = _displaced(Sprite({}, w / 2, -h / 2), rng, rung.em * 0.8)
            size = round(rung.em * (0.72 * len(group.value) + 2)), 2 * rung.em
            paper = label(group.value, group.font, rung.em, size, (150, 140, 120, 255))
            lay(canvas, paper, (at.across, -at.up), shadow=(-0.2, -0.2))
        for sprite in self.sprites(group, rng):
            self.lay(canvas, sprite, rung, scene)
        return canvas

    def floor(self, scene: Scene, height: int, width: int) -> NDArray[np.float32]:
        """Return the lining of a box."""
        canvas = np.empty((height, width, 3), np.float32)
        canvas[:] = np.array(self.walls[scene.wall], np.float32) / 255
        return canvas

    def lay(self, canvas: NDArray[np.float32], sprite: Sprite, rung: Rung, scene: Scene) -> None:
        """Lay one thing, with its shadow, into a box."""
        h, w = canvas.shape[:2]
        at = w / 2 + sprite.across * rung.unit, h / 2 - sprite.up * rung.unit
        image = drawn(*self.drawing_of(sprite.look), rung.unit * sprite.scale, round(sprite.turn))
        lay(canvas, image, at, shadow=self.lights[scene.view.light])

    def picture(self, scene: Scene, rung: Rung) -> Pixels:
        frame = Image.fromarray(surface(scene.surface, scene.view.grain)).resize((rung.width, rung.height))
        canvas = np.array(frame, dtype=np.float32) / 255
        for group in scene.groups:
            left, top, right, bottom = self.place(group, rung, scene)
            canvas[top + 2 : bottom - 2, left + 2 : right - 2] *= 0.45  # the walls of the box
            contents = self.part(group, rung, scene, scene.view.grain)
            left, top, right, bottom = self.inside(group, rung, scene)
            canvas[top:bottom, left:right] = contents * self._shade(contents.shape, scene.view.light)
        w, h = _box_size(rung)
        columns = [(f"{column + 1}", (_MARGIN + (column + 0.5) * w, _MARGIN / 2)) for column in range(rung.columns)]
        rows = [(LETTERS[row], (_MARGIN / 2, _MARGIN + (row + 0.5) * h)) for row in range(rung.rows)]
        return grained(canvas, scene.view.grain, [*columns, *rows], 26)

    def _shade(self, shape: tuple[int, ...], light: str) -> NDArray[np.float32]:
        """Return how light the floor of a box is: darker under the walls on the side of the light."""
        h, w = shape[:2]
        x, y = np.arange(w) / w, np.arange(h) / h
        across = x if self.lights[light][0] < 0 else 1 - x
        tone = 1 - 0.22 * np.exp(-across / 0.04)[None, :] - 0.22 * np.exp(-y / 0.04)[:, None]
        return tone[..., None].astype(np.float32)

    def drawing_of(self, look: Look) -> tuple[str, str, bool]:
        """Return the arguments of `drawn`: kind, colour, and whether it is in its other state."""
        states = next((states[look["of"]] for kind, states in self.states.items() if kind in look), ())
        return look["of"], look["hue"], bool(states) and states[1] in look.values()


def _box_size(rung: Rung) -> tuple[int, int]:
    """Return width and height of a box in pixels."""
    return (rung.width - 2 * _MARGIN) // rung.columns, (rung.height - 2 * _MARGIN) // rung.rows


def _displaced(sprite: Sprite, rng: Random | None, by: float, turn: float = 0.0) -> Sprite:
    if rng is None:
        return sprite
    moved = _moved(sprite, rng.uniform(-by, by), -rng.uniform(-by, by))
    return moved._replace(turn=rng.uniform(-turn, turn)) if turn else moved


def _moved(sprite: Sprite, across: float, up: float) -> Sprite:
    return sprite._replace(across=sprite.across + across, up=sprite.up + up)


def _heap(number: int, rng: Random) -> list[Point]:
    """Return the first places of a heap, nearest to its middle first, so that one object more changes no other one."""
    pitch = 0.9
    places = [((x + 0.5 * (y % 2)) * pitch, y * pitch * 0.95) for y in range(-3, 4) for x in range(-3, 3)]
    places.sort(key=lambda point: math.hypot(*point) + rng.uniform(0, 0.9))
    return [(x, -y) for x, y in places[:number]]


@lru_cache(4000)
def drawn(kind: str, hue: str, other: bool, pixels: float, turn: float) -> NDArray[np.float32]:
    """Draw one object, RGBA from 0 to 1, in a square one and a half times its size."""
    side = max(4, round(pixels * 1.5))
    canvas = Image.new("RGBA", (side * _FINE, side * _FINE), (*(c // 3 for c in rgb(hue)), 0))
    _paint(ImageDraw.Draw(canvas), kind, rgb(hue), other, side * _FINE / 1.5)
    canvas = canvas.rotate(turn, Image.Resampling.BICUBIC)
    small = np.asarray(canvas.convert("RGBa").resize((side, side), Image.Resampling.BOX), dtype=np.float32) / 255
    light = np.linspace(1.1, 0.85, side, dtype=np.float32)[:, None, None]
    return np.concatenate([np.clip(small[..., :3] * light, 0, 1), small[..., 3:]], axis=2)  # colours times alpha


def _paint(draw: ImageDraw.ImageDraw, kind: str, fill: RGB, other: bool, s: float) -> None:
    """Paint the shape of a kind, in its first or its other state, with a dark edge."""
    colours = {"fill": fill, "edge": tuple(c // 3 for c in fill), "pale": tuple(c + (255 - c) * 2 // 3 for c in fill)}
    for form, places, colour, share in _PAINTED[kind][-1 if other else 0]:
        width = max(1 + (share > 0.05), round(s * share)) if share else 0
        named = colours[colour] if isinstance(colour, str) else colour and tuple(colour)
        spots = [(s * (0.25 + x), s * (0.25 + y)) for x, y in places]
        if form == "shape":
            draw.polygon(spots, fill=named, outline=colours["edge"], width=width)
        elif form == "line":
            draw.line(spots, fill=named, width=width)
        elif form == "arc":
            draw.arc((*spots[0], *spots[1]), 180, 360, fill=named, width=width)
        else:
            draw.ellipse((*spots[0], *spots[1]), fill=named, outline=colours["edge"], width=width)
