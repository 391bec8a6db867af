"""Convert answers on pairs into what the rules of A.11 count: one vote for each annotator and pair of a prompt.

A merge sort asks few pairs and implies the others: x before y and y before z imply x before z. A.11 counts votes that were
cast. Implied votes are kept apart: they decide only pairs that too few people were shown, by a separate rule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from titjudge.apps.label.questions import PAIR, LabelAnswer, Labelling, is_expert, outcome_of
from titjudge.apps.label.queues import Outcomes, implied, merge_sort
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.types import Note, Table
from titjudge.stats.people.votes import BOTH_BAD, Rule, Vote, VoteOutcome, VoteSummary, aggregate_votes, decide

ANSWERS = ("left", "right", "tie", BOTH_BAD)
Images = Mapping[str, tuple[str, str]]
"""Prompt id and generator of each image id; the first image of a pair is the one that comes first here."""


@dataclass(frozen=True, slots=True)
class Cast:
    """The vote of one annotator on one pair; `direct` if the pair itself was shown, not implied."""

    choice: Vote
    direct: bool

    @property
    def pair(self) -> tuple[str, str, str]:
        return self.choice.prompt_id, self.choice.a, self.choice.b


def on_pairs(answers: Iterable[LabelAnswer], images: Images) -> list[LabelAnswer]:
    """Keep the valid answers on pairs of these images, without checks."""
    return [
        answer
        for answer in answers
        if answer.question.kind == PAIR and answer.stands and images.keys() >= set(answer.question.images)
    ]


def casts(
    answers: Iterable[LabelAnswer],
    images: Images,
    *,
    sorting: bool = False,
    identical: Collection[tuple[str, str]] = (),
) -> list[Cast]:
    """Convert the answers on pairs, without gold pairs.

    Args:
        answers: The answers that count.
        images: The images of the store.
        sorting: Whether answers on the page come from a merge sort, and also count for the pairs that they imply, unless they
            contradict each other.
        identical: Pairs of identical files, which a sort takes as ties.
    """
    place = {image: number for number, image in enumerate(images)}
    outcomes: dict[tuple[str, str], dict[tuple[str, ...], int]] = defaultdict(dict)
    bad: dict[tuple[str, str], set[frozenset[str]]] = defaultdict(set)
    for answer in on_pairs(answers, images):
        key, outcome = (answer.annotator, answer.question.prompt_id), outcome_of(answer.text)
        left, right = answer.question.images
        outcomes[key] |= {(left, right): outcome, (right, left): -outcome}
        if answer.text == BOTH_BAD:
            bad[key].add(frozenset((left, right)))
    same: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
    for pair in identical:
        same[images[pair[0]][0]][pair] = 0
    return [
        cast
        for key, pairs in outcomes.items()
        for cast in _casts_of_one(key, pairs, bad[key], place, same[key[1]], sorting=sorting)
    ]


def _casts_of_one(
    key: tuple[str, str],
    outcomes: Outcomes,
    bad: set[frozenset[str]],
    place: Mapping[str, int],
    same: Outcomes,
    *,
    sorting: bool,
) -> list[Cast]:
    """Convert the outcomes of one annotator (`key`: name and prompt), and the votes implied if they come from a sort."""
    annotator, group = key
    direct = {pair: outcome for pair, outcome in outcomes.items() if place[pair[0]] < place[pair[1]]}
    known = {**same, **outcomes}
    images = sorted({image for pair in known for image in pair}, key=place.__getitem__)
    following = (implied(known, images) if sorting else None) or {}
    bad_images = frozenset[str]().union(*bad)
    votes = []
    for (a, b), outcome in (following | direct).items():
        is_direct = (a, b) in direct
        if not is_direct and (a, b) in same:
            continue
        is_both_bad = frozenset((a, b)) in bad if is_direct else {a, b} <= bad_images
        choice = {1: "a", -1: "b", 0: BOTH_BAD if is_both_bad else "tie"}[outcome]
        votes.append(Cast(Vote(group, a, b, annotator, choice), is_direct))
    return votes


def settled_pairs(answers: Iterable[LabelAnswer], images: Images, enough: int) -> set[tuple[str, ...]]:
    """List the pairs that the rules of A.11 have decided, or that have `enough` votes."""
    table: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for cast in casts(answers, images):
        table[cast.choice.a, cast.choice.b][cast.choice.choice] += 1
    return {pair for pair, count in table.items() if decide(count, Counter(), enough)[0] is not Rule.INCOMPLETE}


@dataclass(frozen=True, slots=True)
class PairOutcomes:
    """The votes on pairs, and their decisions.

    Attributes:
        votes: The votes that count, including votes that a sort implies.
        early: The cast votes over which agreement is measured: all, or the first of each pair if pairs stop being asked.
        expected: Number of votes that each pair should have.
        summary: The decisions.
    """

    votes: list[Cast]
    early: list[Cast]
    expected: int
    summary: VoteSummary


def decide_pairs(labelling: Labelling, annotators: int | None = None, verdicts: Sequence[Vote] = ()) -> PairOutcomes:
    """Decide pairs by the rules of A.11 of the TIT paper.

    Args:
        labelling: The content of the store.
        annotators: How many votes a pair should have; None: as served, or else one from each annotator who counts.
        verdicts: Votes of experts from a file, in addition to the votes in the store.
    """
    images = labelling.form.images
    counted = on_pairs((answer for answer in labelling.standing if labelling.counts(answer.annotator)), images)
    identical = labelling.form.identical
    votes = casts(counted, images, sorting=labelling.form.plan == "merge", identical=identical)
    experts = casts((answer for answer in labelling.standing if is_expert(answer.annotator)), images)
    voters = len({cast.choice.annotator for cast in votes})
    expected = annotators or labelling.enough or max(labelling.annotators - len(labelling.left_out), voters)
    families = labelling.form.families
    summary = aggregate_votes(
        _in_families((cast for cast in votes if cast.direct), families),
        [*verdicts, *(cast.choice for cast in experts)],
        implied=[cast.choice for cast in votes if not cast.direct],
        annotators=expected,
        panel=labelling.panel,
    )
    early = [cast for cast in votes if cast.direct]
    if labelling.enough:
        first = labelling.first(counted, lambda answer: (answer.question.prompt_id, frozenset(answer.question.images)))
        early = casts(first, images)
        alone = aggregate_votes(_in_families(early, families))
        summary = replace(summary, agreement=alone.agreement, ceiling=alone.ceiling)
    return PairOutcomes(votes, early, expected, summary)


def _in_families(votes: Iterable[Cast], families: Mapping[str, str]) -> list[Vote]:
    return [replace(cast.choice, family=families.get(cast.choice.prompt_id, "")) for cast in votes]


BY_VOTES = Declaration("generators_by_votes", "win rates or strengths of generators", Population.VOTES, Unit.PROMPT)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The rank of an image within its prompt; None while a pair of the prompt is open or has no vote.

    Attributes:
        rank: By Copeland's count, wins plus half the ties (1 is best, equals share the lowest).
        sort_rank: By sorting, as `ranks_by_sorting` does.
    """

    prompt_id: str
    image: str
    generator: str
    rank: int | None
    wins: int
    ties: int
    losses: int
    open: int
    sort_rank: int | None


def ranks(
    outcomes: Sequence[VoteOutcome], images: Mapping[str, tuple[str, str]], identical: Iterable[tuple[str, str]] = ()
) -> list[Ranked]:
    """Rank the images of each prompt in both ways, best first; pairs of `identical` files without a vote are ties."""
    tallies: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    decided: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
    voted = {frozenset((outcome.a, outcome.b)) for outcome in outcomes}
    ties = [
        VoteOutcome(images[a][0], a, b, 0, 0, 0, 0, Rule.IMPLIED, "tie")
        for a, b in sorted(identical)
        if frozenset((a, b)) not in voted
    ]
    for outcome in (*outcomes, *ties):
        sign = None if outcome.preference is None else {"a": 1, "b": -1}.get(outcome.preference, 0)
        for image, other, side in ((outcome.a, outcome.b, 1), (outcome.b, outcome.a, -1)):
            word = "open" if sign is None else ("tie", "win", "loss")[sign * side]
            tallies[outcome.prompt_id][image][word] += 1
            if sign is not None:
                decided[outcome.prompt_id][image, other] = sign * side
    rows = []
    for group, tally in tallies.items():
        points = {image: count["win"] + count["tie"] / 2 for image, count in tally.items()}
        complete = all(count["open"] == 0 and count.total() == len(tally) - 1 for count in tally.values())
        order = sorted(tally, key=lambda name: (-points[name], name))
        by_sorting = ranks_by_sorting(order, decided[group]) if complete else {}
        for image in order:
            count = tally[image]
            rank = 1 + sum(other > points[image] for other in points.values()) if complete else None
            tallied = count["win"], count["tie"], count["loss"], count["open"]
            rows.append(Ranked(group, image, images[image][1], rank, *tallied, by_sorting.get(image)))
    return rows


def ranks_by_sorting(images: Sequence[str], outcomes: Outcomes) -> dict[str, int]:
    """Rank images by a merge sort of the decided pairs in which equals join one tier (TIT paper, A.11.3).

    The paper only has "inspired by sorting algorithms". If the pairs are transitive, the ranks are the same as Copeland's;
    if they contain a cycle, the sort uses only some of them, and the result depends on the order of `images`.

    Returns:
        The rank of each image: 1 is best, equals share the lowest rank; empty if a pair is missing.
    """
    by_image: dict[str, int] = {}
    for tier in merge_sort(images, outcomes).tiers:
        by_image |= dict.fromkeys(tier, len(by_image) + 1)
    return by_image


def leaderboard(ranked: Iterable[Ranked], votes: int) -> Table | None:
    """Order generators by the mean rank of their images on fully decided prompts; None if there are none."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    differ: dict[str, bool] = {}
    for image in ranked:
        if image.rank is not None and image.sort_rank is not None:
            rows[image.generator].append((image.rank, image.sort_rank))
            differ[image.prompt_id] = differ.get(image.prompt_id, False) or image.rank != image.sort_rank
    if not rows:
        return None
    lines = []
    for generator, rank_pairs in rows.items():
        count, sort = zip(*rank_pairs, strict=True)
        means = sum(count) / len(rank_pairs), sum(sort) / len(rank_pairs)
        lines.append((generator, len(rank_pairs), means[0], count.count(1), means[1], sort.count(1)))
    lines.sort(key=lambda line: (line[2], line[0]))
    columns = ("generator", "images", "mean rank", "first places", "mean rank, sorted", "first places, sorted")
    line = f"Ranks are by Copeland's count, and by sorting (A.11.3); they differ on {sum(differ.values())} of {len(differ)} prompts."
    return Table(
        "Generators by the votes of people",
        columns,
        tuple(lines),
        (Note("about_ranks_by_votes", line),),
        declared=BY_VOTES.over(votes),
    )
