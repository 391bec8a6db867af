"""The questions of one annotator: the next pair, its sides, and how many are left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.question_order import Outcomes, Pairing, Plan, SortState, draw, due, shuffled
from titjudge.apps.label.store import Vote
from titjudge.core.types import Pair

PairKey = tuple[str, frozenset[str]]  # prompt id, both images


def _key(prompt_id: str, one: str, other: str) -> PairKey:
    return prompt_id, frozenset((one, other))


@dataclass(frozen=True, slots=True)
class Question:
    """A pair of images as it is shown. `kind` is `pair`, or `gold` for an attention check."""

    kind: str
    prompt_id: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """Answers given, the most questions that can follow, prompts done, and prompts in all."""

    done: int
    at_most: int
    prompts_done: int
    prompts: int


class AnnotatorQueue:
    """The questions of one annotator. Order, sides and checks depend only on (`seed`, `annotator`) and the answers.

    Prompts come in random order, and all questions of a prompt come together, so that a long text is read once.

    Args:
        annotator: Name of the annotator.
        material: Prompts, images and gold pairs.
        plan: Which pair of a prompt to ask next.
        seed: Seed of the order, sides and checks.
        share: Share of checks among the questions; None: about 1 in 12.
        settled: Returns the pairs of a prompt that need no further votes.
    """

    def __init__(
        self,
        annotator: str,
        material: LabelingData,
        plan: Plan,
        seed: int,
        share: float | None = None,
        settled: Callable[[str], Collection[Pairing]] = lambda prompt_id: (),
    ) -> None:
        self.annotator, self._material, self._plan = annotator, material, plan
        self._key, self._settled = (seed, annotator), settled
        self._groups = shuffled(material.images, *self._key, "prompts")
        self._order = {group: shuffled(images, *self._key, group) for group, images in material.images.items()}
        self._outcomes: dict[str, dict[tuple[str, str], int]] = {group: {} for group in self._groups}
        self._states = {group: self._sort(group) for group in self._groups}
        self._pairs = 0  # answered questions, without checks
        self._checked: set[PairKey] = set()
        gold = shuffled(material.gold, *self._key, "gold")
        expected = sum(state.at_most for state in self._states.values())
        self._checks = list(zip(due(len(gold), expected, share, *self._key), gold, strict=True))

    def _sort(self, prompt_id: str) -> SortState:
        usable = set(self._material.usable(prompt_id))
        outcomes: Outcomes = self._outcomes[prompt_id]
        if settled := self._settled(prompt_id):
            outcomes = {**{pair: 0 for a, b in settled for pair in ((a, b), (b, a))}, **outcomes}
        return self._plan([image for image in self._order[prompt_id] if image in usable], outcomes)

    def refresh(self) -> None:
        """Plan anew, after an image has turned out to be unusable."""
        self._states = {group: self._sort(group) for group in self._groups}

    def take(self, vote: Vote | Question, outcome: int) -> None:
        """Add an answer: 1 if left is better, -1 if right is, 0 for a tie."""
        if vote.kind == "gold":
            self._checked.add(_key(vote.prompt_id, vote.left, vote.right))
            return
        self._pairs += 1
        if vote.prompt_id in self._outcomes:
            self._outcomes[vote.prompt_id] |= {(vote.left, vote.right): outcome, (vote.right, vote.left): -outcome}
            self._states[vote.prompt_id] = self._sort(vote.prompt_id)

    def give_back(self, vote: Vote | Question) -> None:
        """Remove an answer."""
        if vote.kind == "gold":
            self._checked.discard(_key(vote.prompt_id, vote.left, vote.right))
            return
        self._pairs -= 1
        if vote.prompt_id in self._outcomes:
            self._outcomes[vote.prompt_id].pop((vote.left, vote.right), None)
            self._outcomes[vote.prompt_id].pop((vote.right, vote.left), None)
            self._states[vote.prompt_id] = self._sort(vote.prompt_id)

    def question(self) -> Question | None:
        """Return the next question; None if everything is answered."""
        check = self._check()
        if check is not None:
            return self._sides("gold", check.prompt_id, check.a, check.b)
        for group in self._groups:
            if self._states[group].question is None:
                continue
            if self._settled(group):  # others may have settled it since
                self._states[group] = self._sort(group)
            asked = self._states[group].question
            if asked is not None:
                return self._sides("pair", group, *asked)
        return None

    def settled_questions(self) -> Iterator[Question]:
        """List the pairs that others have settled and this annotator has not answered."""
        for group in self._groups:
            for a, b in self._settled(group):
                if (a, b) not in self._outcomes[group]:
                    yield self._sides("pair", group, a, b)

    def _check(self) -> Pair | None:
        for at, pair in self._checks:
            if at > self._pairs:
                return None
            broken = {pair.a, pair.b} & self._material.broken.keys()
            if not broken and _key(pair.prompt_id, pair.a, pair.b) not in self._checked:
                return pair
        return None

    def _sides(self, kind: str, prompt_id: str, one: str, other: str) -> Question:
        first, second = sorted((one, other))
        if draw(*self._key, "side", kind, prompt_id, first, second) & 1:
            first, second = second, first
        return Question(kind, prompt_id, first, second)

    def upcoming(self, question: Question) -> list[str]:
        """List the images of all questions that can come next, to load them ahead."""
        images: dict[str, None] = {}
        for outcome in (1, -1, 0):
            self.take(question, outcome)
            following = self.question()
            self.give_back(question)
            if following is not None:
                images |= {following.left: None, following.right: None}
        return [image for image in images if image not in (question.left, question.right)]

    def progress(self) -> QueueProgress:
        left = sum(state.at_most for state in self._states.values())
        checks = sum(
            at <= self._pairs + left and _key(pair.prompt_id, pair.a, pair.b) not in self._checked
            for at, pair in self._checks
        )
        finished = sum(state.question is None for state in self._states.values())
        return QueueProgress(self._pairs + len(self._checked), left + checks, finished, len(self._groups))
