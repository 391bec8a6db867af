"""Places on the table, the camera, and relations that are clearly true or clearly false."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from titjudge.apps.scenes.scene import COLOURS, METALS, SIGN, TABLE, Colour, Scene, Thing
from titjudge.core.files import read_yaml

Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Finish:
    """How a surface looks.

    Attributes:
        kind: glossy, matte, metal, glass, wood, glow or words.
        value: Which metal or words.
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

_READ = read_yaml(Path(__file__).with_name("shapes.yaml"), "a list of shapes")
SMALL: Mapping[str, tuple[str, float]] = _READ["small"]
"""Things on a tray: the kind they are built as, and their size."""
_ALONE = ((0, 0, 0, 0),)
_LEAF = Finish("matte", "", (0.02, 0.22, 0.03))


def bodies(thing: Thing, *, in_bowl: bool = False) -> list[Body]:
    """Build the objects of a thing, as many as its count, each at its place within the thing."""
    if thing.kind == "set":
        return list(_on_tray(thing.traits))
    body = tuple(_parts(thing.kind, thing.traits))
    places = _READ["in_bowl"] if in_bowl else _READ["places"].get(thing.kind, {})
    objects = [moved(body, place, turn) for *place, turn in places.get(thing.traits.get("count"), _ALONE)]
    return [(*flower, _stem(flower[0].at)) for flower in objects] if thing.kind == "flowers" else objects


def fits_in_bowl(count: str) -> bool:
    """Return True if `count` fruits fit into a bowl."""
    return count in _READ["in_bowl"]


def moved(body: Body, by: Sequence[float], turn: float = 0.0) -> Body:
    """Turn a body about the vertical through the origin (degrees), then displace it."""
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))

    def place(x: float, y: float, z: float) -> Point:
        return c * x - s * y + by[0], s * x + c * y + by[1], z + by[2]

    return tuple(replace(part, at=place(*part.at), turn=part.turn + turn) for part in body)


def top(thing: Thing) -> float:
    """Return the height at which a thing on or in another rests, in units."""
    return float(_READ["tops"][thing.kind]) * thing.count


def _parts(kind: str, traits: Mapping[str, str], scale: float = 1.0) -> Iterator[Primitive]:
    """Build the parts of one thing at the origin."""
    for said in _READ["bodies"][kind]:
        x, y, z = (scale * length for length in said["at"])
        profile = tuple((radius * scale, height * scale) for radius, height in said.get("profile", ()))
        a, b, c = (scale * length for length in said.get("size", (1, 1, 1)))
        turns = {name: said[name] for name in ("turn", "tilt") if name in said}
        yield Primitive(said["form"], _finish(said["finish"], traits), (x, y, z), (a, b, c), profile, **turns)


def _finish(said: Any, traits: Mapping[str, str]) -> Finish:
    """Return the finish of a part: an attribute's finish, its colour without gloss, its words, one per value, or a fixed one."""
    if isinstance(said, Mapping):
        ((name, value),) = said.items()
        if name == "matte":
            return Finish("matte", "", COLOURS[traits[value]])
        if name == "words":
            return Finish("words", traits[value])
        return _finish(value.get(traits[name]) or value["other"], traits)
    if not isinstance(said, str):
        kind, value, (red, green, blue) = said
        return Finish(kind, value, (red, green, blue))
    value = (traits.get("material") or traits["colour"]) if said == "look" else traits[said]
    if metal := METALS.get("gold" if value == "golden" else value):
        return Finish("metal", value, metal)
    return Finish(_READ["materials"][value]) if value in _READ["materials"] else Finish("glossy", value, COLOURS[value])


def _stem(flower: Point) -> Primitive:
    """Build the stem of a flower, from within the vase to the flower."""
    x, _, z = flower
    away, up = 0.9 * x, z + 0.05
    length, lean = math.hypot(away, up), math.degrees(math.atan2(away, up))
    profile = ((0.0, 0.0), (0.024, 0.0), (0.024, length), (0.0, length))
    return Primitive("lathe", _LEAF, (0.1 * x, 0.0, -0.05), (1, 1, 1), profile, 90.0, lean)


def _on_tray(traits: Mapping[str, str]) -> Iterator[Body]:
    """Build small things of one kind on a tray, in rows, then the tray, and a card in front of it if there is text."""
    kind, scale = SMALL[traits["of"]]
    small = tuple(_parts(kind, {**traits, "contents": "coffee"}, scale))
    rows, number = _READ["on_tray"][traits["count"]], 0
    for row, columns in enumerate(rows):
        for column in range(columns):
            nudge = 0.025 * math.sin(5.0 * number + len(traits["colour"]))
            x, y = (column - (columns - 1) / 2) * 0.345 + nudge, ((len(rows) - 1) / 2 - row) * 0.345 - nudge
            yield moved(small, (x, y, 0.04), 31.0 * number if traits["of"] == "cubes" else 0.0)
            number += 1
    yield (*_parts("tray", traits), *(_parts("card", traits) if "text" in traits else ()))


_PLACES = read_yaml(Path(__file__).with_name("layout.yaml"), "places")
WALL_Y = 3.1
BEFORE = 1.25  # distance towards the viewer of a load that is in a wrong place
FOV = 40.0  # degrees, across
DISTANCE = 9.8
TARGET = (0.0, 0.35, 0.62)

_LEFT_OR_RIGHT = 0.10  # of the image's width: less is neither left nor right
_BEHIND = 0.8  # units: less is neither in front nor behind
_ALIGNED = 0.09  # of the image's width: "behind" is asked within a column


@dataclass(frozen=True, slots=True)
class PlacedThing:
    """An object in the scene.

    Attributes:
        name: The name of its thing.
        label: A name that no other object has.
        body: Its extent in the scene's coordinates.
    """

    name: str
    label: str
    body: Body


def origin(scene: Scene, thing: Thing) -> Point:
    """Return the middle of a thing's base in the scene's coordinates."""
    dx, dy, _ = scene.view.shift(thing)
    x, y = thing.column * _PLACES["columns"][thing.row] + dx, _PLACES["rows"][thing.row] + dy
    if thing.place == "before":
        return x + 0.05, y - BEFORE, 0.0
    carrier = scene.get(thing.carrier)
    return x, y, top(carrier) if carrier is not None else 0.0


def placed(scene: Scene) -> Iterator[PlacedThing]:
    """Yield every object of every thing, of a group each one."""
    for thing in scene.things:
        carrier = scene.get(thing.carrier)
        in_bowl = thing.place == "in" and carrier is not None and carrier.kind == "bowl"
        _, _, turn = scene.view.shift(thing)
        turn = 0.0 if in_bowl or thing.kind in (SIGN, "snowman") else turn
        for number, body in enumerate(bodies(thing, in_bowl=in_bowl)):
            body = moved(body, origin(scene, thing), turn)
            words = tuple(part for part in body if part.form == "face")
            label = label_of(thing, number) if number < thing.count else tray_of(thing)
            yield PlacedThing(thing.name, label, tuple(part for part in body if part not in words))
            if words:
                yield PlacedThing(thing.name, words_of(thing), words)


def label_of(thing: Thing, number: int) -> str:
    """Return the label of one object of a thing, counted from 0."""
    return f"{thing.slug}__{number}"


def words_of(thing: Thing) -> str:
    """Return the label of the text on a sign or card."""
    return f"{thing.slug}__words"


def tray_of(thing: Thing) -> str:
    """Return the label of the tray that a thing lies on."""
    return f"{thing.slug}__tray"


def may_number(thing: Thing, count: str) -> bool:
    """Return True if `count` of a thing fit in its place: a bowl has two or three fruits."""
    return thing.place != "in" or thing.kind == "flowers" or fits_in_bowl(count)


def eye(scene: Scene) -> Point:
    return 0.0, TARGET[1] - DISTANCE, scene.view.height


def project(scene: Scene, point: Point) -> tuple[float, float, float]:
    """Project a point: across and down, from 0 to 1 within the image, and depth in units."""
    _, y, z = eye(scene)
    tilt = math.atan2(z - TARGET[2], TARGET[1] - y)
    across, away, up = point[0], point[1] - y, point[2] - z
    away, up = away * math.cos(tilt) - up * math.sin(tilt), away * math.sin(tilt) + up * math.cos(tilt)
    scale = 2 * away * math.tan(math.radians(FOV / 2))
    return 0.5 + across / scale, 0.5 - up / scale, away


def holds(scene: Scene, a: str, relation: str, b: str) -> bool | None:
    """Return True if a relation of two present things is clearly true, False if it clearly is not; None if that is arguable."""
    first, second = scene.get(a), scene.get(b)
    if first is None or (second is None and (relation, b) != ("on", TABLE)):
        raise ValueError(f"no rule for {a} {relation} {b}")
    if second is None:
        return first.place in ("table", "before")
    if relation in ("on top of", "inside"):
        return first.carrier == b and first.place == ("on" if relation == "on top of" else "in")
    here, there = (project(scene, origin(scene, thing))[0] for thing in (first, second))
    deeper = origin(scene, first)[1] - origin(scene, second)[1]
    if relation in ("left of", "right of"):
        right = here - there if relation == "right of" else there - here
        return None if abs(right) < _LEFT_OR_RIGHT else right > 0
    wanted = deeper if relation == "behind" else -deeper
    return None if abs(here - there) > _ALIGNED or abs(wanted) < _BEHIND else wanted > 0
