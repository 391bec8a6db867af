"""Places on the table, the camera, and relations that clearly hold or clearly do not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from titjudge.apps.scenes.scene import SIGN, TABLE, Scene, Thing
from titjudge.apps.scenes.shapes import Body, Point, bodies, fits_in_bowl, moved, top
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
    dx, dy, _ = scene.view.shift(thing)
    x, y = thing.column * _READ["columns"][thing.row] + dx, _READ["rows"][thing.row] + dy
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
    """Tell whether so many of a thing fit where it is: a bowl holds two or three fruits."""
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
    """Tell whether a relation of two things that are there clearly holds or clearly does not; None where that is arguable."""
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
