"""`label experts`: show the items that annotators leave open, with their answers, to a panel that decides them (A.11).

An expert votes as annotators do, under a name that starts with `expert-`, and does not see the votes of other experts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from titjudge.apps.label.annotator import AnnotatorQueue
from titjudge.apps.label.collected import (
    RATING,
    Collected,
    decide_elements,
    decide_pairs,
    marks_of,
    open_elements,
    tally,
    without_experts,
)
from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.element_service import ElementService
from titjudge.apps.label.elements import Element
from titjudge.apps.label.question_order import listed, shuffled
from titjudge.apps.label.service import LabelingService
from titjudge.apps.label.store import EXPERT, Store, Submission, current_submissions
from titjudge.core.errors import UserError

_SIDES = {"a": "left", "b": "right"}
_TURNED = {"a": "right", "b": "left"}


class ExpertPairs(LabelingService):
    """Asks experts about the pairs that no rule decides.

    Raises:
        UserError: No pair is open.
    """

    role = EXPERT

    def __init__(
        self, material: LabelingData, store: Store, collected: Collected, *, experts: int, annotators: int | None
    ) -> None:
        outcomes = decide_pairs(without_experts(collected), annotators)
        pairs = outcomes.summary.needs_experts
        present = [(pair.a, pair.b) for pair in pairs if pair.a in material.items and pair.b in material.items]
        if not present:
            raise _nothing_open(collected, outcomes.summary.rules, len(pairs))
        super().__init__(material, store, plan=collected.plan, annotators=experts, seed=collected.seed)
        self.open = len(present)
        self._plan, self._gold = listed(present), []
        wanted = {frozenset(pair) for pair in present}
        notes = {
            (vote.annotator, frozenset((vote.left, vote.right))): vote.note
            for vote in collected.votes
            if vote.undone_at is None and vote.note
        }
        self._said: dict[frozenset[str], list[tuple[str, str, str]]] = defaultdict(list)
        for cast in outcomes.votes:
            pair = frozenset((cast.choice.a, cast.choice.b))
            if pair in wanted and cast.direct:
                note = notes.get((cast.choice.annotator, pair), "")
                self._said[pair].append((cast.choice.a, cast.choice.choice, note))

    def _state(self, annotator: str, turn: int, queue: AnnotatorQueue) -> dict[str, Any]:
        state = super()._state(annotator, turn, queue) | {"expert": True}
        if (asked := queue.question()) is not None and state["pair"]:
            said = [
                ((_SIDES if a == asked.left else _TURNED).get(choice, choice), note)
                for a, choice, note in self._said[frozenset((asked.left, asked.right))]
            ]
            counts = Counter(answer for answer, _ in said)
            state["pair"]["said"] = {answer: counts[answer] for answer in ("left", "tie", "both_bad", "right")}
            notes = [pair for pair in said if pair[1]]
            state["pair"]["notes"] = shuffled(notes, self._seed, annotator, asked.left, asked.right)
        return state


class ExpertElements(ElementService):
    """Asks experts about the elements without a majority, and those that most annotators cannot tell.

    Raises:
        UserError: No element is open.
    """

    role = EXPERT

    def __init__(
        self,
        material: LabelingData,
        store: Store,
        elements: Mapping[str, Sequence[Element]],
        collected: Collected,
        *,
        experts: int,
        annotators: int | None,
    ) -> None:
        if collected.plan == RATING:
            raise UserError(f"{collected.path}: ratings come out as means, so nothing is open for experts")
        wanted = open_elements(collected, annotators)
        present = {}
        for image in wanted.keys() & elements.keys():
            names = wanted[image]
            present[image] = tuple(
                replace(element, needs=tuple(name for name in element.needs if name in names))
                for element in elements[image]
                if element.name in names
            )
        if not any(present.values()):
            rules = Counter(outcome.rule for outcome in decide_elements(collected, annotators))
            raise _nothing_open(collected, rules, len(wanted))
        super().__init__(material, store, elements, mode=collected.plan, annotators=experts, seed=collected.seed)
        self.open = sum(map(len, present.values()))
        self._elements, self._known = present, {}
        counted = [row for row in current_submissions(collected.submissions) if collected.counts(row.annotator)]
        self._votes = tally(marks_of(counted))
        self._notes: dict[str, list[str]] = defaultdict(list)
        for row in counted:
            if row.note:
                self._notes[row.image].append(row.note)

    def _left(self, annotator: str, rows: Sequence[Submission]) -> list[str]:
        """List the images with an open element that the expert has not marked, also those that have opened since."""
        done = {row.image: {name for name, _, _ in row.marks or ()} for row in current_submissions(rows)}
        return [
            image
            for image in self._order(annotator)
            if any(element.name not in done.get(image, ()) for element in self._elements[image])
        ]

    def state(self, annotator: str) -> dict[str, Any]:
        """Describe the image as to annotators, with what they said."""
        return super().state(annotator) | {"expert": True}

    def _sheet(self, image: str, rows: Sequence[Submission]) -> dict[str, Any]:
        sheet = super()._sheet(image, rows)
        for shown, element in zip(sheet["elements"], self._elements[image], strict=True):
            votes = self._votes[image, element.name, element.kind]
            shown["said"] = {value: votes[value] for value in element.values}
        sheet["notes"] = shuffled(self._notes[image], self._seed, image)
        return sheet


def _nothing_open(collected: Collected, rules: Mapping[str, int], elsewhere: int) -> UserError:
    """Make the error for a store without open items; `elsewhere` counts those of other data."""
    rules_text = ", ".join(f"{number:,} {rule}" for rule, number in rules.items() if number)
    if elsewhere:
        return UserError(f"{collected.path}: what is open for experts ({rules_text}) is not of these data")
    return UserError(f"{collected.path}: nothing is open for experts ({rules_text or 'nobody has voted'})")
