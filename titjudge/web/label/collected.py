"""What a store of labels comes to: whose votes count, what they decide, and what is left for experts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from titjudge.core.types import Pair
from titjudge.stats.votes import PANEL, Rule, VoteSummary, aggregate_votes
from titjudge.stats.votes import Vote as Choice
from titjudge.web.label import reliability
from titjudge.web.label.aggregate import Cast, casts
from titjudge.web.label.elements import CANNOT_TELL, MODES
from titjudge.web.label.reliability import Reliability
from titjudge.web.label.store import Store, Submission, Vote, is_expert, standing

MAJORITY = "majority"
RATING = "rating"
SPLIT = "experts disagree"
_OPEN = (Rule.NEEDS_EXPERTS, CANNOT_TELL)
T = TypeVar("T")
ElementKey = tuple[str, str, str]  # image, element, kind


@dataclass(frozen=True, slots=True)
class ElementMark:
    """What one annotator says of one element."""

    image: str
    element: str
    kind: str
    value: str
    annotator: str
    note: str


@dataclass(frozen=True, slots=True)
class ElementOutcome:
    """What the marks of one element add up to: `votes` of `of` say `value`, None where there is none (yet)."""

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
    """All that a store holds, read at once.

    Attributes:
        annotators: How many links were served; `panel`, how many of them for experts.
        enough: With how many votes an item is asked no more, or with fewer that settle it; 0: everybody was asked.
        least: Annotators whose share of checks that are right is certainly lower do not count.
        votes: Every vote on a pair; `submissions`: all marks of images. Both have those taken back, and those of experts.
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
        """How reliable each annotator is, experts left out."""
        if self.of_pairs:
            standing_votes = (vote for vote in self.votes if vote.undone_at is None and not is_expert(vote.annotator))
            return reliability.of_votes(standing_votes, self.gold, self.least)
        rows = (row for row in standing_rows(self.submissions) if not is_expert(row.annotator))
        return reliability.of_marks(rows, self.known, self.least)

    @property
    def early(self) -> int:
        """How many votes an item can have before any stops being asked: only these tell agreement without a bias."""
        return (-(-2 * self.enough // 3) if self.of_pairs else self.enough // 2 + 1) if self.enough else 0

    @property
    def early_note(self) -> tuple[str, ...]:
        """Say so, where items stop."""
        what = "pair" if self.of_pairs else "element"
        told = (
            f"agreement: over the first {self.early} votes of each {what}; more were asked for where these left it open"
        )
        return (told,) if self.enough else ()

    @property
    def left_out(self) -> list[str]:
        """Say of every annotator who does not count, in a line each, why not."""
        counts = Counter(row.annotator for row in (self.votes if self.of_pairs else self.submissions))
        what = "votes" if self.of_pairs else "images"
        return [
            one.line(name, f"{counts[name]:,} {what}") for name, one in self.people.items() if name in self._stopped
        ]

    def counts(self, annotator: str) -> bool:
        """Tell whether the votes of an annotator count: not those of experts, nor of who is not reliable."""
        return annotator not in self._stopped and not is_expert(annotator)

    @cached_property
    def _stopped(self) -> set[str]:
        return {name for name, one in self.people.items() if one.stopped}


def without_experts(collected: Collected) -> Collected:
    """Take away what experts said: what is open then is theirs to decide, whether they have or not."""
    votes = [vote for vote in collected.votes if not is_expert(vote.annotator)]
    rows = [row for row in collected.submissions if not is_expert(row.annotator)]
    return replace(collected, votes=votes, submissions=rows)


def collect(path: Path) -> Collected:
    """Read a store.

    Raises:
        UserError: There is none.
    """
    store = Store(path, create=False)
    try:
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
    finally:
        store.close()


# -- pairs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairOutcomes:
    """Votes on pairs that count, by how many people, how many there should be of each pair, and what they come to.

    `early` are those that tell agreement: all, or the first of each pair where pairs stop being asked.
    """

    found: list[Cast]
    early: list[Cast]
    voters: int
    expected: int
    summary: VoteSummary


def decide_pairs(collected: Collected, annotators: int | None = None, verdicts: Sequence[Choice] = ()) -> PairOutcomes:
    """Apply the rules of A.11, with the votes of experts and their `verdicts` from a file.

    Args:
        collected: The store.
        annotators: How many votes a pair should have; None: as served, or else one of everybody who has a link (or has voted)
            and counts.
        verdicts: Further votes of experts.
    """
    votes = [vote for vote in collected.votes if vote.undone_at is None]
    counted = [vote for vote in votes if vote.kind == "pair" and collected.counts(vote.annotator)]
    found = casts(counted, collected.images, sorting=collected.plan == "merge")
    experts = casts((vote for vote in votes if is_expert(vote.annotator)), collected.images, sorting=False)
    voters = len({cast.choice.annotator for cast in found})
    expected = annotators or collected.enough or max(collected.annotators - len(collected.left_out), voters)
    summary = aggregate_votes(
        [cast.choice for cast in found],
        [*verdicts, *(cast.choice for cast in experts)],
        annotators=expected,
        panel=collected.panel,
    )
    early = found
    if collected.enough:
        first = _first(counted, lambda vote: (vote.prompt_id, *sorted((vote.left, vote.right))), collected.early)
        early = casts(first, collected.images, sorting=False)
        alone = aggregate_votes([cast.choice for cast in early])
        summary = replace(summary, agreement=alone.agreement, ceiling=alone.ceiling)
    return PairOutcomes(found, early, voters, expected, summary)


def _first(values: Iterable[T], key: Callable[[T], Hashable], number: int) -> list[T]:
    """Keep the first values of each key, in their order."""
    seen: Counter[Hashable] = Counter()
    kept = []
    for value in values:
        seen[key(value)] += 1
        if seen[key(value)] <= number:
            kept.append(value)
    return kept


# -- elements ----------------------------------------------------------------------------------------------------------


def standing_rows(rows: Iterable[Submission]) -> list[Submission]:
    """Keep the submissions that stand, in the order in which they were made."""
    by_annotator: dict[str, list[Submission]] = defaultdict(list)
    for row in rows:
        by_annotator[row.annotator].append(row)
    kept = (row for of in by_annotator.values() for row in standing(of).values())
    return sorted(kept, key=lambda row: row.id)


def marks_of(rows: Iterable[Submission]) -> list[ElementMark]:
    """List the marks that stand, in the order in which they were made."""
    return [
        ElementMark(row.image, element, kind, value, row.annotator, row.note)
        for row in standing_rows(rows)
        for element, kind, value in row.marks or ()
    ]


def tally(marks: Iterable[ElementMark]) -> dict[ElementKey, Counter[str]]:
    """Count what is said of each element."""
    votes: dict[ElementKey, Counter[str]] = defaultdict(Counter)
    for mark in marks:
        votes[mark.image, mark.element, mark.kind][mark.value] += 1
    return votes


def decide(
    votes: Counter[str], annotators: int = PANEL, experts: Counter[str] | None = None, panel: int = PANEL
) -> tuple[str, str | None]:
    """Take the value that more than half of the annotators say, `annotators` being how many there should be at least.

    Where there is none, or most cannot tell, the majority of the experts decides.

    Returns:
        The rule, and the value; None while people are missing and can still change it, or where there is no majority.
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
    """Decide every element that somebody who counts has marked, in the order of the first mark.

    Args:
        collected: The store.
        annotators: How many marks an element should have; None: as served, or else three.
    """
    marks = marks_of(collected.submissions)
    votes = tally(mark for mark in marks if collected.counts(mark.annotator))
    experts = tally(mark for mark in marks if is_expert(mark.annotator))
    found = []
    for key, count in votes.items():
        panel = experts.get(key)
        rule, value = decide(count, annotators or collected.enough or PANEL, panel, collected.panel)
        of = panel if panel and rule == Rule.EXPERTS else count
        found.append(ElementOutcome(*key, value, rule, of[value] if value else None, of.total()))
    return found


def early_marks(collected: Collected, marks: Sequence[ElementMark]) -> Sequence[ElementMark]:
    """Keep the marks that tell agreement: all, or the first of each element where elements stop being asked."""
    if not collected.enough or collected.plan == RATING:  # ratings stop at a number that does not depend on them
        return marks
    return _first(marks, lambda mark: (mark.image, mark.element), collected.early)


def open_elements(collected: Collected, annotators: int | None = None) -> dict[str, set[str]]:
    """List the elements that are for experts by image, those that experts have marked included."""
    found: Mapping[str, set[str]] = defaultdict(set)
    for outcome in decide_elements(without_experts(collected), annotators):
        if outcome.rule in _OPEN:
            found[outcome.image].add(outcome.element)
    return dict(found)
