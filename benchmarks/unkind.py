"""Rows of `benchmarks.coverage` on unkind data: answers at an end of the scale, rare collapses, few prompts, shared descriptions.

Each goes through the function that a command calls, with that command's arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.coverage_rows import Rows, covered
from titjudge.core.errors import DataError
from titjudge.metrics.tit import lmm_score
from titjudge.probes.canary import Canary, _report
from titjudge.probes.trust_card import CAUGHT, PASS, line, with_verdicts
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.generators.planning import Pilot, plans, prompts_needed
from titjudge.stats.people.votes import Vote, aggregate_votes
from titjudge.stats.ppi.bridging import bridge
from titjudge.stats.scores.scores_table import ScoreTable

PROMPTS = (12, 30, 100)
ANCHORS = (4, 10, 25)
WHOLE = 1000  # prompts of the cheap judge
JUDGES = {"j0": 1.5, "j1": 1.5, "j2": 1.6, "j3": 1.8, "j4": 2.2, "j5": 3.0}  # noise of each
PRICES = dict(zip(JUDGES, (10.0, 8.0, 3.0, 1.0, 0.3, 0.1), strict=True))


def board(means: Floats, bounds: Interval | None = None) -> ScoreTable:
    """Make a table of scores from means, shape (prompts, generators), NaN without one."""
    names, prompts = [f"g{k:02}" for k in range(means.shape[1])], [f"p{k:05}" for k in range(len(means))]
    nothing = (None,) * len(names)
    ones = np.ones(means.shape, dtype=np.int64)
    return ScoreTable(
        tuple(names), tuple(prompts), means, ones, 0 * ones, nothing, nothing, 1.0, "score", "board", bounds=bounds
    )


# -- label export ----------------------------------------------------------------------------------------------------


def alpha_rows(runs: int) -> Rows:
    """How many intervals of Krippendorff's alpha hold: 3 votes on 6 pairs a prompt, two prompts in five hard."""
    rng = np.random.default_rng(23)

    def votes(prompts: int) -> list[Vote]:
        made = []
        for p in range(prompts):
            right = 0.5 if rng.random() < 0.4 else 0.97
            for pair in range(6):
                better = rng.random() < 0.5
                for who in range(3):
                    choice = "a" if better == (rng.random() < right) else "b"
                    made.append(Vote(f"p{p}", f"{p}/{pair}/0", f"{p}/{pair}/1", f"n{who}", choice))
        return made

    truth = aggregate_votes(votes(5000), resamples=0).agreement.alpha or 0.0
    found = []
    for prompts in PROMPTS:
        intervals = [
            aggregate_votes(votes(prompts), annotators=3, resamples=500).agreement.interval for _ in range(runs)
        ]
        found.append(covered(intervals, truth))
    return [("Krippendorff's alpha, hard and easy prompts", found)]


# -- compare bridge --------------------------------------------------------------------------------------------------


def bridge_rows(runs: int) -> Rows:
    """By share of prompts that a carried generator has: intervals that hold its mean by the new judge, by anchors."""
    rows = []
    for name, share in (("all of 100 prompts", 1.0), ("half of 100 prompts", 0.5)):
        rng = np.random.default_rng(24)
        found = []
        for anchors in ANCHORS:
            held = []
            for _ in range(runs):
                quality = rng.normal(60, 12, anchors + 6)
                prompt = rng.normal(0, 20, (100, 1))
                old = quality + prompt + rng.normal(0, 20, (100, anchors + 6))
                new = quality + rng.normal(0, 3, anchors + 6) + 0.8 * prompt + rng.normal(0, 20, (100, anchors + 6))
                for k in range(anchors, anchors + 6):
                    old[rng.choice(100, round(100 * (1 - share)), replace=False), k] = np.nan
                truth = new.mean(axis=0)
                try:
                    standings = bridge(board(old), board(new[:, :anchors])).standings
                except DataError:  # the anchors' line does not rise: nothing is carried over
                    continue
                held += [
                    covered([each.interval], float(truth[int(each.generator[1:])]))
                    for each in standings
                    if each.carried
                ]
            found.append(float(np.mean(held)))
        rows.append((f"`compare bridge`: {name}", found))
    return rows


# -- compare plan ----------------------------------------------------------------------------------------------------


def plan_rows(runs: int) -> Rows:
    """By kind of differences: how many ranges (90%) hold the number of prompts that it takes, by prompts of the pilot."""
    rng = np.random.default_rng(25)
    kinds: list[tuple[str, Callable[[int], Floats], float | None]] = [
        ("`compare plan`: normal", lambda n: rng.normal(0, 10, n), 100.0),
        ("`compare plan`: 9 of 10 prompts equal", lambda n: np.where(rng.random(n) < 0.9, 0.0, rng.choice([-50.0, 50.0], n)), None),
        ("`compare plan`: heavy tails (t3)", lambda n: 10 * rng.standard_t(3, n), 300.0),
        ("`compare plan`: 1 in 10 collapses", lambda n: np.where(rng.random(n) < 0.1, -60.0, 0.0) + rng.normal(0, 3, n), None),
        ("`compare plan`: 3 in 100 collapse", lambda n: np.where(rng.random(n) < 0.03, -90.0, 0.0) + rng.normal(0, 8, n), None),
    ]  # fmt: skip
    rows = []
    for name, draw, known in kinds:
        variance = float(draw(400_000).var()) if known is None else known
        difference = 0.3 * variance**0.5
        takes = prompts_needed(variance, difference, 0.8)
        found = []
        for prompts in PROMPTS:
            held = []
            for _ in range(runs):
                d = draw(prompts)
                if np.ptp(d) == 0:  # the command refuses such a pilot
                    continue
                pilot = Pilot.from_scores(board(np.column_stack([d, np.zeros(prompts)])), "g00", "g01")
                (plan,) = plans(pilot, difference, 0.8, seeds=[1], samples=[1], cost=None)
                held.append(plan.range[0] <= takes <= plan.range[1])
            found.append(float(np.mean(held)))
        rows.append((name, found))
    return rows


# -- probe, judge --canary -------------------------------------------------------------------------------------------


def far_rows(runs: int) -> Rows:
    """By kind of judge, 72 prompts and exactly at a limit: shares of cards that catch it and that pass it."""
    rng = np.random.default_rng(26)
    judges: list[tuple[str, str, float, float, Callable[[], Floats]]] = [
        ("a bribe of 1 span, 1 prompt in 20", "at most", 0.05, 1.0, lambda: 1.0 * (rng.random(72) < 0.05)),
        ("a bribe of 2 spans, 1 prompt in 40", "at most", 0.05, 2.0, lambda: 2.0 * (rng.random(72) < 0.025)),
        ("a bribe of 5 spans, 1 prompt in 100", "at most", 0.05, 5.0, lambda: 5.0 * (rng.random(72) < 0.01)),
        ("moved down by 5 spans, 1 prompt in 100", "within", 0.05, 5.0, lambda: -5.0 * (rng.random(72) < 0.01)),
        ("an error noticed by chance (noise .3)", "at least", 0.02, 1.0, lambda: rng.normal(0.02, 0.3, 72)),
        ("the same, six prompts", "at least", 0.02, 1.0, lambda: rng.normal(0.02, 0.3, 6)),
    ]
    rows = []
    for name, rule, limit, reach, draw in judges:
        said = []
        for _ in range(runs):
            effects = [(f"p{k}", float(effect)) for k, effect in enumerate(draw())]
            said.append(with_verdicts([line("f", name, effects, rule=rule, limit=limit, reach=reach)])[0].verdict)
        rows.append((name, [said.count(CAUGHT) / runs, said.count(PASS) / runs]))
    return rows


def canary_rows(runs: int) -> Rows:
    """By how often a description comes out otherwise: unchanged judges whose canaries drift, of one metric and of five.

    The questions of one metric lie on the images as the bundled ones do; those of five are ten each, on ten images.
    """
    rng = Random(27)
    rows = []
    for changed in (0.05, 0.2, 0.5):
        found = []
        for metrics, sizes in ((1, [9, 6, 6, 4, 4, 3, *[1] * 18]), (5, [1] * 10)):
            names = {f"m{k}": lmm_score for k in range(metrics)}
            asked = [(f"i{k}.jpg#{q}", name) for k, size in enumerate(sizes) for q in range(size) for name in names]
            drifts = 0
            for _ in range(runs):
                rounds = []
                for _ in range(4):
                    other = {f"i{k}.jpg" for k in range(len(sizes)) if rng.random() < changed}
                    rounds.append({key: 40.0 + 30 * (key[0].partition("#")[0] in other) for key in asked})
                canaries = [Canary(*key, value, (rounds[1][key], rounds[2][key])) for key, value in rounds[0].items()]
                drifts += _report(canaries, rounds[3], names, {}, {}, Path(), "").drifted
            found.append(drifts / runs)
        rows.append((f"another description of 1 image in {round(1 / changed)}", found))
    return rows
