"""The first template of the ladder: cabinets of 25, 40 or 60 boxes with small things, seen straight from above.

A group is what is in one box. An error is one object of one box (one more or less, mirrored, in another state, size, colour
or kind), one letter, two things that changed places, or a thing in an empty box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from titjudge.apps.scenes import cabinet_drawing
from titjudge.apps.scenes.bays import listed
from titjudge.apps.scenes.cabinet_drawing import FACING, LIGHTS, LININGS
from titjudge.apps.scenes.rows import RULES, bits_of, length_of, words_of
from titjudge.apps.scenes.scene import TABLE, AskedElements, Look, Scene, Thing, View
from titjudge.apps.scenes.sprites import FONTS
from titjudge.apps.scenes.template import (
    HUES,
    LETTERS,
    Box,
    Rung,
    Template,
    one_letter_wrong,
    one_more_or_fewer,
    one_otherwise,
    unlike,
)
from titjudge.apps.scenes.textures import Pixels

_THINGS = tuple("star button block leaf bottle fish cup key".split())
_WORDS = (
    tuple("MAPLE RIVER STONE OLIVE TIGER PAPER LEMON CANDY FROST METAL BREAD NORTH".split()),
    ("ЛОДКА", "ВЕТЕР", "КНИГА", "РЕБУС", "МЕТРО", "ШКОЛА"),
    ("ΚΗΠΟΣ", "ΠΟΡΤΑ", "ΔΡΟΜΟΣ", "ΒΙΒΛΙΟ", "ΠΕΤΡΑ", "ΛΙΜΑΝΙ"),
)


class Cabinet(Template, form="cabinet"):
    """A collector's cabinet, seen straight from above.

    Attributes:
        states: What is told apart (facing, state) -> thing -> what is said of it in its first and its other state.
        surfaces: What the cabinet stands on, and the words for it.
        ways: Ways in which things can be arranged, and the words for them.
        exchanged: Way -> the one that an error makes of it; in others two things change places.
    """

    states: ClassVar[Mapping[str, Mapping[str, tuple[str, str]]]]
    surfaces: ClassVar[Mapping[str, str]]
    ways: ClassVar[Mapping[str, str]]
    exchanged: ClassVar[Mapping[str, str]]

    def compose(self, rng: Random, rung: Rung) -> Scene:
        things = tuple(self._group(rng, kind, column, row) for kind, column, row in self.kinds_by_place(rng, rung))
        view = View(rng.choice(tuple(LIGHTS)), 0.0, {}, rng.randrange(1 << 30))
        return Scene(rng.choice(tuple(self.surfaces)), rng.choice(tuple(LININGS)), things, view, self.name)

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
            f" {self.surfaces[scene.surface]}, and every box is lined with {scene.wall} paper. Soft light falls {scene.view.light}, and everything"
            " casts a short shadow."
        )
        close = rng.choice(
            (
                "Nothing else is in the boxes, and things of one box are alike in all that is not mentioned.",
                "In all that is not mentioned the things of one box are alike; there is nothing else in any box.",
            )
        )
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
            return f"In {thing.name} lie {listed(list(map(_name_of, thing.looks)), 'and')}: {traits['arrangement']}."
        if thing.kind == "contents":
            return (
                f"{name} holds {_a(traits['contents'][4:])}."
                if traits["contents"] != "nothing"
                else f"{name} is empty."
            )
        about, number, across = traits["about"], len(traits["bits"]), traits["across"]
        *hues, _ = (look["hue"] for look in thing.looks)
        what = "things" if about == "kind" else _many(traits["of"])
        if traits["of"] == "lamp":
            what = f"lamps with {_a(hues[0])} base"
        elif about != "colour":
            what = f"{hues[0]} {what}"
        mixed = f" of the colours {', '.join(hues)}" if len(hues) > 1 else ""
        return f"{name} holds {number} {what}{mixed} in rows of {across}: {traits[about]}."

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
            way, (a, b, *rest) = traits["arrangement way"], thing.looks
            if way in self.exchanged:
                yield self._arranged(thing, thing.looks, self.exchanged[way])
                return
            yield self._arranged(thing, (b, a, *rest), way)
            if rest:
                yield self._arranged(thing, (a, *rest, b), way)
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

    # ------------------------------------------------------------------ what is asked

    def _group(self, rng: Random, about: str, column: int, row: int) -> Thing:
        thing = Thing(f"box {LETTERS[row]}{column + 1}", about, {}, column, str(row))
        if about == "count":
            traits = {"of": rng.choice(_THINGS), "hue": rng.choice(HUES), "order": str(rng.randrange(1 << 30))}
            number = str(rng.randint(6, 30))
            return replace(thing, traits=traits | {"number": number, about: number})
        if about == "text":
            script = rng.choice((0, 0, 1, 2))
            text = f"{rng.choice(_WORDS[script])}{rng.randrange(20, 99)}"
            return replace(thing, traits={"text": text, "font": rng.choice(FONTS), "script": str(script)})
        if about == "contents":
            noun, hue = rng.choice(_THINGS), rng.choice(HUES)
            what = rng.choice((f"one {hue} {noun}", "nothing"))
            return replace(thing, traits={"of": noun, "hue": hue, about: what})
        if about != "arrangement":
            return self._row(rng, thing)
        way = rng.choice(tuple(self.ways))
        nouns = rng.sample(("star", "button", "block", "leaf", "bottle")[: 3 if way in ("touching", "apart") else 5], 3)
        if way in ("inside", "outside"):
            nouns[0] = "ring"
        hues = rng.sample(("red", "green", "blue", "orange"), 3)
        looks = [{"hue": hue, "of": noun} for hue, noun in zip(hues, nouns, strict=True)]
        return self._arranged(thing, looks if way in ("row", "column") else looks[:2], way)

    def _row(self, rng: Random, thing: Thing) -> Thing:
        """Draw objects in rows of which some are in the other of two states, by a rule."""
        about = thing.kind
        noun = rng.choice(FACING if about == "facing" else tuple(self.states["state"]) if about == "state" else _THINGS)
        hue, across = rng.choice(HUES), rng.choice((4, 5))
        second = rng.choice([other for other in _THINGS if other != noun])
        other_hue, rule = rng.choice(unlike(hue)), rng.choice(RULES)
        bits, hues = bits_of(rng, rule, length_of(rule, across)), [hue]
        if rule == "none" and about == "colour":
            hues = rng.sample(unlike(other_hue), 3)
        said = {
            "size": ("is large", "is small"),
            "kind": (f"is {_a(noun)}", f"is {_a(second)}"),
            "colour": (f"is {hue}", f"is {other_hue}"),
        }
        words = words_of(rule, bits, *(self.states[about][noun] if about in self.states else said[about]))
        other = {"of": second if about == "kind" else noun, "hue": other_hue if about == "colour" else hue}
        traits = {"of": noun, "about": about, "across": str(across), "bits": bits, about: words}
        return replace(thing, kind="row", traits=traits, looks=(*({"of": noun, "hue": hue} for hue in hues), other))

    def _arranged(self, thing: Thing, looks: Sequence[Look], way: str) -> Thing:
        traits = {"arrangement way": way, "arrangement": self.ways[way].format(*map(_name_of, looks))}
        return replace(thing, kind="place", traits=traits, looks=tuple(looks))


# ---------------------------------------------------------------------- the words


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"


def _many(noun: str) -> str:
    return {"leaf": "leaves", "fish": "fish"}.get(noun, f"{noun}s")


def _name_of(look: Look) -> str:
    return f"{look['hue']} {look['of']}"
