"""The first template of the ladder: cabinets of 25, 40 or 60 boxes with small things, seen straight from above.

A group is what is in one box. An error is one object of one box (one more or less, mirrored, in another state, size, colour
or kind), one letter, two things that changed places, or a thing in an empty box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from titjudge.apps.scenes import cabinet_drawing
from titjudge.apps.scenes.cabinet_drawing import FACING, LIGHTS, LININGS
from titjudge.apps.scenes.palette import near
from titjudge.apps.scenes.rows import RULES, bits_of, length_of, words_of
from titjudge.apps.scenes.scene import CABINET, TABLE, AskedElements, Scene, Thing, View
from titjudge.apps.scenes.sprites import FONTS
from titjudge.apps.scenes.template import (
    LETTERS,
    SIZES,
    Box,
    Rung,
    Template,
    one_letter_wrong,
    one_more_or_fewer,
    one_otherwise,
)
from titjudge.apps.scenes.textures import Pixels

_HUES = ("red", "orange", "green", "blue", "purple", "black")
_THINGS = ("star", "button", "block", "leaf", "bottle", "fish", "cup", "key")
_STATES = {
    "lamp": ("is dark", "is lit"),
    "padlock": ("is closed", "is open"),
    "bottle": ("stands upright", "stands on its head"),
}
_FACES = {"fish": ("swims to the left", "swims to the right"), "cup": ("has its handle on the left", "has its handle on the right"), "key": ("has its bow on the left", "has its bow on the right")}  # fmt: skip
_WORDS = (
    ("MAPLE", "RIVER", "STONE", "OLIVE", "TIGER", "PAPER", "LEMON", "CANDY", "FROST", "METAL", "BREAD", "NORTH"),
    ("ЛОДКА", "ВЕТЕР", "КНИГА", "РЕБУС", "МЕТРО", "ШКОЛА"),
    ("ΚΗΠΟΣ", "ΠΟΡΤΑ", "ΔΡΟΜΟΣ", "ΒΙΒΛΙΟ", "ΠΕΤΡΑ", "ΛΙΜΑΝΙ"),
)
_SURFACES = {
    "brown wooden planks": "brown wooden planks",
    "plain green cloth": "a plain green cloth",
    "white marble": "white marble",
}


class Cabinet(Template):
    """A collector's cabinet, seen straight from above."""

    name, prefix = CABINET, "ladder"
    kinds = ("count", "colour", "facing", "state", "size", "kind", "text", "arrangement", "contents")
    about = "A **cabinet** of boxes, seen straight from above, as a clean drawing."
    about_errors: ClassVar[Mapping[str, str]] = {
        "count": "a heap of 6 to 30 things that overlap has one more or one fewer",
        "colour": "one of up to fifteen things has another colour",
        "facing": "one of up to fifteen is mirrored",
        "state": "one of up to fifteen is lit, open or upside down, or is not",
        "size": "one of up to fifteen is small, or is not",
        "kind": "one of up to fifteen is another thing",
        "text": "one letter (Latin, Cyrillic or Greek, four fonts)",
        "arrangement": "two things change places (left, right, between, behind), or inside, outside, touching is not so",
        "contents": "a thing lies in an empty box, or a box that should have one is empty",
    }
    rungs: ClassVar[Mapping[int, Rung]] = {
        1: Rung(*SIZES[1], 5, 5, 22, 18),
        2: Rung(*SIZES[2], 8, 5, 14, 11),
        3: Rung(*SIZES[3], 10, 6, 8, 8),
    }

    def compose(self, rng: Random, rung: Rung) -> Scene:
        things = tuple(_group(rng, kind, column, row) for kind, column, row in self.kinds_by_place(rng, rung))
        view = View(rng.choice(tuple(LIGHTS)), 0.0, {}, rng.randrange(1 << 30))
        return Scene(rng.choice(tuple(_SURFACES)), rng.choice(tuple(LININGS)), things, view, self.name)

    def kind_of(self, thing: Thing) -> str:
        return {"row": thing.traits.get("about", ""), "place": "arrangement"}.get(thing.kind, thing.kind)

    def graph_of(self, scene: Scene) -> AskedElements:
        """Make the graph: what the cabinet stands on, and of each box one attribute."""
        attributes = {TABLE: {"surface": scene.surface}, **self.attributes_of(scene)}
        return AskedElements(tuple(attributes), attributes, ())

    def write(self, scene: Scene, rng: Random) -> str:
        rows = sorted({int(thing.row) for thing in scene.things})
        columns = max(thing.column for thing in scene.things) + 1
        opening = (
            f"A collector's cabinet of {len(scene.things)} shallow open boxes, seen straight from above: {len(rows)} rows, lettered A to"
            f" {LETTERS[len(rows) - 1]} from the top, of {columns} boxes each, numbered from the left. Its frame is made of"
            f" {_SURFACES[scene.surface]}, and every box is lined with {scene.wall} paper. Soft light falls {scene.view.light}, and everything"
            " casts a short shadow."
        )
        close = rng.choice((
            "Nothing else is in the boxes, and things of one box are alike in all that is not mentioned.",
            "In all that is not mentioned the things of one box are alike; there is nothing else in any box.",
        ))  # fmt: skip
        return " ".join(
            [
                opening,
                *map(self.sentence, scene.things),
                close,
                "Style: a clean, sharp drawing with plain shapes.",
            ]
        )

    def sentence(self, thing: Thing) -> str:
        traits, name = thing.traits, f"Box {thing.name[4:]}"
        if thing.kind == "count":
            return f"{name} holds a heap of exactly {traits['number']} {traits['hue']} {_many(traits['of'])}, which overlap a little."
        if thing.kind == "text":
            return f'In {thing.name} lies a small paper tag that reads "{traits["text"]}".'
        if thing.kind == "place":
            return f"In {thing.name} lie {_listed(traits['order'].split(','))}: {traits['arrangement']}."
        if thing.kind == "contents":
            return (
                f"{name} holds {_a(traits['contents'][4:])}."
                if traits["contents"] != "nothing"
                else f"{name} is empty."
            )
        about, number, across = traits["about"], len(traits["bits"]), traits["across"]
        hue = "" if about == "colour" else f"{traits['hue']} "
        what = "things" if about == "kind" else _many(traits["of"])
        if traits["of"] == "lamp":
            hue, what = "", f"lamps with {_a(traits['hue'])} base"
        mixed = f" of the colours {traits['hue'].replace(',', ', ')}" if "," in traits["hue"] else ""
        return f"{name} holds {number} {hue}{what}{mixed} in rows of {across}: {traits[about]}."

    def question(self, thing: Thing, value: str) -> str:
        if thing.kind == "count":
            return f"Are there exactly {value} {_many(thing.traits['of'])} in {thing.name}?"
        if thing.kind == "text":
            return f'Does the tag in {thing.name} read exactly "{value}"?'
        if thing.kind == "contents":
            return f"Is {thing.name} empty?" if value == "nothing" else f"Is there {_a(value[4:])} in {thing.name}?"
        return super().question(thing, value)

    def alternatives(self, thing: Thing) -> Iterator[Thing]:
        traits = thing.traits
        if thing.kind == "count":
            yield from one_more_or_fewer(thing)
        elif thing.kind == "row":
            yield from one_otherwise(thing, traits["about"])
        elif thing.kind == "text":
            yield from one_letter_wrong(thing)
        elif thing.kind == "place":
            for looks, way in _rearranged(traits["order"].split(","), traits["arrangement way"]):
                yield replace(thing, traits={**traits, **arranged(looks, way)})
        else:
            there = f"one {traits['hue']} {traits['of']}"
            yield thing.having("contents", there if traits["contents"] == "nothing" else "nothing")

    def picture(self, scene: Scene, rung: Rung) -> Pixels:
        return cabinet_drawing.cabinet(scene, rung)

    def place(self, thing: Thing, rung: Rung, scene: Scene) -> Box:
        return cabinet_drawing.place(thing, rung)

    def inside(self, thing: Thing, rung: Rung, scene: Scene) -> Box:
        return cabinet_drawing.inside(thing, rung)

    def part(self, thing: Thing, rung: Rung, scene: Scene, grain: int | None) -> NDArray[np.float32]:
        return cabinet_drawing.tile(thing, rung, scene.wall, scene.view.light, grain)


# ---------------------------------------------------------------------- what is asked


def _group(rng: Random, about: str, column: int, row: int) -> Thing:
    form, traits = _FORMS.get(about, _row)(rng, about)
    return Thing(f"box {LETTERS[row]}{column + 1}", form, traits, column, str(row))


def _count(rng: Random, _: str) -> tuple[str, dict[str, str]]:
    traits = {"of": rng.choice(_THINGS), "hue": rng.choice(_HUES), "order": str(rng.randrange(1 << 30))}
    number = str(rng.randint(6, 30))
    return "count", traits | {"number": number, "count": number}


def _row(rng: Random, about: str) -> tuple[str, dict[str, str]]:
    """Draw objects in rows of which some are in the other of two states, by a rule."""
    noun = rng.choice(FACING if about == "facing" else tuple(_STATES) if about == "state" else _THINGS)
    hue = rng.choice(_HUES)
    across = rng.choice((4, 5))
    traits = {"of": noun, "hue": hue, "about": about, "across": str(across)}
    traits["of2"] = rng.choice([other for other in _THINGS if other != noun])
    traits["hue2"] = rng.choice([other for other in _HUES if not near(other, hue)])
    rule = rng.choice(RULES)
    bits = bits_of(rng, rule, length_of(rule, across))
    if rule == "none" and about == "colour":
        traits["hue"] = ",".join(rng.sample([other for other in _HUES if not near(other, traits["hue2"])], 3))
    traits |= {"bits": bits, about: words_of(rule, bits, *states(traits))}
    return "row", traits


def states(traits: Mapping[str, str]) -> tuple[str, str]:
    """Return what is said of an object of a row in its first state and in its other one."""
    about, noun = traits["about"], traits["of"]
    if about == "facing":
        return _FACES[noun]
    if about == "state":
        return _STATES[noun]
    if about == "size":
        return "is large", "is small"
    if about == "kind":
        return f"is {_a(noun)}", f"is {_a(traits['of2'])}"
    return f"is {traits['hue']}", f"is {traits['hue2']}"


def _text(rng: Random, _: str) -> tuple[str, dict[str, str]]:
    script = rng.choice((0, 0, 1, 2))
    text = f"{rng.choice(_WORDS[script])}{rng.randrange(20, 99)}"
    return "text", {"text": text, "font": rng.choice(FONTS), "script": str(script)}


def _arrangement(rng: Random, _: str) -> tuple[str, dict[str, str]]:
    way = rng.choice(("row", "column", "over", "inside", "outside", "touching", "apart"))
    kinds = rng.sample(("star", "button", "block", "leaf", "bottle")[: 3 if way in ("touching", "apart") else 5], 3)
    looks = [
        f"{hue} {noun}" for hue, noun in zip(rng.sample(("red", "green", "blue", "orange"), 3), kinds, strict=True)
    ]
    if way in ("inside", "outside"):
        looks[0] = f"{looks[0].split()[0]} ring"
    return "place", arranged(looks if way in ("row", "column") else looks[:2], way)


def arranged(looks: list[str], way: str) -> dict[str, str]:
    """Make the attributes of an arrangement, with the words for it."""
    a, b, c = (looks * 2)[:3]
    says = {
        "row": f"from left to right: {a}, {b}, {c}; the {b} lies between the two others",
        "column": f"from top to bottom: {a}, {b}, {c}",
        "over": f"the {a} lies partly behind the {b}",
        "inside": f"the {b} lies inside the {a}",
        "outside": f"the {b} lies outside the {a}, to the right of it",
        "touching": f"the {a} on the left and the {b} on the right touch each other",
        "apart": f"the {a} on the left and the {b} on the right do not touch",
    }
    return {"order": ",".join(looks), "arrangement way": way, "arrangement": says[way]}


def _contents(rng: Random, _: str) -> tuple[str, dict[str, str]]:
    noun, hue = rng.choice(_THINGS), rng.choice(_HUES)
    return "contents", {"of": noun, "hue": hue, "contents": rng.choice((f"one {hue} {noun}", "nothing"))}


_FORMS: dict[str, Callable[[Random, str], tuple[str, dict[str, str]]]] = {
    "count": _count, "text": _text, "arrangement": _arrangement, "contents": _contents,
}  # fmt: skip


# ---------------------------------------------------------------------- the errors


def _rearranged(looks: list[str], way: str) -> Iterator[tuple[list[str], str]]:
    other = {"inside": "outside", "outside": "inside", "touching": "apart", "apart": "touching"}
    if way in other:
        yield looks, other[way]
    elif way == "over":
        yield looks[::-1], way
    else:
        yield [looks[1], looks[0], looks[2]], way
        yield [looks[0], looks[2], looks[1]], way


# ---------------------------------------------------------------------- the words


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"


def _many(noun: str) -> str:
    return {"leaf": "leaves", "fish": "fish"}.get(noun, f"{noun}s")


def _listed(looks: list[str]) -> str:
    *first, last = sorted(map(_a, looks))
    return f"{', '.join(first)} and {last}"
