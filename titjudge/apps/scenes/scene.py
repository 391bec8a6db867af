"""Records of a scene; the same ones describe the request of a prompt and the content of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from titjudge.core.files import read_yaml

Colour = tuple[float, float, float]

PALETTE = read_yaml(Path(__file__).with_name("palette.yaml"), "a palette")
COLOURS, METALS = (
    {name: (red, green, blue) for name, (red, green, blue) in PALETTE[key].items()} for key in ("colours", "metals")
)
SURFACES, WALLS, NUMBERS, SIGN_FIRST, SIGN_SECOND = (
    tuple(map(str, PALETTE[key])) for key in ("surfaces", "walls", "numbers", "sign_first", "sign_second")
)


CROWD = read_yaml(Path(__file__).with_name("crowd.yaml"), "what crowds are made of")


def near(a: str, b: str) -> bool:
    """Return True if two colours or materials could be taken for each other."""
    return a == b or b in PALETTE["near"].get(a, ()) or a in PALETTE["near"].get(b, ())


def lost_on(value: str, surface: str) -> bool:
    """Return True if a thing of that colour or material would be hard to see on that table."""
    return value in PALETTE["on_surface"][surface]


def lost_before(value: str, wall: str) -> bool:
    """Return True if a thing of that colour or material would be hard to see against that wall."""
    return value in PALETTE["before_wall"][wall]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object.

    Attributes:
        name: The entity in the graph ("apples"); plural if it comes in numbers.
        family: Kinds of one family could pass for one another; a scene has at most one of them.
        rows: Its possible places: tall things in "back", things under 0.95 units in "front"; empty: only on or in others.
        traits: Its attributes and their values. In the graph `finish` is called "colour" or "material", by its value.
        phrase: The noun phrase of the prompt with {attribute} fields.
        carries: Kinds that may be "on" or "in" it.
        one: The singular of a plural name; otherwise empty.
    """

    name: str
    family: str
    rows: Sequence[str]
    traits: Mapping[str, Sequence[str]]
    phrase: str
    carries: Mapping[str, str] = field(default_factory=dict)
    one: str = ""

    @property
    def plural(self) -> bool:
        return bool(self.one)


def article(phrase: str) -> str:
    return "an" if phrase[0] in "aeiou" else "a"


def with_article(words: str) -> str:
    """Put "a" or "an" before a name."""
    return f"{article(words)} {words}"


OF_QUESTIONS = read_yaml(Path(__file__).with_name("kinds.yaml"), "kinds")
KINDS = {kind["name"]: Kind(**kind) for kind in OF_QUESTIONS.pop("kinds")}

_METALLIC = {"gold", "copper", "silver"}


def finish_name(value: str) -> str:
    """Return the name of a finish in the graph: "colour" or "material"."""
    return "material" if value in _METALLIC or value in ("wood", "clear glass") else "colour"


def finish_phrase(value: str) -> str:
    """Word the finish after a noun: "of polished gold", "in plain red"."""
    if value in _METALLIC:
        return f"of polished {value}"
    return f"made of {value}" if finish_name(value) == "material" else f"in plain {value}"


def phrase(kind: str, traits: Mapping[str, str]) -> str:
    """Word the noun phrase of a thing as the prompt gives it, with its article, if any."""
    finish = finish_phrase(traits.get("material") or traits.get("colour") or "")
    text = KINDS[kind].phrase.format(**traits, finish=finish)
    return text if KINDS[kind].plural else with_article(text)


TABLE, WALL, SIGN, PICTURE = "table", "wall", "sign", "picture"
CABINET = "cabinet"  # the template of a ladder without further settings


LEVELS = (0, 1, 2, 3)  # how wrong an image is: 0 is flawless


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a folder; with the versions of titjudge, Mitsuba, numpy and Pillow they determine every byte of it.

    Attributes:
        size: Width and height of the images, in pixels.
        samples: Rays of a pixel.
        levels: Levels of adherence that are rendered.
        hard: Whether scenes are crowded (`crowd`) instead of holding six to nine things.
        ladder: The difficulty of a scene of the ladder (`ladder`), 1 to 3; 0 for the other scenes.
        template: The template of the ladder, or `ladder.MIXED`.
    """

    seed: int
    size: int = 512
    samples: int = 16
    levels: tuple[int, ...] = LEVELS
    hard: bool = False
    ladder: int = 0
    template: str = CABINET


Look = Mapping[str, str]  # look of an object: property -> value


@dataclass(frozen=True, slots=True)
class Thing:
    """One entity on the table: a single object or a group of `count` alike.

    Attributes:
        name: Its name in the graph and the prompt, unique in a scene ("apples").
        kind: A key of `KINDS`, or "set" in crowded scenes.
        traits: Attribute -> value, as in the graph ("colour": "red", "count": "three").
        column: -1 left, 0 middle, 1 right.
        row: "front" or "back"; a thing on or in another one has the column and row of its carrier.
        carrier: The name of the thing it is on or in; empty for the table.
        place: "table", "on", "in", or "before": on the table, in front of the thing that should carry it.
    """

    name: str
    kind: str
    traits: Mapping[str, str]
    column: int
    row: str
    carrier: str = ""
    place: str = "table"

    @property
    def slug(self) -> str:
        """The beginning of the labels of its objects."""
        return self.name.replace(" ", "-")

    @property
    def count(self) -> int:
        return NUMBERS.index(self.traits["count"]) if "count" in self.traits else 1

    def having(self, name: str, value: str) -> Thing:
        """Copy the thing with another value of one attribute."""
        return replace(self, traits={**self.traits, name: value})


@dataclass(frozen=True, slots=True)
class ThingGroup(Thing):
    """The content of one place of a drawn scene; its kind is the one attribute that the prompt asks for.

    Attributes:
        form: count (a heap), row (equal things, some in another state), place (an arrangement), text, or contents (one
            thing or none).
        looks: Its things. Of a row: the things that take turns, and last the different one.
        number: Things in a heap or row.
        order: Seed of the places in a heap.
        way: A key of the ways of its kind, in which things are arranged.
        feature: The property of a row that may be in one of two states.
        bits: The state of each thing of a row: 1 for the other state.
        across: Things side by side in a row.
        font: Of a text.
        script: Of a text: its place in `template.ALPHABETS`.
    """

    form: str = ""
    looks: tuple[Look, ...] = ()
    number: int = 0
    order: int = 0
    way: str = ""
    feature: str = ""
    bits: str = ""
    across: int = 0
    font: str = ""
    script: int = 0

    @property
    def value(self) -> str:
        """The value of its attribute, in the prompt or in the image."""
        return self.traits[self.kind]

    @property
    def cell(self) -> tuple[int, int]:
        """Column and row, from the upper left."""
        return self.column, int(self.row)

    def saying(self, value: str, **changes: Any) -> ThingGroup:
        """Copy the group with another value of its attribute, and other fields."""
        return replace(self, traits={self.kind: value}, **changes)


@dataclass(frozen=True, slots=True)
class View:
    """Camera, light and small displacements: the same at all levels of a scene.

    Attributes:
        light: A key of `composition.LIGHTS`; in drawn scenes of the lights of their template.
        height: Of the camera over the table, in units (a mug is about 0.7 high).
        shifts: (column, row) -> displacement of that place (x, y) in units, and turn in degrees.
        grain: Seed of the textures.
        style: Of a drawn scene: one of `sprites.STYLES`.
        camera: Of a drawn scene: its point of view.
    """

    light: str
    height: float
    shifts: Mapping[tuple[int, str], tuple[float, float, float]]
    grain: int
    style: str = ""
    camera: str = ""

    def shift(self, thing: Thing) -> tuple[float, float, float]:
        """Return how the place of a thing is displaced and turned."""
        return self.shifts.get((thing.column, thing.row), (0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class Scene:
    """A table in front of a wall, and the things on it.

    Attributes:
        template: The template of the ladder that composed it; empty for the other scenes.
    """

    surface: str
    wall: str
    things: tuple[Thing, ...]
    view: View
    template: str = ""

    @property
    def groups(self) -> list[ThingGroup]:
        """The groups of a drawn scene."""
        return [thing for thing in self.things if isinstance(thing, ThingGroup)]

    @property
    def crowded(self) -> bool:
        """Whether the things lie in sets on trays."""
        return any(thing.kind == "set" for thing in self.things)

    def get(self, name: str) -> Thing | None:
        return next((thing for thing in self.things if thing.name == name), None)

    def load_of(self, name: str) -> Thing | None:
        """Return the thing whose carrier this is."""
        return next((thing for thing in self.things if thing.carrier == name), None)

    def with_thing(self, thing: Thing, name: str = "") -> Scene:
        """Copy the scene with the thing of that name replaced; by default the one with the same name."""
        name = name or thing.name
        return replace(self, things=tuple(thing if other.name == name else other for other in self.things))

    def words(self) -> list[str]:
        """List the words that can be read in the scene, thing by thing."""
        return [word for thing in self.things for word in thing.traits.get("text", "").split()]

    def without(self, name: str) -> Scene:
        return replace(self, things=tuple(thing for thing in self.things if thing.name != name))


Relation = tuple[str, str, str]  # entity1, relation, entity2


@dataclass(frozen=True, slots=True)
class AskedElements:
    """The request of a prompt."""

    entities: tuple[str, ...]
    attributes: Mapping[str, Mapping[str, str]]
    relations: tuple[Relation, ...]

    def __len__(self) -> int:
        return len(self.entities) + sum(map(len, self.attributes.values())) + len(self.relations)

    def to_json(self) -> dict[str, Any]:
        return {
            "entities": list(self.entities),
            "attributes": {name: dict(values) for name, values in self.attributes.items() if values},
            "relations": [{"entity1": a, "relation": relation, "entity2": b} for a, relation, b in self.relations],
        }


@dataclass(frozen=True, slots=True)
class Error:
    """A planted error: its kind (as the trust card names it), the element of the graph, the requested and the shown value.

    Attributes:
        box: The pixels that it changed (left, top, right, bottom), if that was measured.
    """

    kind: str
    element: tuple[str, ...]
    asked: str
    shown: str
    box: tuple[int, int, int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        said = {"kind": self.kind, "element": list(self.element), "asked": self.asked, "shown": self.shown}
        return said if self.box is None else {**said, "box": list(self.box)}


@dataclass(frozen=True, slots=True)
class ShownScene:
    """A scene at one level of adherence."""

    level: int
    scene: Scene
    errors: tuple[Error, ...] = field(default=())
