"""Build things of spheres, boxes, turned profiles and rings, in units of about a hand's breadth.

Local coordinates: x to the viewer's right, y away from the viewer, z up; the origin is the middle of the base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from titjudge.apps.scenes.objects import COLOURS, METALS, NUMBERS, Colour
from titjudge.apps.scenes.scene import Thing
from titjudge.core.files import read_yaml
from titjudge.core.types import Json

Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Finish:
    """How a surface looks.

    Attributes:
        kind: glossy, matte, metal, glass, wood, glow or words.
        value: Which metal, glass, wood or words.
        colour: Linear RGB, from 0 to 1.
    """

    kind: str
    value: str = ""
    colour: Colour = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive.

    Attributes:
        form: sphere, box, lathe, ring or face (a rectangle that faces the viewer).
        at: Its centre; of a lathe the middle of its base.
        size: Radii of a sphere, half sides of a box or face, or (radius, tube radius, 0) of a ring.
        profile: The outline of a lathe as (radius, height), from its base up.
        turn: Degrees about the vertical.
        tilt: Degrees about the x axis, before the turn.
    """

    form: str
    finish: Finish
    at: Point
    size: Point = (1.0, 1.0, 1.0)
    profile: tuple[tuple[float, float], ...] = ()
    turn: float = 0.0
    tilt: float = 0.0


Body = tuple[Primitive, ...]  # one object
Builder = Callable[[Mapping[str, str]], Sequence[Body]]

BROWN: Colour = (0.10, 0.035, 0.012)
CREAM: Colour = (0.80, 0.70, 0.50)
LEAF: Colour = (0.02, 0.22, 0.03)


def finish(value: str) -> Finish:
    """Look up the finish of a colour or material of the graph."""
    if value in METALS:
        return Finish("metal", value, METALS[value])
    if value == "golden":
        return Finish("metal", "gold", METALS["gold"])
    if value == "clear glass":
        return Finish("glass")
    if value == "wood":
        return Finish("wood", "light")
    return Finish("glossy", value, COLOURS[value])


def plain(colour: Colour) -> Finish:
    return Finish("matte", "", colour)


def bodies(thing: Thing) -> list[Body]:
    """Build the objects of a thing, as many as its count, each at its place within the thing."""
    return list(_BUILDERS[thing.kind](thing.traits))


def moved(body: Body, by: Point, turn: float = 0.0) -> Body:
    """Turn a body about the vertical through the origin (degrees), then displace it."""
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))

    def place(x: float, y: float, z: float) -> Point:
        return c * x - s * y + by[0], s * x + c * y + by[1], z + by[2]

    return tuple(replace(part, at=place(*part.at), turn=part.turn + turn) for part in body)


def top(kind: str, traits: Mapping[str, str]) -> float:
    """Return the height at which a thing on or in another rests, in units."""
    if kind == "books":
        return _BOOK * _number(traits)
    return {"cube": 0.76, "bowl": 0.14, "vase": 0.62}[kind]


_BOOK = 0.21


def _number(traits: Mapping[str, str]) -> int:
    return NUMBERS.index(traits["count"])


def _can(look: Finish, radius: float, height: float, position: Point) -> Primitive:
    return Primitive("lathe", look, position, profile=((0, 0), (radius, 0), (radius, height), (0, height)))


def _ball(look: Finish, radius: float, position: Point) -> Primitive:
    return Primitive("sphere", look, position, (radius, radius, radius))


_READ = read_yaml(Path(__file__).with_name("shapes.yaml"), "a list of shapes")


def _assembled(kind: str) -> Builder:
    """Return the builder of a thing of parts: one, or as many as its count, spread over the table."""

    def part(said: Json, traits: Mapping[str, str]) -> Primitive:
        lists = {name: tuple(value) for name, value in said.items() if name in ("at", "size")}
        profile = tuple(map(tuple, said.get("profile", ())))
        return Primitive(**{**said, **lists, "profile": profile, "finish": _finish_of(said["finish"], traits)})

    def build(traits: Mapping[str, str]) -> list[Body]:
        body, radius = tuple(part(said, traits) for said in _READ["bodies"][kind]), _READ["radius"].get(kind)
        places = _READ["spread"][str(_number(traits))] if radius else ()
        return [moved(body, (x * radius, y * radius, 0), 37.0 * k) for k, (x, y) in enumerate(places)] or [body]

    return build


def _finish_of(said: Any, traits: Mapping[str, str]) -> Finish:
    """Return the finish of a part: that of an attribute, its colour without gloss, its words, one for each value, or a fixed one."""
    if said == "look":
        return finish(traits.get("material") or traits["colour"])
    if isinstance(said, str):
        return finish(traits[said])
    if isinstance(said, dict):
        ((name, value),) = said.items()
        if name == "matte":
            return plain(COLOURS[traits[value]])
        return Finish("words", traits[value]) if name == "words" else _finish_of(value[traits[name]], traits)
    kind, value, (red, green, blue) = said
    return Finish(kind, value, (red, green, blue))


def _flowers(traits: Mapping[str, str]) -> list[Body]:
    count = _number(traits)
    flowers: list[Body] = []
    for k in range(count):
        x = (k - (count - 1) / 2) * (0.4 if count < 4 else 0.36)
        z = (1.15, 0.86)[k % 2] if count < 4 else (0.85, 1.15, 1.12, 0.82)[k]
        root, end = (0.1 * x, 0.0, -0.05), (x, 0.0, z)
        lean = math.degrees(math.atan2(end[0] - root[0], end[2] - root[2]))
        stem = _can(plain(LEAF), 0.024, math.hypot(end[0] - root[0], end[2] - root[2]), root)
        stem = replace(stem, turn=90.0, tilt=lean)
        petals = tuple(
            Primitive(
                "sphere",
                finish(traits["colour"]),
                (x + 0.1 * math.cos(a), -0.02, z + 0.1 * math.sin(a)),
                (0.085, 0.05, 0.085),
            )
            for a in (math.radians(72 * p + 90) for p in range(5))
        )
        heart = _ball(plain((0.75, 0.42, 0.02)) if traits["colour"] != "yellow" else plain(BROWN), 0.07, (x, -0.05, z))
        flowers.append((*petals, heart, stem))
    return flowers


def _blocks(traits: Mapping[str, str]) -> list[Body]:
    look, half = finish(traits["colour"]), 0.2
    size = (half + 0.06, half + 0.06, half)
    turns = (4.0, -22.0, 12.0, -9.0, 26.0)
    places = ((0.03 * (-1) ** k, 0, half + k * (2 * half + 0.012)) for k in range(_number(traits)))
    return [(Primitive("box", look, place, size, turn=turn),) for place, turn in zip(places, turns, strict=False)]


def _books(traits: Mapping[str, str]) -> list[Body]:
    cover, pages = finish(traits["colour"]), plain(CREAM)
    books: list[Body] = []
    for k in range(_number(traits)):
        z, turn = _BOOK * k, (6.0, -7.0, 9.0, -4.0)[k % 4]
        lids = tuple(
            Primitive("box", cover, (0, 0, z + height), (0.6, 0.44, 0.018)) for height in (0.02, _BOOK - 0.022)
        )
        spine = Primitive("box", cover, (-0.585, 0, z + _BOOK / 2), (0.018, 0.44, _BOOK / 2 - 0.004))
        block = Primitive("box", pages, (0.0, 0, z + _BOOK / 2), (0.565, 0.41, _BOOK / 2 - 0.035))
        books.append(moved((*lids, spine, block), (0, 0, 0), turn))
    return books


TRAY = (0.70, 0.56)  # half width and half depth
_CARD = (0.34, 0.12)
SMALL: dict[str, tuple[str, float]] = _READ["small"]
"""What lies on a tray: built as which kind, how large."""


def _set(traits: Mapping[str, str]) -> list[Body]:
    """Build small things of one kind on a tray, in rows, and a card in front of it where there is text."""
    kind, scale = SMALL[traits["of"]]
    (large,) = _BUILDERS[kind]({"colour": traits["colour"], "contents": "coffee"})
    small = tuple(_scaled(part, scale) for part in large)
    rows = _READ["on_tray"][str(_number(traits))]
    pieces: list[Body] = []
    for row, columns in enumerate(rows):
        for column in range(columns):
            nudge = 0.025 * math.sin(5.0 * len(pieces) + len(traits["colour"]))
            x = (column - (columns - 1) / 2) * 0.345 + nudge
            y = ((len(rows) - 1) / 2 - row) * 0.345 - nudge
            pieces.append(moved(small, (x, y, 0.04), 31.0 * len(pieces) if traits["of"] == "cubes" else 0.0))
    tray = [Primitive("box", finish(traits["tray colour"]), (0, 0, 0.02), (*TRAY, 0.02))]
    if "text" in traits:
        y, z = -TRAY[1] - 0.05, _CARD[1] + 0.01
        tray.append(Primitive("box", plain((0.86, 0.86, 0.84)), (0, y, z), (_CARD[0], 0.015, _CARD[1])))
        tray.append(Primitive("face", Finish("words", traits["text"]), (0, y - 0.018, z), (*_CARD, 0)))
    return [*pieces, tuple(tray)]


def _scaled(part: Primitive, by: float) -> Primitive:
    (x, y, z), (a, b, c) = part.at, part.size
    profile = tuple((radius * by, height * by) for radius, height in part.profile)
    size = part.size if part.profile else (a * by, b * by, c * by)
    return replace(part, at=(x * by, y * by, z * by), size=size, profile=profile)


_BUILDERS: dict[str, Builder] = {
    **{kind: _assembled(kind) for kind in _READ["bodies"]},
    "flowers": _flowers,
    "blocks": _blocks,
    "books": _books,
    "set": _set,
}
