"""The ladder: scenes of 25, 40 or 60 groups with small things, for judges that pass the crowds from one look; its templates.

A group has one attribute that the prompt asks for. An error is one thing, one letter or one exchange in a group, checked by
its pixels and annotated with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from titjudge.apps.scenes.bays import BayTemplate, polygon, quads, shaded
from titjudge.apps.scenes.cabinet import Cabinet
from titjudge.apps.scenes.scene import COLOURS, Look, Options
from titjudge.apps.scenes.sprites import RGB, Pen, Point, Strokes, rgb
from titjudge.apps.scenes.template import HUES, RowOfThings, Sprite, Template, any_of, unlike
from titjudge.apps.scenes.textures import Pixels
from titjudge.core.files import read_yaml

_SKIN = ((240, 200, 170), (198, 142, 104), (146, 96, 66), (226, 176, 146))
_HAIR = ((84, 54, 30), (34, 30, 30), (44, 32, 26), (196, 150, 80))
_TROUSERS = (74, 76, 84)
_EDGE = (34, 30, 34)


class Stand(BayTemplate):
    """A grandstand, seen in perspective from above its front.

    Attributes:
        pairs: Kind -> the distinguished property, and its two states, one of these at random.
        painted: Strokes of the parts of people by pose, of patterns, of things in their hands, and of the seat.
    """

    name = "stand"
    pairs: Mapping[str, Mapping[str, Any]]
    painted: Mapping[str, Strokes]

    # ------------------------------------------------------------------ what is asked

    def heap_look(self, rng: Random) -> Look:
        return {"hue": rng.choice(HUES)}

    def row(self, rng: Random, kind: str) -> RowOfThings:
        hue = rng.choice(HUES)
        second = rng.choice(unlike(hue))
        if kind == "colour":
            return RowOfThings({"hue": hue}, "hue", (hue, second))
        if kind == "hat":
            return RowOfThings({"hue": hue}, "hat", rng.choice((("none", second), (second, "none"))))
        look = {"hue": hue, "held hue": second} if kind == "held" else {"hue": hue}
        return RowOfThings(look, self.pairs[kind]["feature"], rng.choice(self.pairs[kind]["states"]))

    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        return [{"hue": hue} for hue in rng.sample(("red", "green", "blue", "orange"), 3 if way == "row" else 2)]

    # ------------------------------------------------------------------ the words

    def name_of(self, look: Look) -> str:
        return f"person in {look['hue']}"

    def many(self, look: Look) -> str:
        return f"people in {look['hue']}" if "hue" in look else "people"

    def beside_text(self) -> list[Sprite]:
        return [Sprite({"hue": "black", "pose": "up"}, across, 0.0) for across in (-0.7, 0.7)]

    # ------------------------------------------------------------------ the image

    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        draw.rectangle((0, 0, 9999, 9999), fill=shaded(wall, 2, 5))
        draw.rectangle((0, float(corners[-1, :, 1].min()), 9999, 9999), fill=(88, 128, 78))
        polygon(draw, [*corners[0], *corners[-1, ::-1]], shaded(wall, 3, 5))
        for quad in quads(corners):
            middle = quad.mean(axis=0)
            quad = middle + (quad - middle) * 0.955
            polygon(draw, quad, wall)
            for share in (0.25, 0.5, 0.75):
                left, right = quad[:2] + (quad[:1:-1] - quad[:2]) * share
                draw.line([tuple(left), tuple(right)], fill=shaded(wall, 19, 20), width=2)

    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        pose, held, hat = look.get("pose", "down"), look.get("held", "nothing"), look.get("hat", "none")
        way = "kneeling" if pose == "kneeling" else "standing"
        parts = [f"{way} body", look.get("pattern", ""), pose if held == "nothing" else "holding", f"{way} head"]
        parts += [f"{way} hat"] * (hat != "none") + [held]
        colours = {"skin": _SKIN[variant], "hair": _HAIR[variant], "trousers": _TROUSERS, "edge": _EDGE}
        named = {"shirt": look.get("hue", ""), "hat": hat, "hue": look.get("held hue", "")}
        colours |= {name: rgb(hue) for name, hue in named.items() if hue in COLOURS}
        for part in ["seat"] if "seat" in look else parts:
            pen.strokes(self.painted.get(part, ()), colours)


_PAINTED = read_yaml(Path(__file__).with_name("shelf_things.yaml"), "a list of things")
_TONES = (1.0, 0.93, 1.05, 0.97)  # of things that are else alike
_WHITE = (250, 248, 240)


class Shelves(BayTemplate):
    """Shelves of compartments, seen in perspective.

    Attributes:
        unlike: Material -> materials that must not be confused with it.
        rows: Kind -> the distinguished property, the things that have it, and its states, if all have the same.
        states: Thing -> its states.
        made_of: Material -> its adjective.
        couples: Way -> the two things in this arrangement, without their colours.
    """

    name = "shelves"
    unlike: Mapping[str, Sequence[str]]
    rows: Mapping[str, tuple[str, Sequence[str], Sequence[str]]]
    states: Mapping[str, Sequence[str]]
    made_of: Mapping[str, str]
    couples: Mapping[str, Sequence[Look]]

    # ------------------------------------------------------------------ what is asked

    def heap_look(self, rng: Random) -> Look:
        return {"thing": "bottle", "hue": rng.choice(HUES)}

    def row(self, rng: Random, kind: str) -> RowOfThings:
        hue = rng.choice(HUES)
        if kind == "material":
            made_of = rng.choice(tuple(self.unlike))
            thing = rng.choice(("block", "ball", "vase"))
            return RowOfThings({"thing": thing}, kind, (made_of, rng.choice(self.unlike[made_of])))
        second = rng.choice(unlike(hue)) if kind == "colour" else ""
        feature, things, states = self.rows[kind]
        look = {"thing": any_of(rng, things), "hue": hue}
        if kind == "colour":
            states = hue, second
        elif kind not in ("size", "extra"):
            states = rng.sample(states or self.states[look["thing"]], 2)
        return RowOfThings(look, feature, states)

    def arranged_looks(self, rng: Random, way: str) -> list[Look]:
        hues = rng.sample(("red", "green", "blue", "orange"), 2)
        one: Look = {"thing": rng.choice(("ball", "vase", "bottle")), "hue": hues[0]}
        if way == "row":
            things, made_of = rng.sample(("block", "ball", "vase"), 3), rng.sample(("wood", "metal", "brick"), 2)
            looks: list[Look] = [{"thing": "bottle", "hue": hues[0]}, {"thing": things[0], "hue": hues[1]}]
            looks += [{"thing": thing, "material": each} for thing, each in zip(things[1:], made_of, strict=True)]
            return rng.sample(looks, 4)
        if way in self.couples:
            return [{**look, "hue": hue} for look, hue in zip(self.couples[way], hues, strict=True)]
        looks = [one, {"thing": "block", "material": rng.choice(("wood", "brick", "metal"))}]
        return rng.sample(looks, 2) if way == "behind" else looks

    # ------------------------------------------------------------------ the words

    def name_of(self, look: Look) -> str:
        if look["thing"] == "jar":
            return "glass jar"
        return f"{look['hue'] if 'hue' in look else self.made_of[look['material']]} {look['thing']}"

    def many(self, look: Look) -> str:
        thing = look["thing"]
        if "hue" not in look:
            return f"{thing}s"
        return f"{thing}s with {look['hue']} rims" if thing in ("jar", "clock") else f"{look['hue']} {thing}s"

    # ------------------------------------------------------------------ the image

    def decorate(self, draw: ImageDraw.ImageDraw, corners: NDArray[np.float64], wall: RGB, rng: Random) -> None:
        draw.rectangle((0, 0, 9999, 9999), fill=(112, 104, 98))
        outline = np.concatenate([corners[0], corners[1:, -1], corners[-1, -2::-1], corners[-2:0:-1, 0]])
        middle = outline.mean(axis=0)
        polygon(draw, middle + (outline - middle) * 1.008, (126, 82, 46))
        for quad in quads(corners):
            quad = quad + np.array([(3, 3), (-3, 3), (-3, -3), (3, -3)])
            polygon(draw, quad, wall)
            deep = quad[:1:-1] + (quad[:2] - quad[:1:-1]) * 0.78
            polygon(draw, [quad[3], quad[2], deep[1], deep[0]], shaded(wall, 15, 16))

    def paint(self, pen: Pen, look: Look, variant: int) -> None:
        tone, states = _TONES[variant], _PAINTED[look["thing"]]
        strokes = states[next((value for value in look.values() if value in states), next(iter(states)))]
        red, green, blue = (min(255, round(c * tone)) for c in rgb(look.get("hue", "black")))
        hue: RGB = red, green, blue
        colours: dict[str, tuple[int, ...] | None] = {"edge": (52, 44, 40), "hue": None, "half": None, "shine": None}
        if "hue" in look:
            pale = tuple(c + (255 - c) * 2 // 3 for c in hue)
            half = tuple(c + (255 - c) // 2 for c in hue)
            colours = {"edge": tuple(c // 3 for c in hue), "hue": hue, "half": half, "shine": pale, "pale": pale}
        elif "material" in look:
            _clad(pen, [places for form, places, *_ in strokes if form == "shape"], look["material"], tone)
        pen.strokes(strokes, colours)


def _clad(pen: Pen, outlines: Sequence[Sequence[Point]], material: str, tone: float) -> None:
    """Lay a material over the outlines."""
    if material == "glass":
        for outline in outlines:
            pen.shape(outline, (214, 232, 240, 120))
        pen.line([(-0.2, 0.2), (-0.2, 0.5)], _WHITE, 0.07)
        pen.line([(-0.08, 0.16), (-0.08, 0.3)], _WHITE, 0.04)
        return
    mask = pen.like()
    for outline in outlines:
        mask.shape(outline, (0, 0, 0, 255))
    pen.texture(_texture(material, tone), mask)


@lru_cache(32)
def _texture(material: str, tone: float) -> Pixels:
    """Return the pixels of a material, 200 across and 170 up: a hundred to the unit."""
    y, x = np.mgrid[0:170, 0:200].astype(np.float64)
    if material == "wood":
        grain = np.sin(y / 2.6 + 2.2 * np.sin(x / 26)) * 0.5 + np.sin(y / 7 + x / 50) * 0.5
        picture = np.array((178, 122, 66)) * (1 + 0.32 * grain[..., None])
    elif material == "metal":
        shine = np.exp(-(((x - 82) / 8) ** 2)) + 0.45 * np.exp(-(((x - 122) / 7) ** 2))
        picture = np.array((104, 112, 122)) * (1 + 1.35 * shine[..., None])
    elif material == "brick":
        row = (y // 14).astype(int)
        mortar = (y % 14 < 3.4) | ((x + 14 * (row % 2)) % 28 < 3.4)
        picture = np.where(mortar[..., None], np.array((230, 220, 206)), np.array((164, 66, 46)))
    else:  # striped cloth
        picture = np.where((x // 13 % 2 == 0)[..., None], np.array((186, 36, 60)), np.array((248, 244, 234)))
    return np.asarray(np.clip(picture * tone, 0, 255), np.uint8)


TEMPLATES: dict[str, Template] = {template.name: template for template in (Cabinet(), Stand(), Shelves())}
MIXED = "mixed"  # all templates, in turns


def template_of(name: str, number: int) -> tuple[Template, int]:
    """Return the template of a scene, and its number among the scenes of that template.

    So a mixed set of N templates has the first scenes that each template alone has with the same seed.
    """
    if name != MIXED:
        return TEMPLATES[name], number
    templates = list(TEMPLATES.values())
    return templates[number % len(templates)], number // len(templates)


_TEXT = """\
# Known-answer scenes

{prompts} prompts, {images} images, {pairs} pairs for testing text-to-image judges, made by

    python cli.py probe images --scenes {scenes} --seed {seed} --size {size} --rays {samples} --levels {levels}{hard} --out DIR

The adherence of every image to its long prompt is known by construction: the scenes are still lifes on a table, composed
from a seeded grammar and path traced (Mitsuba 3, {samples} samples a pixel, then smoothed along surfaces). Nobody's
opinion is in the labels, and nobody looked: instead every object is rendered as object ids, together with the others and
alone, and a scene is drawn again until each object that the annotation names is uncropped, large enough and not hidden,
groups have as many objects in sight as they should, left, right and behind agree with where the pixels are, and nothing
stands before the words of the sign. Camera, light and places are the same at all levels of a scene.

{crowd}* level 0: everything the prompt asks for
* level 1: one error; its kind goes round from scene to scene (missing entity, wrong attribute, wrong count, swapped
  relation, misspelt text). A missing entity takes its attributes and relations with it, and a swap concerns up to two relations
* level 2: 26-34 % of the graph elements wrong or missing
* level 3: 60-70 % of the graph elements wrong or missing

The same command gives the same bytes again with the same versions of titjudge, Mitsuba, numpy and Pillow on the same kind of
machine. `made.json` keeps the options, `.made/` what is finished, so that the command goes on where it stopped; judging
needs neither.

## Files and fields

As in the bundled example: `prompts.jsonl` (`prompt`, `questions`, `gold_answers`: what the prompt requires, `graph`,
`text_words`), `images.jsonl` (`level`, `alignment`, `entity_scores`, `attribute_scores`, `relation_scores`, `answers`: true
of this image, `text_present`), `pairs.jsonl`. Besides, `errors` of an image lists the planted errors: `kind`, `element` of
the graph, what was `asked`, what is `shown`; errors of things that are missing altogether are not listed apart.

`alignment` = aligned elements / all elements; entities, attributes and relations count equally. An object of another kind in
the place of a required one is a missing entity. `variant_model` is a stand-in for a generator: no name equals a level, but
the mean alignment per name differs on purpose. Left and right are the viewer's.

## Judging

    python cli.py judge --suite known-answer --data DIR --captioner PROVIDER/MODEL --judge PROVIDER/MODEL
    python cli.py probe --data DIR --captioner PROVIDER/MODEL --judge PROVIDER/MODEL

There is no descriptions.jsonl, since nobody described these images: metrics on descriptions need a `--captioner`. To use it
later without a model, answer the questions of a run elsewhere (`answers export`, `answers import`).

## Limits

Simple synthetic scenes of one composition: {composition} on a table. Images at level 3 are tidy images of something else
rather than failed ones. Sign words and counts weigh no more than other elements.

No third-party images or textures; the sign text is drawn with the font that Pillow ships.
"""

_CROWD = """\
Each scene is a crowd (`--hard`): 40 to 80 small things on twelve trays, two to twelve alike on each, some of them partly behind
others (at least 30 % of every one is to be seen, and at least eight stand partly behind others), four small cards, and groups
that differ in their colour only. A missing group has a near-duplicate in its place; a swap mirrors two neighbours.

"""


_LADDER = """\
# Known-answer ladder, difficulty {ladder}

{prompts} prompts, {images} images, {pairs} pairs for testing text-to-image judges, made by

    python cli.py probe images --ladder {ladder} --scene {template} --scenes {scenes} --seed {seed} --levels {levels} --out DIR

Each image shows 25, 40 or 60 groups of small things, drawn by Pillow from a seed; of each group the prompt says one thing that may be wrong.
Level 0 is as the prompt says; level 1 has one error, level 2 four, level 3 twelve, each in a group of its own. An error is one thing, letter
or exchange. It is checked by pixels: at least ten of them differ by 60 of 255 and none lies at the edge of the place of its group.

{tables}
Of rows of things the prompt says: each, none, every second one, only the n-th, one more than. `errors` of an image has `kind`,
`element`, `asked`, `shown` and `box`: the pixels that differ (left, top, right, bottom). `alignment` is the share of the elements of the
graph that are shown; those of the whole picture (materials, light, style, camera) are never wrong. The other fields are those of the
bundled example. `prompt_id` begins with the template: {prefixes}.

    python cli.py judge --suite known-answer --data DIR --captioner PROVIDER/MODEL --judge PROVIDER/MODEL

Drawn scenes with plain shapes; nobody looked. Fonts: DejaVu, as Matplotlib ships them.
"""


def _table(template: Template) -> str:
    lines = [f"| {kind} | {template.about_errors[kind]} |" for kind in template.kinds]
    return "\n".join([template.about, "", "| `kind` of an error | what is wrong |", "| --- | --- |", *lines, ""])


def readme(options: Options, prompts: int, images: int, pairs: int) -> str:
    """Write how the folder was made, and the meaning of its fields."""
    templates = TEMPLATES.values() if options.template == MIXED else [TEMPLATES[options.template]]
    return (_LADDER if options.ladder else _TEXT).format(
        tables="\n".join(map(_table, templates)),
        prefixes=", ".join(f"`{template.prefix}{options.ladder}` of {template.name}" for template in templates),
        prompts=prompts,
        images=images,
        pairs=pairs,
        scenes=prompts,
        crowd=_CROWD if options.hard else "",
        composition="three rows of trays" if options.hard else "two rows",
        **asdict(options) | {"levels": ",".join(map(str, options.levels)), "hard": " --hard" * options.hard},
    )
