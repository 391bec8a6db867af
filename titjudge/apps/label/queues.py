"""The questions of one annotator: pairs as a plan asks for them, or images one by one. Everything follows from the answers so far.

Prompts come in random order, and all questions about a prompt come together, so that a long text is read once. Order, sides and
the places of attention checks depend only on the seed and the annotator's name.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from array import array
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.elements import read_marks, why_discarded
from titjudge.apps.label.questions import GOLD, IMAGE, PAIR, RANK, Question, Settled, outcome_of
from titjudge.core.errors import UserError, must_be

Outcomes = Mapping[tuple[str, ...], int]
"""(x, y) -> 1 if x is better, -1 if y is, 0 for a tie; contains both orders of a pair."""

Pairing = tuple[str, str]
_GOLD_EVERY = 12
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class SortState:
    """The questions of one prompt for one annotator.

    Attributes:
        question: The images of the next question; None if there is nothing left to ask.
        at_most: The most questions that can still come.
        tiers: Merge sort only: the images from best to worst, equals together, once everything is asked.
        width: Merge sort only: the most tiers that this part can still have.
    """

    question: tuple[str, ...] | None
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
    """Merge two sorted halves into tiers; if an outcome is missing, its pair is the next question."""
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


def one_by_one(images: Container[str]) -> Plan:
    """Make a plan that asks about each of these images by itself."""

    def plan(order: Sequence[str], outcomes: Outcomes) -> SortState:
        unanswered = [image for image in order if image in images and (image,) not in outcomes]
        return SortState((unanswered[0],) if unanswered else None, len(unanswered))

    return plan


def all_at_once(images: Sequence[str], outcomes: Outcomes) -> SortState:
    """Ask about all images of a prompt together; again if there is an image that was not among them."""
    asked = len(images) > 1 and not any(set(images) <= set(answered) for answered in outcomes)
    return SortState(tuple(images) if asked else None, int(asked))


PLANS: dict[str, Plan] = {"merge": merge_sort, "all": all_pairs}


def plan_of(name: str) -> Plan:
    """Look up a plan by name.

    Raises:
        UserError: It is neither `merge` nor `all`.
    """
    if name not in PLANS:
        raise UserError(must_be("--plan", f"one of {', '.join(PLANS)}", name))
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
    not_better: dict[str, set[str]] = {image: set() for image in images}  # than each: worse images and equals
    for (x, y), outcome in outcomes.items():
        if {x, y} <= not_better.keys():
            for one, other, sign in ((x, y, outcome), (y, x, -outcome)):
                if sign >= 0:
                    not_better[one].add(other)
    for middle, one in itertools.product(images, repeat=2):  # Warshall's algorithm
        if middle in not_better[one]:
            not_better[one] |= not_better[middle]
    if any(outcome > 0 and x in not_better.get(y, ()) for (x, y), outcome in outcomes.items()):
        return None
    follows = {(x, y): (y in not_better[x], x in not_better[y]) for x, y in itertools.combinations(images, 2)}
    return {pair: down - up for pair, (down, up) in follows.items() if down or up}


class Queue:
    """The questions of one annotator, with checks mixed in: a function of the seed, the annotator's name and the answers so far.

    Args:
        dataset: Prompts, images, and the elements to mark in them.
        key: Seed, and name of the annotator.
        plan: Which pair, or which image, of a prompt to ask next.
        share: Share of checks among the questions; None: about 1 in 12.
        settled: Returns the images of the questions about a prompt that need no further answers.
        known: Images with known elements, which are checks.
    """

    def __init__(
        self,
        dataset: LabelingData,
        key: tuple[int, str],
        plan: Plan,
        share: float | None = None,
        settled: Settled = lambda prompt_id: (),
        known: Collection[str] = (),
    ) -> None:
        self._dataset, self._plan, self._key, self._settled = dataset, plan, key, settled
        self._order = {
            group: [image for image in shuffled(dataset.images[group], *key, group) if image not in known]
            for group in shuffled(dataset.images, *key, "prompts")
        }
        self._outcomes: dict[str, dict[tuple[str, ...], int]] = {group: {} for group in self._order}
        self._answered, self._checked = set[tuple[str, ...]](), set[tuple[str, ...]]()  # questions, and checks
        self._identical: dict[str, list[tuple[str, ...]]] = {group: [] for group in self._order}
        for pair in dataset.identical:
            self._identical[dataset.items[pair[0]].prompt_id].append(pair)
        self.refresh()
        gold = [self._asked(GOLD, pair.prompt_id, (pair.a, pair.b)) for pair in shuffled(dataset.gold, *key, "gold")]
        images = [image for group in self._order for image in dataset.images[group] if image in known]
        gold += [
            self._asked(IMAGE, dataset.items[image].prompt_id, (image,)) for image in shuffled(images, *key, "gold")
        ]
        expected = sum(state.at_most for state in self._states.values())
        self._checks = dict(zip(gold, due(len(gold), expected, share, *key), strict=True))

    def refresh(self) -> None:
        """Plan again, after an image has turned out to be unusable."""
        self._states = {group: self._sort(group) for group in self._order}

    def _sort(self, prompt_id: str) -> SortState:
        usable = set(self._dataset.usable(prompt_id))
        ties = *self._settled(prompt_id), *self._identical[prompt_id]
        outcomes = {images: 0 for each in ties for images in (each, each[::-1])} | self._outcomes[prompt_id]
        return self._plan([image for image in self._order[prompt_id] if image in usable], outcomes)

    def take(self, question: Question, text: str) -> None:
        """Add an answer, unless it leaves out elements that have opened since."""
        if question.kind == IMAGE:
            elements = {element.name for element in self._dataset.elements.get(question.images[0], ())}
            if not why_discarded(text) and not elements <= {name for name, _, _ in read_marks(text)}:
                return
        self._set(question, outcome_of(text))

    def give_back(self, question: Question) -> None:
        """Remove the answer to a question."""
        self._set(question, None)

    def _set(self, question: Question, outcome: int | None) -> None:
        """Set the outcome of a question, or remove it (None)."""
        group, images = question.prompt_id, question.images
        is_check = question.kind == GOLD or question in self._checks
        answered = self._checked if is_check else self._answered
        answered.discard(_key(question))
        if outcome is not None:
            answered.add(_key(question))
        if is_check or group not in self._outcomes:
            return
        for pair, sign in ((images, 1), (images[::-1], -1)):
            self._outcomes[group].pop(pair, None)
            if outcome is not None:
                self._outcomes[group][pair] = sign * outcome
        self._states[group] = self._sort(group)

    def question(self) -> Question | None:
        """Return the next question; None if everything is answered."""
        check = self._check(len(self._answered))
        if check is not None:
            return check
        for plan_anew in (False, True):  # items that others had decided may be open again
            if plan_anew:
                self.refresh()
            for group in self._order:
                if self._states[group].question is not None and self._settled(
                    group
                ):  # others may have settled it since
                    self._states[group] = self._sort(group)
                images = self._states[group].question
                if images is not None:
                    return self._asked(PAIR, group, images)
        return self._check(math.inf, IMAGE)  # a gold pair is asked only between others, a known image in any case

    def settled_questions(self) -> Iterator[Question]:
        """List the questions that others have settled and this annotator has not answered."""
        for group, order in self._order.items():
            for images in self._settled(group):
                if images not in self._outcomes[group] and set(images) <= set(order):
                    yield self._asked(PAIR, group, images)

    def _check(self, ordinary: float, kind: str = "") -> Question | None:
        """Find the check that is due after `ordinary` ordinary questions, if it is of a kind."""
        for check, place in self._checks.items():
            open_ = _key(check) not in self._checked and not self._dataset.broken.keys() & set(check.images)
            if place <= ordinary and open_ and kind in ("", check.kind):
                return check
        return None

    def _asked(self, kind: str, prompt_id: str, images: tuple[str, ...]) -> Question:
        """Make a question, with the sides of a pair at random."""
        images = tuple(sorted(images))
        if len(images) == 1:
            return Question(IMAGE, prompt_id, images)
        if self._plan is all_at_once:
            return Question(RANK, prompt_id, tuple(shuffled(images, *self._key, "places", prompt_id)))
        turned = draw(*self._key, "side", kind, prompt_id, *images) & 1
        return Question(kind, prompt_id, images[::-1] if turned else images)

    def upcoming(self, question: Question) -> list[str]:
        """List the images of all questions that can come next, so that the page can load them ahead."""
        images: dict[str, None] = {}
        for outcome in (1, -1, 0):
            self._set(question, outcome)
            if following := self.question():
                images |= dict.fromkeys(following.images)
            self._set(question, None)
        return [image for image in images if image not in question.images]

    def progress(self) -> tuple[int, int]:
        """Count the answers, and the most questions that can follow."""
        remaining, done = sum(state.at_most for state in self._states.values()), len(self._answered)
        unchecked = [(check, place) for check, place in self._checks.items() if _key(check) not in self._checked]
        rest = sum(check.kind == IMAGE or place <= done + remaining for check, place in unchecked)
        return done + len(self._checked), remaining + rest


def _key(question: Question) -> tuple[str, ...]:
    """Name a question, whichever image is on the left: a pair can also be a check."""
    return question.kind, question.prompt_id, *sorted(question.images)
