"""Which pair to ask next: a pure function of the images and the answers so far.

Since no other state is kept, a killed server loses nothing, and an undo only removes an answer: the function then returns
the same question again.
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
"""(x, y) -> 1 if x is better, -1 if y is, 0 for a tie; contains both orders of a pair."""

Pairing = tuple[str, str]
_GOLD_EVERY = 12
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class SortState:
    """The questions of one prompt for one annotator.

    Attributes:
        question: The next pair to ask; None if there is nothing left to ask.
        at_most: The most questions that can still come.
        tiers: Merge sort only: the images from best to worst, equals together, once everything is asked.
        width: Merge sort only: the most tiers that this part can still have.
    """

    question: Pairing | None
    at_most: int
    tiers: tuple[tuple[str, ...], ...] = ()
    width: int = 0


Plan = Callable[[Sequence[str], Outcomes], SortState]


def merge_sort(images: Sequence[str], outcomes: Outcomes) -> SortState:
    """Sort top-down by merging, equals in one tier, as section 3.3 of the TIT paper sorts the images of a prompt.

    A tier is compared by its first image, so n images need at most n*ceil(log2 n) - 2**ceil(log2 n) + 1
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
    """Merge two sorted halves into tiers; where an outcome is missing, its pair is the next question."""
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
    """Ask every pair once, in random order."""
    order, place = _order(tuple(images)), {image: number for number, image in enumerate(images)}
    pairs = ((images[code // len(images)], images[code % len(images)]) for code in order)
    answered = sum(place.get(a, len(place)) < place.get(b, -1) for a, b in outcomes)
    return SortState(next((pair for pair in pairs if pair not in outcomes), None), len(order) - answered)


@functools.lru_cache(maxsize=1024)
def _order(images: tuple[str, ...]) -> array[int]:
    """List all pairs in random order, each as one number; cached, since shuffling thousands at every vote is slow."""
    place = {image: number for number, image in enumerate(images)}
    pairs = shuffled(itertools.combinations(images, 2), "pairs", *images)
    return array("L", (place[a] * len(images) + place[b] for a, b in pairs))


def listed(pairs: Iterable[Pairing]) -> Plan:
    """Make a plan that asks only these pairs, in random order."""
    order = shuffled(pairs, "pairs")

    def plan(images: Sequence[str], outcomes: Outcomes) -> SortState:
        usable = set(images)
        unanswered = [pair for pair in order if usable.issuperset(pair) and pair not in outcomes]
        return SortState(unanswered[0] if unanswered else None, len(unanswered))

    return plan


PLANS: dict[str, Plan] = {"merge": merge_sort, "all": all_pairs}


def plan_of(name: str) -> Plan:
    """Look up a plan by name.

    Raises:
        UserError: It is neither `merge` nor `all`.
    """
    if name not in PLANS:
        raise UserError(f"the plan is one of {', '.join(PLANS)}, not '{name}'")
    return PLANS[name]


def draw(*key: object) -> int:
    """Hash a key to a random integer of 64 bits, the same on every machine and in every version of Python."""
    text = "\x1f".join(str(part) for part in key).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def shuffled(values: Iterable[T], *key: object) -> list[T]:
    """Shuffle values in an order that depends only on `key`; adding a value does not reorder the others."""
    return sorted(values, key=lambda value: (draw(*key, value), str(value)))


def due(checks: int, ordinary: int, share: float | None, *key: object) -> list[int]:
    """Choose after how many ordinary questions each check comes: one in each interval, at a random place.

    Args:
        checks: Number of checks.
        ordinary: The most ordinary questions that can come.
        share: Share of checks among all questions, at most a third; None: about 1 in 12, more if there are few questions.
        key: Key of the random places.
    """
    every = round(1 / share) - 1 if share else max(3, min(_GOLD_EVERY, ordinary // (checks + 1)))
    return [n * every + 1 + draw(*key, "due", n) % (every - 1) for n in range(checks)]


def implied(outcomes: Outcomes, images: Sequence[str]) -> dict[Pairing, int] | None:
    """Derive all outcomes that follow from the answers, since equality and preference are transitive.

    A finished merge sort implies an outcome for every pair of its images, an unfinished one for some.

    Returns:
        (x, y) -> 1, 0 or -1 for x before y in `images`; None if the answers contradict each other.
    """
    parent = {image: image for image in images}

    def root(image: str) -> str:
        while parent[image] != image:
            image = parent[image]
        return image

    known_outcomes = [(x, y, outcome) for (x, y), outcome in outcomes.items() if x in parent and y in parent]
    for x, y, outcome in known_outcomes:
        if outcome == 0:
            parent[root(x)] = root(y)
    beats: dict[str, set[str]] = {root(image): set() for image in images}
    for x, y, outcome in known_outcomes:
        if outcome > 0:
            beats[root(x)].add(root(y))
    worse_images = {image: _reach(image, beats) for image in beats}
    if any(image in worse for image, worse in worse_images.items()):
        return None
    result: dict[Pairing, int] = {}
    for x, y in itertools.combinations(images, 2):
        first, second = root(x), root(y)
        if first == second:
            result[x, y] = 0
        elif second in worse_images[first]:
            result[x, y] = 1
        elif first in worse_images[second]:
            result[x, y] = -1
    return result


def _reach(start: str, beats: Mapping[str, set[str]]) -> set[str]:
    """List everything that is worse than `start`, directly or not."""
    reached: set[str] = set()
    waiting = list(beats[start])
    while waiting:
        image = waiting.pop()
        if image not in reached:
            reached.add(image)
            waiting.extend(beats[image])
    return reached
