"""Crowded scenes of forty to eighty small things on twelve trays, for judges that simple scenes no longer distinguish.

Each tray has two to twelve of the same look, one behind another; some trays have a small card. Several groups differ in one
property only. They are annotated and checked as the simple scenes are (`annotation`, `visibility`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from random import Random

from titjudge.apps.scenes.composition import LIGHTS, TALL
from titjudge.apps.scenes.layout import SMALL
from titjudge.apps.scenes.scene import (
    CROWD,
    NUMBERS,
    TABLE,
    WALL,
    AskedElements,
    Scene,
    Thing,
    View,
    lost_on,
    near,
    with_article,
)

ROWS = ("near", "middle", "far")
COLUMNS = (-3, -1, 1, 3)
FEWEST, MOST = 40, 80  # objects of a scene
CARDS = 4


def compose(rng: Random, kind: str) -> Scene:
    """Compose a scene of twelve groups, of which two differ in their colour only; whatever `kind` of error level 1 will show."""
    surface, wall = rng.choice(list(CROWD["surfaces"])), rng.choice(CROWD["walls"])
    places = list(product(COLUMNS, ROWS))
    shifts = {place: (rng.uniform(-0.04, 0.04), rng.uniform(-0.05, 0.05), 0.0) for place in places}
    view = View(rng.choice(tuple(LIGHTS)), rng.uniform(6.4, 7.0), shifts, rng.randrange(1 << 30))
    shape, colours = rng.choice(list(SMALL)), rng.sample(CROWD["colours"], 2)
    twins = [(shape, colour) for colour in colours]
    looks = twins + rng.sample(
        [look for look in product(SMALL, CROWD["colours"]) if look not in twins], len(places) - 2
    )
    counts = _counts(rng, [shape for shape, _ in looks])
    texts = dict(zip(rng.sample(range(len(places)), CARDS), rng.sample(CROWD["words"], CARDS), strict=True))
    rng.shuffle(places)
    things: list[Thing] = []
    for number, ((shape, colour), place) in enumerate(zip(looks, places, strict=True)):
        hues = colours if number < 2 else [colour]
        trays = [
            tray for tray in CROWD["trays"] if not lost_on(tray, surface) and not any(near(tray, hue) for hue in hues)
        ]
        tray = things[0].traits["tray colour"] if number == 1 else rng.choice(trays)
        traits = {"of": shape, "colour": colour, "count": NUMBERS[counts[number]], "tray colour": tray}
        if number in texts:
            traits["text"] = f"{texts[number]}{rng.randrange(20, 99)}"
        things.append(Thing(f"{colour} {shape}", "set", traits, *place))
    return Scene(surface, wall, tuple(things), view)


def _counts(rng: Random, shapes: Sequence[str]) -> list[int]:
    """Draw the sizes of the groups: two to twelve, the first two alike, one of ten or more, forty to eighty in all."""
    while True:
        sizes = [rng.randint(2, 8 if shape in TALL else 12) for shape in shapes]
        sizes[1] = sizes[0]
        if max(sizes) >= 10 and FEWEST + 14 <= sum(sizes) <= MOST - 10:
            return sizes


def graph_of(scene: Scene, rng: Random) -> AskedElements:
    """Make the graph: count and tray of each group, the order in each row, and in two columns the order in depth."""
    attributes: dict[str, dict[str, str]] = {TABLE: {"surface": scene.surface}, WALL: {"colour": scene.wall}}
    for thing in scene.things:
        attributes[thing.name] = {key: value for key, value in thing.traits.items() if key not in ("of", "colour")}
    name_at = {(thing.column, thing.row): thing.name for thing in scene.things}
    beside = [(name_at[b, row], "right of", name_at[a, row]) for row in ROWS for a, b in pairwise(COLUMNS)]
    columns = rng.choice(((-3, -1), (1, 3), (-3, 3)))  # two neighbours elsewhere can be mirrored
    behind = [(name_at[column, b], "behind", name_at[column, a]) for column in columns for a, b in pairwise(ROWS)]
    return AskedElements(tuple(attributes), attributes, (*beside, *behind))


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
            what = (
                f"{thing.traits['count']} small {thing.name}{drink} on {with_article(thing.traits['tray colour'])} tray"
            )
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
