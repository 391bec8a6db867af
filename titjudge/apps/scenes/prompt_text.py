"""Write the long prompt: 250 to 320 words that ask for every element of the graph, in varied wording."""

from __future__ import annotations

import re
from random import Random

from titjudge.apps.scenes.objects import KINDS, phrase
from titjudge.apps.scenes.scene import SIGN, TABLE, AskedElements, Scene, Thing

SHORTEST, LONGEST = 250, 320  # words

LIGHTS = {
    "warm": (
        "Warm, golden light falls from the upper left, leaving soft highlights and gentle shadows.",
        "The lighting is warm and comes from the upper left, like late afternoon sun through a curtain.",
    ),
    "cool": (
        "Cool, even daylight falls from overhead, so that the shadows stay short and faint.",
        "The lighting is cool and soft and comes from above, with small bright highlights.",
    ),
    "bright": (
        "Bright, neutral light comes from the upper right and models every shape clearly.",
        "The lighting is clear and neutral and falls from the upper right, with soft-edged shadows.",
    ),
}
_OPENINGS = (
    "A {mood} still life seen from slightly above, arranged on a wide table that reaches from edge to edge.",
    "A {mood} arrangement of everyday things on a broad table, photographed from slightly above the edge.",
    "This is a {mood} tabletop scene, pictured straight from the front and a little from above.",
    "Looking down slightly onto a wide table, we see a {mood} still life made of a few well separated things.",
    "A {mood} studio picture of a table that fills the whole lower half of the frame.",
)
_MOODS = ("calm", "cheerful", "quiet", "tidy", "friendly", "peaceful", "crisp", "playful", "carefully ordered")
_SURFACES = {
    "brown wooden planks": (
        "The table is made of brown wooden planks whose grain runs away from the viewer.",
        "Brown wooden planks, laid side by side with dark seams, form the surface of the table.",
    ),
    "white marble": (
        "The surface of the table is white marble with faint grey veins.",
        "The table top is a slab of white marble, crossed by soft grey veins.",
    ),
    "black and white checkerboard": (
        "The surface of the table is a black and white checkerboard of large squares.",
        "The table is covered with a black and white checkerboard pattern that runs back to the wall.",
    ),
    "plain green cloth": (
        "The table is covered with a plain green cloth without folds or pattern.",
        "A plain green cloth, smooth and without any pattern, covers the table.",
    ),
}
_BRICKS = (
    "The wall in the background is built of red brick with pale mortar.",
    "Behind everything rises a wall of red brick, its rows divided by pale mortar.",
)
_WALLS = (
    "The wall in the background is plain and painted in {wall}.",
    "Behind everything rises a plain {wall} wall without any pattern.",
    "The background is a smooth, plain wall in {wall}.",
)
_ANCHORS = (
    "In the middle of the table, toward the viewer, {is_} {thing}.",
    "The centre of the foreground belongs to {thing}, placed directly on the table.",
    "Closest to the middle, in the front row on the table, {is_} {thing}.",
)
_SIDES = (
    "To the {side} of the {other}, also in the front row, {is_} {thing}.",
    "To the {side} of the {other} {is_} {thing}, equally close to the viewer.",
    "Next to the {other}, on {its} {side} side as we look at it, {is_} {thing}.",
)
_BEHIND = (
    "Behind the {other}, in the back row, {is_} {thing}.",
    "Directly behind the {other} {is_} {thing}.",
    "Further back, right behind the {other}, {is_} {thing}.",
)
_BACK_SIDES = (
    "In the back row, to the {side} of the {other}, {is_} {thing}.",
    "Further back, nearer to the wall, {is_} {thing}, to the {side} of the {other}.",
)
_ALSO = (
    "{They} also to the {side} of the {other}.",
    "Seen by the viewer, {these} to the {side} of the {other} as well.",
)
_ON = ("On top of the {other} {is_} {thing}.", "{Thing} {rest} on top of the {other}.")
_IN = ("Inside the {other} {is_} {thing}.", "The {other} is not empty: inside it {is_} {thing}.")
_TEXTS = (
    'Its black capital letters read "{text}" in two lines.',
    'On it, the words "{text}" are written in black capital letters, one word above the other.',
    'In bold black capitals it says exactly "{text}", spread over two lines.',
)
_NOTHING = (
    "Nothing else is on the table.",
    "Apart from these things the table is empty.",
    "There is nothing more on the table than what is named here.",
)
_ABSENT = (
    "There are no people, no animals, no clocks and no windows in the picture.",
    "No person, no animal, no clock and no window is to be seen anywhere.",
)
_FILL = (
    "Composition: two loose rows, one near the viewer and one near the wall, with the central things on the middle axis.",
    "All sides are named as the viewer sees them, and left and right never mean the side of an object.",
    "Some empty tabletop is left open along the lower edge, so that nothing touches the frame.",
    "Every object is shown complete, clearly apart from its neighbours and not cut by the border of the picture.",
    "Style: clean, realistic product photography with smooth surfaces and sharp focus from front to back.",
    "The colours are saturated and pure, so that each thing can be named at a single glance.",
    "The proportions are simple and slightly toy-like, with rounded edges and spotless materials.",
    "Soft contact shadows anchor the things firmly where they stand.",
    "The wall takes up the upper part of the picture and stays free of pictures, shelves and hooks.",
    "The camera looks level from side to side; the far edge of the table is a straight horizontal line.",
    "The whole has the unhurried order of a display that somebody has just finished arranging.",
    "Small highlights glide over the curved forms and give them weight and volume.",
    "The mood is restful, and the eye wanders easily from the front row to the back row.",
    "No haze, no blur and no grain disturb the view; the air is perfectly clear.",
    "The heights differ on purpose: the taller things have their place near the wall.",
    "Between the things there is always a little air, so that their outlines remain easy to read.",
)
_VERBS = ("stands", "is placed", "can be seen", "is")
_VERBS_MANY = ("are placed", "can be seen", "are arranged")


def write(scene: Scene, graph: AskedElements, rng: Random) -> str:
    """Write the prompt of a scene, 250 to 320 words.

    Raises:
        ValueError: The scene takes more words than that; draw another.
    """
    opening = rng.choice(_OPENINGS).format(mood=rng.choice(_MOODS))
    surface, walls = rng.choice(_SURFACES[scene.surface]), _BRICKS if scene.wall == "red brick" else _WALLS
    setting = [surface, rng.choice(walls).format(wall=scene.wall)]
    rng.shuffle(setting)
    things = list(_things(scene, graph, rng))
    closing = [rng.choice(_NOTHING), rng.choice(_ABSENT)]
    light = rng.choice(LIGHTS[scene.view.light])
    first = rng.random() < 0.5
    head = [opening, *(setting if first else ()), *things, *(() if first else setting)]
    aim = rng.randint(SHORTEST + 14, LONGEST - 22)
    fill: list[str] = []
    for sentence in rng.sample(_FILL, len(_FILL)):
        if count_words(" ".join((*head, light, *fill, *closing))) >= aim:
            break
        fill.append(sentence)
    text = " ".join((*head, *fill[: len(fill) // 2], light, *fill[len(fill) // 2 :], *closing))
    text = re.sub(r"\ba (?=[aeiou])", "an ", text)
    if not SHORTEST <= count_words(text) <= LONGEST:
        raise ValueError(f"{count_words(text)} words")
    return text


def count_words(text: str) -> int:
    return len(text.split())


def _things(scene: Scene, graph: AskedElements, rng: Random) -> list[str]:
    """Write about each thing: the middle of the front row first, then row by row or column by column, and what it carries."""
    standing = {(thing.column, thing.row): thing for thing in scene.things if not thing.carrier}
    orders: tuple[tuple[tuple[int, str], ...], ...] = (
        ((0, "front"), (0, "back"), (-1, "front"), (-1, "back"), (1, "front"), (1, "back")),
        ((0, "front"), (-1, "front"), (1, "front"), (0, "back"), (-1, "back"), (1, "back")),
        ((0, "front"), (1, "front"), (-1, "front"), (0, "back"), (1, "back"), (-1, "back")),
    )
    sentences: list[str] = []
    for place in rng.choice(orders):
        thing = standing[place]
        sentences += _sentences(thing, graph, rng)
        load = scene.load_of(thing.name)
        if load is not None:
            sentences.append(_fill(rng.choice(_ON if load.place == "on" else _IN), load, rng, other=load.carrier))
    return sentences


def _sentences(thing: Thing, graph: AskedElements, rng: Random) -> list[str]:
    relations = [relation for relation in graph.relations if relation[0] == thing.name]
    sentences: list[str] = []
    for _, word, other in relations:
        side = word.partition(" ")[0]
        if other == TABLE:
            sentences.append(_fill(rng.choice(_ANCHORS), thing, rng))
        elif sentences:
            they, these = ("They are", "they are") if KINDS[thing.kind].plural else ("It is", "this one is")
            sentences.append(rng.choice(_ALSO).format(They=they, these=these, side=side, other=other))
        elif word == "behind":
            sentences.append(_fill(rng.choice(_BEHIND), thing, rng, other=other))
        else:
            sentences.append(
                _fill(rng.choice(_SIDES if thing.row == "front" else _BACK_SIDES), thing, rng, other=other, side=side)
            )
    if thing.kind == SIGN:
        sentences.insert(1, rng.choice(_TEXTS).format(text=thing.traits["text"]))
    return sentences


def _fill(template: str, thing: Thing, rng: Random, **words: str) -> str:
    many = KINDS[thing.kind].plural
    text = phrase(thing.kind, thing.traits)
    return template.format(
        thing=text,
        Thing=text[0].upper() + text[1:],
        is_=rng.choice(_VERBS_MANY if many else _VERBS),
        rest="rest" if many else "rests",
        its="their" if words.get("other") in KINDS and KINDS[words["other"]].plural else "its",
        **words,
    )
