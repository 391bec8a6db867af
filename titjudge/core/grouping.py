"""Things sorted into groups, and the means of groups."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Sort values into groups by a key, in the order in which the first of each comes."""
    groups: dict[K, list[V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def group_means(groups: Mapping[K, Collection[float]]) -> dict[K, float]:
    """Compute the mean of each group, summed in order as official scripts do; no group is empty."""
    return {key: sum(values) / len(values) for key, values in groups.items()}


def random_place(prompt: str, seed: int | None = None) -> bytes:
    """Return the sort key of a prompt in a random order that only the prompt's id and the seed decide."""
    text = prompt if seed is None else f"{seed}\x00{prompt}"
    return hashlib.sha256(text.encode(errors="replace")).digest()


Refused = tuple[str, str]  # item and reason


def alike(refused: Iterable[Refused]) -> list[list[Refused]]:
    """Group (item, reason) pairs by reason, without the names and numbers in it; in the order of their first one."""
    return list(grouped(refused, lambda pair: _kind(*pair)).values())


def brief(refused: Sequence[Refused], kinds: int = 3) -> str:
    """Write the commonest reasons, with an example of each, in one line."""
    groups = sorted(alike(refused), key=len, reverse=True)
    reasons = [_example(group) for group in groups[:kinds]]
    if more := sum(map(len, groups[kinds:])):
        reasons.append(f"{more:,} for other reasons")
    return "; ".join(reasons)


def listed(refused: Iterable[Refused], examples: int, kinds: int | None = None, all_in: str = "") -> Iterator[str]:
    """Yield a few lines for each kind of reason, so that hundreds of one kind do not hide another.

    Args:
        refused: Items and reasons.
        examples: Maximum number of lines of a kind.
        kinds: Most kinds; None for all.
        all_in: The place of the complete list, in words, to be appended to the counts.
    """
    groups = alike(refused)
    for group in groups[:kinds]:
        yield from (_with_item(item, reason) for item, reason in group[:examples])
        if len(group) > examples:
            yield f"... and {len(group) - examples:,} more like this{all_in}"
    if kinds is not None and len(groups) > kinds:
        yield f"... and {sum(map(len, groups[kinds:])):,} more for other reasons{all_in}"


def _with_item(item: str, reason: str) -> str:
    """Write item and reason; only the reason if it begins with the item's path."""
    place = reason.partition(": ")[0]
    return reason if place == item or place.endswith(f"/{item}") else f"{item}: {reason}"


def _example(group: Sequence[Refused]) -> str:
    item, reason = group[0]
    example = reason if item in reason else f"{item}: {reason}"
    return example if len(group) == 1 else f"{example} (and {len(group) - 1:,} more like this)"


def _kind(item: str, reason: str) -> str:
    """Replace the item's name and all numbers in a reason: the rest is the same for all reasons of a kind."""
    place = PurePosixPath(item.replace("\\", "/"))
    for name in (item, str(place)):
        reason = reason.replace(name, "*")
    if place.stem:  # the name may have another ending or folder: the name of a text file next to the image
        reason = re.sub(rf"(?<!\w){re.escape(place.stem)}(?=\.\w)", "*", reason)
    return re.sub(r"\d+", "#", reason)
