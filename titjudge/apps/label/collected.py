"""Evaluate a store of labels: whose votes count, what they decide, and what is left for experts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from titjudge.apps.label import reliability
from titjudge.apps.label.aggregate import Cast, casts
from titjudge.apps.label.elements import CANNOT_TELL, MODES
from titjudge.apps.label.reliability import Reliability
from titjudge.apps.label.store import Store, Submission, Vote, current_submissions, is_expert
from titjudge.core.types import Pair
from titjudge.stats.people.votes import PANEL, Rule, VoteSummary, aggregate_votes
from titjudge.stats.people.votes import Vote as Choice

MAJORITY = "majority"
RATING = "rating"
SPLIT = "experts disagree"
_OPEN = (Rule.NEEDS_EXPERTS, CANNOT_TELL)
T = TypeVar("T")
ElementKey = tuple[str, str, str]  # image, element, kind


@dataclass(frozen=True, slots=True)
class ElementMark:
    """The value that one annotator gave to one element."""

    image: str
    element: str
    kind: str
    value: str
    annotator: str
    note: str


@dataclass(frozen=True, slots=True)
class ElementOutcome:
    """The decision on one element: `votes` of `of` annotators gave `value`, which is None while it is open."""

    image: str
    element: str
    kind: str
    value: str | None
    rule: str
    votes: int | None
    of: int

    @property
    def decided(self) -> bool:
        return self.rule in (MAJORITY, Rule.EXPERTS)


@dataclass(frozen=True)
class Collected:
    """The content of a store.

    Attributes:
        plan: Plan of the pairs (merge, all), or mode of the marks (yes-no, facets, graph, rating).
        annotators: Number of links for annotators; `panel` is that for experts.
        enough: Number of votes after which an item is no longer asked, or fewer if they settle it; 0: everybody is asked.
        least: Annotators whose share of right checks is certainly lower do not count.
        votes: All votes on pairs, also those taken back and those of experts.
        submissions: All marks of images, likewise.
    """

    path: Path
    plan: str
    seed: int
    annotators: int
    panel: int
    enough: int
    least: float
    prompts: dict[str, str]
    images: dict[str, tuple[str, str]]
    gold: list[Pair]
    known: dict[str, dict[str, str]]
    votes: list[Vote]
    submissions: list[Submission]

    @property
    def of_pairs(self) -> bool:
        return self.plan not in MODES

    @cached_property
    def people(self) -> dict[str, Reliability]:
        """How reliable each annotator is, without experts."""
        if self.of_pairs:
            votes = (vote for vote in self.votes if vote.undone_at is None and not is_expert(vote.annotator))
            return reliability.of_votes(votes, self.gold, self.least)
        rows = (row for row in current_submissions(self.submissions) if not is_expert(row.annotator))
        return reliability.of_marks(rows, self.known, self.least)

    @property
    def early(self) -> int:
        """Number of first votes of each item that every item gets: agreement over these alone is unbiased by stopping."""
        return (-(-2 * self.enough // 3) if self.of_pairs else self.enough // 2 + 1) if self.enough else 0

    @property
    def early_note(self) -> tuple[str, ...]:
        """A note that agreement is measured over the early votes, if items stop being asked."""
        what = "pair" if self.of_pairs else "element"
        note = (
            f"agreement: over the first {self.early} votes of each {what}; more were asked for where these left it open"
        )
        return (note,) if self.enough else ()

    @property
    def left_out(self) -> list[str]:
        """A line for each annotator who does not count, with the reason."""
        counts = Counter(row.annotator for row in (self.votes if self.of_pairs else self.submissions))
        what = "votes" if self.of_pairs else "images"
        return [
            one.line(name, f"{counts[name]:,} {what}") for name, one in self.people.items() if name in self._stopped
        ]

    def counts(self, annotator: str) -> bool:
        """Tell whether the votes of an annotator count: those of experts and of unreliable annotators do not."""
        return annotator not in self._stopped and not is_expert(annotator)

    @cached_property
    def _stopped(self) -> set[str]:
        return {name for name, one in self.people.items() if one.stopped}


def without_experts(collected: Collected) -> Collected:
    """Remove the votes of experts, to find the items that are open for experts, also those they have decided."""
    votes = [vote for vote in collected.votes if not is_expert(vote.annotator)]
    rows = [row for row in collected.submissions if not is_expert(row.annotator)]
    return replace(collected, votes=votes, submissions=rows)


def collect(path: Path) -> Collected:
    """Read a store.

    Raises:
        UserError: There is none.
    """
    with closing(Store(path, create=False)) as store:
        return Collected(
            path=path,
            plan=store.setting("plan") or "all",
            seed=int(store.setting("seed") or 0),
            annotators=int(store.setting("annotators") or 0),
            panel=int(store.setting("experts") or PANEL),
            enough=int(store.setting("votes") or 0),
            least=float(store.setting("gold_least") or 0),
            prompts=store.prompts(),
            images=store.images(),
            gold=store.gold(),
            known=store.known(),
            votes=store.votes(undone=True),
            submissions=store.submissions(),
        )


# -- pairs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairOutcomes:
    """The votes on pairs, and what they decide.

    Attributes:
        votes: The votes that count, those that a sort implies included.
        early: The cast votes over which agreement is measured: all, or the first of each pair if pairs stop being asked.
        expected: Number of votes that each pair should have.
        summary: The decisions.
    """

    votes: list[Cast]
    early: list[Cast]
    expected: int
    summary: VoteSummary


def decide_pairs(collected: Collected, annotators: int | None = None, verdicts: Sequence[Choice] = ()) -> PairOutcomes:
    """Decide pairs by the rules of A.11 of the TIT paper.

    Args:
        collected: The store.
        annotators: How many votes a pair should have; None: as served, or else one from each annotator who counts.
        verdicts: Votes of experts from a file, in addition to those in the store.
    """
    given = [vote for vote in collected.votes if vote.undone_at is None]
    counted = [vote for vote in given if vote.kind == "pair" and collected.counts(vote.annotator)]
    votes = casts(counted, collected.images, sorting=collected.plan == "merge")
    experts = casts((vote for vote in given if is_expert(vote.annotator)), collected.images, sorting=False)
    voters = len({cast.choice.annotator for cast in votes})
    expected = annotators or collected.enough or max(collected.annotators - len(collected.left_out), voters)
    summary = aggregate_votes(
        [cast.choice for cast in votes if cast.direct],
        [*verdicts, *(cast.choice for cast in experts)],
        implied=[cast.choice for cast in votes if not cast.direct],
        annotators=expected,
        panel=collected.panel,
    )
    early = [cast for cast in votes if cast.direct]
    if collected.enough:
        first = _first(counted, lambda vote: (vote.prompt_id, *sorted((vote.left, vote.right))), collected.early)
        early = casts(first, collected.images, sorting=False)
        alone = aggregate_votes([cast.choice for cast in early])
        summary = replace(summary, agreement=alone.agreement, ceiling=alone.ceiling)
    return PairOutcomes(votes, early, expected, summary)


def _first(values: Iterable[T], key: Callable[[T], Hashable], number: int) -> list[T]:
    """Keep the first `number` values of each key, in order."""
    seen: Counter[Hashable] = Counter()
    kept = []
    for value in values:
        seen[key(value)] += 1
        if seen[key(value)] <= number:
            kept.append(value)
    return kept


# -- elements ----------------------------------------------------------------------------------------------------------


def marks_of(rows: Iterable[Submission]) -> list[ElementMark]:
    """List the current marks in the order in which they were made."""
    return [
        ElementMark(row.image, element, kind, value, row.annotator, row.note)
        for row in current_submissions(rows)
        for element, kind, value in row.marks or ()
    ]


def tally(marks: Iterable[ElementMark]) -> dict[ElementKey, Counter[str]]:
    """Count the values of each element."""
    votes: dict[ElementKey, Counter[str]] = defaultdict(Counter)
    for mark in marks:
        votes[mark.image, mark.element, mark.kind][mark.value] += 1
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
    left = (Rule.NEEDS_EXPERTS.value, None) if value is None else (CANNOT_TELL, CANNOT_TELL)
    if not experts:
        return left
    verdict = _majority(experts, panel)
    if verdict is not None:
        return (CANNOT_TELL if verdict == CANNOT_TELL else Rule.EXPERTS.value), verdict
    return (SPLIT, None) if experts.total() >= panel else left


def _majority(votes: Counter[str], people: int) -> str | None:
    value, most = max(votes.items(), key=lambda item: item[1])
    return value if 2 * most > max(people, votes.total()) else None


def decide_elements(collected: Collected, annotators: int | None = None) -> list[ElementOutcome]:
    """Decide every element that an annotator who counts has marked, in the order of the first mark.

    Args:
        collected: The store.
        annotators: How many marks an element should have; None: as served, or three.
    """
    marks = marks_of(collected.submissions)
    votes = tally(mark for mark in marks if collected.counts(mark.annotator))
    experts = tally(mark for mark in marks if is_expert(mark.annotator))
    outcomes = []
    for key, count in votes.items():
        panel = experts.get(key)
        rule, value = decide(count, annotators or collected.enough or PANEL, panel, collected.panel)
        of = panel if panel and rule == Rule.EXPERTS else count
        outcomes.append(ElementOutcome(*key, value, rule, of[value] if value else None, of.total()))
    return outcomes


def early_marks(collected: Collected, marks: Sequence[ElementMark]) -> Sequence[ElementMark]:
    """Keep the marks over which agreement is measured: all, or the first of each element if elements stop being asked."""
    # Ratings stop at a number that does not depend on their values.
    if not collected.enough or collected.plan == RATING:
        return marks
    return _first(marks, lambda mark: (mark.image, mark.element), collected.early)


def open_elements(collected: Collected, annotators: int | None = None) -> dict[str, set[str]]:
    """List the elements that are left to experts, by image; also those that experts have already marked."""
    by_image: dict[str, set[str]] = defaultdict(set)
    for outcome in decide_elements(without_experts(collected), annotators):
        if outcome.rule in _OPEN:
            by_image[outcome.image].add(outcome.element)
    return dict(by_image)
