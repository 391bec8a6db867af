"""Aggregate the votes of several annotators to one outcome a pair (TIT paper, A.11), and measure their agreement."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from titjudge.core.declarations import RELIABLE, Declaration, Doubt, Population, Unit
from titjudge.core.errors import DataError, must_be
from titjudge.core.serialization import fields_of
from titjudge.core.tables import Table, percent
from titjudge.core.types import Note, Pair
from titjudge.stats.bootstrap import (
    Floats,
    Interval,
    by_content,
    codes,
    group_sums,
    multiplicities,
    percentile_interval,
)
from titjudge.stats.intervals import FEW_ANNOTATORS, share_intervals
from titjudge.stats.scores.families import annotators_note

VOTES = Declaration("votes", "preferences and Krippendorff's alpha", Population.VOTES, Unit.PROMPT)

ANNOTATORS = 15
PANEL = 3
BOTH_BAD = "both_bad"
CHOICES = ("a", "b", "tie", BOTH_BAD)
_STRICTEST_FIRST = ("a", "b", BOTH_BAD, "tie")  # votes for both_bad support a tie as well
_MIRROR = {"a": "b", "b": "a", "tie": "tie", BOTH_BAD: BOTH_BAD}
_FILLERS = frozenset("is are better best wins prefer preferred the".split())
_BAD_WORDS = frozenset({"both bad", "bothbad", "tie bothbad", "tie both bad", "equally bad"})
_TIE_WORDS = frozenset(
    {"tie", "tied", "same", "equal", "equally good", "draw", "both good", "bothgood", "tie both good", "no preference"}
)
_SIDES = tuple(
    frozenset(
        {letter, side, place, *(f"{noun} {name}" for noun in ("image", "model", "option") for name in (letter, n))}
    )
    for letter, side, place, n in (("a", "left", "first", "1"), ("b", "right", "second", "2"))
)
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Vote:
    """The vote of one annotator on one pair: `choice` is "a" (the first image is better), "b", "tie" or "both_bad"."""

    prompt_id: str
    a: str
    b: str
    annotator: str
    choice: str
    source: str = ""
    family: str = ""

    @property
    def unit(self) -> str:
        """The unit of statistics: the family of the prompt, or the prompt."""
        return self.family or self.prompt_id


def read_choice(text: Any, first: str, second: str) -> str | None:
    """Parse a choice: a, left, image_a, "model 1", ..., or the name of that side; a tie; both bad; None for anything else.

    Args:
        text: The text; case, `_` and brackets do not matter.
        first: Name of the first side, such as its image.
        second: Name of the second side.
    """
    spaced = re.sub(r"[_()-]", " ", str(text).casefold()).split()
    word = " ".join(piece for piece in spaced if piece not in _FILLERS)
    words = zip(CHOICES, (*_SIDES, _TIE_WORDS, _BAD_WORDS), strict=True)
    return next((choice for choice, known in words if word in known), {first: "a", second: "b"}.get(str(text).strip()))


def pair_of(prompt_id: str, a: str, b: str, choice: str, source: str = "") -> Pair:
    """Make a pair from a choice; both_bad is a tie, marked as such."""
    bad = choice == BOTH_BAD
    return Pair(prompt_id, a, b, "tie" if bad else choice, source, bad)


class Rule(StrEnum):
    """The step that decided a pair, or why it is open."""

    CONSENSUS = "consensus"  # at least two thirds of all votes
    ADVANTAGE = "advantage"  # enough preferences, three quarters of them on one side
    IMPLIED = "implied"  # consensus or advantage only with votes that were not cast, but implied by a person's sort
    EXPERTS = "experts"  # the majority of the expert panel
    EXPERT_TIE = "expert tie"  # the panel voted and has no majority
    MAJORITY = "majority"  # more votes than for any other answer, where the paper asks experts and there are none
    NEEDS_EXPERTS = "needs experts"  # open: the panel has not (all) voted
    INCOMPLETE = "incomplete"  # open: annotators are still missing


@dataclass(frozen=True, slots=True)
class VoteOutcome:
    """The votes cast on one pair and their outcome.

    Attributes:
        preference: None while the pair is open.
        implied: Number of people whose sort implies a vote on this pair, which they were not shown.
    """

    prompt_id: str
    a: str
    b: str
    votes_a: int
    votes_b: int
    votes_tie: int
    votes_bad: int
    rule: Rule
    preference: str | None
    implied: int = 0


@dataclass(frozen=True, slots=True)
class Alpha:
    """Krippendorff's alpha with a 95% interval over prompts and few annotators; `reason`: why it is None, or its reliability."""

    alpha: float | None
    interval: Interval | None
    pairs: int
    annotators: int
    reason: str = ""

    @property
    def doubt(self) -> str:
        """The `Doubt` about the level of the interval; empty if it is reliable."""
        if not self.interval or not 0 < self.annotators < FEW_ANNOTATORS:
            return ""
        return Doubt.FEW_PEOPLE if self.annotators < RELIABLE else Doubt.FEW_ANNOTATORS


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Human ceiling: accuracy of one annotator's vote against the majority of the others (leave one out).

    Attributes:
        accuracy: With its 95% interval over prompts; None without any vote on a pair that the others decide. A vote for a tie
            is wrong, as a judge's equal scores are; pairs on which the others are split do not count.
        votes: Votes that count, of `annotators` people.
    """

    accuracy: float | None
    interval: Interval | None
    votes: int
    annotators: int

    def line(self) -> Note:
        """Summarise in one line; empty if it is undefined."""
        said = (
            f"human ceiling: one person prefers what most of the others prefer in {percent(self.accuracy, self.interval)} "
            f"({self.votes:,} votes of {self.annotators:,} people)"
        )
        return Note("human_ceiling", "" if self.accuracy is None else said)


@dataclass(frozen=True, slots=True)
class VoteSummary:
    """Outcomes of all pairs, agreement of the annotators, number of pairs decided by each rule, and human ceiling.

    `families` is True if families of prompts are the unit.
    """

    outcomes: tuple[VoteOutcome, ...]
    agreement: Alpha
    rules: Mapping[str, int] = field(default_factory=dict)
    ceiling: Ceiling = field(default_factory=lambda: Ceiling(None, None, 0, 0))
    families: bool = False

    @property
    def votes(self) -> int:
        """Number of votes on all pairs."""
        return sum(o.votes_a + o.votes_b + o.votes_tie + o.votes_bad for o in self.outcomes)

    @property
    def pairs(self) -> list[Pair]:
        """The pairs that are decided."""
        return [pair_of(o.prompt_id, o.a, o.b, o.preference, f"votes: {o.rule}") for o in self.outcomes if o.preference]

    @property
    def needs_experts(self) -> list[VoteOutcome]:
        """The pairs that wait for experts, including pairs that the majority has decided meanwhile."""
        return [outcome for outcome in self.outcomes if outcome.rule in (Rule.NEEDS_EXPERTS, Rule.MAJORITY)]

    def to_json(self) -> dict[str, Any]:
        """Return the counts, the pairs that wait for experts, and the agreement."""
        alpha = self.agreement
        return {
            "pairs": len(self.outcomes),
            "decided": len(self.pairs),
            "both_bad": sum(outcome.preference == BOTH_BAD for outcome in self.outcomes),
            "rules": dict(self.rules),
            "needs_experts": [{"prompt_id": o.prompt_id, "image_a": o.a, "image_b": o.b} for o in self.needs_experts],
            "alpha": alpha.alpha,
            "alpha_interval": list(alpha.interval) if alpha.interval else None,
            "alpha_pairs": alpha.pairs,
            "annotators": alpha.annotators,
            "alpha_reason": alpha.reason,
            "human_ceiling": fields_of(self.ceiling),
        } | ({"alpha_doubt": alpha.doubt} if alpha.doubt else {})

    def table(self) -> Table:
        """Tabulate the counts and the agreement."""
        rows: list[tuple[Any, ...]] = [(rule, count) for rule, count in self.rules.items()]
        bad = sum(outcome.preference == BOTH_BAD for outcome in self.outcomes)
        rows += [("both bad", bad)] if bad else []
        rows += [("pairs", len(self.outcomes)), ("annotators", self.agreement.annotators)]
        low, high = self.agreement.interval or (None, None)
        rows += [("Krippendorff's alpha", self.agreement.alpha), ("  95% low", low), ("  95% high", high)]
        notes = tuple(filter(None, (self.ceiling.line(), Note("alpha", self.agreement.reason))))
        doubts = {"Krippendorff's alpha": self.agreement.doubt}
        declared = VOTES.over(self.votes, families=self.families, doubts=doubts)
        return Table("Votes", ("what", "value"), tuple(rows), notes, declared=declared)


def decide(
    votes: Counter[str], experts: Counter[str], annotators: int = ANNOTATORS, panel: int = PANEL
) -> tuple[Rule, str | None]:
    """Apply the three steps of A.11 to one pair: `(rule, preference)`.

    1. a / b / tie with at least two thirds of the votes (10 of 15);
    2. at least 8 of 15 votes are preferences, and at least 75% of those are for one image;
    3. the majority of the expert panel (3), or a tie when the panel has none.

    The paper knows three answers: both_bad counts as a tie in each step, and a tie is called both_bad if these votes
    alone would have decided it.

    With another number of annotators the 8 becomes 8/15 of them, rounded up. While votes are missing only step 1 can
    decide, because later votes cannot reverse it; while experts are missing only their majority can.
    """
    cast = votes.total()
    expected = max(annotators, cast)
    for choice in _STRICTEST_FIRST:
        if 3 * _support(votes, choice) >= 2 * expected:
            return Rule.CONSENSUS, choice
    if cast < expected:
        return Rule.INCOMPLETE, None
    preferences = votes["a"] + votes["b"]
    for choice in ("a", "b"):
        if 15 * preferences >= 8 * expected and 4 * votes[choice] >= 3 * preferences:
            return Rule.ADVANTAGE, choice
    for choice in _STRICTEST_FIRST:
        if 2 * _support(experts, choice) > max(panel, experts.total()):
            return Rule.EXPERTS, choice
    return (Rule.EXPERT_TIE, "tie") if experts.total() >= panel else (Rule.NEEDS_EXPERTS, None)


def _most(votes: Counter[str]) -> str | None:
    """Return the answer with more votes than each other; votes for both_bad are votes for a tie."""
    ties = _support(votes, "tie")
    if votes["a"] > max(votes["b"], ties) or votes["b"] > max(votes["a"], ties):
        return "a" if votes["a"] > votes["b"] else "b"
    if ties > max(votes["a"], votes["b"]):
        return BOTH_BAD if votes[BOTH_BAD] > votes["tie"] else "tie"
    return None


def _support(votes: Counter[str], choice: str) -> int:
    """Count the votes for a choice; those for both_bad support a tie as well."""
    return votes[choice] + (votes[BOTH_BAD] if choice == "tie" else 0)


def aggregate_votes(
    votes: Sequence[Vote],
    experts: Sequence[Vote] = (),
    *,
    implied: Sequence[Vote] = (),
    annotators: int = ANNOTATORS,
    panel: int = PANEL,
    resamples: int = 2000,
    majority: bool = False,
) -> VoteSummary:
    """Decide each pair and compute the agreement of the annotators, experts not included.

    The two images of a pair may come in either order; the outcome has the order of the first vote.

    Args:
        votes: The votes that people cast.
        experts: The votes of the panel.
        implied: Votes that follow from people's sorts for pairs that they were not shown. They decide only pairs that too
            few people were shown, by a separate rule (`Rule.IMPLIED`); agreement and ceiling are of cast votes alone.
        annotators: How many votes a pair should have.
        panel: How many experts there are.
        resamples: Bootstrap draws for the interval of the agreement.
        majority: Whether the majority decides what the paper leaves to experts, if no expert has voted on it.

    Raises:
        DataError: A choice that is not a / b / tie / both_bad, two votes of one annotator on a pair, an image paired with
            itself.
    """
    tally, orientation = _tally(votes)
    by_sorting, _ = _tally(implied, orientation)
    second, _ = _tally(experts, orientation)
    outcomes = []
    for key in tally | by_sorting:
        counts, following, verdicts = (Counter(table.get(key, {}).values()) for table in (tally, by_sorting, second))
        rule, preference = decide(counts, verdicts, annotators, panel)
        if rule is Rule.INCOMPLETE and following:
            rule, preference = decide(counts + following, verdicts, annotators, panel)
            rule = Rule.IMPLIED if rule in (Rule.CONSENSUS, Rule.ADVANTAGE) else rule
        if majority and rule is Rule.NEEDS_EXPERTS and not verdicts and (most := _most(counts)):
            rule, preference = Rule.MAJORITY, most
        for_a, for_b, ties, bad = (counts[choice] for choice in CHOICES)
        pair = orientation[key]
        outcomes.append(VoteOutcome(*pair, for_a, for_b, ties, bad, rule, preference, following.total()))
    used, unit_of = Counter(outcome.rule for outcome in outcomes), {vote.prompt_id: vote.unit for vote in votes}
    agreement = krippendorff_alpha(
        [(o.votes_a, o.votes_b, o.votes_tie, o.votes_bad) for o in outcomes],
        groups=[unit_of.get(o.prompt_id, o.prompt_id) for o in outcomes],
        cast=[{who: CHOICES.index(choice) for who, choice in tally.get(key, {}).items()} for key in tally | by_sorting],
        resamples=resamples,
        mirrored=tuple(CHOICES.index(_MIRROR[choice]) for choice in CHOICES),
    )
    return VoteSummary(
        tuple(outcomes),
        agreement,
        {rule.value: used[rule] for rule in Rule if used[rule] or rule is not Rule.MAJORITY},
        human_ceiling(votes),
        any(vote.family for vote in votes),
    )


def human_ceiling(votes: Iterable[Vote]) -> Ceiling:
    """Compare each vote with the majority of the other annotators of that pair (leave one out).

    Raises:
        DataError: As `aggregate_votes`.
    """
    votes = list(votes)
    tally, _ = _tally(votes)
    unit_of = {vote.prompt_id: vote.unit for vote in votes}
    compared: list[tuple[str, str, bool]] = []  # unit, annotator, whether the others agree
    for (prompt, _, _), by_annotator in tally.items():
        counts = Counter(by_annotator.values())
        for annotator, choice in by_annotator.items():
            lead = counts["a"] - counts["b"] - (choice == "a") + (choice == "b")
            if lead:
                compared.append((unit_of[prompt], annotator, choice == ("a" if lead > 0 else "b")))
    if not compared:
        return Ceiling(None, None, 0, 0)
    hits = np.array([right for _, _, right in compared], dtype=np.float64)
    sums, by_person = (
        group_sums(number, len(names), hits, np.ones(len(hits)))
        for number, names in (codes(row[k] for row in compared) for k in (0, 1))
    )
    few = 1 < len(by_person) < FEW_ANNOTATORS and not any(who.startswith("#") for _, who, _ in compared)
    (interval,) = share_intervals(sums[:, 0], sums[:, 1], (by_person[:, 0], by_person[:, 1]) if few else None)
    return Ceiling(float(hits.mean()), interval, len(hits), len(by_person))


def _tally(
    votes: Iterable[Vote], orientation: dict[Key, Key] | None = None
) -> tuple[dict[Key, dict[str, str]], dict[Key, Key]]:
    """Group choices by pair and annotator, mirrored to the order in which the pair was first seen; also return these orders."""
    orders = {} if orientation is None else orientation
    tally: dict[Key, dict[str, str]] = {}
    for vote in votes:
        if vote.choice not in CHOICES:
            place = f"the vote of {vote.annotator} on {vote.a} / {vote.b}"
            raise DataError(must_be(place, "a, b, tie or both_bad", vote.choice))
        if vote.a == vote.b:
            raise DataError(f"vote of {vote.annotator}: {vote.a} is paired with itself. Give two different images")
        key = (vote.prompt_id, min(vote.a, vote.b), max(vote.a, vote.b))
        first = orders.setdefault(key, (vote.prompt_id, vote.a, vote.b))
        mine = tally.setdefault(key, {})
        if vote.annotator in mine:
            raise DataError(
                f"{vote.annotator} voted twice on {vote.a} / {vote.b} of prompt {vote.prompt_id}. Remove one"
            )
        mine[vote.annotator] = vote.choice if first[1] == vote.a else _MIRROR[vote.choice]
    return tally, orders


def krippendorff_alpha(
    counts: Sequence[Sequence[int]],
    *,
    groups: Sequence[str] | None = None,
    cast: Sequence[Mapping[str, int]] = (),
    resamples: int = 2000,
    interval_scale: bool = False,
    mirrored: Sequence[int] = (),
    noun: str = "pair",
) -> Alpha:
    """Compute Krippendorff's alpha from votes per pair and choice; its interval resamples prompts, each with all its pairs.

    Pairs of one prompt are as hard as each other, so they are not independent. Coincidences are sums over pairs, so that a
    resample is a weighted sum of them. If annotators are known and fewer than 30, the interval is wider by their variance.

    Args:
        counts: Shape (pairs, choices); pairs with fewer than two votes are left out.
        groups: Prompt of each pair; without them every pair is a separate prompt.
        cast: Number of the choice of each annotator, by pair; names that begin with # belong to no particular person.
        resamples: Bootstrap draws of prompts; 0 for no interval.
        interval_scale: Choices are equally spaced numbers, with the squared distance as disagreement; otherwise nominal.
        mirrored: The choice that each becomes if the two images of a pair change places: chance agreement is then over
            both orders, so that it does not depend on which image a file writes first.
        noun: The name of the items under vote, in the reason.
    """
    table = np.array(counts, dtype=np.float64).reshape(len(counts), -1) if counts else np.zeros((0, len(CHOICES)))
    kept = table.sum(axis=1) >= 2
    group = codes(groups if groups is not None else range(len(table)))[0]
    table, group = table[kept], group[kept]
    who = {name for votes in cast for name in votes}
    if len(table) < 1:
        return Alpha(None, None, 0, len(who), f"no {noun} has two votes")
    if np.count_nonzero(_both_orders(table.sum(axis=0), mirrored)) < 2:
        return Alpha(None, None, len(table), len(who), "every vote is the same: chance agreement cannot be estimated")
    choice = np.arange(table.shape[1], dtype=np.float64)
    distance = np.subtract.outer(choice, choice) ** 2 if interval_scale else 1 - np.eye(len(choice))
    alpha = float(_alphas(table, np.ones((1, len(table))), distance, mirrored)[0])
    turned = table[:, list(mirrored)] if mirrored else table
    rows = [max(row, other) for row, other in zip(table.tolist(), turned.tolist(), strict=True)]  # in either order
    prompts, prompt = np.unique(by_content(group, rows), return_inverse=True)
    if len(prompts) < 2 or not resamples:
        unit = noun if groups is None else "prompt"
        return Alpha(alpha, None, len(table), len(who), f"fewer than two {unit}s: no interval" if resamples else "")
    blocks = multiplicities(len(prompts), resamples)
    draws = np.concatenate([_alphas(table, block[:, prompt], distance, mirrored) for block in blocks])
    interval = percentile_interval(draws, len(prompts))
    if interval is None or not who or len(who) >= FEW_ANNOTATORS or any(name.startswith("#") for name in who):
        return Alpha(alpha, interval, len(table), len(who))
    if len(who) < 3:
        return Alpha(alpha, interval, len(table), len(who), annotators_note(len(who), allowed=False))
    people, single = _variances_of_people(
        table, [votes for votes, known in zip(cast, kept, strict=True) if known], distance, mirrored
    )
    interval = _widened(alpha, interval, float(np.nanvar(draws)), len(prompts), people, single, len(who))
    return Alpha(alpha, interval, len(table), len(who), annotators_note(len(who)))


def _widened(
    value: float, interval: Interval, variance: float, prompts: int, by_people: float, single: float, people: int
) -> Interval:
    """Widen an interval over prompts by the variance of few people, with Satterthwaite's degrees of freedom.

    The variance of single votes is subtracted, because the variance over prompts has it already; it counts for the degrees of
    freedom, which are otherwise too many if little is left.
    """
    from titjudge.stats.special import stdtrit

    if variance <= 0:
        return interval
    both = max(variance, variance + by_people - single)
    freedom = both**2 / (variance**2 / (prompts - 1) + by_people**2 / (people - 1))
    times = float(stdtrit(freedom, 0.025) / stdtrit(prompts - 1, 0.025)) * (both / variance) ** 0.5
    return value - times * max(0.0, value - interval[0]), min(1.0, value + times * max(0.0, interval[1] - value))


def _variances_of_people(
    table: Floats, cast: Sequence[Mapping[str, int]], distance: Floats, mirrored: Sequence[int]
) -> tuple[float, float]:
    """Estimate the variance of alpha from the choice of annotators, and of single votes, by the influence of each vote.

    The infinitesimal jackknife is too small for few people, and the jackknife that deletes one of them too large: this is
    their geometric mean.
    """
    pair, choice = (
        np.array(column)
        for column in zip(*((k, c) for k, votes in enumerate(cast) for c in votes.values()), strict=True)
    )
    who, _ = codes(name for votes in cast for name in votes)
    votes = table[pair]
    others, own = votes.sum(axis=1, keepdims=True) - 1, np.eye(table.shape[1])[choice]
    totals, change = (_both_orders(each, mirrored) for each in (table.sum(axis=0), own + (votes - own) / others))
    pairs = table.sum() - 1
    expected = totals @ distance @ totals / pairs
    observed = float(((table @ distance * table).sum(axis=1) / (table.sum(axis=1) - 1)).sum())
    moved = 2 * (change @ distance @ totals - expected) / pairs
    influence = (
        observed * moved / expected**2 - 2 * (votes @ distance)[np.arange(len(pair)), choice] / others[:, 0] / expected
    )
    influence -= influence.mean()
    by_person, of_pair = np.bincount(who, influence), (np.bincount(pair, influence) / np.bincount(pair))[pair]
    unseen = 1 - np.bincount(who)[who] / len(table)  # who votes on every pair sees all that these vary by
    single = (influence - of_pair) ** 2 + unseen * of_pair**2
    times = len(by_person) / (len(by_person) - 2)
    return times * float((by_person**2).sum()), times * float(single.sum())


def _both_orders(totals: Floats, mirrored: Sequence[int]) -> Floats:
    """Average the votes for each choice over both orders of the images."""
    return (totals + totals[..., list(mirrored)]) / 2 if mirrored else totals


def _alphas(table: Floats, weights: Floats, distance: Floats, mirrored: Sequence[int] = ()) -> Floats:
    """Compute alpha, 1 - observed / expected disagreement, for each row of weights of the pairs; shape (rows,).

    Args:
        table: Votes, shape (pairs, choices).
        weights: Shape (rows, pairs).
        distance: Disagreement of two choices, shape (choices, choices).
        mirrored: See `krippendorff_alpha`.
    """
    votes = table.sum(axis=1)
    disagreements = (table @ distance * table).sum(axis=1)
    observed = np.zeros(len(weights))
    for count in np.unique(votes):  # sums of whole numbers are the same on every processor
        observed += weights[:, votes == count] @ disagreements[votes == count] / (count - 1)
    totals = _both_orders(weights @ table, mirrored)
    expected = (totals @ distance * totals).sum(axis=1) / (weights @ votes - 1)
    alphas: Floats = 1 - np.divide(observed, expected, out=np.full(len(totals), np.nan), where=expected > 0)
    return alphas
