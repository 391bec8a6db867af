"""Write the long prompt: 250 to 320 words that ask for every element of the graph, in varied wording."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from titjudge.apps.scenes.objects import KINDS, phrase
from titjudge.apps.scenes.scene import SIGN, TABLE, AskedElements, Scene, Thing
from titjudge.core.files import read_yaml

SHORTEST, LONGEST = 250, 320  # words
_READ = read_yaml(Path(__file__).with_name("prompt_text.yaml"), "sentences")
LIGHTS: Mapping[str, Sequence[str]] = _READ["lights"]


def write(scene: Scene, graph: AskedElements, rng: Random) -> str:
    """Write the prompt of a scene, 250 to 320 words.

    Raises:
        ValueError: The scene takes more words than that; draw another.
    """
    opening = rng.choice(_READ["openings"]).format(mood=rng.choice(_READ["moods"]))
    surface, walls = (
        rng.choice(_READ["surfaces"][scene.surface]),
        _READ["bricks"] if scene.wall == "red brick" else _READ["walls"],
    )
    setting = [surface, rng.choice(walls).format(wall=scene.wall)]
    rng.shuffle(setting)
    things = list(_things(scene, graph, rng))
    closing = [rng.choice(_READ["nothing"]), rng.choice(_READ["absent"])]
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
    """Write about each thing: the middle of the front row first, then row by row or column by column, and what it carries."""
    standing = {(thing.column, thing.row): thing for thing in scene.things if not thing.carrier}
    sentences: list[str] = []
    for column, row in rng.choice(_READ["orders"]):
        thing = standing[column, row]
        sentences += _sentences(thing, graph, rng)
        load = scene.load_of(thing.name)
        if load is not None:
            sentences.append(
                _fill(rng.choice(_READ["on"] if load.place == "on" else _READ["in"]), load, rng, other=load.carrier)
            )
    return sentences


def _sentences(thing: Thing, graph: AskedElements, rng: Random) -> list[str]:
    relations = [relation for relation in graph.relations if relation[0] == thing.name]
    sentences: list[str] = []
    for _, word, other in relations:
        side = word.partition(" ")[0]
        if other == TABLE:
            sentences.append(_fill(rng.choice(_READ["anchors"]), thing, rng))
        elif sentences:
            they, these = ("They are", "they are") if KINDS[thing.kind].plural else ("It is", "this one is")
            sentences.append(rng.choice(_READ["also"]).format(They=they, these=these, side=side, other=other))
        elif word == "behind":
            sentences.append(_fill(rng.choice(_READ["behind"]), thing, rng, other=other))
        else:
            sentences.append(
                _fill(
                    rng.choice(_READ["sides"] if thing.row == "front" else _READ["back_sides"]),
                    thing,
                    rng,
                    other=other,
                    side=side,
                )
            )
    if thing.kind == SIGN:
        sentences.insert(1, rng.choice(_READ["texts"]).format(text=thing.traits["text"]))
    return sentences


def _fill(template: str, thing: Thing, rng: Random, **words: str) -> str:
    many = KINDS[thing.kind].plural
    text = phrase(thing.kind, thing.traits)
    return template.format(
        thing=text,
        Thing=text[0].upper() + text[1:],
        is_=rng.choice(_READ["verbs_many"] if many else _READ["verbs"]),
        rest="rest" if many else "rests",
        its="their" if words.get("other") in KINDS and KINDS[words["other"]].plural else "its",
        **words,
    )
