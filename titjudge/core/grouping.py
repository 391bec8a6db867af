"""Things sorted into groups, and the means of groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
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
