"""A part of some data, prompt by prompt, the first ones or random ones: generators can still be compared in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from titjudge.core.types import InvalidItem, Item

Load = Callable[[], Iterator[Item | InvalidItem]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Which prompts `--limit` takes: whole ones, as many as fit, in the order of the data or, with a seed, at random.

    A first one that does not fit is taken in part. A larger limit with the same seed holds a smaller one.
    """

    limit: int
    prompts: frozenset[str]
    line: str

    @classmethod
    def of(cls, load: Load, limit: int, seed: int | None = None) -> Drawn:
        """Go through the data once and choose; `line` says for people what was drawn; empty where it is all."""
        sizes: dict[str, int] = {}
        alone = True  # prompts, without an image
        for item in load():
            alone = alone and not (isinstance(item, Item) and item.image)
            sizes[prompt_of(item)] = sizes.get(prompt_of(item), 0) + isinstance(item, Item)
        if seed is not None:
            sizes = dict(sorted(sizes.items(), key=lambda each: _place(seed, each[0])))
        taken: dict[str, int] = {}
        images = 0
        for prompt, size in sizes.items():
            if images + size > limit:
                break
            taken[prompt] = size
            images += size
        full = {prompt: size for prompt, size in sizes.items() if size}
        if not images and full:  # a prompt with more images than that
            first = next(iter(full))
            line = f"the first {limit:,} of {full[first]:,} images of one prompt, of {len(full):,} prompts"
            return cls(limit, frozenset({*taken, first}), f"--limit {limit}: {line}")
        if len(taken) == len(sizes):
            return cls(limit, frozenset(taken), "")
        prompts = sum(map(bool, taken.values()))
        line = f"{prompts:,} of {len(full):,} prompts{'' if seed is None else ', drawn at random'}"
        if not alone or images > prompts:
            line = f"{images:,} of {sum(full.values()):,} images, all those of {line}"
        return cls(limit, frozenset(taken), f"--limit {limit}: {line}")

    def items(self, load: Load) -> Iterator[Item | InvalidItem]:
        seen = 0
        for item in load():
            if prompt_of(item) not in self.prompts:
                continue
            seen += isinstance(item, Item)
            if seen <= self.limit:
                yield item


def prompt_of(item: Item | InvalidItem) -> str:
    """Give the id of the prompt, or the item's own where it has none."""
    return item.prompt_id or item.id


def _place(seed: int, prompt: str) -> bytes:
    return hashlib.sha256(f"{seed}\x00{prompt}".encode(errors="replace")).digest()
