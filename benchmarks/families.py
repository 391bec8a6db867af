"""Levels where prompts come in families, images are unequal in number, or few people judge: part of `benchmarks.coverage`."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from benchmarks.coverage_rows import Doubtful, Rows, covered, holds, told
from titjudge.core.types import Pair
from titjudge.stats.bootstrap import Floats, Ints
from titjudge.stats.generators.generator_differences import WORSE, gate, generator_differences
from titjudge.stats.generators.slices import tiers
from titjudge.stats.pairwise_accuracy import pairwise_accuracy
from titjudge.stats.people.votes import Vote, aggregate_votes
from titjudge.stats.ppi.ppi_leaderboard import people_board
from titjudge.stats.scores.families import in_families
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table

COLUMNS = ["interval", "p < .05", "gate worse", "several tiers"]
UNITS = 40


def _shared(rng: np.random.Generator, unit: Ints, share: float) -> Floats:
    common = rng.standard_normal(int(unit.max()) + 1)[unit]
    return np.asarray(share**0.5 * common + (1 - share) ** 0.5 * rng.standard_normal(len(unit)))


def _table(scores: dict[str, Floats], unit: Ints) -> ScoreTable:
    """Make a table of the images by generator, shape (images, prompts)."""
    entries = [
        Entry(f"p{p}", name, str(k), float(value))
        for name, images in scores.items()
        for (k, p), value in np.ndenumerate(images)
    ]
    declared = {f"p{p}": f"f{number}" for p, number in enumerate(unit.tolist())}
    return score_table(entries, metric="m", source="", bounds=(-50, 150), families=declared)


def family_rows(runs: int) -> Rows:
    """By kind of families, 40 of them: coverage of the interval of equal generators, and how often each verdict is false."""
    kinds = (
        ("families of 2, share .4", np.repeat(np.arange(UNITS), 2), 0.4, (1, 1)),
        ("families of 4, share .7", np.repeat(np.arange(UNITS), 4), 0.7, (1, 1)),
        ("themes of 1 to 8 prompts", np.repeat(np.arange(UNITS), np.arange(UNITS) % 8 + 1), 0.5, (1, 1)),
        ("2 and 4 images of a prompt", np.arange(UNITS), 0.0, (2, 4)),
    )
    rows = []
    for name, unit, share, images in kinds:
        rng, intervals, counts = np.random.default_rng(11), [], np.zeros(3)
        for _ in range(runs):
            level = 60 + 10 * _shared(rng, unit, 0.5)
            made = {
                g: level + np.stack([5 * _shared(rng, unit, share) for _ in range(count)])
                for g, count in zip("AB", images, strict=True)
            }
            (difference,) = generator_differences(_table(made, unit), baseline="B")
            intervals.append(difference.interval)
            at_margin = _table({"A": made["A"] - 3, "B": made["B"]}, unit)
            verdict = gate(generator_differences(at_margin, baseline="B"), 3.0, at_margin).verdicts["A"]
            five = np.stack([level + 5 * _shared(rng, unit, share) for _ in range(5)], axis=1)
            told = (difference.p or 1.0) < 0.05, verdict == WORSE, len(tiers(five, unit=unit)) > 1
            counts += told
        rows.append((name, [covered(intervals, 0.0), *(counts / runs).tolist()]))
    return rows


WIN_RATE = float(np.mean([ndtr(gap / (2 * 0.36 + 0.5 + 0.49) ** 0.5) for gap in (0.4, 0.8)]))
"""How often people prefer generator A of `leaning_pairs`."""


def leaning_pairs(rng: np.random.Generator, people: int, prompts: int) -> tuple[list[Pair], list[Pair], dict[str, str]]:
    """Make each pair of three generators, by one of few people with a leaning for each generator; the judge has three times as many."""
    lean, generator_of = 0.6 * rng.standard_normal((people, 3)), {}
    human, judge = [], []
    for p in range(3 * prompts):
        quality = np.array([0.4, 0.0, -0.4]) + 0.5 * rng.standard_normal(3)
        generator_of |= {f"{p}{g}": g for g in "ABC"}
        for i, j in ((0, 1), (0, 2), (1, 2)):
            pair, who = (f"p{p}", f"{p}{'ABC'[i]}", f"{p}{'ABC'[j]}"), int(rng.integers(people))
            judge.append(Pair(*pair, "ab"[int(quality[i] - quality[j] + 0.5 * rng.standard_normal() < 0)]))
            if p < prompts:
                gap = quality[i] + lean[who, i] - quality[j] - lean[who, j] + 0.7 * rng.standard_normal()
                human.append(Pair(*pair, "ab"[int(gap < 0)], annotator=f"n{who}"))
    return human, judge, generator_of


def votes_of_people(rng: np.random.Generator, people: int, prompts: int, spread: float, each: int = 0) -> list[Vote]:
    """Make the votes of people of unequal skill; all of them, or `each` by chance, vote on a pair of every prompt."""
    skill, votes = 1.2 + spread * rng.standard_normal(people), []
    for p in range(prompts):
        hard = 0.7 * rng.standard_normal()
        for who in rng.choice(people, each, replace=False) if each else range(people):
            right = rng.random() < ndtr(skill[who] + hard)
            votes.append(Vote(f"p{p}", f"x{p}", f"y{p}", f"n{who}", "ab"[(p + right) % 2]))
    return votes


def annotator_rows(runs: int) -> Rows:
    """By number of prompts: coverage of alpha and of a win rate of PPI where few people vote who differ."""
    rows = []
    for people in (3, 8, 20):
        shares: list[float | Doubtful] = []
        truth = aggregate_votes(
            votes_of_people(np.random.default_rng(14), 3000, 6000, 0.4, 3), resamples=0
        ).agreement.alpha
        for prompts in (40, 200):
            rng = np.random.default_rng(15)
            made = (votes_of_people(rng, people, prompts, 0.4, 3) for _ in range(runs))
            found = [aggregate_votes(each, resamples=200).agreement for each in made]
            shares.append(told((holds(each.interval, truth or 0.0) for each in found), (each.doubt for each in found)))
        rows.append((f"Krippendorff's alpha, {people} people", shares))
    for people in (3, 8, 20):
        shares: list[float | Doubtful] = []
        for prompts in (40, 200):
            rng = np.random.default_rng(16)
            boards = [people_board(*leaning_pairs(rng, people, prompts)).to_json() for _ in range(runs)]
            rates = [
                place["interval"] for board in boards for place in board["generators"] if place["generator"] == "A"
            ]
            shares.append(told((holds(each, WIN_RATE) for each in rates), (board.get("doubt", "") for board in boards)))
        rows.append((f"`judges people`, {people} people", shares))
    return rows


def people_rows(runs: int) -> Rows:
    """By number of prompts: coverage of the accuracy where prompts come in families, and where three people judge."""
    sizes = (40, 200)
    rows = []
    for name, family, people in (("prompts in families of 4", 4, 0), ("3 people with leanings, a third each", 1, 3)):
        shares = []
        for prompts in sizes:
            rng, intervals = np.random.default_rng(12), []
            unit = np.arange(prompts * family) // family
            for _ in range(runs):
                who = rng.integers(0, max(people, 1), len(unit))
                lean = 0.8 * rng.standard_normal(max(people, 1))[who] if people else 0.8 * _shared(rng, unit, 1.0)
                right = rng.random(len(unit)) < ndtr(0.67 + lean + 0.6 * rng.standard_normal(len(unit)))
                pairs = [
                    Pair(f"p{p}", f"{p}a", f"{p}b", "a" if right[p] else "b", annotator=str(who[p]) if people else "")
                    for p in range(len(unit))
                ]
                declared = {f"p{p}": f"f{number}" for p, number in enumerate(unit.tolist())} if family > 1 else {}
                values = {f"{p}a": 1.0 for p in range(len(unit))} | {f"{p}b": 0.0 for p in range(len(unit))}
                intervals.append(pairwise_accuracy(in_families(pairs, declared), values).accuracy_interval)
            shares.append(covered(intervals, float(ndtr(0.67 / 2**0.5))))
        rows.append((name, shares))
    return rows
