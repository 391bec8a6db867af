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
"""The demand of each pool on an image, for the meta prompt of a type."""
TIIF_TYPES: dict[str, tuple[str, ...]] = {kind: tuple(pools) for kind, (_, *pools) in _READ["tiif_types"].items()}
"""Pools of each type: 36 combinations, text, style and designer prompts (TIIF-Bench paper, Table 1)."""


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
    """Draw types in the shares of TIIF-Bench's Table 1, with random concepts; concepts of a prompt have different objects.

    The next type is the one that is furthest behind its share (method of Sainte-Laguë).
    """
    drawn = dict.fromkeys(TIIF_TYPES, 0)
    for i in range(number):
        kind = min(drawn, key=lambda name: Fraction(2 * drawn[name] + 1, _READ["tiif_types"][name][0]))
        drawn[kind] += 1
        pools = TIIF_TYPES[kind]
        objects = iter(draw.sample(_OBJECTS, 2 * len(pools)))
        concepts = [draw.choice(_READ["pools"][pool]).format(next(objects), next(objects)) for pool in pools]
        yield {
            "prompt_id": f"tiif_{i + 1:03}",
            "prompt": f"{kind}: {'; '.join(concepts)}",
            "type": kind,
            "concepts": concepts,
        }


def facet_seeds(number: int, draw: random.Random) -> Iterator[Seed]:
    """Draw facets so that facets and pillars come about equally often (Qwen-Image-Bench paper, Eq. 1).

    The numbers of pillars (3 to 5) and of facets (5.17 on average) come from the 1,000 published prompts. Both balances cannot be
    exact, because the pillars have 6 to 20 facets. The next facet is the one drawn least, of the pillar that is furthest behind in the
    prompts that have it and in the mean draws of its facets, both relative to their means.
    """
    draws_of = dict.fromkeys(FACETS, 0)
    pillars = {pillar: [name for name in FACETS if FACETS[name][0] == pillar] for pillar, _, _ in FACETS.values()}
    prompts_with = dict.fromkeys(pillars, 0)
    sizes = [(spanned, facets) for spanned, facets, prompts in _READ["facet_counts"] for _ in range(prompts)]

    def ahead(pillar: str, taken: set[str]) -> Fraction:
        prompts = Fraction(
            0 if pillar in taken else prompts_with[pillar] * len(pillars), max(1, sum(prompts_with.values()))
        )
        draws = sum(draws_of[name] for name in pillars[pillar])
        return prompts + Fraction(draws * len(FACETS), len(pillars[pillar]) * max(1, sum(draws_of.values())))

    for i in range(number):
        if i % len(sizes) == 0:
            draw.shuffle(sizes)
        spanned, facets = sizes[i % len(sizes)]
        chosen: list[str] = []
        taken: set[str] = set()
        while len(chosen) < facets:
            behind = {
                pillar: ahead(pillar, taken) for pillar in pillars if (pillar in taken) == (len(taken) == spanned)
            }
            free = [name for name in FACETS if name not in chosen and FACETS[name][0] in behind]
            order = {name: (behind[FACETS[name][0]], draws_of[name]) for name in free}
            first = min(order.values())
            pick = draw.choice([name for name in free if order[name] == first])
            pillar = FACETS[pick][0]
            chosen.append(pick)
            draws_of[pick] += 1
            prompts_with[pillar] += pillar not in taken
            taken.add(pillar)
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
