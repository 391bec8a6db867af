"""Templates of the ladder with groups in bays side by side and one above the other, seen in perspective.

Lengths within a bay are in units (the height of one thing), from the middle of its front edge, across and up in the image.
The content of a bay stays within it: a bay hides nothing of another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from scipy.spatial.transform import Rotation

from titjudge.apps.scenes.scene import Look, Scene, ThingGroup
from titjudge.apps.scenes.sprites import (
    LIGHTS,
    RGB,
    STYLES,
    TALL,
    UNDER,
    Canvas,
    Light,
    Pen,
    Point,
    finished,
    font,
    grained,
    label,
    lay,
)
from titjudge.apps.scenes.template import LETTERS, Box, Rung, Sprite, Template, members
from titjudge.apps.scenes.textures import Pixels

VARIANTS = 4  # of properties that no prompt asks for in a thing
TURNS = (-3, 0, 3)  # degrees
MARGIN = 44  # pixels around the bays
_NUMBERS = tuple(map(str, range(1, 100)))


@dataclass(frozen=True, slots=True)
class BayFrame:
    """The place of a bay in the image.

    Attributes:
        foot: The middle of its front edge.
        scale: How large things look in it.
        slope: The fall of its front edge to the right, per pixel across.
        inside: The largest upright rectangle in it.
    """

    foot: Point
    scale: float
    slope: float
    inside: Box

    def foot_of(self, across: float, up: float, pixels: float) -> Point:
        """Return the place of a thing in `inside`, from its place in units of `pixels` pixels."""
        x, y = self.foot[0] - self.inside[0], self.foot[1] - self.inside[1]
        return x + across * pixels, y - up * pixels + across * pixels * self.slope


class BayTemplate(Template):
    """A template with groups in bays.

    Attributes:
        cameras: Words of the prompt for the point of view -> turn and tilt of the camera, in degrees.
        steps: How much higher, and further away, a bay is than the one below it, in widths of a bay.
        pitch: Between the things of a row, and between rows, in units.
        heap_pitch: The same for things that are to be counted.
        height: Of a group, in units.
        hidden: How much of a thing that is to be counted, from its foot up, those before it may hide.
        text_up: The height of the middle of a text, in units.
        seat: The look of a place, in rows of places of which some are empty.
        seat_up: The height of its foot above the foot of the thing on it, in units.
    """

    lights, styles = LIGHTS, STYLES
    steps: Point
    pitch: Point
    heap_pitch: Point
    height: float
    hidden: float
    text_up: float
    seat: Look
    seat_up: float

    # ------------------------------------------------------------------ where things are

    def sprites(self, group: ThingGroup, rng: Random | None) -> list[Sprite]:
        if group.form == "count":
            things = [Sprite(group.looks[0], *place) for place in self._heap(group.number, Random(str(group.order)))]
        elif group.form == "row":
            wide, high = self.pitch
            places = [(look, (x * wide, (rows - 1 - row) * high)) for look, x, row, rows in members(group)]
            things = [sprite for look, place in places for sprite in self._member(look, place)]
        elif group.form == "text":
            things = self.beside_text()
        else:
            things = self.arranged(group)
        things = [self._varied(sprite, rng) for sprite in things] if rng else things
        return sorted((sprite for sprite in things if sprite.look), key=lambda sprite: -sprite.up)

    @staticmethod
    def _varied(sprite: Sprite, rng: Random) -> Sprite:
        across, up = sprite.across + rng.uniform(-0.04, 0.04), sprite.up + rng.uniform(-0.02, 0.02)
        return sprite._replace(across=across, up=up, turn=rng.choice(TURNS), variant=rng.randrange(VARIANTS))

    def _heap(self, number: int, rng: Random) -> list[Point]:
        """Return the first places of a crowd, nearest to its middle first, so that one more moves no other."""
        wide, high = self.heap_pitch
        places = [((x + 0.5 * (y % 2) - 0.25) * wide, y * high) for y in range(-2, 4) for x in range(-3, 4)]
        places.sort(key=lambda place: hypot(place[0] / wide, place[1] / high) + rng.uniform(0, 0.9))
        return [(x, y + 2 * high) for x, y in places[:number]]

    def _member(self, look: Look, place: Point) -> list[Sprite]:
        """Return the sprites at a place of a row; always as many sprites, of which sprites without a look are not drawn."""
        if "there" not in look:
            return [Sprite(look, *place, scale=0.74 if look.get("size") == "small" else 1.0)]
        thing = {name: value for name, value in look.items() if name != "there"} if look["there"] == "taken" else {}
        return [Sprite(self.seat, place[0], place[1] + self.seat_up), Sprite(thing, *place)]

    def beside_text(self) -> list[Sprite]:
        """Return the object with a text."""
        return []

    # ------------------------------------------------------------------ the image

    @abstractmethod
    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        """Paint one thing."""

    @abstractmethod
    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        """Paint all that is behind the things; `corners` are pixels (rows + 1, columns + 1, 2) of where the lines between bays cross."""

    def inside(self, group: ThingGroup, rung: Rung, scene: Scene) -> Box:
        return self.frame(group, rung, scene).inside

    def part(self, group: ThingGroup, rung: Rung, scene: Scene, grain: int | None) -> Canvas:
        rng = Random(f"{grain}/{group.name}") if grain is not None else None
        sprites = self.sprites(group, rng)
        shift = (0.0, 0.0)
        if rng and group.form == "text":
            shift = rng.uniform(-0.4, 0.4) * rung.em, rng.uniform(-0.3, 0.3) * rung.em
        return self.drawn(group, rung, scene, sprites, shift=shift, paper=grain or 0)

    def drawn(
        self,
        group: ThingGroup,
        rung: Rung,
        scene: Scene,
        sprites: Sequence[Sprite],
        *,
        shift: Point = (0.0, 0.0),
        paper: int = 0,
        window: Box | None = None,
    ) -> Canvas:
        """Draw the inside of a bay with these things in it.

        Args:
            group: The group.
            rung: The difficulty.
            scene: Has the light, the style and the camera.
            sprites: The things.
            shift: Pixels by which all of them are moved.
            paper: Seed of the paper.
            window: The part of the inside that is drawn; by default all of it.
        """
        view, inside = scene.view, self.inside(group, rung, scene)
        left, top, right, bottom = window or (0, 0, inside[2] - inside[0], inside[3] - inside[1])
        corner = inside[0] + left, inside[1] + top
        backdrop = _backdrop(self, scene.wall, view.camera, view.grain, rung)
        canvas = backdrop[corner[1] : inside[1] + bottom, corner[0] : inside[0] + right].copy()
        light, shift = LIGHTS[view.light], (shift[0] - left, shift[1] - top)
        frame = self.frame(group, rung, scene)
        images = [self.image(sprite, frame, rung, light) for sprite in sprites]
        for layer in (1, 0):  # all shadows are under all things
            for *layers, (across, down) in images:
                lay(canvas, layers[layer], (across + shift[0], down + shift[1]))
        if group.form == "text" and group.value:
            across, down = frame.foot_of(0.0, self.text_up, rung.unit * frame.scale)
            size = round(font(group.font, rung.em).getlength(group.value)) + 2 * rung.em, round(1.9 * rung.em)
            card = label(group.value, group.font, rung.em, size, (140, 130, 110, 255))
            lay(canvas, card, (across + shift[0], down + shift[1]))
        return finished(canvas, corner, (rung.width, rung.height), view.light, view.style, paper)

    def frame(self, group: ThingGroup, rung: Rung, scene: Scene) -> BayFrame:
        """Return the place of the bay of a group."""
        return _frames(self, scene.view.camera, rung)[group.cell]

    def image(self, sprite: Sprite, frame: BayFrame, rung: Rung, light: Light) -> tuple[Canvas, Canvas, Point]:
        """Return a thing, its shadow, and the middle of both within the inside of its bay."""
        unit = rung.unit * frame.scale
        x, y = frame.foot_of(sprite.across, sprite.up + sprite.lift, unit)
        look, pixels = tuple(sprite.look.items()), round(unit * sprite.scale)
        images = _images(self, look, sprite.variant, pixels, sprite.turn, light.side, light.shadow)
        return *images, (x, y - (TALL / 2 - UNDER) * pixels)

    def picture(self, scene: Scene, rung: Rung) -> Pixels:
        backdrop = _backdrop(self, scene.wall, scene.view.camera, scene.view.grain, rung)
        view, size = scene.view, (rung.width, rung.height)
        canvas = finished(backdrop, (0, 0), size, view.light, view.style, view.grain)
        for group in scene.groups:
            left, top, right, bottom = self.inside(group, rung, scene)
            canvas[top:bottom, left:right] = self.part(group, rung, scene, view.grain)
        return grained(canvas, view.grain, self._marks(scene, rung), 24)

    def _marks(self, scene: Scene, rung: Rung) -> Iterator[tuple[str, Point]]:
        """Yield the letters beside the rows and the numbers above and below the columns, with their places."""
        corners = _corners(self, scene.view.camera, rung)[..., :2]
        left, right = ((corners[:-1, k] + corners[1:, k]) / 2 for k in (0, -1))
        top, bottom = ((corners[k, :-1] + corners[k, 1:]) / 2 for k in (0, -1))
        for signs, side, away in (
            (LETTERS, left, (-22, 0)),
            (LETTERS, right, (22, 0)),
            (_NUMBERS, top, (0, -22)),
            (_NUMBERS, bottom, (0, 22)),
        ):
            yield from zip(signs, map(tuple, side + np.array(away)), strict=False)


def quads(corners: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield the corners of each bay, row by row, from its upper left one clockwise: (4, 2)."""
    for row, column in np.ndindex(corners.shape[0] - 1, corners.shape[1] - 1):
        top, bottom = corners[row, column : column + 2], corners[row + 1, column : column + 2]
        yield np.concatenate([top, bottom[::-1]])


def polygon(draw: ImageDraw.ImageDraw, points: Iterable[NDArray[np.float64]], fill: RGB) -> None:
    """Paint the inside of an outline."""
    draw.polygon([tuple(point) for point in points], fill=fill)


def shaded(colour: RGB, share: int, of: int) -> RGB:
    """Return a colour that is darker: `share` of its `of` parts."""
    red, green, blue = (channel * share // of for channel in colour)
    return red, green, blue


@lru_cache(16)
def _corners(template: BayTemplate, camera: str, rung: Rung) -> NDArray[np.float64]:
    """Return x, y in pixels and the scale of where the lines between bays cross: (rows + 1, columns + 1, 3).

    Row 0 is above the topmost bays; a bay is higher and further away than the one below it by the multiples of its width
    in `steps`.
    """
    steps, column = np.mgrid[rung.rows : -1 : -1, : rung.columns + 1].astype(np.float64)
    grid = np.stack([column, template.steps[0] * steps, template.steps[1] * steps], axis=-1)
    grid -= (grid.max(axis=(0, 1)) + grid.min(axis=(0, 1))) / 2
    turn, tilt = template.cameras[camera]
    corners = _projected(grid, turn, tilt, 2.0 * rung.columns)
    for k, length in enumerate((rung.width, rung.height)):
        low, high = corners[..., k].min(), corners[..., k].max()
        corners[..., k] = MARGIN + (corners[..., k] - low) * (length - 2 * MARGIN) / (high - low)
    return corners


def _projected(points: NDArray[np.float64], turn: float, tilt: float, distance: float) -> NDArray[np.float64]:
    """Return where points (x to the right, y up, z away) are seen, and how large things look there.

    Args:
        points: Of a scene around the origin, at which the camera looks.
        turn: Degrees around the vertical; a scene seen from its left has a positive turn.
        tilt: Degrees that the camera looks down.
        distance: From the origin, in the units of the scene.

    Returns:
        x to the right, y down, and a size, which is 1 at the origin.
    """
    rotation = Rotation.from_euler("yx", (-turn, -tilt), degrees=True)
    x, y, z = np.moveaxis(rotation.apply(points.reshape(-1, 3)).reshape(points.shape), -1, 0)
    scale = distance / (distance + z)
    return np.stack([x * scale, -y * scale, scale], axis=-1)


@lru_cache(16)
def _frames(template: BayTemplate, camera: str, rung: Rung) -> Mapping[tuple[int, int], BayFrame]:
    corners = _corners(template, camera, rung)[..., :2]
    x, y = np.moveaxis(corners, -1, 0)
    left, right = np.maximum(x[:-1, :-1], x[1:, :-1]) + 5, np.minimum(x[:-1, 1:], x[1:, 1:]) - 5
    top, bottom = np.maximum(y[:-1, :-1], y[:-1, 1:]) + 3, np.minimum(y[1:, :-1], y[1:, 1:]) - 3
    insides = np.round(np.stack([left, top, right, bottom], axis=-1)).astype(int)
    slopes = np.diff(y[1:], axis=1) / np.diff(x[1:], axis=1)
    width = (insides[..., 2] - insides[..., 0]).mean()
    frames = {}
    for row, column in np.ndindex(slopes.shape):
        box = (x0, y0, x1, y1) = tuple(insides[row, column].tolist())
        scale = (x1 - x0) / width
        room = y1 - y0 - template.height * rung.unit * scale
        foot = (x0 + x1) / 2, y1 - max(0.1 * rung.unit, 0.5 * room)
        frames[column, row] = BayFrame(foot, float(scale), float(slopes[row, column]), box)
    return frames


@lru_cache(2)
def _backdrop(template: BayTemplate, wall: str, camera: str, grain: int, rung: Rung) -> Canvas:
    picture, (red, green, blue) = Image.new("RGB", (rung.width, rung.height)), template.walls[wall]
    template.decorate(
        ImageDraw.Draw(picture), _corners(template, camera, rung)[..., :2], (red, green, blue), Random(grain)
    )
    return np.asarray(np.asarray(picture, np.float32) / 255, np.float32)


@lru_cache(3000)
def _images(
    template: BayTemplate,
    look: tuple[tuple[str, str], ...],
    variant: int,
    pixels: int,
    turn: float,
    side: int,
    shadow: float,
) -> tuple[Canvas, Canvas]:
    """Return a thing, and the shadow that it throws on the floor behind it."""
    pen = Pen(pixels)
    template.paint(pen, dict(look), variant)
    image = pen.picture(turn).copy()
    h, w = image.shape[:2]
    tone = np.linspace(1 - 0.13 * side, 1 + 0.13 * side, w)[None, :] if side else np.linspace(1.12, 0.88, h)[:, None]
    image[..., :3] = np.minimum(image[..., :3] * tone[..., None], image[..., 3:])
    flat, foot = 0.3, h * (1 - UNDER / TALL)
    lean = -side * shadow / flat
    way = (1, lean, -lean * foot, 0, 1 / flat, foot - foot / flat)  # from a pixel of the shadow to the thing's
    alpha = Image.fromarray((image[..., 3] * 120).astype(np.uint8))
    dark = alpha.transform(alpha.size, Image.Transform.AFFINE, way, Image.Resampling.BILINEAR).filter(
        ImageFilter.GaussianBlur(w / 50)
    )
    under = np.zeros_like(image)
    under[..., 3] = np.asarray(dark, np.float32) / 255
    return image, under
