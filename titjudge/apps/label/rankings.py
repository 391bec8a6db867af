"""Rank the images of a prompt by the decided pairs: by Copeland's count, and by sorting (TIT paper, A.11.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from titjudge.apps.label.question_order import Outcomes, merge_sort
from titjudge.core.declarations import Declaration, Population, Unit
from titjudge.core.types import Table
from titjudge.stats.people.votes import VoteOutcome

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


def ranks(outcomes: Sequence[VoteOutcome], images: Mapping[str, tuple[str, str]]) -> list[Ranked]:
    """Rank the images of each prompt in both ways, best first."""
    tallies: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    decided: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for outcome in outcomes:
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

    The paper only says "inspired by sorting algorithms". If the pairs are transitive, the ranks are the same as Copeland's;
    if they contain a cycle, the sort uses only some of them, and the result depends on the order of `images`.

    Returns:
        The rank of each image: 1 is best, equals share the lowest rank; empty if a pair is missing.
    """
    by_image: dict[str, int] = {}
    for tier in merge_sort(images, outcomes).tiers:
        by_image |= dict.fromkeys(tier, len(by_image) + 1)
    return by_image


def leaderboard(ranked: Iterable[Ranked]) -> Table | None:
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
    note = f"Ranks are by Copeland's count, and by sorting (A.11.3); they differ on {sum(differ.values())} of {len(differ)} prompts."
    return Table("Generators by the votes of people", columns, tuple(lines), (note,), declared=BY_VOTES)
