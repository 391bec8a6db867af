"""The first images of some data, prompt by prompt: a small part in which generators can still be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from titjudge.core.types import InvalidItem, Item

Load = Callable[[], Iterator[Item | InvalidItem]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Which prompts `--limit` takes: whole ones in the order of the data, as many as fit.

    A first one that does not fit is taken in part.
    """

    limit: int
    prompts: frozenset[str]
    line: str

    @classmethod
    def of(cls, load: Load, limit: int) -> Drawn:
        """Go through the data once and choose; `line` says for people what was drawn; empty where it is all."""
        sizes: dict[str, int] = {}
        for item in load():
            sizes[prompt_of(item)] = sizes.get(prompt_of(item), 0) + isinstance(item, Item)
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
        line = f"{images:,} of {sum(full.values()):,} images, all those of {prompts:,} of {len(full):,} prompts"
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
