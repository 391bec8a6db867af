"""Seeds of prompts, drawn at random and balanced: the same recipe, number and random seed give the same ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from titjudge.apps.prompt_sets.recipes.facet_map import FACETS

Seed = dict[str, Any]
"""An item's fields: `prompt_id`, `prompt` (from which the recipe starts), and others that the recipe reads."""

THEMES = {  # TIT-Score paper, A.6.1
    "Sci-Fi & Future": "space, cyberpunk, artificial intelligence, robots, time travel, life after a catastrophe",
    "Fantasy & Mythology": "magic, gods, mythical creatures, legends, worlds of high fantasy",
    "History & Culture": "a period of history, a culture, or what stands for one",
    "Surreal & Abstract": "dreams, impossible spaces, ideas as persons, scenes that defy physics",
    "Nature & Ecology": "landscapes, ecosystems, people and nature, nature as a person",
    "Urban & Daily Life": "cities and everyday situations, often with a twist",
}
TAGS = {  # examples of A.6.2
    "style": ("Cyberpunk", "Steampunk", "Biopunk", "Gothic", "Baroque", "Film Noir"),
    "mood": ("Epic", "Serene", "Mysterious", "Solitude", "Dystopian"),
    "element": ("Robot", "Architecture", "Combat", "Festival", "Exploration"),
}
INTERVALS = ((30, 50), (50, 70), (70, 90), (90, 110), (110, 150))  # words; LongT2IBench, the last one open there
SUBJECTS = (
    "a harbour at dawn", "a kitchen where bread is baked", "a bicycle workshop", "a market under a bridge",
    "a greenhouse in winter", "a chess club", "a lighthouse keeper's room", "a mountain rescue",
    "a puppet theatre", "a train compartment at night", "a beekeeper's garden", "a flooded street",
    "a music lesson", "a school laboratory", "a picnic on a roof", "a fishing village", "a carpenter's bench",
    "a dog show", "a desert camp", "a tailor's shop",
)  # fmt: skip
_OBJECTS = (
    "apple", "backpack", "bench", "bicycle", "bird", "boat", "bottle", "bucket", "camera", "candle", "chair",
    "clock", "cup", "dog", "door", "drum", "fence", "fox", "guitar", "hat", "horse", "kettle", "ladder", "lamp",
    "mirror", "pear", "piano", "pillow", "rabbit", "sheep", "shoe", "suitcase", "table", "teapot", "umbrella",
    "vase",
)  # fmt: skip
_COLORS = ["red", "blue", "green", "yellow", "orange", "purple", "white", "black", "brown", "pink"]
_MATERIALS = ["wooden", "metallic", "leather", "woollen", "porcelain", "paper", "marble", "wicker"]
_POOLS: dict[str, Sequence[str]] = {
    "color": tuple(f"{color} {{0}}" for color in _COLORS),
    "shape": tuple(f"{shape} {{0}}" for shape in ("round", "square", "oval", "triangular", "heart-shaped", "conical")),
    "texture": tuple(f"{material} {{0}}" for material in _MATERIALS),
    "action": tuple(
        f"child {verb} {{0}}" for verb in ("carries", "paints", "lifts", "pushes", "holds", "cleans", "draws", "points at")
    ),
    "2d": ("{0} left of {1}", "{0} right of {1}", "{0} above {1}", "{0} below {1}"),
    "3d": ("{0} in front of {1}", "{0} behind {1}", "{0} inside the room beside {1}"),
    "numeracy": tuple(f"{count} {{0}}s" for count in ("two", "three", "four", "five", "six")),
    "comparison": ("{0} larger than {1}", "{0} taller than {1}", "more {0}s than {1}s"),
    "differentiation": ("one {0} open and another {0} closed", "one {0} new and another {0} old", "one {0} tall and another {0} short"),
    "negation": ("table without {0}", "no {0}", "{0} not beside {1}"),
}  # fmt: skip
"""The ten pools of concepts (TIIF-Bench paper, Table A1), with our own objects; {0} and {1} are filled with objects."""
POOL_TASKS = {
    "color": "a thing has a colour",
    "shape": "a thing has a shape",
    "texture": "a thing is of a material",
    "action": "somebody does something with a thing",
    "2d": "things stand left, right, above or below in the picture",
    "3d": "things stand in front, behind or inside in depth",
    "numeracy": "a number of things can be counted",
    "comparison": "two things are compared",
    "differentiation": "two of the same kind are told apart",
    "negation": "something is not there, or not so",
}
"""What a concept of each pool asks of an image, as the meta prompt of a combination says it."""
TIIF_TYPES: dict[str, tuple[str, str]] = {
    "shape+color": ("shape", "color"), "color+texture": ("color", "texture"),
    "texture+color": ("texture", "color"), "shape+texture": ("shape", "texture"),
    "2d_spatial_relation": ("2d", "2d"), "3d_spatial_relation": ("3d", "3d"),
    "action+2d": ("action", "2d"), "action+3d": ("action", "3d"),
    **{name: (name, name) for name in ("numeracy", "negation", "differentiation", "comparison")},
    "action+color": ("action", "color"), "action+texture": ("action", "texture"),
    **{f"{look}+{space}": (look, space) for look in ("color", "shape", "texture") for space in ("2d", "3d")},
    **{
        f"{skill}+{other}": (skill, other)
        for skill in ("numeracy", "comparison", "differentiation", "negation")
        for other in ("color", "texture", "2d", "3d")
    },
}  # fmt: skip
"""The 36 combinations of two pools (TIIF-Bench paper, Table 1)."""


def six_block_seeds(number: int, draw: random.Random) -> Iterator[Seed]:
    """Take the classes of themes in turn, each with a random tag of every kind."""
    classes = list(THEMES)
    for i in range(number):
        name = classes[i % len(classes)]
        tags = ", ".join(draw.choice(kind) for kind in TAGS.values())
        yield {
            "prompt_id": f"six_block_{i + 1:03}",
            "prompt": f"{name}: {tags}",
            "theme_class": name,
            "about": THEMES[name],
            "tags": tags,
            "number": i // len(classes) + 1,
        }


def tiif_seeds(number: int, draw: random.Random) -> Iterator[Seed]:
    """Take the 36 combinations in turn, with random concepts; the two concepts of a prompt have different objects."""
    kinds = list(TIIF_TYPES)
    for i in range(number):
        kind = kinds[i % len(kinds)]
        objects = draw.sample(_OBJECTS, 4)
        first, second = (draw.choice(_POOLS[pool]) for pool in TIIF_TYPES[kind])
        concepts = [first.format(objects[0], objects[1]), second.format(objects[2], objects[3])]
        if TIIF_TYPES[kind][0] == TIIF_TYPES[kind][1]:
            concepts = concepts[:1]
        yield {
            "prompt_id": f"tiif_{i + 1:03}",
            "prompt": f"{kind}: {'; '.join(concepts)}",
            "type": kind,
            "concepts": concepts,
        }


def facet_seeds(number: int, draw: random.Random) -> Iterator[Seed]:
    """Draw three to five facets of at least three pillars so that facets and pillars come about equally often.

    Both cannot be exact (Qwen-Image-Bench paper, Eq. 1): the pillars have 6 to 20 facets. The next facet is the one drawn least, of the
    pillar that is furthest behind in the prompts that have it and in the mean draws of its facets, both relative to their means.
    """
    draws_of = dict.fromkeys(FACETS, 0)
    pillars = {pillar: [name for name in FACETS if FACETS[name][0] == pillar] for pillar, _, _ in FACETS.values()}
    prompts_with = dict.fromkeys(pillars, 0)

    def ahead(pillar: str, taken: set[str]) -> Fraction:
        prompts = Fraction(
            0 if pillar in taken else prompts_with[pillar] * len(pillars), max(1, sum(prompts_with.values()))
        )
        draws = sum(draws_of[name] for name in pillars[pillar])
        return prompts + Fraction(draws * len(FACETS), len(pillars[pillar]) * max(1, sum(draws_of.values())))

    for i in range(number):
        chosen: list[str] = []
        for rank in range(draw.randint(3, 5)):
            taken = {FACETS[name][0] for name in chosen}
            behind = {pillar: ahead(pillar, taken) for pillar in pillars if rank >= 3 or pillar not in taken}
            free = [name for name in FACETS if name not in chosen and FACETS[name][0] in behind]
            order = {name: (behind[FACETS[name][0]], draws_of[name]) for name in free}
            first = min(order.values())
            pick = draw.choice([name for name in free if order[name] == first])
            chosen.append(pick)
            draws_of[pick] += 1
            prompts_with[FACETS[pick][0]] += FACETS[pick][0] not in taken
        yield {"prompt_id": f"facets_{i + 1:03}", "prompt": "; ".join(chosen), "facets": chosen}


def long_graph_seeds(number: int, draw: random.Random) -> Iterator[Seed]:
    """Take the five intervals of words in turn, each with a random subject and an object in it."""
    subjects = draw.sample(SUBJECTS, len(SUBJECTS))
    for i in range(number):
        fewest, most = INTERVALS[(i + i // len(subjects)) % len(INTERVALS)]
        yield {
            "prompt_id": f"long_graph_{i + 1:03}",
            "prompt": f"{subjects[i % len(subjects)]}, and in it a {draw.choice(_OBJECTS)}",
            "fewest": fewest,
            "most": most,
        }


RECIPES: dict[str, Callable[[int, random.Random], Iterator[Seed]]] = {
    "six-block": six_block_seeds,
    "tiif": tiif_seeds,
    "facets": facet_seeds,
    "long-graph": long_graph_seeds,
}


def seeds(recipe: str, number: int, seed: int) -> list[Seed]:
    """Draw the seeds of a recipe.

    Args:
        recipe: One of `RECIPES`.
        number: How many seeds.
        seed: Random seed.
    """
    return list(RECIPES[recipe](number, random.Random(f"{recipe} {seed}")))
