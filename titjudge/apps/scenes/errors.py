"""Plant errors: the content of an image at a level of adherence, instead of the content in the prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from titjudge.apps.scenes.annotation import Marks, marks
from titjudge.apps.scenes.composition import alike_behind, other_values, stands_out, strangers
from titjudge.apps.scenes.scene import (
    NUMBERS,
    SURFACES,
    TABLE,
    WALL,
    WALLS,
    AskedElements,
    Error,
    Scene,
    ShownScene,
    Thing,
)

MISSING, ATTRIBUTE, COUNT = "missing entity", "wrong attribute", "wrong count"
RELATION, TEXT = "swapped relation", "misspelt text"
KINDS_OF_ERROR = (MISSING, ATTRIBUTE, COUNT, RELATION, TEXT)
BANDS = {2: (0.26, 0.34), 3: (0.60, 0.70)}  # share of wrong elements at levels 2 and 3
_OFTEN = (MISSING, MISSING, ATTRIBUTE, ATTRIBUTE, COUNT, RELATION, TEXT)
_TRIES, _ERRORS = 40, 120
OPPOSITE = {
    "left of": "right of",
    "right of": "left of",
    "behind": "in front of",
    "on top of": "in front of",
    "inside": "in front of",
}
Edit = tuple[Scene, Error]
MOVED = Error(RELATION, (), "", "")  # stands for the relations that turn out to be wrong, see `_settled`


def draw(level: int, asked: Scene, graph: AskedElements, kind: str, rng: Random) -> ShownScene | None:
    """Draw a scene at a level: 0 as asked, 1 with one error of `kind`, 2 and 3 with many; None if no draw fits.

    Level 1 has as few wrong elements as its kind allows: one, or a missing entity with its attributes and relations.
    """
    few = {MISSING: 8 if asked.crowded else 4, RELATION: 2}.get(kind, 1)
    band = BANDS.get(level, (1 / len(graph), few / len(graph)))

    def fits(edit: Edit) -> bool:
        return asked.crowded or (tidy(asked, edit[0]) and (level > 1 or subtle(edit[1])))

    for _ in range(_TRIES if level else 0):
        spoilt = spoil(asked, asked, graph, band, (kind,) if level == 1 else _OFTEN, rng, fits)
        if spoilt is not None:
            return ShownScene(level, *spoilt)
    return None if level else ShownScene(0, asked)


def spoil(
    asked: Scene,
    scene: Scene,
    graph: AskedElements,
    band: tuple[float, float],
    kinds: tuple[str, ...],
    rng: Random,
    fits: Callable[[Edit], bool],
) -> tuple[Scene, tuple[Error, ...]] | None:
    """Plant errors of these kinds in a scene until the share of wrong elements is within a band; None if that fails."""
    errors, before = list[Error](), 0.0
    for _ in range(_ERRORS):
        edit = plant(asked, scene, rng.choice(kinds), rng, fits)
        marking = marks(graph, edit[0]) if edit else None
        if edit and marking and before < marking.wrong / len(graph) <= band[1]:
            scene, errors, before = edit[0], [*errors, edit[1]], marking.wrong / len(graph)
            if before >= band[0]:
                return scene, tuple(_settled(errors, marking))
    return None


def plant(asked: Scene, scene: Scene, kind: str, rng: Random, fits: Callable[[Edit], bool]) -> Edit | None:
    """Draw one further error of a kind that fits; None if there is none."""
    edits = list(alternatives(asked, scene, kind, rng))
    rng.shuffle(edits)
    return next(filter(fits, edits), None)


def subtle(error: Error) -> bool:
    """Return True if an error is small: it adds or removes one of the things on the table, and puts nothing in its place."""
    if error.kind == COUNT and abs(NUMBERS.index(error.asked) - NUMBERS.index(error.shown)) > 1:
        return False
    return error.element[:1] not in ((TABLE,), (WALL,)) and (error.kind != MISSING or error.shown == "nothing")


def _settled(errors: list[Error], marks: Marks) -> list[Error]:
    """List the planted errors of entities and attributes that are still wrong, and one for each wrong relation of things there."""
    gone = {name for name, there in marks.entities.items() if not there}
    kept = [
        error for error in errors if error.kind != RELATION and (error.kind == MISSING or error.element[0] not in gone)
    ]
    wrong = [each for each, so in marks.relations.items() if not so and not gone & {each[0], each[2]}]
    return kept + [Error(RELATION, relation, relation[1], OPPOSITE[relation[1]]) for relation in wrong]


def tidy(asked: Scene, scene: Scene) -> bool:
    """Return True if all that an edit changed is still easily seen."""
    moved = scene.surface != asked.surface or scene.wall != asked.wall
    for thing in scene.things:
        if asked.get(thing.name) == thing and not moved:
            continue
        if not all(stands_out(scene, thing.row, value) for value in thing.traits.values()):
            return False
        if thing.traits.get("colour") == "white" and thing.traits.get("contents") == "milk":
            return False
    return not alike_behind(scene.things)


# ---------------------------------------------------------------------- every way to be wrong in one point


def alternatives(asked: Scene, scene: Scene, kind: str, rng: Random) -> Iterator[Edit]:
    """Yield a scene with one further error of a kind, in every way that there is."""
    if kind == RELATION:
        yield from ((moved, MOVED) for moved in _moved(scene))
    for thing in scene.things:
        was = asked.get(thing.name)
        if was is None:
            continue
        if kind == MISSING:
            for other, instead in _without(asked, scene, thing, rng):
                yield other, Error(MISSING, (thing.name,), thing.name, instead)
        for name, value in thing.traits.items():
            if kind == {"text": TEXT, "count": COUNT}.get(name, ATTRIBUTE) and value == was.traits.get(name):
                for shown in [misspell(value, rng)] if name == "text" else other_values(scene, thing, name):
                    yield scene.with_thing(thing.having(name, shown)), Error(kind, (thing.name, name), value, shown)
    if kind == ATTRIBUTE and not asked.crowded:
        for shown in SURFACES if scene.surface == asked.surface else ():
            if shown != scene.surface:
                yield replace(scene, surface=shown), Error(kind, (TABLE, "surface"), scene.surface, shown)
        for shown in WALLS if scene.wall == asked.wall else ():
            if shown != scene.wall and {shown, scene.wall} not in _ALIKE:
                element = WALL, "material" if scene.wall == "red brick" else "colour"
                yield replace(scene, wall=shown), Error(kind, element, scene.wall, shown)


_ALIKE = ({"cream", "pale green"}, {"cream", "pale pink"})  # walls that can pass for each other in coloured light


def _without(asked: Scene, scene: Scene, thing: Thing, rng: Random) -> Iterator[tuple[Scene, str]]:
    """Yield scenes without a thing, and the name of its replacement."""
    load = scene.load_of(thing.name)
    if load is not None:
        if load.kind != "flowers" and load.place != "before":
            yield scene.without(thing.name).with_thing(replace(load, carrier="", place="table")), "nothing"
        return
    if not scene.crowded:
        yield scene.without(thing.name), "nothing"
    for other in strangers(asked, scene, thing, rng):
        yield scene.with_thing(other, thing.name), other.name


def _moved(scene: Scene) -> Iterator[Scene]:
    """Yield scenes with things in other places: loads before what should carry them, and places exchanged."""
    if scene.crowded:
        for row in ("near", "middle", "far"):
            for left, right in ((-3, -1), (-1, 1), (1, 3)):
                yield _swap(scene, (left, row), (right, row))
        return
    for load in scene.things:
        if load.row == "front" and load.place in ("on", "in") and load.kind != "flowers":
            yield scene.with_thing(replace(load, place="before"))
    ends = [_swap(scene, (-1, row), (1, row)) for row in ("front", "back")]
    yield from (*ends, _swap(ends[0], (-1, "back"), (1, "back")))
    for column in (-1, 0, 1):
        yield _swap(scene, (column, "front"), (column, "back"))


def _swap(scene: Scene, a: tuple[int, str], b: tuple[int, str]) -> Scene:
    """Exchange all things at two places (column, row)."""
    way = {a: b, b: a}
    places = ((thing, *way.get((thing.column, thing.row), (thing.column, thing.row))) for thing in scene.things)
    return replace(scene, things=tuple(replace(thing, column=column, row=row) for thing, column, row in places))


def misspell(text: str, rng: Random) -> str:
    """Misspell one word of a text, not at its ends: two letters swapped, one left out, or one replaced."""
    words = text.split()
    k = rng.randrange(len(words))
    word = words[k]
    i = rng.choice([i for i in range(1, len(word) - 2) if word[i : i + 2].isalpha() and word[i] != word[i + 1]])
    other = rng.choice([letter for letter in "AEINORST" if letter != word[i]])
    words[k] = word[:i] + rng.choice((word[i + 1] + word[i], word[i + 1], other + word[i + 1])) + word[i + 2 :]
    return " ".join(words)
