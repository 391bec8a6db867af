"""Crowded scenes of forty to eighty small things on twelve trays, for judges that simple scenes no longer tell apart.

Each tray holds two to twelve of the same look, one behind another; some trays have a small card. Several groups differ in one
property only. They are annotated and checked as the simple scenes are (`annotation`, `visibility`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

from titjudge.apps.scenes.annotation import AnnotatedQuestion
from titjudge.apps.scenes.errors import (
    ATTRIBUTE,
    COUNT,
    MISSING,
    MOVED,
    RELATION,
    TEXT,
    Edit,
    Plant,
    misspell,
)
from titjudge.apps.scenes.objects import NUMBERS, article, lost_on, near
from titjudge.apps.scenes.prompt_text import LIGHTS
from titjudge.apps.scenes.scene import TABLE, WALL, AskedElements, Error, Relation, Scene, Thing, View
from titjudge.apps.scenes.shapes import SMALL
from titjudge.core.files import read_yaml

ROWS = ("near", "middle", "far")
COLUMNS = (-3, -1, 1, 3)
FEWEST, MOST = 40, 80  # objects of a scene
CARDS = 4
_READ = read_yaml(Path(__file__).with_name("crowd.yaml"), "what crowds are made of")
_TALL = ("bottles", "cylinders")


def compose(rng: Random, kind: str) -> Scene:
    """Compose a scene of twelve groups, whatever `kind` of error level 1 will show."""
    surface, wall = rng.choice(list(_READ["surfaces"])), rng.choice(_READ["walls"])
    places = [(column, row) for row in ROWS for column in COLUMNS]
    shifts = {place: (rng.uniform(-0.04, 0.04), rng.uniform(-0.05, 0.05), 0.0) for place in places}
    view = View(rng.choice(tuple(LIGHTS)), rng.uniform(6.4, 7.0), shifts, rng.randrange(1 << 30))
    scene = Scene(surface, wall, (), view)
    looks = rng.sample([(shape, colour) for shape in SMALL for colour in _READ["colours"]], len(places))
    shape, colour = looks[0]
    twin = (shape, rng.choice([another for another in _READ["colours"] if another != colour]))
    looks = [looks[0], twin, *[look for look in looks[1:] if look != twin][: len(places) - 2]]
    counts = _counts(rng, len(places))
    largest = counts.index(max(counts))
    flat = next(number for number, (shape, _) in enumerate(looks) if number > 1 and shape not in _TALL)
    counts[flat], counts[largest] = counts[largest], counts[flat]
    carded = set(rng.sample(range(len(places)), CARDS))
    texts = iter(rng.sample(_READ["words"], CARDS))
    things: list[Thing] = []
    for number, (shape, colour) in enumerate(looks):
        tray = rng.choice([tray for tray in _READ["trays"] if not near(tray, colour) and not lost_on(tray, surface)])
        if number == 1 and not near(things[0].traits["tray colour"], colour):
            counts[1], tray = counts[0], things[0].traits["tray colour"]  # they differ in their colour only
        if shape in _TALL:
            counts[number] = min(8, counts[number])  # in two rows, so that each can be told apart
        traits = {"of": shape, "colour": colour, "count": NUMBERS[counts[number]], "tray colour": tray}
        if number in carded:
            traits["text"] = f"{next(texts)}{rng.randrange(20, 99)}"
        things.append(Thing(f"{colour} {shape}", "set", traits, 0, "near"))
    rng.shuffle(places)
    placed = zip(things, places, strict=True)
    return replace(scene, things=tuple(replace(thing, column=column, row=row) for thing, (column, row) in placed))


def _counts(rng: Random, groups: int) -> list[int]:
    """Draw the sizes of the groups: two to twelve, one of ten or more, forty to eighty in all."""
    while True:
        sizes = [rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 11)) for _ in range(groups - 1)] + [rng.randint(10, 12)]
        if FEWEST + 14 <= sum(sizes) <= MOST - 10:
            rng.shuffle(sizes)
            return sizes


def graph_of(scene: Scene, rng: Random) -> AskedElements:
    """Make the graph: count and tray of each group, the order in each row, and in two columns what stands behind what."""
    attributes: dict[str, dict[str, str]] = {TABLE: {"surface": scene.surface}, WALL: {"colour": scene.wall}}
    for thing in scene.things:
        attributes[thing.name] = {key: value for key, value in thing.traits.items() if key not in ("of", "colour")}
    relations: list[Relation] = []
    name_at = {(thing.column, thing.row): thing.name for thing in scene.things}
    for row in ROWS:
        names = [name_at[column, row] for column in COLUMNS]
        relations += [(b, "right of", a) for a, b in pairwise(names)]
    columns = rng.choice(((-3, -1), (1, 3), (-3, 3)))  # two neighbours elsewhere can be mirrored
    relations += [(name_at[c, b], "behind", name_at[c, a]) for c in columns for a, b in pairwise(ROWS)]
    return AskedElements((TABLE, WALL, *(thing.name for thing in scene.things)), attributes, tuple(relations))


# ---------------------------------------------------------------------- the prompt


def write(scene: Scene, graph: AskedElements, rng: Random) -> str:
    """Write the prompt: row by row from the front, from left to right, with every element of the graph."""
    thing_at = {(thing.column, thing.row): thing for thing in scene.things}
    behind = {a: b for a, word, b in graph.relations if word == "behind"}
    wall = f"The wall in the background is plain and {scene.wall}."
    sentences = [rng.choice(_READ["openings"]), f"The table is {_READ['surfaces'][scene.surface]}.", wall]
    for row in ROWS:
        before: Thing | None = None
        for column in COLUMNS:
            thing = thing_at[column, row]
            drink = " filled with coffee" if thing.traits["of"] == "mugs" else ""
            what = f"{thing.traits['count']} small {thing.name}{drink} on {_a(thing.traits['tray colour'])} tray"
            if before is None:
                sentence = f"{_READ['rows'][row]} begins on the left with {what}"
            else:
                sentence = f"To the right of the {before.name} {rng.choice(('are', 'there are', 'we see'))} {what}"
            if thing.name in behind:
                sentence += f", directly behind the {behind[thing.name]}"
            sentences.append(f"{sentence}.")
            if "text" in thing.traits:
                sentences.append(rng.choice(_READ["card_texts"]).format(text=thing.traits["text"]))
            before = thing
    sentences.append(rng.choice(LIGHTS[scene.view.light]))
    return " ".join([*sentences, *rng.sample(_READ["closing"], len(_READ["closing"]))])


def _a(colour: str) -> str:
    return f"{article(colour)} {colour}"


# ---------------------------------------------------------------------- the questions


def questions(scene: Scene, graph: AskedElements, rng: Random) -> list[AnnotatedQuestion]:
    """Draw twelve questions on a scene as the prompt asks for it; four have the answer no."""
    counted, trays = rng.sample(scene.things, 5), rng.sample(scene.things, 3)
    drawn = [_how_many(thing, thing.traits["count"]) for thing in counted[:4]]
    drawn.append(_how_many(counted[4], _other_count(counted[4], rng)))
    drawn += [_which_tray(thing, thing.traits["tray colour"]) for thing in trays[:2]]
    drawn.append(
        _which_tray(
            trays[2],
            rng.choice([colour for colour in _READ["trays"] if not near(colour, trays[2].traits["tray colour"])]),
        )
    )
    card = rng.choice([thing for thing in scene.things if "text" in thing.traits])
    text = card.traits["text"]
    words = f'Does the card in front of the {card.name} read exactly "{text}"?'
    drawn.append(AnnotatedQuestion(words, (card.name, "text", text)))
    (a, _, b), (c, _, d) = rng.sample([relation for relation in graph.relations if relation[1] == "right of"], 2)
    drawn.append(AnnotatedQuestion(f"Are the {a} to the right of the {b}?", (a, "right of", b), relation=True))
    drawn.append(AnnotatedQuestion(f"Are the {c} to the left of the {d}?", (c, "left of", d), relation=True))
    strangers = [
        f"{colour} {shape}" for shape in SMALL for colour in _READ["colours"] if scene.get(f"{colour} {shape}") is None
    ]
    name = rng.choice(strangers)
    return [*drawn, AnnotatedQuestion(f"Are there any {name} in the image?", (name,))]


def _how_many(thing: Thing, count: str) -> AnnotatedQuestion:
    return AnnotatedQuestion(f"Are there exactly {count} {thing.name}?", (thing.name, "count", count))


def _which_tray(thing: Thing, colour: str) -> AnnotatedQuestion:
    return AnnotatedQuestion(f"Are the {thing.name} on {_a(colour)} tray?", (thing.name, "tray colour", colour))


def _other_count(thing: Thing, rng: Random) -> str:
    was, most = thing.count, 8 if thing.traits["of"] in _TALL else 12
    return NUMBERS[rng.choice([count for count in (was - 1, was + 1) if 2 <= count <= most])]


# ---------------------------------------------------------------------- the errors


def _missing(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    """Put a near-duplicate in the place of a group: the same in another colour, or another shape of the same colour."""
    thing = rng.choice(scene.things)
    shape, colour = thing.traits["of"], thing.traits["colour"]
    alike = [] if _READ["looks_like"][shape] in _TALL and thing.count > 8 else [(_READ["looks_like"][shape], colour)]
    other = rng.choice([(shape, another) for another in _READ["colours"] if another != colour] + alike)
    name = f"{other[1]} {other[0]}"
    if _touched(asked, thing) or asked.get(name) or scene.get(name) or near(other[1], thing.traits["tray colour"]):
        return None
    stranger = replace(thing, name=name, traits={**thing.traits, "of": other[0], "colour": other[1]})
    return scene.with_thing(stranger, thing.name), Error(MISSING, (thing.name,), thing.name, name)


def _attribute(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    thing = rng.choice(scene.things)
    was = thing.traits["tray colour"]
    values = [
        tray
        for tray in _READ["trays"]
        if not near(tray, was) and not near(tray, thing.traits["colour"]) and not lost_on(tray, scene.surface)
    ]
    if _touched(asked, thing) or not values:
        return None
    value = rng.choice(values)
    error = Error(ATTRIBUTE, (thing.name, "tray colour"), was, value)
    return scene.with_thing(thing.having("tray colour", value)), error


def _count(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    thing = rng.choice(scene.things)
    if _touched(asked, thing):
        return None
    was, value = thing.traits["count"], _other_count(thing, rng)
    return scene.with_thing(thing.having("count", value)), Error(COUNT, (thing.name, "count"), was, value)


def _relation(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    """Mirror two neighbours of a row."""
    left, right = rng.choice([(-3, -1), (-1, 1), (1, 3)])
    row = rng.choice(ROWS)
    way = {left: right, right: left}
    things = (replace(t, column=way[t.column]) if t.row == row and t.column in way else t for t in scene.things)
    return replace(scene, things=tuple(things)), MOVED


def _text(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    thing = rng.choice([thing for thing in scene.things if "text" in thing.traits])
    was = thing.traits["text"]
    if _touched(asked, thing):
        return None
    text = misspell(was[:-2], rng) + was[-2:]
    return scene.with_thing(thing.having("text", text)), Error(TEXT, (thing.name, "text"), was, text)


def _touched(asked: Scene, thing: Thing) -> bool:
    """Tell whether an error was planted in a group before, other than in its place."""
    was = asked.get(thing.name)
    return was is None or was.traits != thing.traits


PLANTS: dict[str, Plant] = {
    MISSING: _missing,
    ATTRIBUTE: _attribute,
    COUNT: _count,
    RELATION: _relation,
    TEXT: _text,
}
