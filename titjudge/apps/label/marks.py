"""Marks of the elements of images: what a majority decides, and how far people agree."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from titjudge.apps.label.questions import LabelAnswer, Labelling, is_expert
from titjudge.core.numbers import mean
from titjudge.stats.people.votes import PANEL, Rule, krippendorff_alpha

CANNOT_TELL = "cannot tell"
MAJORITY = "majority"
SPLIT = "experts disagree"
OPEN = (Rule.NEEDS_EXPERTS, CANNOT_TELL)
ElementKey = tuple[str, str, str]  # image, element, kind
Tally = Mapping[ElementKey, Counter[str]]


@dataclass(frozen=True, slots=True)
class Mark:
    """The value that one annotator gave to one element."""

    image: str
    element: str
    value: str
    annotator: str
    kind: str
    note: str

    @property
    def key(self) -> ElementKey:
        return self.image, self.element, self.kind


@dataclass(frozen=True, slots=True)
class ElementOutcome:
    """The decision on one element: `votes` of `of` annotators gave `value`, which is None while it is open."""

    image: str
    element: str
    value: str | None
    kind: str
    rule: str
    votes: int | None
    of: int

    @property
    def decided(self) -> bool:
        return self.rule in (MAJORITY, Rule.EXPERTS)


def read_marks(text: str) -> list[tuple[str, str, str]]:
    """Read the marks of an image from the text of an answer: (element, kind, value) of every element."""
    return [(name, kind, value) for name, kind, value in json.loads(text)]


def marks_of(answers: Iterable[LabelAnswer]) -> list[Mark]:
    """List the marks in the order in which they were made."""
    return [
        Mark(answer.question.images[0], element, value, answer.annotator, kind, answer.note)
        for answer in answers
        for element, kind, value in read_marks(answer.text)
    ]


def tally(marks: Iterable[Mark]) -> dict[ElementKey, Counter[str]]:
    """Count the values of each element."""
    votes: dict[ElementKey, Counter[str]] = defaultdict(Counter)
    for mark in marks:
        votes[mark.key][mark.value] += 1
    return votes


def decide(
    votes: Counter[str], annotators: int = PANEL, experts: Counter[str] | None = None, panel: int = PANEL
) -> tuple[str, str | None]:
    """Decide one element: by the majority of the annotators or, if there is none or most cannot tell, of the experts.

    Args:
        votes: How many annotators gave each value.
        annotators: How many annotators there should be at least.
        experts: How many experts gave each value.
        panel: How many experts there should be.

    Returns:
        The rule, and the value; None while missing votes can change it, or if there is no majority.
    """
    value = _majority(votes, annotators)
    if value is not None and value != CANNOT_TELL:
        return MAJORITY, value
    if value is None and votes.total() < annotators:
        return Rule.INCOMPLETE.value, None
    undecided = (Rule.NEEDS_EXPERTS.value, None) if value is None else (CANNOT_TELL, CANNOT_TELL)
    if not experts:
        return undecided
    verdict = _majority(experts, panel)
    if verdict is not None:
        return (CANNOT_TELL if verdict == CANNOT_TELL else Rule.EXPERTS.value), verdict
    return (SPLIT, None) if experts.total() >= panel else undecided


def _majority(votes: Counter[str], people: int) -> str | None:
    value, most = max(votes.items(), key=lambda item: item[1])
    return value if 2 * most > max(people, votes.total()) else None


def decide_elements(labelling: Labelling, annotators: int | None = None) -> list[ElementOutcome]:
    """Decide every element that an annotator who counts has marked, in the order of the first mark.

    Args:
        labelling: The content of the store.
        annotators: How many marks an element should have; None: as served, or three.
    """
    marks = marks_of(labelling.standing)
    votes = tally(mark for mark in marks if labelling.counts(mark.annotator))
    experts = tally(mark for mark in marks if is_expert(mark.annotator))
    outcomes = []
    for key, count in votes.items():
        panel, (image, element, kind) = experts.get(key), key
        rule, value = decide(count, annotators or labelling.enough or PANEL, panel, labelling.panel)
        deciding = panel if panel and rule == Rule.EXPERTS else count
        votes_for = deciding[value] if value else None
        outcomes.append(ElementOutcome(image, element, value, kind, rule, votes_for, deciding.total()))
    return outcomes


def agreement_by_kind(
    votes: Tally, images: Mapping[str, tuple[str, str]], scale: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """Compute Krippendorff's alpha over all elements, and over those of each kind.

    Args:
        votes: How many people gave each value to each element.
        images: Prompt id and generator of each image.
        scale: All values in order, if they are equally spaced numbers; else alpha is nominal.
    """
    by_kind = {}
    for chosen in ("all", *dict.fromkeys(kind for _, _, kind in votes)):
        keys = [key for key in votes if chosen in ("all", key[2])]
        values = list(scale) or sorted({value for key in keys for value in votes[key]})
        alpha = krippendorff_alpha(
            [[votes[key][value] for value in values] for key in keys],
            groups=[images[image][0] if image in images else image for image, _, _ in keys],
            interval_scale=bool(scale),
        )
        by_kind[chosen] = {
            "alpha": alpha.alpha,
            "interval": list(alpha.interval) if alpha.interval else None,
            "elements": alpha.pairs,
            "reason": alpha.reason.replace("pairs", "elements").replace("pair", "element").replace("vote", "mark"),
        }
    return by_kind


def mean_ratings(votes: Tally) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Compute the mean rating of each pillar by image, and their mean; returns the columns and a row for each image."""
    pillars = tuple(dict.fromkeys(element for _, element, _ in votes))
    means: dict[str, dict[str, float]] = defaultdict(dict)
    people: dict[str, int] = {}
    for (image, element, _), count in votes.items():
        means[image][element] = sum(int(value) * number for value, number in count.items()) / count.total()
        people[image] = count.total()
    rows = [
        (image, *(rated[pillar] for pillar in pillars), mean(rated.values()), people[image])
        for image, rated in means.items()
    ]
    return ("image", *pillars, "score", "annotators"), rows


def share_as_most_others(marks: Iterable[Mark], votes: Tally, *, counted: bool) -> float | None:
    """Compute the share of an annotator's marks that are what more than half of the others say; None without any.

    Args:
        marks: The marks of the annotator.
        votes: The marks of all who count.
        counted: Whether the annotator is among them.
    """
    alike = []
    for mark in marks:
        others = votes.get(mark.key, Counter()) - Counter([mark.value] if counted else [])
        if others and 2 * max(others.values()) > others.total():
            alike.append(2 * others[mark.value] > others.total())
    return mean(alike)
