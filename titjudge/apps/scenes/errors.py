"""Plant errors: draw what an image at a level of adherence shows instead of what the prompt asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from titjudge.apps.scenes.annotation import Marks, marks
from titjudge.apps.scenes.composition import BACK, FRONT, alike_behind, options, stands_out, traits_for
from titjudge.apps.scenes.layout import may_number
from titjudge.apps.scenes.objects import KINDS, NUMBERS, SURFACES, WALLS, near
from titjudge.apps.scenes.scene import SIGN, TABLE, WALL, AskedElements, Error, Scene, ShownScene, Thing

MISSING, ATTRIBUTE, COUNT = "missing entity", "wrong attribute", "wrong count"
RELATION, TEXT = "swapped relation", "misspelt text"
KINDS_OF_ERROR = (MISSING, ATTRIBUTE, COUNT, RELATION, TEXT)
BANDS = {2: (0.26, 0.34), 3: (0.60, 0.70)}  # share of wrong elements at levels 2 and 3
_TRIES, _EDITS = 40, 30
OPPOSITE = {
    "left of": "right of",
    "right of": "left of",
    "behind": "in front of",
    "on top of": "in front of",
    "inside": "in front of",
}
Edit = tuple[Scene, Error]
# From the scene as asked and as it is, the scene with one more error.
Plant = Callable[[Scene, Scene, Random], Edit | None]
MOVED = Error(RELATION, (), "", "")  # stands for the relations that turn out to be wrong, see `_settled`


def draw(
    level: int, asked: Scene, graph: AskedElements, kind: str, rng: Random, plants: Mapping[str, Plant] | None = None
) -> ShownScene | None:
    """Draw a scene at a level: 0 as asked, 1 with one error of `kind`, 2 and 3 with many; None where no draw fits.

    Level 1 has as few wrong elements as its kind allows: one, or a missing entity with its attributes and relations.
    """
    if level == 0:
        return ShownScene(0, asked)
    plants = plants or PLANTS
    for _ in range(_TRIES):
        shown = _one(asked, graph, kind, rng, plants) if level == 1 else _many(asked, graph, level, rng, plants)
        if shown is not None:
            return shown
    return None


def _one(asked: Scene, graph: AskedElements, kind: str, rng: Random, plants: Mapping[str, Plant]) -> ShownScene | None:
    edit = plants[kind](asked, asked, rng)
    marking = edit and marks(graph, edit[0])
    simple = plants is PLANTS
    if not edit or not marking or (simple and not (tidy(asked, edit[0]) and subtle(edit[1]))):
        return None
    few = (4 if simple else 8) if kind == MISSING else 2 if kind == RELATION else 1
    return ShownScene(1, edit[0], tuple(_settled([edit[1]], marking))) if 0 < marking.wrong <= few else None


def subtle(error: Error) -> bool:
    """Tell whether an error is small: it adds or removes one of the things on the table, and puts nothing in its place."""
    if error.kind == COUNT and abs(NUMBERS.index(error.asked) - NUMBERS.index(error.shown)) > 1:
        return False
    return error.element[:1] not in ((TABLE,), (WALL,)) and (error.kind != MISSING or error.shown == "nothing")


def _many(
    asked: Scene, graph: AskedElements, level: int, rng: Random, plants: Mapping[str, Plant]
) -> ShownScene | None:
    low, high = BANDS[level]
    scene, errors = asked, list[Error]()
    for _ in range(_EDITS if plants is PLANTS else 4 * _EDITS):
        kind = rng.choice((MISSING, MISSING, ATTRIBUTE, ATTRIBUTE, COUNT, RELATION, TEXT))
        edit = plants[kind](asked, scene, rng)
        if not edit:
            continue
        marking = marks(graph, edit[0])
        if marking is None or (plants is PLANTS and not tidy(asked, edit[0])) or marking.wrong / len(graph) > high:
            continue
        scene, errors = edit[0], [*errors, edit[1]]
        if marking.wrong / len(graph) >= low:
            return ShownScene(level, scene, tuple(_settled(errors, marking)))
    return None


def _settled(errors: list[Error], marks: Marks) -> list[Error]:
    """List the planted errors of entities and attributes that are still wrong, and one for each wrong relation of things there."""
    gone = {name for name, there in marks.entities.items() if not there}
    kept = [
        error for error in errors if error.kind != RELATION and (error.kind == MISSING or error.element[0] not in gone)
    ]
    wrong = [
        relation
        for relation, so in marks.relations.items()
        if not so and not gone.intersection((relation[0], relation[2]))
    ]
    return kept + [Error(RELATION, relation, relation[1], OPPOSITE[relation[1]]) for relation in wrong]


def tidy(asked: Scene, scene: Scene) -> bool:
    """Tell whether all that an edit changed is still easily seen."""
    moved = scene.surface != asked.surface or scene.wall != asked.wall
    for thing in scene.things:
        before = asked.get(thing.name)
        if before == thing and not moved:
            continue
        if not all(stands_out(scene, thing.row, value) for value in thing.traits.values()):
            return False
        if thing.traits.get("colour") == "white" and thing.traits.get("contents") == "milk":
            return False
    return not alike_behind(scene.things)


def _missing(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    things = [thing for thing in scene.things if asked.get(thing.name)]
    if not things:
        return None
    thing = rng.choice(things)
    load = scene.load_of(thing.name)
    error = Error(MISSING, (thing.name,), thing.name, "nothing")
    if load is not None:
        if load.place in ("on", "in") and load.kind != "flowers":
            freed = replace(load, carrier="", place="table")
            return scene.without(thing.name).with_thing(freed), error
        return None
    if thing.carrier or thing.kind == SIGN or rng.random() < 0.35:
        return scene.without(thing.name), error
    other = _stranger(asked, scene, thing, rng)
    if other is None:
        return scene.without(thing.name), error
    return scene.with_thing(other, thing.name), replace(error, shown=other.name)


def _stranger(asked: Scene, scene: Scene, gone: Thing, rng: Random) -> Thing | None:
    """Draw a thing that the prompt does not ask for, in the place of one that is gone; None where no kind is left."""
    families = {KINDS[thing.kind].family for thing in (*asked.things, *scene.things)}
    pool = [kind for kind in (BACK if gone.row == "back" else FRONT) if kind.family not in families]
    if not pool:
        return None
    kind = rng.choice(pool)
    return Thing(kind.name, kind.name, traits_for(rng, kind, scene, gone.row), gone.column, gone.row)


def _attribute(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    places = [
        (thing.name, name)
        for thing in scene.things
        if (was := asked.get(thing.name))
        for name in was.traits
        if name not in ("count", "text") and thing.traits.get(name) == was.traits[name]
    ]
    places += [(TABLE, "surface")] * (scene.surface == asked.surface) + [(WALL, "wall")] * (scene.wall == asked.wall)
    if not places:
        return None
    name, attribute = rng.choice(places)
    if name == TABLE:
        value = rng.choice([surface for surface in SURFACES if surface != scene.surface])
        return replace(scene, surface=value), Error(ATTRIBUTE, (TABLE, "surface"), scene.surface, value)
    if name == WALL:
        value = rng.choice([wall for wall in WALLS if _other_wall(wall, scene.wall)])
        key = "material" if scene.wall == "red brick" else "colour"
        return replace(scene, wall=value), Error(ATTRIBUTE, (WALL, key), scene.wall, value)
    thing = scene.get(name)
    assert thing is not None
    right = thing.traits[attribute]
    values = [option for option in options(KINDS[thing.kind], attribute) if not near(option, right)]
    if not values:
        return None
    value = rng.choice(values)
    return scene.with_thing(thing.having(attribute, value)), Error(ATTRIBUTE, (name, attribute), right, value)


def _other_wall(a: str, b: str) -> bool:
    """Tell whether two walls look different: in coloured light, cream can pass for pale green or pale pink."""
    return a != b and {a, b} not in ({"cream", "pale green"}, {"cream", "pale pink"})


def _count(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    groups = [t for t in scene.things if "count" in t.traits and t == asked.get(t.name)]
    if not groups:
        return None
    thing = rng.choice(groups)
    was = thing.traits["count"]
    others = [count for count in KINDS[thing.kind].traits["count"] if count != was]
    others = [count for count in others if may_number(thing, NUMBERS.index(count))]
    if not others:
        return None
    value = rng.choice(others)
    return scene.with_thing(thing.having("count", value)), Error(COUNT, (thing.name, "count"), was, value)


def _relation(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    return rng.choice((_lay_before, _swap_columns, _swap_rows, _swap_ends))(scene, rng)


def _lay_before(scene: Scene, rng: Random) -> Edit | None:
    """Move the things that should be on or in another thing to the place in front of it."""
    front = [thing for thing in scene.things if thing.carrier and thing.row == "front" and thing.kind != "flowers"]
    loads = [thing for thing in front if thing.place in ("on", "in")]
    if not loads:
        return None
    load = rng.choice(loads)
    return scene.with_thing(replace(load, place="before")), MOVED


def _swap(scene: Scene, a: tuple[int, str], b: tuple[int, str]) -> Scene:
    """Exchange all things at two places (column, row)."""
    way = {a: b, b: a}
    places = ((thing, *way.get((thing.column, thing.row), (thing.column, thing.row))) for thing in scene.things)
    return replace(scene, things=tuple(replace(thing, column=column, row=row) for thing, column, row in places))


def _swap_columns(scene: Scene, rng: Random) -> Edit | None:
    return _swap(_swap(scene, (-1, "front"), (1, "front")), (-1, "back"), (1, "back")), MOVED


def _swap_ends(scene: Scene, rng: Random) -> Edit | None:
    row = rng.choice(("front", "back"))
    return _swap(scene, (-1, row), (1, row)), MOVED


def _swap_rows(scene: Scene, rng: Random) -> Edit | None:
    column = rng.choice((-1, 0, 1))
    return _swap(scene, (column, "front"), (column, "back")), MOVED


def _text(asked: Scene, scene: Scene, rng: Random) -> Edit | None:
    sign, was = scene.get(SIGN), asked.get(SIGN)
    if sign is None or was is None or sign.traits["text"] != was.traits["text"]:
        return None
    text = misspell(was.traits["text"], rng)
    return scene.with_thing(sign.having("text", text)), Error(TEXT, (SIGN, "text"), was.traits["text"], text)


def misspell(text: str, rng: Random) -> str:
    """Misspell one word of a text, not at its ends: two letters swapped, one left out, or one replaced."""
    words = text.split()
    k = rng.randrange(len(words))
    word = words[k]
    spots = [i for i in range(1, len(word) - 2) if word[i] != word[i + 1]]
    i = rng.choice(spots)
    way = rng.randrange(3)
    if way == 0:
        word = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    elif way == 1:
        word = word[:i] + word[i + 1 :]
    else:
        word = word[:i] + rng.choice([c for c in "AEINORST" if c != word[i]]) + word[i + 1 :]
    return " ".join((*words[:k], word, *words[k + 1 :]))


PLANTS: dict[str, Plant] = {
    MISSING: _missing,
    ATTRIBUTE: _attribute,
    COUNT: _count,
    RELATION: _relation,
    TEXT: _text,
}
