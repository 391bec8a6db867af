"""Annotate scenes by construction: the elements of a graph that a scene shows, questions with answers, lines of the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from random import Random

from titjudge.apps.scenes.composition import options
from titjudge.apps.scenes.layout import holds
from titjudge.apps.scenes.scene import (
    KINDS,
    OF_QUESTIONS,
    PICTURE,
    SIGN,
    SURFACES,
    TABLE,
    WALL,
    AskedElements,
    Relation,
    Scene,
    ShownScene,
    near,
)
from titjudge.core.types import CONSTRUCTION, Json

QUESTIONS = 11


@dataclass(frozen=True, slots=True)
class Marks:
    """Which elements of a graph a scene shows."""

    entities: Mapping[str, bool]
    attributes: Mapping[str, Mapping[str, bool]]
    relations: Mapping[Relation, bool]

    def all(self) -> list[bool]:
        values = [so for attributes in self.attributes.values() for so in attributes.values()]
        return [*self.entities.values(), *values, *self.relations.values()]

    @property
    def wrong(self) -> int:
        return self.all().count(False)

    @property
    def alignment(self) -> float:
        """Elements shown over all elements, in [0, 1]."""
        return self.all().count(True) / len(self.all())


def marks(graph: AskedElements, scene: Scene) -> Marks | None:
    """Mark the elements of a graph that a scene shows; None where a relation is open to argument.

    Of a missing entity all attributes and relations count as not shown.
    """
    there = {name: name in (TABLE, WALL, PICTURE) or scene.get(name) is not None for name in graph.entities}
    attributes = {
        name: {key: there[name] and value_of(scene, name, key) == wanted for key, wanted in values.items()}
        for name, values in graph.attributes.items()
    }
    relations: dict[Relation, bool] = {}
    for relation in graph.relations:
        a, word, b = relation
        so = holds(scene, a, word, b) if there[a] and there[b] else False
        if so is None:
            return None
        relations[relation] = so
    return Marks(there, attributes, relations)


def value_of(scene: Scene, name: str, attribute: str) -> str | None:
    """Read the value of an attribute as a scene shows it."""
    if name == TABLE:
        return scene.surface
    if name == WALL:
        return scene.wall
    if name == PICTURE:
        return str(getattr(scene.view, attribute))
    thing = scene.get(name)
    return thing.traits.get(attribute) if thing is not None else None


@dataclass(frozen=True, slots=True)
class AnnotatedQuestion:
    """A yes / no question about a scene.

    Attributes:
        text: Its words.
        about: (entity,), (entity, attribute, value), (entity1, relation, entity2), or empty for what no scene shows.
        relation: Whether `about` is a relation.
    """

    text: str
    about: tuple[str, ...]
    relation: bool = False

    def answer(self, scene: Scene) -> str:
        return "yes" if self._true(scene) else "no"

    def _true(self, scene: Scene) -> bool:
        if not self.about:
            return False
        if self.relation:
            a, word, b = self.about
            here = scene.get(a) is not None and (b == TABLE or scene.get(b) is not None)
            return here and bool(holds(scene, a, word, b))
        if len(self.about) == 1:
            return any(self.about[0] in (thing.kind, thing.name) for thing in scene.things)
        return value_of(scene, self.about[0], self.about[1]) == self.about[2]


def questions(scene: Scene, graph: AskedElements, rng: Random) -> list[AnnotatedQuestion]:
    """Draw about eleven questions on a scene as the prompt asks for it; three have the answer no."""
    asked = [
        (key, question)
        for name, attributes in graph.attributes.items()
        for key in attributes
        if (question := _asks(graph, name, key))
    ]
    counts = [question for key, question in asked if key == "count"]
    values = [question for key, question in asked if key not in ("count", "text")]
    relations = [_asks_relation(relation) for relation in graph.relations if relation[1] != "on"]
    names = [thing.name for thing in scene.things if thing.kind not in OF_QUESTIONS["shapes"]]
    drawn = [question for question in (_asks(graph, SIGN, "text"),) if question]
    drawn += rng.sample(counts, min(2, len(counts)))
    drawn += rng.sample(relations, min(2, len(relations)))
    if names:
        name = rng.choice(names)
        drawn.append(AnnotatedQuestion(KINDS[name].question(), (name,)))
    drawn.append(_wrong_value(scene, graph, rng))
    drawn.append(_stranger(scene, rng))
    drawn += rng.sample(values, min(len(values), QUESTIONS - 1 - len(drawn)))
    return [*drawn, AnnotatedQuestion(rng.choice(OF_QUESTIONS["never"]), ())]


def _asks(graph: AskedElements, name: str, attribute: str, value: str = "") -> AnnotatedQuestion | None:
    """Ask whether an attribute has a value, by default that of the graph; None where the graph does not have it."""
    if attribute not in graph.attributes.get(name, {}):
        return None
    value = value or graph.attributes[name][attribute]
    about = (name, attribute, value)
    verb = "Are" if name in KINDS and KINDS[name].plural else "Is"
    asks = OF_QUESTIONS["asks"]
    words = asks.get(name if name in (TABLE, WALL) else attribute, asks["part"])
    part, said = attribute.removesuffix(" colour"), OF_QUESTIONS["surroundings"].get(value, f"a plain {value}")
    return AnnotatedQuestion(words.format(verb=verb, name=name, value=value, part=part, said=said), about)


def _asks_relation(relation: Relation) -> AnnotatedQuestion:
    a, word, b = relation
    verb = "Are" if KINDS[a].plural else "Is"
    words = {"left of": "to the left of", "right of": "to the right of"}.get(word, word)
    return AnnotatedQuestion(f"{verb} the {a} {words} the {b}?", relation, relation=True)


def _wrong_value(scene: Scene, graph: AskedElements, rng: Random) -> AnnotatedQuestion:
    """Ask for a value that the prompt does not want, so that the right answer is no."""
    pool = [
        question
        for thing in scene.things
        for key, value in thing.traits.items()
        if key not in ("text", "count")
        for other in options(KINDS[thing.kind], key)
        if not near(other, value) and (question := _asks(graph, thing.name, key, other))
    ]
    if not pool:
        pool = [
            q for surface in SURFACES if surface != scene.surface and (q := _asks(graph, TABLE, "surface", surface))
        ]
    return rng.choice(pool)


def _stranger(scene: Scene, rng: Random) -> AnnotatedQuestion:
    """Ask for a kind of thing that the prompt does not name."""
    families = {KINDS[thing.kind].family for thing in scene.things}
    kinds = [kind for kind in KINDS.values() if kind.family not in families and kind.name != SIGN]
    kind = rng.choice([kind for kind in kinds if kind.rows and kind.name not in OF_QUESTIONS["shapes"]])
    return AnnotatedQuestion(kind.question(), (kind.name,))


def prompt_record(
    prompt_id: str, prompt: str, asked: Scene, graph: AskedElements, asks: list[AnnotatedQuestion]
) -> Json:
    """Make a line of prompts.jsonl."""
    return {
        "prompt_id": prompt_id,
        "prompt": prompt,
        "questions": [question.text for question in asks],
        "gold_answers": [question.answer(asked) for question in asks],
        "graph": graph.to_json(),
        "text_words": asked.words(),
    }


def image_record(shown: ShownScene, graph: AskedElements, asks: list[AnnotatedQuestion]) -> Json:
    """Make a line of images.jsonl, without the fields of its file (image, prompt_id, variant_model).

    Raises:
        ValueError: A relation is open to argument.
    """
    marking = marks(graph, shown.scene)
    if marking is None:
        raise ValueError("a relation of this scene is neither clearly so nor clearly not so")
    return {
        "level": shown.level,
        "alignment": round(marking.alignment, 4),
        "entity_scores": {name: int(so) for name, so in marking.entities.items()},
        "attribute_scores": {
            name: {key: int(so) for key, so in values.items()} for name, values in marking.attributes.items() if values
        },
        "relation_scores": [
            {"entity1": a, "relation": word, "entity2": b, "score": int(so)}
            for (a, word, b), so in marking.relations.items()
        ],
        "answers": [question.answer(shown.scene) for question in asks],
        "text_present": shown.scene.words(),
        "errors": [error.to_json() for error in shown.errors],
    }


def pair_records(prompt_id: str, images: list[tuple[str, float]], rng: Random) -> Iterator[Json]:
    """Yield lines of pairs.jsonl: every two images of a prompt in random order; the one with higher alignment is preferred."""
    for pair in combinations(images, 2):
        (a, a_value), (b, b_value) = pair if rng.random() < 0.5 else reversed(pair)
        preference = "tie" if a_value == b_value else "a" if a_value > b_value else "b"
        yield {"prompt_id": prompt_id, "image_a": a, "image_b": b, "preference": preference, "source": CONSTRUCTION}
