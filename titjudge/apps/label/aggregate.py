"""Convert votes into what the rules of A.11 count: one vote for each annotator and pair of a prompt.

A merge sort asks few pairs and implies the others: x before y and y before z imply x before z. A.11 counts votes that were
cast. What a sort implies is kept apart: it decides only pairs that too few people were shown, by a rule that says so.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from titjudge.apps.label.question_order import implied
from titjudge.apps.label.reliability import Reliability, at_most
from titjudge.apps.label.store import Vote
from titjudge.core.files import csv_text
from titjudge.core.numbers import mean
from titjudge.core.types import Table
from titjudge.runs.study.human_files import COLUMNS
from titjudge.stats.people.votes import BOTH_BAD
from titjudge.stats.people.votes import Vote as Choice

PairKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Cast:
    """The vote of one annotator on one pair; `direct` if the pair itself was shown, not implied."""

    choice: Choice
    direct: bool

    @property
    def pair(self) -> PairKey:
        return self.choice.prompt_id, self.choice.a, self.choice.b


def casts(votes: Iterable[Vote], images: Mapping[str, tuple[str, str]], *, sorting: bool) -> list[Cast]:
    """Convert votes on pairs, without gold pairs.

    Args:
        votes: The votes that count.
        images: Prompt id and generator of each image id; the first image of a pair is the one that comes first here.
        sorting: Whether votes on the page come from a merge sort, and also count for the pairs that they imply, unless they
            contradict each other.
    """
    place = {image: number for number, image in enumerate(images)}
    answers: dict[tuple[str, str], dict[tuple[str, str], int]] = defaultdict(dict)
    bad: dict[tuple[str, str], set[frozenset[str]]] = defaultdict(set)
    sorted_by: set[tuple[str, str]] = set()
    for vote in votes:
        if vote.kind != "pair" or vote.left not in place or vote.right not in place:
            continue
        outcome = vote.outcome
        answers[vote.annotator, vote.prompt_id] |= {(vote.left, vote.right): outcome, (vote.right, vote.left): -outcome}
        if vote.answer == BOTH_BAD:
            bad[vote.annotator, vote.prompt_id].add(frozenset((vote.left, vote.right)))
        if sorting and vote.source == "page":
            sorted_by.add((vote.annotator, vote.prompt_id))
    votes_cast = []
    for (annotator, group), outcomes in answers.items():
        direct = {pair: outcome for pair, outcome in outcomes.items() if place[pair[0]] < place[pair[1]]}
        following = None
        if (annotator, group) in sorted_by:
            following = implied(outcomes, sorted({image for pair in outcomes for image in pair}, key=place.__getitem__))
        called = bad[annotator, group]
        each_bad = frozenset[str]().union(*called)
        for (a, b), outcome in {**(following or {}), **direct}.items():
            shown = (a, b) in direct
            both = frozenset((a, b)) in called if shown else {a, b} <= each_bad
            choice = {1: "a", -1: "b", 0: BOTH_BAD if both else "tie"}[outcome]
            votes_cast.append(Cast(Choice(group, a, b, annotator, choice), shown))
    return votes_cast


def battles(votes: Iterable[Vote], images: Mapping[str, tuple[str, str]]) -> list[dict[str, str]]:
    """Write the votes on pairs in the format of arenas, with the images; model_a was shown on the left."""
    winners = {"left": "model_a", "right": "model_b", "tie": "tie", BOTH_BAD: "tie (bothbad)"}
    return [
        {
            "prompt_id": vote.prompt_id,
            "model_a": images[vote.left][1],
            "model_b": images[vote.right][1],
            "winner": winners[vote.answer],
            "judge": vote.annotator,
            "image_a": vote.left,
            "image_b": vote.right,
        }
        for vote in _valid(votes, images)
    ]


def votes_csv(votes: Iterable[Vote], images: Mapping[str, tuple[str, str]]) -> str:
    """Write the votes on pairs as CSV; image_a was shown on the left."""
    words = {"left": "a", "right": "b"}
    rows = (
        (vote.prompt_id, vote.left, vote.right, vote.annotator, words.get(vote.answer, vote.answer), vote.note)
        for vote in _valid(votes, images)
    )
    return csv_text((*COLUMNS, "note"), rows)


def _valid(votes: Iterable[Vote], images: Mapping[str, tuple[str, str]]) -> Iterator[Vote]:
    """Keep the votes on pairs of these images that are no checks and were not taken back."""
    for vote in votes:
        if vote.kind == "pair" and vote.undone_at is None and vote.left in images and vote.right in images:
            yield vote


def annotator_table(votes: Iterable[Vote], people: Mapping[str, Reliability]) -> tuple[list[dict[str, Any]], Table]:
    """Summarize each annotator: votes, undos, ties, preferred side, seconds, and right attention checks."""
    everyone: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        everyone[vote.annotator].append(vote)
    records = [_annotator(name, everyone[name], people.get(name, Reliability(0, 0, 0))) for name in sorted(everyone)]
    columns = (
        "annotator", "votes", "undone", "ties", "both bad", "left of decided", "median seconds",
        "checks", "checks right", "at most",
    )  # fmt: skip
    rows = tuple(tuple(record.values())[: len(columns)] for record in records)
    note = "left of decided: far from 0.5 over many votes means that someone favours a side"
    return records, Table("Annotators", columns, rows, (note, *at_most(people)))


def _annotator(name: str, all_votes: Sequence[Vote], checks: Reliability) -> dict[str, Any]:
    votes = [vote for vote in all_votes if vote.undone_at is None]
    pairs = [vote for vote in votes if vote.kind == "pair"]
    decided = [vote for vote in pairs if vote.outcome]
    seconds = [vote.duration_ms / 1000 for vote in pairs if vote.duration_ms is not None]
    return {
        "annotator": name,
        "votes": len(pairs),
        "undone": len(all_votes) - len(votes),
        "tie_share": mean(vote.answer == "tie" for vote in pairs),
        "both_bad_share": mean(vote.answer == BOTH_BAD for vote in pairs),
        "left_share": mean(vote.answer == "left" for vote in decided),
        "median_seconds": statistics.median(seconds) if seconds else None,
        **checks.to_json(),
    }
