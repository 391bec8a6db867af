"""Places on the table, the camera, and relations that clearly hold or clearly do not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from titjudge.apps.scenes.scene import SIGN, TABLE, WALL, Scene, Thing
from titjudge.apps.scenes.shapes import Body, Point, bodies, moved, top
from titjudge.core.files import read_yaml

_READ = read_yaml(Path(__file__).with_name("layout.yaml"), "places")
WALL_Y = 3.1
BEFORE = 1.25  # how far towards the viewer a load lies that is not where it should be
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
    dx, dy, _ = scene.view.shifts.get((thing.column, thing.row), (0.0, 0.0, 0.0))
    x, y = thing.column * _READ["columns"][thing.row] + dx, _READ["rows"][thing.row] + dy
    if thing.place == "before":
        return x + 0.05, y - BEFORE, 0.0
    carrier = scene.get(thing.carrier) if thing.carrier else None
    return x, y, top(carrier.kind, carrier.traits) if carrier is not None else 0.0


def placed(scene: Scene) -> Iterator[PlacedThing]:
    """Yield every object of every thing, of a group each one."""
    for thing in scene.things:
        position, turn = origin(scene, thing), 0.0
        if thing.kind not in (SIGN, "snowman"):
            turn = scene.view.shifts.get((thing.column, thing.row), (0.0, 0.0, 0.0))[2]
        objects = bodies(thing)
        carrier = scene.get(thing.carrier) if thing.carrier else None
        if thing.place == "in" and carrier is not None and carrier.kind == "bowl":
            objects = [
                moved(_at_home(body), offset)
                for body, offset in zip(objects, _READ["in_bowl"][str(thing.count)], strict=True)
            ]
            turn = 0.0
        for number, body in enumerate(objects):
            body = moved(body, position, turn)
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


def _at_home(body: Body) -> Body:
    """Move an object of a group back to the origin."""
    x, y, _ = body[0].at
    return moved(body, (-x, -y, 0.0))


def may_number(thing: Thing, count: int) -> bool:
    """Tell whether so many of a thing fit where it is: a bowl holds two or three fruits."""
    return thing.place != "in" or thing.kind == "flowers" or str(count) in _READ["in_bowl"]


def eye(scene: Scene) -> Point:
    return 0.0, TARGET[1] - DISTANCE, scene.view.height


def project(scene: Scene, point: Point) -> tuple[float, float, float]:
    """Project a point: across and down, from 0 to 1 within the image, and depth in units."""
    e = eye(scene)
    fy, fz = TARGET[1] - e[1], TARGET[2] - e[2]
    length = math.hypot(fy, fz)
    fy, fz = fy / length, fz / length
    x, y, z = point[0] - e[0], point[1] - e[1], point[2] - e[2]
    depth = y * fy + z * fz
    up = -y * fz + z * fy
    scale = 2 * depth * math.tan(math.radians(FOV / 2))
    return 0.5 + x / scale, 0.5 - up / scale, depth


def holds(scene: Scene, a: str, relation: str, b: str) -> bool | None:
    """Tell whether a relation of two things that are there clearly holds or clearly does not; None where that is arguable."""
    first, second = scene.get(a), scene.get(b)
    if b == WALL or first is None:
        raise ValueError(f"no rule for {a} {relation} {b}")
    if relation == "on" and b == TABLE:
        return first.place in ("table", "before")
    if second is None:
        raise ValueError(f"no rule for {a} {relation} {b}")
    if relation in ("on top of", "inside"):
        return first.carrier == b and first.place == ("on" if relation == "on top of" else "in")
    return _seen(scene, first, relation, second)


def _seen(scene: Scene, first: Thing, relation: str, second: Thing) -> bool | None:
    here, there = project(scene, origin(scene, first)), project(scene, origin(scene, second))
    across, deeper = here[0] - there[0], origin(scene, first)[1] - origin(scene, second)[1]
    if relation in ("left of", "right of"):
        wanted = across if relation == "right of" else -across
        return None if abs(wanted) < _LEFT_OR_RIGHT else wanted > 0
    wanted = deeper if relation == "behind" else -deeper
    if abs(across) > _ALIGNED or abs(wanted) < _BEHIND:
        return None
    return wanted > 0
