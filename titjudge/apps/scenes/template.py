"""A template of the ladder: it composes a scene of many groups, words it, draws it, and makes one element of it wrong.

All that is not drawn at random is in the template's YAML file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from titjudge.apps.scenes.annotation import AnnotatedQuestion
from titjudge.apps.scenes.scene import (
    PICTURE,
    TABLE,
    WALL,
    AskedElements,
    Error,
    Look,
    Scene,
    ShownScene,
    ThingGroup,
    View,
    near,
    with_article,
)
from titjudge.apps.scenes.sprites import FONTS
from titjudge.apps.scenes.textures import Pixels
from titjudge.core.files import read_yaml

Box = tuple[int, int, int, int]  # left, top, right, bottom, in pixels

ERRORS_AT = {1: 1, 2: 4, 3: 12}  # errors at a level, each in a separate group
SIZES = {1: (1024, 1024), 2: (1536, 1216), 3: (2048, 1440)}  # pixels of an image, by difficulty
HUES = ("red", "orange", "green", "blue", "purple", "black")
LETTERS = "ABCDEFGHIJ"  # of the rows of groups, from the top
ALPHABETS = ("ABCDEFGHIKLMNOPRSTUVXYZ", "АБВГДЕЖИКЛМНОПРСТУХЦШЯ", "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ")  # by script
# Which things of a row are in their other state, and the words for it: the description of a thing in its first and its
# other state.
_SAID = {
    "all": "each of the {number} {one}",
    "none": "none of the {number} {other}",
    "every second": "counted row by row from the top left, every second one {other}, and each of the others {one}",
    "only": "only the {place}, counted row by row from the top left, {other}; each of the others {one}",
    "more": "there is exactly one more that {other} than that {one}",
}
RULES = tuple(_SAID)
NOTHING = "nothing"  # content of an empty place
_QUESTIONS = 16
_VISIBLE, _CONTRAST = 10, 60  # pixels that must differ, and by how much (of 255 in one channel)
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth".split()


@dataclass(frozen=True, slots=True)
class Rung:
    """A difficulty of a template.

    Attributes:
        width: Of the image, in pixels.
        height: Of the image, in pixels.
        columns: Groups side by side.
        rows: Rows of groups.
        unit: Pixels of one thing of a group.
        em: Pixels of a letter's em.
    """

    width: int
    height: int
    columns: int
    rows: int
    unit: int
    em: int


class Sprite(NamedTuple):
    """One thing of a group, with its place.

    Attributes:
        look: Its look.
        across: In units to the right of the middle of its group.
        up: In units above it; higher things are further back.
        scale: Its size in units.
        lift: The height of its foot above the floor.
        turn: In degrees.
        variant: Of properties that no prompt asks for, below `bays.VARIANTS`.
    """

    look: Look
    across: float
    up: float
    scale: float = 1.0
    lift: float = 0.0
    turn: float = 0.0
    variant: int = 0


class RowOfThings(NamedTuple):
    """The content of a row: a look, the property that may be in one of two states, and those states, the usual one first.

    Attributes:
        rule: One of `RULES`; empty for one at random.
        across: Things side by side; 0 for four or five at random.
    """

    look: Look
    feature: str
    states: Sequence[str]
    rule: str = ""
    across: int = 0


class Template(ABC):
    """A sort of scenes whose groups each have one attribute that the prompt asks for and that may be wrong.

    Attributes:
        name: As `probe images --scene` takes it, and the name of its YAML file.
        prefix: Begins its prompt ids and is in its draws.
        about: Its content, in a sentence.
        about_errors: Kind -> what is wrong in an error of it.
        kinds: The attributes of groups, one of which is wrong in an error.
        rungs: Difficulty (1 to 3) -> its sizes.
        words: The prompt, as texts for `str.format`: opening, closing (one at random), a sentence for each kind or form
            of group.
        asks: Kind or form of group -> the question about it, if it is not the usual one.
        texts: Words that can be read, by script.
        lights: Keys are the words for where the light comes from.
        styles: In which the scene is drawn.
        cameras: Keys are the words for the point of view.
        walls: Keys are the colours behind the things.
        surfaces: The ground under all things, and the words for it.
        ways: Kind -> ways in which two or more things can be arranged: the words, and the place of each thing.
        exchanged: Way -> the one that an error makes of it; in others two things change places.
        phrases: The description of a thing whose property has this value.
        says: Property -> the same for its other values, with {} for the value.
        gap: Pixels around the inside of a group that belong to it.
    """

    name: ClassVar[str]
    prefix: str
    about: str
    about_errors: Mapping[str, str]
    words: Mapping[str, Any]
    asks: Mapping[str, str]
    texts: Sequence[Sequence[str]]
    lights: Mapping[str, Any]
    styles: Sequence[str]
    cameras: Mapping[str, Any]
    walls: Mapping[str, Any]
    surfaces: Mapping[str, str]
    ways: Mapping[str, Mapping[str, Mapping[str, Any]]]
    exchanged: Mapping[str, str]
    phrases: Mapping[str, str]
    says: Mapping[str, str]
    gap = 2

    def __init__(self) -> None:
        read = read_yaml(Path(__file__).with_name(f"{self.name}.yaml"), "a template")
        self.rungs = {number: Rung(*SIZES[number], *sizes) for number, sizes in enumerate(read.pop("rungs"), 1)}
        vars(self).update(read)
        self.kinds = tuple(self.about_errors)

    # ------------------------------------------------------------------ what is asked

    def compose(self, rng: Random, rung: Rung) -> Scene:
        """Compose a scene whose groups go round through all kinds, in mixed order."""
        kinds = [self.kinds[number % len(self.kinds)] for number in range(rung.columns * rung.rows)]
        rng.shuffle(kinds)
        groups = tuple(self.group(rng, kind, *divmod(number, rung.columns)) for number, kind in enumerate(kinds))
        light, style, camera = (any_of(rng, choices) for choices in (self.lights, self.styles, self.cameras))
        view = View(light, 0.0, {}, rng.randrange(1 << 30), style, camera)
        surface, wall = any_of(rng, self.surfaces), any_of(rng, self.walls)
        return Scene(surface, wall, groups, view, self.name)

    def group(self, rng: Random, kind: str, row: int, column: int) -> ThingGroup:
        """Draw what is at one place."""
        group = ThingGroup(f"{self.words['cell']} {LETTERS[row]}{column + 1}", kind, {}, column, str(row))
        if kind == "count":
            number, look, order = self.heap(rng)
            return group.saying(str(number), form=kind, number=number, looks=(look,), order=order)
        if kind == "contents":
            look = self.heap_look(rng)
            return group.saying(rng.choice((f"one {self.name_of(look)}", NOTHING)), form=kind, looks=(look,))
        if kind == "text":
            script = rng.choice((0, 0, 1, 2))
            text = f"{rng.choice(self.texts[script])}{self.words['gap']}{rng.randrange(20, 99)}"
            return group.saying(text, form=kind, font=rng.choice(FONTS), script=script)
        if kind in self.ways:
            way = rng.choice(tuple(self.ways[kind]))
            return self._arranged(group, way, self.arranged_looks(rng, way))
        asked = self.row(rng, kind)
        rule, across = asked.rule or rng.choice(RULES), asked.across or rng.choice((4, 5))
        bits, (one, other) = bits_of(rng, rule, length_of(rule, across)), asked.states
        ones = rng.sample(unlike(other), 3) if rule == "none" and kind == "colour" else [one]
        said = {"one": self._phrase(asked.feature, one), "other": self._phrase(asked.feature, other)}
        value = _SAID[rule].format(number=len(bits), place=ordinal(bits.find("1")), **said)
        looks = tuple({**asked.look, asked.feature: state} for state in (*ones, other))
        number, feature = len(bits), asked.feature
        return group.saying(value, form="row", looks=looks, number=number, feature=feature, bits=bits, across=across)

    def _arranged(self, group: ThingGroup, way: str, looks: Sequence[Look]) -> ThingGroup:
        words = self.ways[group.kind][way]["words"].format(*map(self.name_of, looks))
        return group.saying(words, form="place", way=way, looks=tuple(looks))

    def _phrase(self, feature: str, value: str) -> str:
        """Write that a property of one thing has a value."""
        return self.phrases.get(value) or self.says[feature].format(value)

    def heap(self, rng: Random) -> tuple[int, Look, int]:
        """Draw how many things are to be counted (6 to 30), their look, and the seed of their order."""
        return rng.randint(6, 30), self.heap_look(rng), rng.randrange(1 << 30)

    @abstractmethod
    def heap_look(self, rng: Random) -> Look:
        """Draw the look of things that are to be counted, or of the one thing of a place."""

    @abstractmethod
    def row(self, rng: Random, kind: str) -> RowOfThings:
        """Draw what a row is made of."""

    @abstractmethod
    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        """Draw the things of an arrangement."""

    def graph_of(self, scene: Scene) -> AskedElements:
        """Make the graph: the attributes of the whole scene, and one of each group."""
        view = scene.view
        whole = {
            PICTURE: {"light": view.light, "style": view.style, "camera": view.camera},
            WALL: {"colour": scene.wall},
        }
        whole = {TABLE: {"surface": scene.surface}} if scene.surface else whole
        attributes = whole | {group.name: dict(group.traits) for group in scene.groups}
        return AskedElements(tuple(attributes), attributes, ())

    # ------------------------------------------------------------------ the words

    def write(self, scene: Scene, rng: Random) -> str:
        """Write the prompt: the whole scene, then every group."""
        groups = scene.groups
        rows = len({group.row for group in groups})
        opening = self.words["opening"].format(
            groups=len(groups),
            rows=rows,
            columns=len(groups) // rows,
            last=LETTERS[rows - 1],
            surface=self.surfaces.get(scene.surface),
            scene=scene,
        )
        closing = any_of(rng, self.words["closing"]).format(scene=scene)
        return " ".join([opening, *map(self.sentence, groups), closing])

    def sentence(self, group: ThingGroup) -> str:
        """Write the sentence of the prompt about one group."""
        hues = [look["hue"] for look in group.looks[:-1]] if group.kind == "colour" else []
        many = self._many(group, group.feature) if group.form in ("count", "row") else ""
        if len(hues) > 1:
            many += self.words["hues"].format(", ".join(hues[:-1]), hues[-1])
        words = next(self.words[key] for key in (*_keys(group.kind, group.value), group.form) if key in self.words)
        names = listed([self.name_of(look) for look in group.looks]) if group.form == "place" else ""
        cell, thing = group.name.rpartition(" ")[2], with_article(group.value.removeprefix("one "))
        return str(words).format(group=group, many=many, names=names, cell=cell, thing=thing)

    def question(self, group: ThingGroup, value: str) -> str:
        """Ask whether a group shows a value of the attribute that the prompt speaks of."""
        usual = "Is this true of what is in {name}: {value}?"
        words = next((self.asks[key] for key in _keys(group.kind, value) if key in self.asks), usual)
        counted = group.form == "count"
        many, plural = (self._many(group, unsaid) if counted else "" for unsaid in ("", "hue"))
        thing = with_article(value.removeprefix("one "))
        return words.format(name=group.name, value=value, many=many, plural=plural, thing=thing)

    def _many(self, group: ThingGroup, unsaid: str) -> str:
        """Name the things of a heap or row, without the property `unsaid`."""
        return self.many({name: value for name, value in group.looks[0].items() if name != unsaid})

    @abstractmethod
    def many(self, look: Look) -> str:
        """Name several things of a look: "people in red"."""

    @abstractmethod
    def name_of(self, look: Look) -> str:
        """Name a thing of an arrangement: "person in red"."""

    def questions(self, scene: Scene, rng: Random) -> list[AnnotatedQuestion]:
        """Draw sixteen questions, in mixed order: one or two of each kind, of which half have the answer no."""
        groups = scene.groups
        rng.shuffle(groups)
        kinds = [group.kind for group in groups]
        earlier = {group.name: kinds[:number].count(group.kind) for number, group in enumerate(groups)}
        asks = []
        for number, group in enumerate(sorted(groups, key=lambda group: earlier[group.name])[:_QUESTIONS]):
            value = group.value if number % 2 else rng.choice(list(self.alternatives(group))).value
            asks.append(AnnotatedQuestion(self.question(group, value), (group.name, group.kind, value)))
        rng.shuffle(asks)
        return asks

    # ------------------------------------------------------------------ the errors

    def alternatives(self, group: ThingGroup) -> Iterator[ThingGroup]:
        """Yield every way in which a group can be wrong by one thing, one letter or one exchange."""
        if group.form == "count":
            for number in (group.number - 1, group.number + 1):
                yield group.saying(str(number), number=number)
        elif group.form == "row":
            for k, bit in enumerate(bits := group.bits):
                if bit == "0" or group.kind != "extra":  # an extra thing is one more, although none is requested
                    words = f"{group.value} - but not so the {ordinal(k)}"
                    yield group.saying(words, bits=f"{bits[:k]}{1 - int(bit)}{bits[k + 1 :]}")
        elif group.form == "text":
            for k, letter in enumerate(text := group.value):
                for other in ALPHABETS[group.script] if letter.isalpha() else "":
                    if other != letter:
                        yield group.saying(text[:k] + other + text[k + 1 :])
        elif group.form == "contents":
            yield group.saying(f"one {self.name_of(group.looks[0])}" if group.value == NOTHING else NOTHING)
        elif group.way in self.exchanged:
            yield self._arranged(group, self.exchanged[group.way], group.looks)
        else:
            for k, (left, right) in enumerate(pairwise(looks := group.looks)):
                yield self._arranged(group, group.way, [*looks[:k], right, left, *looks[k + 2 :]])

    def draw(self, level: int, asked: Scene, kind: str, rng: Random, rung: Rung) -> ShownScene | None:
        """Draw what a level shows: 0 as asked, 1 one error of `kind`, 2 and 3 several of any; None if too few can be seen."""
        groups = asked.groups
        rng.shuffle(groups)
        scene, errors = asked, list[Error]()
        for group in groups:
            if len(errors) == ERRORS_AT.get(level, 0):
                break
            if level == 1 and group.kind != kind:
                continue
            shown = rng.choice(list(self.alternatives(group)))
            box = self.difference(group, shown, rung, asked)
            if box is not None:
                error = Error(group.kind, (group.name, group.kind), group.value, shown.value, box)
                scene, errors = scene.with_thing(shown), [*errors, error]
        return ShownScene(level, scene, tuple(errors)) if len(errors) == ERRORS_AT.get(level, 0) else None

    # ------------------------------------------------------------------ the image

    def arranged(self, group: ThingGroup) -> list[Sprite]:
        """Return the things of an arrangement at the places of its way."""
        spots = self.ways[group.kind][group.way]["spots"]
        return [Sprite({**group.looks[of], **look}, *place) for of, look, *place in spots]

    @abstractmethod
    def sprites(self, group: ThingGroup, rng: Random | None) -> list[Sprite]:
        """Return the things of a group in the order in which they are drawn; displaced and varied where `rng` is given."""

    @abstractmethod
    def picture(self, scene: Scene, rung: Rung) -> Pixels:
        """Draw the whole scene."""

    @abstractmethod
    def inside(self, group: ThingGroup, rung: Rung, scene: Scene) -> Box:
        """Return where what `part` draws is in the image: nothing outside of it changes with the group."""

    @abstractmethod
    def part(self, group: ThingGroup, rung: Rung, scene: Scene, grain: int | None) -> NDArray[np.float32]:
        """Draw what the image shows within `inside`, RGB from 0 to 1; with no `grain`, nothing is displaced or varied."""

    def place(self, group: ThingGroup, rung: Rung, scene: Scene) -> Box:
        """Return the place of a group in the image, including the space around it that belongs to it."""
        left, top, right, bottom = self.inside(group, rung, scene)
        return left - self.gap, top - self.gap, right + self.gap, bottom + self.gap

    def difference(self, asked: ThingGroup, shown: ThingGroup, rung: Rung, scene: Scene) -> Box | None:
        """Return the pixels of the image where a group as shown differs from what was asked; None if it could not be seen.

        At least ten pixels differ by 60 of 255 in a channel, none of them at the edge of the group's place: things in one
        place hide nothing of another, and parts hidden by other things of the group are not among the pixels that differ.
        """
        parts = [self.part(group, rung, scene, scene.view.grain) for group in (asked, shown)]
        apart = np.abs(parts[0] - parts[1]).max(axis=2) * 255 > _CONTRAST
        rows, columns = np.nonzero(apart)
        if len(rows) < _VISIBLE:
            return None
        h, w = apart.shape
        box = int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1
        if box[0] < 2 or box[1] < 2 or box[2] > w - 2 or box[3] > h - 2:
            return None
        left, top = self.inside(asked, rung, scene)[:2]
        return left + box[0], top + box[1], left + box[2], top + box[3]


def _keys(kind: str, value: str) -> tuple[str, str]:
    """Return the keys by which the words for a value of a kind are found, the more special first."""
    return f"{kind} {value}", kind


def unlike(hue: str) -> list[str]:
    """List the colours that are not to be taken for `hue`."""
    return [other for other in HUES if not near(other, hue)]


def members(group: ThingGroup) -> Iterator[tuple[Look, float, int, int]]:
    """Yield each thing of a row: its look, its place from the middle of its row, the number of its row, and the number of rows."""
    *ones, other = group.looks
    for k, bit in enumerate(group.bits):
        look = other if bit == "1" else ones[k % len(ones)]
        yield look, k % group.across - (group.across - 1) / 2, k // group.across, -(-group.number // group.across)


def listed(names: Sequence[str]) -> str:
    """List names with an article, sorted, so that their order reveals nothing: "a blue ball, a red vase and a wooden block"."""
    *first, last = sorted(map(with_article, names))
    return f"{', '.join(first)} and {last}"


def any_of(rng: Random, choices: Iterable[str]) -> str:
    """Draw one of several; of a single one nothing is drawn, and of none the result is empty."""
    some = tuple(choices)
    return rng.choice(some) if len(some) > 1 else "".join(some)


# ---------------------------------------------------------------------- rows of equal things, some in their other state


def length_of(rule: str, across: int) -> int:
    """Return how many things three rows of `across` have: an odd number if the two states differ by one."""
    return 3 * across if rule != "more" else 3 * across - (across + 1) % 2


def bits_of(rng: Random, rule: str, number: int) -> str:
    """Draw the states that a rule asks for: a digit of each thing, 1 for the other state."""
    if rule in ("all", "none"):
        return "0" * number
    if rule == "every second":
        return "".join(str(k % 2) for k in range(number))
    if rule == "only":
        k = rng.randrange(number)
        return "0" * k + "1" + "0" * (number - k - 1)
    bits = list("1" * (number // 2 + 1) + "0" * (number // 2))
    rng.shuffle(bits)
    return "".join(bits)


def ordinal(k: int) -> str:
    """Return the word for the place of a thing that has `k` before it: "first" for 0."""
    return _ORDINALS[k] if k < len(_ORDINALS) else f"{k + 1}th"
