"""A part of the study: GenAI-Bench's votes of people on pairs of edits, and what judges voted."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchmarks.edit_replies import EditVote, votes_of
from benchmarks.study_edits import NO, points
from benchmarks.study_page import Found, percent, table
from titjudge.stats.bootstrap import Floats, codes, group_sums
from titjudge.stats.intervals import mean_intervals, share_interval

SIDES = ("a", "b")


def share(votes: Sequence[EditVote], hits: Sequence[bool], trials: Sequence[bool]) -> str:
    """Write the share of hits among the trials, with its interval over sources."""
    if not any(trials):
        return NO
    source, _ = codes(vote.source for vote in votes)
    right = np.array([hit and trial for hit, trial in zip(hits, trials, strict=True)], dtype=float)
    counted = np.array(trials, dtype=float)
    return percent(float(right.sum() / counted.sum()), share_interval(source, right, counted))


def edit_votes(given: argparse.Namespace) -> Found:
    """Hold judges of pairs of edits against the votes of people."""
    judges = votes_of(given.genai)
    order = sorted(judges, key=lambda name: -np.mean([vote.correct for vote in judges[name]]))
    rows = [[name, *_row(judges[name])] for name in order]
    columns = (
        "judge", "published: same of four labels [95%]", "no label", "both decide", "of these the same side [95%]",
        "sides alone, no decision half [95%]", "both bad: found / right", "first of two chosen",
    )  # fmt: skip
    votes = judges[order[0]]
    people = Counter(vote.people for vote in votes)
    left = people["a"] / (people["a"] + people["b"])
    said = (
        f"\n\n{len(votes)} pairs of {len({vote.source for vote in votes})} sources. People: {people['a']} the first, {people['b']} the second "
        f"({percent(left)} the first where they decide), {people['tie']} ties, {people['both_bad']} both bad. Who always says the label that people "
        f"say most has {percent(max(people.values()) / len(votes))} of the published number. {_difference(judges, order)}"
    )  # fmt: skip
    return table(columns, rows) + said, {}


def _row(votes: Sequence[EditVote]) -> list[str]:
    everything = [True] * len(votes)
    decided = [vote.people in SIDES for vote in votes]
    both = [by_people and vote.judge in SIDES for vote, by_people in zip(votes, decided, strict=True)]
    same = [vote.people == vote.judge for vote in votes]
    bad, called = (
        [side == "both_bad" for side in sides] for sides in ([v.people for v in votes], [v.judge for v in votes])
    )
    sided = [vote.judge in SIDES for vote in votes]
    return [
        share(votes, [vote.correct for vote in votes], everything),
        percent(sum(vote.judge is None for vote in votes) / len(votes)),
        str(sum(both)),
        share(votes, same, both),
        _half(votes),
        f"{share(votes, called, bad).split(' ')[0]} / {share(votes, bad, called).split(' ')[0]}",
        share(votes, [vote.judge == "a" for vote in votes], sided).split(" ")[0],
    ]


def _credit(votes: Sequence[EditVote]) -> Floats:
    """Score the pairs that people decide: 1 for the same side, 0 for the other, half without a decision; NaN elsewhere."""
    return np.array([
        np.nan if vote.people not in SIDES else 0.5 if vote.judge not in SIDES else float(vote.judge == vote.people)
        for vote in votes
    ])  # fmt: skip


def _half(votes: Sequence[EditVote]) -> str:
    credit, (source, _) = _credit(votes), codes(vote.source for vote in votes)
    decided = np.isfinite(credit)
    right, counted = np.where(decided, credit, 0.0), decided.astype(float)
    return percent(float(right.sum() / counted.sum()), share_interval(source, right, counted))


def _difference(judges: dict[str, list[EditVote]], order: Sequence[str]) -> str:
    """Compare the two judges with the highest published numbers on the same pairs."""
    first, second = ({vote.pair: vote for vote in judges[name]} for name in order[:2])
    shared = sorted(set(first) & set(second))
    source, names = codes(first[pair].source for pair in shared)
    correct = [np.array([votes[pair].correct for pair in shared], dtype=float) for votes in (first, second)]
    credit = [_credit([votes[pair] for pair in shared]) for votes in (first, second)]
    said = []
    for one, other in (correct, credit):
        known = np.isfinite(one) & np.isfinite(other)
        sums = group_sums(source, len(names), np.where(known, one - other, 0.0), known.astype(float))
        said.append(points(float(sums[:, 0].sum() / sums[:, 1].sum()), mean_intervals(sums[:, 0], sums[:, 1])[0]))
    return f"{order[0]} minus {order[1]} on the same pairs, points: {said[0]} by the published number, {said[1]} by sides alone."
