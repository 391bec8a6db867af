"""What a template of the ladder is: it composes a scene of many groups, words it, draws it, and makes one element of it wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from titjudge.apps.scenes.annotation import AnnotatedQuestion
from titjudge.apps.scenes.palette import near
from titjudge.apps.scenes.rows import flipped, ordinal
from titjudge.apps.scenes.scene import AskedElements, Error, Scene, ShownScene, Thing
from titjudge.apps.scenes.textures import Pixels
from titjudge.core.files import read_yaml

Box = tuple[int, int, int, int]  # left, top, right, bottom, in pixels
Point = tuple[float, float]

ERRORS_AT = {1: 1, 2: 4, 3: 12}  # errors at a level, each in a group of its own
SIZES = {1: (1024, 1024), 2: (1536, 1216), 3: (2048, 1440)}  # pixels of an image, by difficulty
HUES = ("red", "orange", "green", "blue", "purple", "black")
LETTERS = "ABCDEFGHIJ"  # of the rows of groups, from the top
ALPHABETS = ("ABCDEFGHIKLMNOPRSTUVXYZ", "АБВГДЕЖИКЛМНОПРСТУХЦШЯ", "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ")  # by script
_QUESTIONS = 16
_VISIBLE, _CONTRAST = 10, 60  # pixels that must differ, and by how much (of 255 in one channel)


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


class Template(ABC):
    """A sort of scenes whose groups each have one attribute that the prompt asks for and that may be wrong.

    Attributes:
        name: As `known-answer make --template` takes it.
        prefix: Begins its prompt ids and is in its draws.
        kinds: The attributes of groups, one of which is wrong in an error.
        about: What it shows, in a sentence.
        about_errors: Kind -> what is wrong in an error of it.
        rungs: Difficulty (1 to 3) -> its sizes.

    A subclass with a `form` has these and all that is not drawn from the YAML file of that name.
    """

    name: ClassVar[str]
    prefix: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    about: ClassVar[str]
    about_errors: ClassVar[Mapping[str, str]]
    rungs: ClassVar[Mapping[int, Rung]]

    def __init_subclass__(cls, form: str = "") -> None:
        if form:
            read = read_yaml(Path(__file__).with_name(f"{form}.yaml"), "a template")
            cls.rungs = {number: Rung(*SIZES[number], *sizes) for number, sizes in enumerate(read.pop("rungs"), 1)}
            cls.kinds = tuple(read["about_errors"])
            for name, value in read.items():
                setattr(cls, name, value)

    # ------------------------------------------------------------------ what is asked

    @abstractmethod
    def compose(self, rng: Random, rung: Rung) -> Scene:
        """Compose a scene whose groups go round through all kinds."""

    def kinds_by_place(self, rng: Random, rung: Rung) -> Iterator[tuple[str, int, int]]:
        """Yield a kind for each column and row of a scene: all kinds in turns, in mixed order."""
        kinds = [self.kinds[number % len(self.kinds)] for number in range(rung.columns * rung.rows)]
        rng.shuffle(kinds)
        for number, kind in enumerate(kinds):
            row, column = divmod(number, rung.columns)
            yield kind, column, row

    @abstractmethod
    def kind_of(self, thing: Thing) -> str:
        """Return the attribute of a group that the prompt asks for: one of `kinds`."""

    @abstractmethod
    def graph_of(self, scene: Scene) -> AskedElements:
        """Make the graph: the attributes of the whole scene, and one of each group."""

    def attributes_of(self, scene: Scene) -> dict[str, dict[str, str]]:
        """Return what the prompt asks for of each group: its name -> its kind -> the value."""
        return {thing.name: {(kind := self.kind_of(thing)): thing.traits[kind]} for thing in scene.things}

    # ------------------------------------------------------------------ the words

    @abstractmethod
    def write(self, scene: Scene, rng: Random) -> str:
        """Write the prompt: what the whole is, then every group."""

    @abstractmethod
    def sentence(self, thing: Thing) -> str:
        """Write the sentence of the prompt about one group."""

    def question(self, thing: Thing, value: str) -> str:
        """Ask whether a group shows a value of the attribute that the prompt speaks of."""
        return f"Is this true of what is in {thing.name}: {value}?"

    def questions(self, scene: Scene, rng: Random) -> list[AnnotatedQuestion]:
        """Draw sixteen questions, in mixed order: one or two of each kind, of which half have the answer no."""
        groups = list(scene.things)
        rng.shuffle(groups)
        kinds = [self.kind_of(thing) for thing in groups]
        earlier = {thing.name: kinds[:number].count(kinds[number]) for number, thing in enumerate(groups)}
        asks = []
        for number, thing in enumerate(sorted(groups, key=lambda thing: earlier[thing.name])[:_QUESTIONS]):
            kind = self.kind_of(thing)
            value = thing.traits[kind] if number % 2 else rng.choice(list(self.alternatives(thing))).traits[kind]
            asks.append(AnnotatedQuestion(self.question(thing, value), (thing.name, kind, value)))
        rng.shuffle(asks)
        return asks

    # ------------------------------------------------------------------ the errors

    @abstractmethod
    def alternatives(self, thing: Thing) -> Iterator[Thing]:
        """Yield every way in which a group can be wrong by one thing, one letter or one exchange."""

    def draw(self, level: int, asked: Scene, kind: str, rng: Random, rung: Rung) -> ShownScene | None:
        """Draw what a level shows: 0 as asked, 1 one error of `kind`, 2 and 3 several of any; None where too few can be seen."""
        groups = list(asked.things)
        rng.shuffle(groups)
        scene, errors = asked, list[Error]()
        for thing in groups:
            if len(errors) == ERRORS_AT.get(level, 0):
                break
            about = self.kind_of(thing)
            if level == 1 and about != kind:
                continue
            shown = rng.choice(list(self.alternatives(thing)))
            box = self.difference(thing, shown, rung, asked)
            if box is not None:
                error = Error(about, (thing.name, about), thing.traits[about], shown.traits[about], box)
                scene, errors = scene.with_thing(shown), [*errors, error]
        return ShownScene(level, scene, tuple(errors)) if len(errors) == ERRORS_AT.get(level, 0) else None

    # ------------------------------------------------------------------ the image

    @abstractmethod
    def picture(self, scene: Scene, rung: Rung) -> Pixels:
        """Draw the whole scene."""

    @abstractmethod
    def place(self, thing: Thing, rung: Rung, scene: Scene) -> Box:
        """Return where a group is in the image, with the room around it that is its own."""

    @abstractmethod
    def inside(self, thing: Thing, rung: Rung, scene: Scene) -> Box:
        """Return where what `part` draws is in the image: nothing outside of it changes with the group."""

    @abstractmethod
    def part(self, thing: Thing, rung: Rung, scene: Scene, grain: int | None) -> NDArray[np.float32]:
        """Draw what the image shows within `inside`, RGB from 0 to 1; with no `grain`, nothing is displaced or varied."""

    def difference(self, asked: Thing, shown: Thing, rung: Rung, scene: Scene) -> Box | None:
        """Return the pixels of the image where a group as shown differs from what was asked; None where nobody could see it.

        At least ten pixels differ by 60 of 255 in a channel, none of them at the edge of the group's own place: what is in
        one place hides nothing of another, and what other things of the group hide is not among the pixels that differ.
        """
        parts = [self.part(thing, rung, scene, scene.view.grain) for thing in (asked, shown)]
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


def unlike(hue: str) -> list[str]:
    """List the colours that are not to be taken for `hue`."""
    return [other for other in HUES if not near(other, hue)]


# ---------------------------------------------------------------------- errors of groups that several templates have


def one_more_or_fewer(thing: Thing) -> Iterator[Thing]:
    """Yield a group of counted things with one less and with one more."""
    for change in (-1, 1):
        number = str(int(thing.traits["number"]) + change)
        yield replace(thing, traits={**thing.traits, "number": number, "count": number})


def one_otherwise(thing: Thing, about: str, states: str = "01") -> Iterator[Thing]:
    """Yield a row with one thing in its other state; only of those that are in one of `states`."""
    for k, bit in enumerate(bits := thing.traits["bits"]):
        if bit in states:
            words = f"{thing.traits[about]} - but not so the {ordinal(k)}"
            yield replace(thing, traits={**thing.traits, "bits": flipped(bits, k), about: words})


def one_letter_wrong(thing: Thing) -> Iterator[Thing]:
    """Yield a text with one of its letters replaced by another one of its script."""
    text = thing.traits["text"]
    for k, letter in enumerate(text):
        for other in ALPHABETS[int(thing.traits["script"])] if letter.isalpha() else "":
            if other != letter:
                yield thing.having("text", text[:k] + other + text[k + 1 :])
