"""Choose the prompts that `--limit` takes. Whole prompts are taken, so that generators can still be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from titjudge.core.types import InvalidItem, Item

Load = Callable[[], Iterator[Item | InvalidItem]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The prompts that `--limit` takes: as many as fit, in the order of the data or, with a seed, at random.

    Where not even the first prompt fits, part of its images are taken. With the same seed a larger limit takes all that a
    smaller one does.
    """

    limit: int
    prompts: frozenset[str]
    line: str  # describes the choice for people; empty where all prompts are taken

    @classmethod
    def of(cls, load: Load, limit: int, seed: int | None = None) -> Drawn:
        """Choose the prompts, reading the data once."""
        sizes: dict[str, int] = {}
        only_prompts = True  # no item has an image
        for item in load():
            only_prompts = only_prompts and not (isinstance(item, Item) and item.image)
            sizes[prompt_of(item)] = sizes.get(prompt_of(item), 0) + isinstance(item, Item)
        if seed is not None:
            sizes = {prompt: sizes[prompt] for prompt in sorted(sizes, key=lambda prompt: _place(seed, prompt))}
        taken: dict[str, int] = {}
        images = 0
        for prompt, size in sizes.items():
            if images + size > limit:
                break
            taken[prompt] = size
            images += size
        full = {prompt: size for prompt, size in sizes.items() if size}
        if not images and full:  # the first prompt has more images than the limit
            first = next(iter(full))
            line = f"the first {limit:,} of {full[first]:,} images of one prompt, of {len(full):,} prompts"
            return cls(limit, frozenset({*taken, first}), f"--limit {limit}: {line}")
        if len(taken) == len(sizes):
            return cls(limit, frozenset(taken), "")
        prompts = sum(map(bool, taken.values()))
        line = f"{prompts:,} of {len(full):,} prompts{'' if seed is None else ', drawn at random'}"
        if not only_prompts or images > prompts:
            line = f"{images:,} of {sum(full.values()):,} images, all those of {line}"
        return cls(limit, frozenset(taken), f"--limit {limit}: {line}")

    def items(self, load: Load) -> Iterator[Item | InvalidItem]:
        """Yield the items of the chosen prompts."""
        seen = 0
        for item in load():
            if prompt_of(item) not in self.prompts:
                continue
            seen += isinstance(item, Item)
            if seen <= self.limit:
                yield item


def prompt_of(item: Item | InvalidItem) -> str:
    """Return the id of the item's prompt, or the item's own id where it has none."""
    return item.prompt_id or item.id


def _place(seed: int, prompt: str) -> bytes:
    """Return the sort key of a prompt in the random order of a seed."""
    return hashlib.sha256(f"{seed}\x00{prompt}".encode(errors="replace")).digest()
