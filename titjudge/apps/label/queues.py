"""The questions of one annotator: pairs as a plan asks for them, or images one by one. Everything follows from the answers so far.

Prompts come in random order, and all questions about a prompt come together, so that a long text is read once. Order, sides and
the places of attention checks depend only on the seed and the annotator's name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.elements import read_marks
from titjudge.apps.label.question_order import Outcomes, Pairing, Plan, SortState, draw, due, shuffled
from titjudge.apps.label.questions import GOLD, IMAGE, PAIR, Question, Settled
from titjudge.apps.label.votes import outcome_of
from titjudge.core.types import Pair

_IMAGES_AHEAD = 3


class PairQueue:
    """The pairs of one annotator, with gold pairs mixed in.

    Args:
        dataset: Prompts, images and gold pairs.
        key: Seed, and name of the annotator.
        plan: Which pair of a prompt to ask next.
        share: Share of checks among the questions; None: about 1 in 12.
        settled: Returns the pairs of a prompt that need no further votes.
    """

    def __init__(
        self,
        dataset: LabelingData,
        key: tuple[int, str],
        plan: Plan,
        share: float | None = None,
        settled: Settled = lambda prompt_id: (),
    ) -> None:
        self._dataset, self._plan, self._key, self._settled = dataset, plan, key, settled
        self._groups = shuffled(dataset.images, *key, "prompts")
        self._order = {group: shuffled(images, *key, group) for group, images in dataset.images.items()}
        self._identical: dict[str, list[Pairing]] = {group: [] for group in self._groups}
        for pair in dataset.identical:
            self._identical[dataset.items[pair[0]].prompt_id].append(pair)
        self._outcomes: dict[str, dict[Pairing, int]] = {group: {} for group in self._groups}
        self._states = {group: self._sort(group) for group in self._groups}
        self._pairs = 0  # answered questions, without checks
        self._checked: set[tuple[str, frozenset[str]]] = set()
        gold = shuffled(dataset.gold, *key, "gold")
        expected = sum(state.at_most for state in self._states.values())
        self._checks = list(zip(due(len(gold), expected, share, *key), gold, strict=True))

    def _sort(self, prompt_id: str) -> SortState:
        usable = set(self._dataset.usable(prompt_id))
        outcomes: Outcomes = self._outcomes[prompt_id]
        ties = {*self._settled(prompt_id), *self._identical[prompt_id]}
        if ties:
            outcomes = {**{pair: 0 for a, b in ties for pair in ((a, b), (b, a))}, **outcomes}
        return self._plan([image for image in self._order[prompt_id] if image in usable], outcomes)

    def refresh(self) -> None:
        """Plan anew, after an image has turned out to be unusable."""
        self._states = {group: self._sort(group) for group in self._groups}

    def take(self, question: Question, text: str) -> None:
        """Add an answer."""
        if question.kind == GOLD:
            self._checked.add((question.prompt_id, frozenset(question.images)))
            return
        self._pairs += 1
        self._change(question, outcome_of(text))

    def give_back(self, question: Question) -> None:
        """Remove the answer to a question."""
        if question.kind == GOLD:
            self._checked.discard((question.prompt_id, frozenset(question.images)))
            return
        self._pairs -= 1
        self._change(question, None)

    def _change(self, question: Question, outcome: int | None) -> None:
        """Set the outcome of a pair, or remove it (None)."""
        outcomes, (left, right) = self._outcomes.get(question.prompt_id), question.images
        if outcomes is None:
            return
        if outcome is None:
            outcomes.pop((left, right), None)
            outcomes.pop((right, left), None)
        else:
            outcomes |= {(left, right): outcome, (right, left): -outcome}
        self._states[question.prompt_id] = self._sort(question.prompt_id)

    def question(self) -> Question | None:
        """Return the next question; None if everything is answered."""
        check = self._check()
        if check is not None:
            return self._sides(GOLD, check.prompt_id, check.a, check.b)
        for group in self._groups:
            if self._states[group].question is None:
                continue
            if self._settled(group):  # others may have settled it since
                self._states[group] = self._sort(group)
            pair = self._states[group].question
            if pair is not None:
                return self._sides(PAIR, group, *pair)
        return None

    def settled_questions(self) -> Iterator[Question]:
        """List the pairs that others have settled and this annotator has not answered."""
        for group in self._groups:
            for a, b in self._settled(group):
                if (a, b) not in self._outcomes[group]:
                    yield self._sides(PAIR, group, a, b)

    def _check(self) -> Pair | None:
        for place, pair in self._checks:
            if place > self._pairs:
                return None
            broken = {pair.a, pair.b} & self._dataset.broken.keys()
            if not broken and not self._is_checked(pair):
                return pair
        return None

    def _is_checked(self, pair: Pair) -> bool:
        return (pair.prompt_id, frozenset((pair.a, pair.b))) in self._checked

    def _sides(self, kind: str, prompt_id: str, image: str, other: str) -> Question:
        first, second = sorted((image, other))
        if draw(*self._key, "side", kind, prompt_id, first, second) & 1:
            first, second = second, first
        return Question(kind, prompt_id, (first, second))

    def upcoming(self, question: Question) -> list[str]:
        """List the images of all questions that can come next."""
        images: dict[str, None] = {}
        for text in ("left", "right", "tie"):
            self.take(question, text)
            following = self.question()
            self.give_back(question)
            if following is not None:
                images |= dict.fromkeys(following.images)
        return [image for image in images if image not in question.images]

    def progress(self) -> tuple[int, int]:
        """Count the answers, and the most questions that can follow."""
        remaining = sum(state.at_most for state in self._states.values())
        checks = sum(place <= self._pairs + remaining and not self._is_checked(pair) for place, pair in self._checks)
        return self._pairs + len(self._checked), remaining + checks


class ImageQueue:
    """The images that one annotator marks; those with known elements are the checks.

    Args:
        dataset: Prompts, images, and what is marked in them.
        key: Seed, and name of the annotator.
        checks: Images with known elements.
        share: Share of checks among the images; None: about 1 in 12.
        settled: Returns the images of a prompt that need no further marks.
    """

    def __init__(
        self,
        dataset: LabelingData,
        key: tuple[int, str],
        checks: Collection[str],
        share: float | None,
        settled: Settled,
    ) -> None:
        self._dataset, self._settled = dataset, settled
        self._marked: dict[str, set[str]] = {}
        groups = shuffled(dataset.images, *key, "prompts")
        images = [image for group in groups for image in shuffled(dataset.images[group], *key, group)]
        images = [image for image in images if image in dataset.elements]
        check_images = shuffled((image for image in images if image in checks), *key, "gold")
        ordinary = [image for image in images if image not in checks]
        places = [(place, 1, image) for place, image in enumerate(ordinary)]
        places += [
            (place, 0, image)
            for place, image in zip(due(len(check_images), len(ordinary), share, *key), check_images, strict=True)
        ]
        self._order = [image for *_, image in sorted(places)]

    def _question(self, image: str) -> Question:
        return Question(IMAGE, self._dataset.items[image].prompt_id, (image,))

    def _unmarked(self) -> list[str]:
        """List the images with an element that is not marked; for experts one may have opened since."""
        settled = {image for group in self._dataset.images for (image,) in self._settled(group)}
        return [
            image
            for image in self._order
            if image not in settled
            and image not in self._dataset.broken
            and not self._marked.get(image, set()).issuperset(element.name for element in self._dataset.elements[image])
        ]

    def take(self, question: Question, text: str) -> None:
        """Add the marks of an image."""
        self._marked[question.images[0]] = {name for name, _, _ in read_marks(text)}

    def give_back(self, question: Question) -> None:
        """Remove the marks of an image."""
        self._marked.pop(question.images[0], None)

    def question(self) -> Question | None:
        """Return the next image; None if all are marked."""
        unmarked = self._unmarked()
        return self._question(unmarked[0]) if unmarked else None

    def settled_questions(self) -> Iterator[Question]:
        """List the images that others have settled and this annotator has not marked."""
        for group in self._dataset.images:
            for (image,) in self._settled(group):
                if image not in self._marked and image in self._dataset.elements:
                    yield self._question(image)

    def upcoming(self, question: Question) -> list[str]:
        """List the next images, so that the page can load them ahead."""
        return [image for image in self._unmarked() if image not in question.images][:_IMAGES_AHEAD]

    def refresh(self) -> None:
        """Images that cannot be shown are left out whenever a question is asked."""

    def progress(self) -> tuple[int, int]:
        """Count the images that are marked and those that are left."""
        return len(self._marked), len(self._unmarked())
