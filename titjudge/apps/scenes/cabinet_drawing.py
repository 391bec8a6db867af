"""Draw a cabinet of shallow boxes seen from above, as the ladder composes it: by Pillow, in about half a second an image, without a renderer.

Lengths within a box are in units (the size of one object), from the middle of the box, across and down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from titjudge.apps.scenes.scene import Scene, Thing
from titjudge.apps.scenes.sprites import font, lay, rgb
from titjudge.apps.scenes.template import Box, Point, Rung
from titjudge.apps.scenes.textures import Pixels, surface
from titjudge.core.files import read_yaml

MARGIN = 36  # pixels, for the letters and numbers of the rows and columns
_GAP = 5  # pixels between boxes
_FINE = 8  # how much larger an object is drawn before it is scaled down
LININGS = {"cream": (238, 229, 206), "pale grey": (214, 217, 220), "pale blue": (203, 220, 235)}
_PLACES = {  # of the things of an arrangement
    "row": ((-1.3, 0.0), (0.0, 0.0), (1.3, 0.0)),
    "column": ((0.0, -1.3), (0.0, 0.0), (0.0, 1.3)),
    "over": ((-0.26, -0.12), (0.26, 0.12)),
    "inside": ((0.0, 0.0), (0.0, 0.0)),
    "outside": ((0.0, 0.0), (1.6, 0.0)),
    "touching": ((-0.42, 0.0), (0.42, 0.0)),
    "apart": ((-0.75, 0.0), (0.75, 0.0)),
}
LIGHTS = {"from the upper left": (-0.7, -0.7), "from the upper right": (0.7, -0.7)}


def box_size(rung: Rung) -> tuple[int, int]:
    """Return width and height of a box in pixels."""
    return (rung.width - 2 * MARGIN) // rung.columns, (rung.height - 2 * MARGIN) // rung.rows


def place(thing: Thing, rung: Rung) -> Box:
    """Return where the box of a group is in the image."""
    w, h = box_size(rung)
    left, top = MARGIN + thing.column * w, MARGIN + int(thing.row) * h
    return left, top, left + w, top + h


def inside(thing: Thing, rung: Rung) -> Box:
    """Return where the inside of a box, as `tile` draws it, is in the image."""
    left, top, right, bottom = place(thing, rung)
    return left + _GAP, top + _GAP, right - _GAP, bottom - _GAP


@dataclass(frozen=True, slots=True)
class Sprite:
    """One object in a box: its look (kind, colour, whether in the other state), middle, scale and turn in degrees."""

    kind: str
    hue: str
    other: bool
    at: Point
    scale: float = 1.0
    turn: float = 0.0


# ---------------------------------------------------------------------- where things lie


def sprites(thing: Thing, rng: Random | None) -> list[Sprite]:
    """Return the objects of a group from the first to the last one painted, with small displacements where `rng` is given."""
    traits = thing.traits
    if thing.kind == "count":
        slots = _slots(int(traits["number"]), Random(traits["order"]))
        heap = [
            Sprite(traits["of"], traits["hue"], False, _moved(slot, rng, 0.06), 1.0, _turned(rng, 8)) for slot in slots
        ]
        return sorted(heap, key=lambda sprite: sprite.at[::-1])
    if thing.kind == "row":
        slots = row_slots(len(traits["bits"]), int(traits["across"]))
        return [_member(thing, number, slot, rng) for number, slot in enumerate(slots)]
    shift = _moved((0.0, 0.0), rng, 0.4)
    if thing.kind == "place":
        return [
            Sprite(look["of"], look["hue"], False, (x + shift[0], y + shift[1]), 2.0 if look["of"] == "ring" else 1.0)
            for look, (x, y) in zip(thing.looks, _PLACES[traits["arrangement way"]], strict=True)
        ]
    if thing.kind == "contents" and traits["contents"] != "nothing":
        return [Sprite(traits["of"], traits["hue"], False, _moved((0.0, 0.0), rng, 1.5), 1.0, _turned(rng, 30))]
    return []


def _moved(point: Point, rng: Random | None, by: float) -> Point:
    return (point[0] + rng.uniform(-by, by), point[1] + rng.uniform(-by, by)) if rng else point


def _turned(rng: Random | None, by: float) -> float:
    return rng.uniform(-by, by) if rng else 0.0


def _slots(number: int, rng: Random) -> list[Point]:
    """Return the first places of a heap, nearest to its middle first, so that one object more changes no other one."""
    pitch = 0.9
    places = [((x + 0.5 * (y % 2)) * pitch, y * pitch * 0.95) for y in range(-3, 4) for x in range(-3, 3)]
    return sorted(places, key=lambda point: math.hypot(*point) + rng.uniform(0, 0.9))[:number]


def row_slots(number: int, across: int) -> list[Point]:
    """Return the middles of objects in rows of `across`, row by row from the top left."""
    down = -(-number // across)
    return [((k % across - (across - 1) / 2) * 1.4, (k // across - (down - 1) / 2) * 1.45) for k in range(number)]


def _member(thing: Thing, number: int, slot: Point, rng: Random | None) -> Sprite:
    other, about, ones = thing.traits["bits"][number] == "1", thing.traits["about"], thing.looks[:-1]
    look = thing.looks[-1] if other else ones[number % len(ones)]
    scale = 0.8 if about == "size" and other else 1.0
    flip = other and about in ("facing", "state")
    return Sprite(look["of"], look["hue"], flip, _moved(slot, rng, 0.12), scale, _turned(rng, 14))


# ---------------------------------------------------------------------- what they look like


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


def _paint(draw: ImageDraw.ImageDraw, kind: str, fill: tuple[int, int, int], other: bool, s: float) -> None:
    """Paint the shape of a kind, with a dark edge and a light spot; a facing kind looks left, and right in its other state."""
    edge = tuple(c // 3 for c in fill)
    pale = tuple(c + (255 - c) * 2 // 3 for c in fill)
    colours = {"fill": fill, "edge": edge, "pale": pale}
    for form, places, colour, share in _things()[kind][-1 if other else 0]:
        way = -1 if other and kind in FACING else 1
        width = max(1 + (share > 0.05), round(s * share)) if share else 0
        named = colours[colour] if isinstance(colour, str) else colour and tuple(colour)
        flat = places if form in ("shape", "line") else [places[:2], places[2:]]
        spots = [(s * (0.75 + way * (x - 0.5)), s * (0.25 + y)) for x, y in flat]
        if form == "shape":
            draw.polygon(spots, fill=named, outline=edge, width=width)
        elif form == "line":
            draw.line(spots, fill=named, width=width)
        elif form == "arc":
            draw.arc((*spots[0], *spots[1]), 180, 360, fill=named, width=width)
        else:
            (x, y), rx, ry = spots[0], places[2], places[3]
            draw.ellipse((x - rx * s, y - ry * s, x + rx * s, y + ry * s), fill=named, outline=edge, width=width)


@cache
def _things() -> dict[str, Any]:
    """Read how each thing is painted, in its first and its other state."""
    return read_yaml(Path(__file__).with_name("cabinet_things.yaml"), "a list of things")


FACING = ("fish", "cup", "key")


def tile(thing: Thing, rung: Rung, lining: str, light: str, grain: int | None) -> NDArray[np.float32]:
    """Draw the inside of a box, RGB from 0 to 1; `grain` displaces what is in it a little, and None does not."""
    left, top, right, bottom = inside(thing, rung)
    w, h = right - left, bottom - top
    rng = Random(f"{grain}/{thing.name}") if grain is not None else None
    canvas = np.empty((h, w, 3), np.float32)
    canvas[:] = np.array(LININGS[lining], np.float32) / 255
    if thing.kind == "text":
        _tag(canvas, thing, rung, _moved((w / 2, h / 2), rng, rung.em * 0.8))
    for sprite in sprites(thing, rng):
        x, y = w / 2 + sprite.at[0] * rung.unit, h / 2 + sprite.at[1] * rung.unit
        look = drawn(sprite.kind, sprite.hue, sprite.other, rung.unit * sprite.scale, round(sprite.turn))
        lay(canvas, look, (x, y), shadow=LIGHTS[light])
    return canvas


def _tag(canvas: NDArray[np.float32], thing: Thing, rung: Rung, middle: Point) -> None:
    """Lay a white paper tag with its text into a box."""
    text, letters = thing.traits["text"], font(thing.traits["font"], rung.em)
    width = round(rung.em * (0.72 * len(text) + 2))
    tag = Image.new("RGBA", (width, 2 * rung.em), (250, 250, 246, 255))
    draw = ImageDraw.Draw(tag)
    draw.rectangle((0, 0, width - 1, 2 * rung.em - 1), outline=(150, 140, 120, 255))
    draw.text((rung.em, rung.em), text, font=letters, fill=(24, 24, 28), anchor="lm")
    lay(canvas, np.asarray(tag, dtype=np.float32) / np.float32(255), middle, shadow=(-0.2, -0.2))


def cabinet(scene: Scene, rung: Rung) -> Pixels:
    """Draw the whole scene: boxes in a frame, letters for rows at the left, numbers for columns above."""
    frame = Image.fromarray(surface(scene.surface, scene.view.grain)).resize((rung.width, rung.height))
    canvas = np.array(frame, dtype=np.float32) / 255
    for thing in scene.things:
        left, top, right, bottom = place(thing, rung)
        canvas[top + 2 : bottom - 2, left + 2 : right - 2] *= 0.45  # the walls of the box
        contents = tile(thing, rung, scene.wall, scene.view.light, scene.view.grain)
        left, top, right, bottom = inside(thing, rung)
        canvas[top:bottom, left:right] = contents * _shade(contents.shape, scene.view.light)
    grain = np.random.default_rng(scene.view.grain).normal(0, 0.008, canvas.shape[:2])[..., None]
    picture = Image.fromarray((np.clip(canvas + grain, 0, 1) * 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    w, h = box_size(rung)
    marks = [(f"{column + 1}", (MARGIN + (column + 0.5) * w, MARGIN / 2)) for column in range(rung.columns)]
    marks += [("ABCDEFGHIJ"[row], (MARGIN / 2, MARGIN + (row + 0.5) * h)) for row in range(rung.rows)]
    for mark, position in marks:
        draw.text(
            position,
            mark,
            font=font("DejaVuSans-Bold", 26),
            fill=(255, 255, 255),
            anchor="mm",
            stroke_width=3,
            stroke_fill=(20, 20, 20),
        )
    return np.asarray(picture)


def _shade(shape: tuple[int, ...], light: str) -> NDArray[np.float32]:
    """Return how light the floor of a box is: darker under the walls on the side of the light."""
    h, w = shape[:2]
    x, y = np.arange(w) / w, np.arange(h) / h
    across = x if LIGHTS[light][0] < 0 else 1 - x
    tone = 1 - 0.22 * np.exp(-across / 0.04)[None, :] - 0.22 * np.exp(-y / 0.04)[:, None]
    return tone[..., None].astype(np.float32)
