"""Seeds of prompts, drawn at random and balanced: the same recipe, number and random seed give the same ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from titjudge.apps.prompt_sets.recipes.facet_map import FACETS
from titjudge.core.files import read_yaml

Seed = dict[str, Any]
"""An item's fields: `prompt_id`, `prompt` (from which the recipe starts), and others that the recipe reads."""

_READ = read_yaml(Path(__file__).with_name("seeds.yaml"), "a list of seeds")
THEMES: dict[str, str] = _READ["themes"]
TAGS: dict[str, list[str]] = _READ["tags"]
INTERVALS: list[tuple[int, int]] = _READ["intervals"]
SUBJECTS: list[str] = _READ["subjects"]
_OBJECTS: list[str] = _READ["objects"]
POOL_TASKS: dict[str, str] = _READ["pool_tasks"]
"""What a concept of each pool asks of an image, as the meta prompt of a combination says it."""
TIIF_TYPES: dict[str, tuple[str, str]] = _READ["tiif_types"]
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
        first, second = (draw.choice(_READ["pools"][pool]) for pool in TIIF_TYPES[kind])
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
