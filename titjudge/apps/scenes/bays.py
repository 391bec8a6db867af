"""Templates of the ladder whose groups stand in bays side by side and one above the other, seen in perspective.

Lengths within a bay are in units (the height of one thing), from the middle of its front edge, across and up in the image.
What is in a bay stays within it: a bay hides nothing of another.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import hypot
from random import Random
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from titjudge.apps.scenes.finish import LIGHTS, STYLES, Canvas, Light, finished
from titjudge.apps.scenes.perspective import Camera
from titjudge.apps.scenes.rows import RULES, bits_of, length_of, words_of
from titjudge.apps.scenes.scene import PICTURE, WALL, AskedElements, Look, Scene, Thing, View
from titjudge.apps.scenes.sprites import FONTS, RGB, TALL, UNDER, Pen, font, lay
from titjudge.apps.scenes.template import (
    LETTERS,
    Box,
    Point,
    Rung,
    Template,
    one_letter_wrong,
    one_more_or_fewer,
    one_otherwise,
    unlike,
)
from titjudge.apps.scenes.textures import Pixels

VARIANTS = 4  # of what nobody asks for in a thing
TURNS = (-3, 0, 3)  # degrees
MARGIN = 44  # pixels around the bays
_WORDS = (
    tuple("HARBOR SUMMER VALLEY GARDEN PLANET WINTER COPPER MARKET SILVER FOREST".split()),
    ("ПОБЕДА", "ГОРОД", "СЕВЕР", "ОКЕАН", "РАКЕТА", "ЗВЕЗДА"),
    ("ΘΑΛΑΣΣΑ", "ΗΛΙΟΣ", "ΚΑΡΑΒΙ", "ΝΗΣΙ", "ΒΟΥΝΟ", "ΓΕΦΥΡΑ"),
)


@dataclass(frozen=True, slots=True)
class BaySprite:
    """One thing in a bay.

    Attributes:
        look: What it looks like.
        across: Of its foot from the middle of the bay.
        up: Of its foot; what is further up stands further back.
        scale: Its size in units.
        turn: In degrees.
        variant: Of what nobody asks for, below VARIANTS.
        lift: How far its foot is above the floor.
    """

    look: Look
    across: float
    up: float
    scale: float = 1.0
    turn: float = 0.0
    variant: int = 0
    lift: float = 0.0


@dataclass(frozen=True, slots=True)
class BayFrame:
    """Where a bay is in the image.

    Attributes:
        foot: The middle of its front edge.
        scale: How large things look in it.
        slope: How far its front edge falls to the right, a pixel across.
        inside: The largest upright rectangle in it.
    """

    foot: Point
    scale: float
    slope: float
    inside: Box


@dataclass(frozen=True, slots=True)
class BayRow:
    """What a row is made of: a look, the property that may be in one of two states, and those states."""

    look: Look
    feature: str
    one: str
    other: str


def listed(names: Sequence[str], word: str) -> str:
    """List names with an article, sorted, so that their order tells nothing: "a blue ball, a red vase and a wooden block"."""
    *first, last = sorted(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)
    return f"{', '.join(first)} {word} {last}"


class BayTemplate(Template):
    """A template whose groups stand in bays. Its words and places are in its YAML file.

    Attributes:
        cameras: How the prompt says where it is seen from -> turn and tilt of the camera, in degrees.
        walls: Colours behind the things.
        steps: How much higher, and further away, a bay is than the one below it, in widths of a bay.
        pitch: Between the things of a row, and between rows, in units.
        heap_pitch: The same for things that are to be counted.
        height: Of a group, in units.
        hidden: How much of a thing that is to be counted, from its foot up, those before it may hide.
        text_up: Where the middle of a text is, in units.
        words: What the prompt calls a bay, things that are to be counted (crowd), and the places of which some are empty (seats);
            how it begins (`str.format` of groups, rows, columns, last (letter), camera, wall and light) and closes; where a text
            is (label); how it says that things are in a bay (are); what stands before the last one of several colours.
        ways: Kind -> ways in which two or more things can be arranged: the words, and which thing stands where.
        exchanged: Way -> the one that an error makes of it; in others two things change places.
        seat: What such a place looks like.
        seat_up: How far its foot is above that of the thing on it, in units.
        phrases: What is said of a thing whose property has this value.
        says: Property -> the same for its other values, with {} for the value.
    """

    cameras: ClassVar[Mapping[str, tuple[float, float]]]
    walls: ClassVar[Mapping[str, RGB]]
    steps: ClassVar[Point]
    pitch: ClassVar[Point]
    heap_pitch: ClassVar[Point]
    height: ClassVar[float]
    hidden: ClassVar[float]
    text_up: ClassVar[float]
    words: ClassVar[Mapping[str, str]]
    ways: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]]
    exchanged: ClassVar[Mapping[str, str]]
    seat: ClassVar[Look]
    seat_up: ClassVar[float]
    phrases: ClassVar[Mapping[str, str]]
    says: ClassVar[Mapping[str, str]]

    # ------------------------------------------------------------------ what is asked

    def compose(self, rng: Random, rung: Rung) -> Scene:
        things = tuple(self._group(rng, kind, column, row) for kind, column, row in self.kinds_by_place(rng, rung))
        light, style, camera = (rng.choice(tuple(choices)) for choices in (LIGHTS, STYLES, self.cameras))
        view = View(light, 0.0, {}, rng.randrange(1 << 30), style, camera)
        return Scene("", rng.choice(tuple(self.walls)), things, view, self.name)

    def _group(self, rng: Random, about: str, column: int, row: int) -> Thing:
        name = f"{self.words['bay']} {LETTERS[row]}{column + 1}"
        if about == "count":
            number, heap = str(rng.randint(6, 30)), self.heap(rng)
            traits = {"about": about, "order": str(rng.randrange(1 << 30)), "number": number, about: number}
            return Thing(name, about, traits, column, str(row), looks=(heap,))
        if about == "text":
            script = rng.choice((0, 0, 1, 2))
            text = f"{rng.choice(_WORDS[script])} {rng.randrange(20, 99)}"
            traits = {"about": about, "text": text, "font": rng.choice(FONTS), "script": str(script)}
            return Thing(name, about, traits, column, str(row))
        if about in self.ways:
            way = rng.choice(tuple(self.ways[about]))
            arranged = Thing(name, "place", {"about": about}, column, str(row))
            return self._arranged(arranged, way, self.arranged_looks(rng, way))
        asked, rule, across = self.row(rng, about), rng.choice(RULES), rng.choice((4, 5))
        bits, ones = bits_of(rng, rule, length_of(rule, across)), [asked.one]
        if rule == "none" and about == "colour":
            ones = rng.sample(unlike(asked.other), 3)
        words = words_of(rule, bits, *(self.phrase(asked.feature, state) for state in (asked.one, asked.other)))
        traits = {"about": about, "feature": asked.feature, "other": asked.other, "bits": bits, "across": str(across)}
        looks = tuple({**asked.look, asked.feature: state} for state in (*ones, asked.other))
        return Thing(name, "row", {**traits, about: words}, column, str(row), looks=looks)

    def _arranged(self, thing: Thing, way: str, looks: Sequence[Look]) -> Thing:
        about = thing.traits["about"]
        words = self.ways[about][way]["words"].format(*map(self.name_of, looks))
        return replace(thing, traits={"about": about, "way": way, about: words}, looks=tuple(looks))

    def kind_of(self, thing: Thing) -> str:
        return thing.traits["about"]

    def graph_of(self, scene: Scene) -> AskedElements:
        """Make the graph: light, style and camera of the picture, the colour behind all, and of each bay one attribute."""
        view = {"light": scene.view.light, "style": scene.view.style, "camera": scene.view.camera}
        attributes = {PICTURE: view, WALL: {"colour": scene.wall}, **self.attributes_of(scene)}
        return AskedElements(tuple(attributes), attributes, ())

    @abstractmethod
    def heap(self, rng: Random) -> Look:
        """Draw the look of things that are to be counted."""

    @abstractmethod
    def row(self, rng: Random, about: str) -> BayRow:
        """Draw what a row is made of."""

    @abstractmethod
    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        """Draw the things of an arrangement."""

    # ------------------------------------------------------------------ the errors

    def alternatives(self, thing: Thing) -> Iterator[Thing]:
        traits, about = thing.traits, thing.traits["about"]
        if thing.kind == "count":
            yield from one_more_or_fewer(thing)
        elif thing.kind == "row":  # an extra thing is one more, where none is asked for
            yield from one_otherwise(thing, about, "0" if about == "extra" else "01")
        elif thing.kind == "text":
            yield from one_letter_wrong(thing)
        else:
            looks, way = thing.looks, traits["way"]
            if way in self.exchanged:
                yield self._arranged(thing, self.exchanged[way], looks)
                return
            for k in range(len(looks) - 1):
                yield self._arranged(thing, way, [*looks[:k], looks[k + 1], looks[k], *looks[k + 2 :]])

    # ------------------------------------------------------------------ the words

    def write(self, scene: Scene, rng: Random) -> str:
        rows, view = len({thing.row for thing in scene.things}), scene.view
        opening = self.words["opening"].format(
            groups=len(scene.things),
            rows=rows,
            columns=len(scene.things) // rows,
            last=LETTERS[rows - 1],
            camera=view.camera,
            wall=scene.wall,
            light=view.light,
        )
        return " ".join([opening, *map(self.sentence, scene.things), self.words["closing"], f"Style: {view.style}."])

    def sentence(self, thing: Thing) -> str:
        traits, about, words = thing.traits, thing.traits["about"], self.words
        if thing.kind == "count":
            many = self.many(thing.looks[0])
            return f"In {thing.name} stands a close {words['crowd']} of exactly {traits['number']} {many}, in which some hide a part of others."
        if thing.kind == "text":
            return f'In {thing.name} {words["label"]} that reads "{traits["text"]}".'
        if thing.kind == "place":
            names = listed(list(map(self.name_of, thing.looks)), "and")
            return f"In {thing.name} {words['are']} {names}: {traits[about]}."
        *ones, _ = thing.looks
        many, number, across = self.many(ones[0]), len(traits["bits"]), traits["across"]
        if about == "extra":
            return f"In {thing.name} are {number} {words['seats']} in rows of {across}, for {many}: {traits[about]}."
        if about == "colour":
            *first, last = (look["hue"] for look in ones)
            many = self.plural(ones[0]) + (f" in {', '.join(first)}{words['last_colour']}{last}" if first else "")
        return f"In {thing.name} are {number} {many} in rows of {across}: {traits[about]}."

    def phrase(self, feature: str, value: str) -> str:
        """Say of one thing that a property has a value."""
        return self.phrases.get(value) or self.says[feature].format(value)

    @abstractmethod
    def plural(self, look: Look) -> str:
        """Name several things without their properties."""

    @abstractmethod
    def name_of(self, look: Look) -> str:
        """Name a thing of an arrangement: "person in red"."""

    def question(self, thing: Thing, value: str) -> str:
        if thing.kind == "count":
            return f"Is the number of {self.many(thing.looks[0])} in {thing.name} exactly {value}?"
        if thing.kind == "text":
            return f'Are the words in {thing.name} exactly "{value}"?'
        return super().question(thing, value)

    @abstractmethod
    def many(self, look: Look) -> str:
        """Name several things of a look: "people in red"."""

    # ------------------------------------------------------------------ where things are

    def sprites(self, thing: Thing, rng: Random | None) -> list[BaySprite]:
        """Return the things of a group, the furthest first; displaced and varied where `rng` is given."""
        traits = thing.traits
        if thing.kind == "count":
            things = [
                BaySprite(thing.looks[0], *place)
                for place in self._heap(int(traits["number"]), Random(traits["order"]))
            ]
        elif thing.kind == "row":
            things = self._members(thing)
        elif thing.kind == "text":
            things = self.beside_text()
        else:
            things = [
                BaySprite(
                    {**thing.looks[spot["of"]], **spot.get("look", {})},
                    **{name: spot[name] for name in spot.keys() - {"of", "look"}},
                )
                for spot in self.ways[traits["about"]][traits["way"]]["spots"]
            ]
        things = [self._varied(sprite, rng) for sprite in things] if rng else things
        return sorted((sprite for sprite in things if sprite.look), key=lambda sprite: -sprite.up)

    def _varied(self, sprite: BaySprite, rng: Random) -> BaySprite:
        across, up = sprite.across + rng.uniform(-0.04, 0.04), sprite.up + rng.uniform(-0.02, 0.02)
        return replace(sprite, across=across, up=up, turn=rng.choice(TURNS), variant=rng.randrange(VARIANTS))

    def _heap(self, number: int, rng: Random) -> list[Point]:
        """Return the first places of a crowd, nearest to its middle first, so that one more moves no other."""
        wide, high = self.heap_pitch
        places = [((x + 0.5 * (y % 2) - 0.25) * wide, y * high) for y in range(-2, 4) for x in range(-3, 4)]
        places.sort(key=lambda place: hypot(place[0] / wide, place[1] / high) + rng.uniform(0, 0.9))
        return [(x, y + 2 * high) for x, y in places[:number]]

    def _members(self, thing: Thing) -> list[BaySprite]:
        *ones, other = thing.looks
        bits, across = thing.traits["bits"], int(thing.traits["across"])
        members, down = list[BaySprite](), -(-len(bits) // across)
        for k, bit in enumerate(bits):
            place = (k % across - (across - 1) / 2) * self.pitch[0], (down - 1 - k // across) * self.pitch[1]
            members += self._member(other if bit == "1" else ones[k % len(ones)], place)
        return members

    def _member(self, look: Look, place: Point) -> list[BaySprite]:
        """Return what stands at a place of a row; always as many sprites, of which those with no look are not drawn."""
        if "there" not in look:
            return [BaySprite(look, *place, scale=0.74 if look.get("size") == "small" else 1.0)]
        thing = {name: value for name, value in look.items() if name != "there"} if look["there"] == "taken" else {}
        return [BaySprite(self.seat, place[0], place[1] + self.seat_up), BaySprite(thing, *place)]

    def beside_text(self) -> list[BaySprite]:
        """Return what carries a text."""
        return []

    # ------------------------------------------------------------------ the image

    def corner(self, column: float, row: float, rung: Rung) -> tuple[float, float, float]:
        """Return where the lines between bays cross (x to the right, y up, z away): row 0 is above the topmost bays."""
        up, away = self.steps
        return column, up * (rung.rows - row), away * (rung.rows - row)

    @abstractmethod
    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        """Paint one thing."""

    @abstractmethod
    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        """Paint all that is behind the things; `corners` are pixels (rows + 1, columns + 1, 2) of where the lines between bays cross."""

    def place(self, thing: Thing, rung: Rung, scene: Scene) -> Box:
        left, top, right, bottom = self.inside(thing, rung, scene)
        return left - 2, top - 2, right + 2, bottom + 2

    def inside(self, thing: Thing, rung: Rung, scene: Scene) -> Box:
        return self._frame(thing, rung, scene).inside

    def part(self, thing: Thing, rung: Rung, scene: Scene, grain: int | None) -> Canvas:
        rng = Random(f"{grain}/{thing.name}") if grain is not None else None
        sprites = self.sprites(thing, rng)
        shift = (
            (rng.uniform(-0.4, 0.4) * rung.em, rng.uniform(-0.3, 0.3) * rung.em)
            if rng and thing.kind == "text"
            else (0.0, 0.0)
        )
        return self.drawn(thing, rung, scene, sprites, shift=shift, paper=grain or 0)

    def drawn(
        self,
        thing: Thing,
        rung: Rung,
        scene: Scene,
        sprites: Sequence[BaySprite],
        *,
        shift: Point = (0.0, 0.0),
        paper: int = 0,
        window: Box | None = None,
    ) -> Canvas:
        """Draw the inside of a bay with these things in it.

        Args:
            thing: The group.
            rung: The difficulty.
            scene: Has the light, the style and the camera.
            sprites: The things.
            shift: Pixels by which all of them are moved.
            paper: Seed of the paper.
            window: The part of the inside that is drawn; by default all of it.
        """
        view, inside = scene.view, self.inside(thing, rung, scene)
        x, y, right, bottom = window or (0, 0, inside[2] - inside[0], inside[3] - inside[1])
        corner = inside[0] + x, inside[1] + y
        backdrop = _backdrop(self, scene.wall, view.camera, view.grain, rung)
        canvas = backdrop[corner[1] : inside[1] + bottom, corner[0] : inside[0] + right].copy()
        light, shift = LIGHTS[view.light], (shift[0] - x, shift[1] - y)
        placed = self._placed(thing, rung, scene, sprites, shift)
        for layer in (1, 0):  # all shadows are under all things
            for sprite, pixels, middle in placed:
                lay(canvas, self._image(sprite, pixels, light)[layer], middle)
        if thing.kind == "text" and thing.traits["text"]:
            frame = self._frame(thing, rung, scene)
            middle = self._foot(0.0, self.text_up, frame, rung.unit * frame.scale)
            card = _card(thing.traits["text"], thing.traits["font"], rung.em)
            lay(canvas, card, (middle[0] + shift[0], middle[1] + shift[1]))
        return finished(canvas, corner, (rung.width, rung.height), view.light, view.style, paper)

    def covered(
        self, thing: Thing, rung: Rung, scene: Scene, sprites: Sequence[BaySprite], shift: Point = (0.0, 0.0)
    ) -> Canvas:
        """Return how much of each pixel of `drawn` things cover, from 0 to 1: (rows, columns, 1)."""
        left, top, right, bottom = self.inside(thing, rung, scene)
        canvas = np.zeros((bottom - top, right - left, 1), np.float32)
        for sprite, pixels, middle in self._placed(thing, rung, scene, sprites, shift):
            alpha = self._image(sprite, pixels, LIGHTS[scene.view.light])[0][..., 3:]
            lay(canvas, np.concatenate([alpha, alpha], axis=2), middle)
        return canvas

    def _frame(self, thing: Thing, rung: Rung, scene: Scene) -> BayFrame:
        return _frames(self, scene.view.camera, rung)[thing.column, int(thing.row)]

    def _placed(
        self, thing: Thing, rung: Rung, scene: Scene, sprites: Sequence[BaySprite], shift: Point
    ) -> list[tuple[BaySprite, int, Point]]:
        """Return things with their unit and the middle of their canvas, in pixels of `part`."""
        frame, placed = self._frame(thing, rung, scene), []
        for sprite in sprites:
            x, y = self._foot(sprite.across, sprite.up + sprite.lift, frame, rung.unit * frame.scale)
            pixels = round(rung.unit * frame.scale * sprite.scale)
            placed.append((sprite, pixels, (x + shift[0], y + shift[1] - (TALL / 2 - UNDER) * pixels)))
        return placed

    @staticmethod
    def _foot(across: float, up: float, frame: BayFrame, pixels: float) -> Point:
        x, y = frame.foot[0] - frame.inside[0], frame.foot[1] - frame.inside[1]
        return x + across * pixels, y - up * pixels + across * pixels * frame.slope

    def _image(self, sprite: BaySprite, pixels: int, light: Light) -> tuple[Canvas, Canvas]:
        return _images(self, tuple(sprite.look.items()), sprite.variant, pixels, sprite.turn, light.side, light.shadow)

    def picture(self, scene: Scene, rung: Rung) -> Pixels:
        backdrop = _backdrop(self, scene.wall, scene.view.camera, scene.view.grain, rung)
        view, size = scene.view, (rung.width, rung.height)
        canvas = finished(backdrop, (0, 0), size, view.light, view.style, view.grain)
        for thing in scene.things:
            left, top, right, bottom = self.inside(thing, rung, scene)
            canvas[top:bottom, left:right] = self.part(thing, rung, scene, view.grain)
        grain = np.random.default_rng(view.grain).normal(0, 0.008, canvas.shape[:2])[..., None]
        picture = Image.fromarray((np.clip(canvas + grain, 0, 1) * 255).astype(np.uint8))
        self._mark(ImageDraw.Draw(picture), scene, rung)
        return np.asarray(picture)

    def _mark(self, draw: ImageDraw.ImageDraw, scene: Scene, rung: Rung) -> None:
        """Write letters beside the rows and numbers above and below the columns."""
        corners = _corners(self, scene.view.camera, rung)[..., :2]
        left, right = ((corners[:-1, k] + corners[1:, k]) / 2 for k in (0, -1))
        top, bottom = ((corners[k, :-1] + corners[k, 1:]) / 2 for k in (0, -1))
        marks = [
            (LETTERS[k], place)
            for side, away in ((left, -22), (right, 22))
            for k, place in enumerate(side + np.array((away, 0)))
        ]
        marks += [
            (str(k + 1), place)
            for side, away in ((top, -22), (bottom, 22))
            for k, place in enumerate(side + np.array((0, away)))
        ]
        letters = font("DejaVuSans-Bold", 24)
        for mark, (x, y) in marks:
            draw.text((x, y), mark, (255, 255, 255), letters, "mm", stroke_width=3, stroke_fill=(20, 20, 20))


@lru_cache(16)
def _corners(template: BayTemplate, camera: str, rung: Rung) -> NDArray[np.float64]:
    """Return x, y in pixels and the scale of where the lines between bays cross: (rows + 1, columns + 1, 3)."""
    grid = np.array(
        [[template.corner(column, row, rung) for column in range(rung.columns + 1)] for row in range(rung.rows + 1)]
    )
    grid -= (grid.max(axis=(0, 1)) + grid.min(axis=(0, 1))) / 2
    corners = Camera(*template.cameras[camera], distance=2.0 * rung.columns).project(grid)
    for k, length in enumerate((rung.width, rung.height)):
        low, high = corners[..., k].min(), corners[..., k].max()
        corners[..., k] = MARGIN + (corners[..., k] - low) * (length - 2 * MARGIN) / (high - low)
    return corners


@lru_cache(16)
def _frames(template: BayTemplate, camera: str, rung: Rung) -> Mapping[tuple[int, int], BayFrame]:
    corners = _corners(template, camera, rung)
    slopes, insides = {}, dict[tuple[int, int], Box]()
    for row in range(rung.rows):
        for column in range(rung.columns):
            top, bottom = corners[row, column : column + 2], corners[row + 1, column : column + 2]
            across = max(top[0, 0], bottom[0, 0]) + 5, min(top[1, 0], bottom[1, 0]) - 5
            down = top[:, 1].max() + 3, bottom[:, 1].min() - 3
            insides[column, row] = round(across[0]), round(down[0]), round(across[1]), round(down[1])
            slopes[column, row] = float((bottom[1, 1] - bottom[0, 1]) / (bottom[1, 0] - bottom[0, 0]))
    width = sum(box[2] - box[0] for box in insides.values()) / len(insides)
    frames = {}
    for bay, box in insides.items():
        scale = (box[2] - box[0]) / width
        room = box[3] - box[1] - template.height * rung.unit * scale
        foot = (box[0] + box[2]) / 2, box[3] - max(0.1 * rung.unit, 0.5 * room)
        frames[bay] = BayFrame(foot, scale, slopes[bay], box)
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
    way = (1, lean, -lean * foot, 0, 1 / flat, foot - foot / flat)  # from a pixel of the shadow to that of the thing
    alpha = Image.fromarray((image[..., 3] * 120).astype(np.uint8))
    dark = alpha.transform(alpha.size, Image.Transform.AFFINE, way, Image.Resampling.BILINEAR).filter(
        ImageFilter.GaussianBlur(w / 50)
    )
    under = np.zeros_like(image)
    under[..., 3] = np.asarray(dark, np.float32) / 255
    return image, under


@lru_cache(512)
def _card(text: str, name: str, em: int) -> Canvas:
    """Draw a white strip with a text."""
    letters = font(name, em)
    width, height = round(letters.getlength(text)) + 2 * em, round(1.9 * em)
    card = Image.new("RGBA", (width, height), (250, 250, 246, 255))
    draw = ImageDraw.Draw(card)
    draw.rectangle((0, 0, width - 1, height - 1), outline=(140, 130, 110, 255))
    draw.text((em, height / 2), text, font=letters, fill=(24, 24, 28), anchor="lm")
    return np.asarray(np.asarray(card, np.float32) / 255, np.float32)
