"""Which pair to ask next: a pure function of the images and of the answers so far.

Because nothing else is remembered, a killed server loses nothing and an undo needs no code of its own: take an answer
away, and the function returns the question that led to it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from titjudge.core.errors import UserError

Outcomes = Mapping[tuple[str, str], int]
"""(x, y) -> 1 when x is better, -1 when y is, 0 for a tie. Both orders of a pair are in it."""

Pairing = tuple[str, str]
_GOLD_EVERY = 12
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class SortState:
    """Where one prompt stands for one annotator.

    `question` is the next pair to ask, None when there is nothing left to ask; `at_most` bounds the questions still
    to come; `tiers` are the images from best to worst, equals together, once everything is asked (merge sort only).
    """

    question: Pairing | None
    at_most: int
    tiers: tuple[tuple[str, ...], ...] = ()
    width: int = 0  # the most tiers this part can still have


Plan = Callable[[Sequence[str], Outcomes], SortState]


def merge_sort(images: Sequence[str], outcomes: Outcomes) -> SortState:
    """Top-down merge sort in which equals join one tier, as TIT paper 3.3 sorts the pairs of a prompt.

    A tier is compared through its first member, so n images need at most n*ceil(log2 n) - 2**ceil(log2 n) + 1
    answers, and ties save further ones. No pair is asked twice.
    """
    if len(images) < 2:
        return SortState(None, 0, tuple((image,) for image in images), len(images))
    middle = (len(images) + 1) // 2
    upper, lower = merge_sort(images[:middle], outcomes), merge_sort(images[middle:], outcomes)
    if upper.question or lower.question:
        width = upper.width + lower.width
        return SortState(upper.question or lower.question, upper.at_most + lower.at_most + width - 1, (), width)
    return _merge(upper.tiers, lower.tiers, outcomes)


def _merge(left: Sequence[tuple[str, ...]], right: Sequence[tuple[str, ...]], outcomes: Outcomes) -> SortState:
    merged: list[tuple[str, ...]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        outcome = outcomes.get((left[i][0], right[j][0]))
        if outcome is None:
            open_tiers = len(left) - i + len(right) - j
            return SortState((left[i][0], right[j][0]), open_tiers - 1, (), len(merged) + open_tiers)
        merged.append(left[i] + right[j] if outcome == 0 else left[i] if outcome > 0 else right[j])
        i, j = i + (outcome >= 0), j + (outcome <= 0)
    tiers = (*merged, *left[i:], *right[j:])
    return SortState(None, 0, tiers, len(tiers))


def all_pairs(images: Sequence[str], outcomes: Outcomes) -> SortState:
    """Every pair once, in an order in which neighbours seldom share an image by more than chance."""
    order, place = _order(tuple(images)), {image: at for at, image in enumerate(images)}
    pairs = ((images[at // len(images)], images[at % len(images)]) for at in order)
    answered = sum(place.get(a, len(place)) < place.get(b, -1) for a, b in outcomes)
    return SortState(next((pair for pair in pairs if pair not in outcomes), None), len(order) - answered)


@functools.lru_cache(maxsize=1024)
def _order(images: tuple[str, ...]) -> array[int]:
    """All pairs of images in their shuffled order, each as one number: shuffling thousands of them at every vote is slow."""
    place = {image: at for at, image in enumerate(images)}
    pairs = shuffled(itertools.combinations(images, 2), "pairs", *images)
    return array("L", (place[a] * len(images) + place[b] for a, b in pairs))


def listed(pairs: Iterable[Pairing]) -> Plan:
    """Make the plan that asks these pairs, in a random order, and no others."""
    order = shuffled(pairs, "pairs")

    def plan(images: Sequence[str], outcomes: Outcomes) -> SortState:
        usable = set(images)
        left = [pair for pair in order if usable.issuperset(pair) and pair not in outcomes]
        return SortState(left[0] if left else None, len(left))

    return plan


PLANS: dict[str, Plan] = {"merge": merge_sort, "all": all_pairs}


def plan_of(name: str) -> Plan:
    """Look up the plan of a name.

    Raises:
        UserError: it is neither `merge` nor `all`.
    """
    if name not in PLANS:
        raise UserError(f"the plan is one of {', '.join(PLANS)}, not '{name}'")
    return PLANS[name]


def draw(*key: object) -> int:
    """Draw a reproducible random integer of 64 bits for a key; the same on every machine and in every version of Python."""
    text = "\x1f".join(str(part) for part in key).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def shuffled(values: Iterable[T], *key: object) -> list[T]:
    """`values` in a random order that depends on `key` alone; a further value leaves the others in their order."""
    return sorted(values, key=lambda value: (draw(*key, value), str(value)))


def due(checks: int, ordinary: int, share: float | None, *key: object) -> list[int]:
    """After how many ordinary questions each check comes: one in every stretch of them, at a random place.

    Args:
        checks: How many there are.
        ordinary: How many questions are none, at most.
        share: Of checks among all questions, at most a third; None: about 1 in 12, more where there is little to ask.
        key: Of the random places.
    """
    every = round(1 / share) - 1 if share else max(3, min(_GOLD_EVERY, ordinary // (checks + 1)))
    return [n * every + 1 + draw(*key, "due", n) % (every - 1) for n in range(checks)]


def implied(outcomes: Outcomes, images: Sequence[str]) -> dict[Pairing, int] | None:
    """Everything that follows from the answers: equals stand together, better than better is better.

    A finished merge sort implies an outcome for every pair of its images; an unfinished one for some.

    Returns:
        (x, y) -> 1, 0 or -1 for x before y in `images`; None when the answers contradict each other.
    """
    boss = {image: image for image in images}

    def root(image: str) -> str:
        while boss[image] != image:
            image = boss[image]
        return image

    inside = [(x, y, outcome) for (x, y), outcome in outcomes.items() if x in boss and y in boss]
    for x, y, outcome in inside:
        if outcome == 0:
            boss[root(x)] = root(y)
    beats: dict[str, set[str]] = {root(image): set() for image in images}
    for x, y, outcome in inside:
        if outcome > 0:
            beats[root(x)].add(root(y))
    below = {image: _reach(image, beats) for image in beats}
    if any(image in found for image, found in below.items()):
        return None
    result: dict[Pairing, int] = {}
    for x, y in itertools.combinations(images, 2):
        first, second = root(x), root(y)
        if first == second:
            result[x, y] = 0
        elif second in below[first]:
            result[x, y] = 1
        elif first in below[second]:
            result[x, y] = -1
    return result


def _reach(start: str, beats: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    open_ = list(beats[start])
    while open_:
        image = open_.pop()
        if image not in found:
            found.add(image)
            open_.extend(beats[image])
    return found
