"""One annotator: from the votes so far to the next question, its sides, and how much is left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from titjudge.core.types import Pair
from titjudge.web.label.dataset import LabelingData
from titjudge.web.label.question_order import Outcomes, Pairing, Plan, SortState, draw, due, shuffled
from titjudge.web.label.store import Vote


@dataclass(frozen=True, slots=True)
class Question:
    """A pair as it is shown. `kind` is `pair`, or `gold` for an attention check."""

    kind: str
    prompt_id: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an annotator is: answers given, the most that can follow, prompts done, prompts in all."""

    done: int
    at_most: int
    prompts_done: int
    prompts: int


class AnnotatorQueue:
    """The questions of one annotator. Order, sides and checks depend on (`seed`, `annotator`) and on the answers alone.

    Prompts come in a random order; a prompt is asked to its end before the next begins, so that a long text is read
    once.
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
        self._pairs = 0  # answers that are no checks
        self._checked: set[tuple[str, frozenset[str]]] = set()
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
        """Plan anew, after an image turned out to be unusable."""
        self._states = {group: self._sort(group) for group in self._groups}

    def take(self, vote: Vote | Question, outcome: int) -> None:
        """Count an answer: 1 when left is better, -1 when right is, 0 for a tie."""
        if vote.kind == "gold":
            self._checked.add((vote.prompt_id, frozenset((vote.left, vote.right))))
            return
        self._pairs += 1
        if vote.prompt_id in self._outcomes:
            self._outcomes[vote.prompt_id] |= {(vote.left, vote.right): outcome, (vote.right, vote.left): -outcome}
            self._states[vote.prompt_id] = self._sort(vote.prompt_id)

    def give_back(self, vote: Vote | Question) -> None:
        """Forget an answer."""
        if vote.kind == "gold":
            self._checked.discard((vote.prompt_id, frozenset((vote.left, vote.right))))
            return
        self._pairs -= 1
        if vote.prompt_id in self._outcomes:
            self._outcomes[vote.prompt_id].pop((vote.left, vote.right), None)
            self._outcomes[vote.prompt_id].pop((vote.right, vote.left), None)
            self._states[vote.prompt_id] = self._sort(vote.prompt_id)

    def question(self) -> Question | None:
        """Find the next question; None when everything is answered."""
        check = self._check()
        if check is not None:
            return self._sides("gold", check.prompt_id, check.a, check.b)
        for group in self._groups:
            if self._states[group].question is None:
                continue
            if self._settled(group):  # by others, since then
                self._states[group] = self._sort(group)
            asked = self._states[group].question
            if asked is not None:
                return self._sides("pair", group, *asked)
        return None

    def settled_questions(self) -> Iterator[Question]:
        """Go through the pairs that others have settled and this annotator has not answered."""
        for group in self._groups:
            for a, b in self._settled(group):
                if (a, b) not in self._outcomes[group]:
                    yield self._sides("pair", group, a, b)

    def _check(self) -> Pair | None:
        for at, pair in self._checks:
            if at > self._pairs:
                return None
            broken = {pair.a, pair.b} & self._material.broken.keys()
            if not broken and (pair.prompt_id, frozenset((pair.a, pair.b))) not in self._checked:
                return pair
        return None

    def _sides(self, kind: str, prompt_id: str, one: str, other: str) -> Question:
        first, second = sorted((one, other))
        if draw(*self._key, "side", kind, prompt_id, first, second) & 1:
            first, second = second, first
        return Question(kind, prompt_id, first, second)

    def upcoming(self, question: Question) -> list[str]:
        """Images of the questions that can come next, whatever is answered now."""
        images: dict[str, None] = {}
        for outcome in (1, -1, 0):
            self.take(question, outcome)
            following = self.question()
            self.give_back(question)
            if following is not None:
                images |= {following.left: None, following.right: None}
        return [image for image in images if image not in (question.left, question.right)]

    def standing(self) -> Standing:
        left = sum(state.at_most for state in self._states.values())
        due = sum(
            at <= self._pairs + left and (pair.prompt_id, frozenset((pair.a, pair.b))) not in self._checked
            for at, pair in self._checks
        )
        finished = sum(state.question is None for state in self._states.values())
        return Standing(self._pairs + len(self._checked), left + due, finished, len(self._groups))
