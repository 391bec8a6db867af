"""Crowded scenes of forty to eighty small things on twelve trays, for judges that simple scenes no longer tell apart.

Each tray holds two to twelve of the same look, one behind another; some trays have a small card. Several groups differ in one
property only. They are annotated and checked as the simple scenes are (`annotation`, `visibility`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from titjudge.apps.scenes.composition import LIGHTS, TALL
from titjudge.apps.scenes.layout import SMALL
from titjudge.apps.scenes.scene import (
    CROWD,
    NUMBERS,
    TABLE,
    WALL,
    AskedElements,
    Relation,
    Scene,
    Thing,
    View,
    article,
    lost_on,
    near,
)

ROWS = ("near", "middle", "far")
COLUMNS = (-3, -1, 1, 3)
FEWEST, MOST = 40, 80  # objects of a scene
CARDS = 4


def compose(rng: Random, kind: str) -> Scene:
    """Compose a scene of twelve groups, whatever `kind` of error level 1 will show."""
    surface, wall = rng.choice(list(CROWD["surfaces"])), rng.choice(CROWD["walls"])
    places = [(column, row) for row in ROWS for column in COLUMNS]
    shifts = {place: (rng.uniform(-0.04, 0.04), rng.uniform(-0.05, 0.05), 0.0) for place in places}
    view = View(rng.choice(tuple(LIGHTS)), rng.uniform(6.4, 7.0), shifts, rng.randrange(1 << 30))
    scene = Scene(surface, wall, (), view)
    looks = rng.sample([(shape, colour) for shape in SMALL for colour in CROWD["colours"]], len(places))
    shape, colour = looks[0]
    twin = (shape, rng.choice([another for another in CROWD["colours"] if another != colour]))
    looks = [looks[0], twin, *[look for look in looks[1:] if look != twin][: len(places) - 2]]
    counts = _counts(rng, len(places))
    largest = counts.index(max(counts))
    flat = next(number for number, (shape, _) in enumerate(looks) if number > 1 and shape not in TALL)
    counts[flat], counts[largest] = counts[largest], counts[flat]
    carded = set(rng.sample(range(len(places)), CARDS))
    texts = iter(rng.sample(CROWD["words"], CARDS))
    things: list[Thing] = []
    for number, (shape, colour) in enumerate(looks):
        tray = rng.choice([tray for tray in CROWD["trays"] if not near(tray, colour) and not lost_on(tray, surface)])
        if number == 1 and not near(things[0].traits["tray colour"], colour):
            counts[1], tray = counts[0], things[0].traits["tray colour"]  # they differ in their colour only
        if shape in TALL:
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
    sentences = [rng.choice(CROWD["openings"]), f"The table is {CROWD['surfaces'][scene.surface]}.", wall]
    for row in ROWS:
        before: Thing | None = None
        for column in COLUMNS:
            thing = thing_at[column, row]
            drink = " filled with coffee" if thing.traits["of"] == "mugs" else ""
            what = f"{thing.traits['count']} small {thing.name}{drink} on {_a(thing.traits['tray colour'])} tray"
            if before is None:
                sentence = f"{CROWD['rows'][row]} begins on the left with {what}"
            else:
                sentence = f"To the right of the {before.name} {rng.choice(('are', 'there are', 'we see'))} {what}"
            if thing.name in behind:
                sentence += f", directly behind the {behind[thing.name]}"
            sentences.append(f"{sentence}.")
            if "text" in thing.traits:
                sentences.append(rng.choice(CROWD["card_texts"]).format(text=thing.traits["text"]))
            before = thing
    sentences.append(rng.choice(LIGHTS[scene.view.light]))
    return " ".join([*sentences, *rng.sample(CROWD["closing"], len(CROWD["closing"]))])


def _a(colour: str) -> str:
    return f"{article(colour)} {colour}"
