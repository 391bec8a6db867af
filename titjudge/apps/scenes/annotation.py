"""Annotate scenes by construction: the elements of a graph that a scene shows, questions with answers, lines of the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from titjudge.apps.scenes.composition import other_values, strangers
from titjudge.apps.scenes.layout import holds
from titjudge.apps.scenes.scene import (
    KINDS,
    OF_QUESTIONS,
    PICTURE,
    SIGN,
    TABLE,
    WALL,
    AskedElements,
    Relation,
    Scene,
    ShownScene,
    article,
)
from titjudge.core.grouping import grouped
from titjudge.core.types import CONSTRUCTION, Json


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
    """Mark the elements of a graph that a scene shows; None if a relation is open to argument.

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
    """Draw up to twelve questions on a scene as the prompt asks for it; four have the answer no."""
    asked = [(name, key, value) for name, values in graph.attributes.items() for key, value in values.items()]
    by_key = grouped(asked, lambda each: each[1] if each[1] in ("text", "count") else "")
    wrong = [
        (thing.name, key, other)
        for thing in scene.things
        for key in graph.attributes[thing.name]
        for other in (other_values(scene, thing, key) if key != "text" else ())
    ]
    relations = [relation for relation in graph.relations if relation[1] != "on"]

    def some(values: Sequence[tuple[str, str, str]], most: int) -> list[tuple[str, str, str]]:
        return rng.sample(values, min(most, len(values)))

    drawn = [*some(by_key.get("text", ()), 1), *some(by_key.get("count", ()), 4), *some(wrong, 2)]
    related = some(relations, 2)
    if scene.crowded:
        a, _, b = rng.choice([relation for relation in relations if relation[1] == "right of"])
        last, related = [], [*related, (a, "left of", b)]
    else:
        last = [AnnotatedQuestion(rng.choice(OF_QUESTIONS["never"]), ())]
    drawn += some(by_key[""], 11 - len(drawn) - len(related) - len(last))
    return [*map(_asks, drawn), *map(_asks_relation, related), _stranger(scene, rng), *last]


def _verb(name: str) -> str:
    plural = KINDS[name].plural if name in KINDS else name not in (TABLE, WALL)
    return "Are" if plural else "Is"


def _asks(about: tuple[str, str, str]) -> AnnotatedQuestion:
    """Ask whether an attribute has a value."""
    name, attribute, value = about
    asks, key = OF_QUESTIONS["asks"], "card" if attribute == "text" and name != SIGN else attribute
    words = asks.get(name if name in (TABLE, WALL) else key, asks["part"])
    part, said = attribute.removesuffix(" colour"), OF_QUESTIONS["surroundings"].get(value, f"a plain {value}")
    text = words.format(verb=_verb(name), name=name, value=value, part=part, said=said, a=article(value))
    return AnnotatedQuestion(text, about)


def _asks_relation(relation: Relation) -> AnnotatedQuestion:
    a, word, b = relation
    words = {"left of": "to the left of", "right of": "to the right of"}.get(word, word)
    return AnnotatedQuestion(f"{_verb(a)} the {a} {words} the {b}?", relation, relation=True)


def _stranger(scene: Scene, rng: Random) -> AnnotatedQuestion:
    """Ask for a kind of thing that the prompt does not name."""
    names = [other.name for thing in scene.things for other in strangers(scene, scene, thing, rng)]
    name = rng.choice([name for name in names if name not in OF_QUESTIONS["shapes"]])
    there = "Are there any" if _verb(name) == "Are" else f"Is there {article(name)}"
    return AnnotatedQuestion(f"{there} {name} in the image?", (name,))


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
