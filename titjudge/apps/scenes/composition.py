"""Compose random scenes and the graphs of their prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from titjudge.apps.scenes.layout import may_number
from titjudge.apps.scenes.scene import (
    CROWD,
    KINDS,
    NUMBERS,
    SIGN,
    SIGN_FIRST,
    SIGN_SECOND,
    SURFACES,
    TABLE,
    WALL,
    WALLS,
    AskedElements,
    Kind,
    Relation,
    Scene,
    Thing,
    View,
    finish_name,
    lost_before,
    lost_on,
    near,
    phrase,
)
from titjudge.core.files import read_yaml

SHORTEST, LONGEST = 250, 320  # words
_READ = read_yaml(Path(__file__).with_name("prompt_text.yaml"), "sentences")
LIGHTS: Mapping[str, Sequence[str]] = _READ["lights"]


def write(scene: Scene, graph: AskedElements, rng: Random) -> str:
    """Write the prompt of a scene, 250 to 320 words.

    Raises:
        ValueError: The scene takes more words than that; draw another.
    """
    opening = _said(rng, "openings", mood=rng.choice(_READ["moods"]))
    wall = _said(rng, "bricks" if scene.wall == "red brick" else "walls", wall=scene.wall)
    setting = [rng.choice(_READ["surfaces"][scene.surface]), wall]
    rng.shuffle(setting)
    things = list(_things(scene, graph, rng))
    closing = [_said(rng, "nothing"), _said(rng, "absent")]
    light = rng.choice(LIGHTS[scene.view.light])
    first = rng.random() < 0.5
    head = [opening, *(setting if first else ()), *things, *(() if first else setting)]
    aim = rng.randint(SHORTEST + 14, LONGEST - 22)
    fill: list[str] = []
    for sentence in rng.sample(_READ["fill"], len(_READ["fill"])):
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
    """Write about each thing and its load: the middle of the front row first, then row by row or column by column."""
    standing = {(thing.column, thing.row): thing for thing in scene.things if not thing.carrier}
    sentences: list[str] = []
    for column, row in rng.choice(_READ["orders"]):
        thing = standing[column, row]
        sentences += _sentences(thing, graph, rng)
        load = scene.load_of(thing.name)
        if load is not None:
            sentences.append(_about(load, load.place, rng, load.carrier))
    return sentences


def _sentences(thing: Thing, graph: AskedElements, rng: Random) -> list[str]:
    sentences: list[str] = []
    for _, word, other in (relation for relation in graph.relations if relation[0] == thing.name):
        side = "sides" if thing.row == "front" else "back_sides"
        key = "anchors" if other == TABLE else "also" if sentences else "behind" if word == "behind" else side
        sentences.append(_about(thing, key, rng, other, word.partition(" ")[0]))
    if thing.kind == SIGN:
        sentences.insert(1, _said(rng, "texts", text=thing.traits["text"]))
    return sentences


def _about(thing: Thing, key: str, rng: Random, other: str, side: str = "") -> str:
    """Write one of the sentences of a kind about a thing and its direction from another one."""
    many, text = KINDS[thing.kind].plural, phrase(thing.kind, thing.traits)
    return _said(
        rng,
        key,
        thing=text,
        Thing=text[0].upper() + text[1:],
        They="They are" if many else "It is",
        these="they are" if many else "this one is",
        is_=rng.choice(_READ["verbs_many" if many else "verbs"]),
        rest="rest" if many else "rests",
        its="their" if other in KINDS and KINDS[other].plural else "its",
        other=other,
        side=side,
    )


def _said(rng: Random, key: str, **words: str) -> str:
    return str(rng.choice(_READ[key])).format(**words)


BACK = tuple(kind for kind in KINDS.values() if "back" in kind.rows)
FRONT = tuple(kind for kind in KINDS.values() if "front" in kind.rows)


def compose(rng: Random, *, with_sign: bool) -> Scene:
    """Compose a scene of six to nine things on a table before a wall."""
    surface, wall = rng.choice(SURFACES), rng.choice(WALLS)
    shifts = {
        (column, row): (rng.uniform(-0.12, 0.12), rng.uniform(-0.1, 0.1), rng.uniform(-14.0, 14.0))
        for column in (-1, 0, 1)
        for row in ("front", "back")
    }
    view = View(rng.choice(tuple(LIGHTS)), rng.uniform(4.5, 5.3), shifts, rng.randrange(1 << 30))
    scene = Scene(surface, wall, (), view)
    families: set[str] = set()
    things: list[Thing] = []

    def place(column: int, row: str, kinds: tuple[Kind, ...]) -> None:
        kind = _pick(rng, [kind for kind in kinds if kind.family not in families])
        families.add(kind.family)
        things.append(Thing(kind.name, kind.name, traits_for(rng, kind, scene, row, things), column, row))

    for column in (0, -1, 1):
        place(column, "front", FRONT)
    if with_sign:
        kind, text = KINDS[SIGN], f"{rng.choice(SIGN_FIRST)} {rng.choice(SIGN_SECOND)}"
        frames = [colour for colour in kind.traits["frame colour"] if stands_out(scene, "back", colour)]
        traits = {"text": text, "frame colour": rng.choice(frames)}
        things.append(Thing(SIGN, SIGN, traits, 0, "back"))
    for column in (-1, 1) if with_sign else (0, -1, 1):
        place(column, "back", BACK)
    return Scene(surface, wall, (*things, *_loads(rng, scene, things, families)), view)


def _pick(rng: Random, kinds: list[Kind]) -> Kind:
    """Choose a kind; kinds that can carry others are twice as likely, as they bring relations."""
    return rng.choice([*kinds, *(kind for kind in kinds if kind.carries)])


def _loads(rng: Random, scene: Scene, things: list[Thing], families: set[str]) -> list[Thing]:
    """Draw up to two things on or in others; a vase or bowl is always filled if something fits."""
    loads: list[Thing] = []
    for carrier in sorted(things, key=lambda thing: thing.kind not in ("vase", "bowl")):
        options = [name for name in KINDS[carrier.kind].carries if KINDS[name].family not in families]
        if not options or len(loads) == 2:
            continue
        kind = KINDS[rng.choice(options)]
        place = KINDS[carrier.kind].carries[kind.name]
        traits = traits_for(rng, kind, scene, carrier.row, (*things, *loads))
        if place == "in" and kind.name != "flowers":
            traits["count"] = rng.choice(("two", "three"))
        families.add(kind.family)
        loads.append(Thing(kind.name, kind.name, traits, carrier.column, carrier.row, carrier.name, place))
    return loads


def alike_behind(things: Iterable[Thing]) -> bool:
    """Return True if two things of one column, one seen before the other, have a colour or material in common."""
    looks: set[tuple[int, str]] = set()
    for thing in things:
        values = {value for key, value in thing.traits.items() if key not in ("count", "text", "contents")}
        thing_looks = {(thing.column, value) for value in (*values, *_NATURAL.get(thing.kind, ()))}
        if looks & thing_looks:
            return True
        looks |= thing_looks
    return False


_NATURAL = {"oranges": ("orange",), "lemons": ("yellow",), "plant": ("green",)}


def traits_for(rng: Random, kind: Kind, scene: Scene, row: str, others: Iterable[Thing] = ()) -> dict[str, str]:
    """Draw attributes that are easily seen in that row, and that others do not have if possible."""
    used = {value for thing in others for value in thing.traits.values()}
    traits: dict[str, str] = {}
    for name, values in kind.traits.items():
        possible = [candidate for candidate in values if stands_out(scene, row, candidate)]
        value = rng.choice(
            [candidate for candidate in possible if name == "count" or candidate not in used] or possible
        )
        used.add(value)
        traits[finish_name(value) if name == "finish" else name] = value
    if traits.get("colour") == "white" and traits.get("contents") == "milk":
        traits["contents"] = "coffee"
    return traits


def stands_out(scene: Scene, row: str, value: str) -> bool:
    """Return True if a thing of that colour or material is easily seen at its place."""
    return not lost_on(value, scene.surface) and not (row == "back" and lost_before(value, scene.wall))


def options(kind: Kind, attribute: str) -> tuple[str, ...]:
    """Return all values that an attribute of the graph can have for a kind."""
    if attribute in kind.traits:
        return tuple(kind.traits[attribute])
    return tuple(value for value in kind.traits.get("finish", ()) if finish_name(value) == attribute)


def strangers(asked: Scene, scene: Scene, gone: Thing, rng: Random) -> Iterator[Thing]:
    """Yield things that the prompt does not ask for, for the place of one that is gone: of a set near-duplicates."""
    if scene.crowded:
        shape, colour = gone.traits["of"], gone.traits["colour"]
        alike, few = CROWD["looks_like"][shape], gone.count <= 8
        for of, hue in [(shape, hue) for hue in CROWD["colours"]] + [(alike, colour)] * (few or alike not in TALL):
            name = f"{hue} {of}"
            if not (asked.get(name) or scene.get(name) or near(hue, gone.traits["tray colour"])):
                yield replace(gone, name=name, traits={**gone.traits, "of": of, "colour": hue})
    elif not gone.carrier and gone.kind != SIGN:
        families = {KINDS[thing.kind].family for thing in (*asked.things, *scene.things)}
        for kind in BACK if gone.row == "back" else FRONT:
            if kind.family not in families:
                yield Thing(kind.name, kind.name, traits_for(rng, kind, scene, gone.row), gone.column, gone.row)


TALL = ("bottles", "cylinders")  # in two rows on a tray, so that each can be distinguished


def other_values(scene: Scene, thing: Thing, name: str) -> list[str]:
    """List the values of an attribute that are clearly wrong; not of a text."""
    value = thing.traits[name]
    if name == "count" and thing.kind == "set":
        most = 8 if thing.traits["of"] in TALL else 12
        return [NUMBERS[count] for count in (thing.count - 1, thing.count + 1) if 2 <= count <= most]
    if name == "tray colour":
        clear = [tray for tray in CROWD["trays"] if not near(tray, value) and not near(tray, thing.traits["colour"])]
        return [tray for tray in clear if not lost_on(tray, scene.surface)]
    others = options(KINDS[thing.kind], name) if thing.kind in KINDS else ()
    return [o for o in others if (o != value and may_number(thing, o) if name == "count" else not near(o, value))]


def graph_of(scene: Scene, rng: Random) -> AskedElements:
    """Make the graph of the content of a scene, with one or two clear relations for every thing on the table."""
    attributes: dict[str, dict[str, str]] = {
        TABLE: {"surface": scene.surface},
        WALL: {"material": scene.wall} if scene.wall == "red brick" else {"colour": scene.wall},
    }
    attributes |= {thing.name: dict(thing.traits) for thing in scene.things}
    entities = (TABLE, WALL, *(thing.name for thing in scene.things))
    return AskedElements(entities, attributes, tuple(_relations(scene, rng)))


def _relations(scene: Scene, rng: Random) -> list[Relation]:
    names = {(thing.column, thing.row): thing.name for thing in scene.things if not thing.carrier}
    middle = names[0, "front"]
    relations = [
        (middle, "on", TABLE),
        (names[-1, "front"], "left of", middle),
        (names[1, "front"], "right of", middle),
    ]
    relations.append((names[0, "back"], "behind", middle))
    for column, side in ((-1, "left of"), (1, "right of")):
        way = rng.randrange(3)
        if way != 0:
            relations.append((names[column, "back"], "behind", names[column, "front"]))
        if way != 1:
            relations.append((names[column, "back"], side, names[0, "back"]))
    for thing in scene.things:
        if thing.carrier:
            relations.append((thing.name, "inside" if thing.place == "in" else "on top of", thing.carrier))
    return relations
