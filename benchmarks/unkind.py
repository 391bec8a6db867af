"""Rows of `benchmarks.coverage` on unkind data: answers at an end of the scale, rare collapses, few prompts, shared descriptions.

Each goes through the function that a command calls, with that command's arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import combinations
from random import Random

import numpy as np

from benchmarks.coverage_rows import Rows, covered
from titjudge.core.errors import DataError
from titjudge.core.types import Pair
from titjudge.metrics.lmm_score import lmm_score
from titjudge.probes.canary import Canary, _report
from titjudge.probes.trust_card import CAUGHT, PASS, line, with_verdicts
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.generators.planning import Pilot, plans, prompts_needed
from titjudge.stats.pairwise_accuracy import pair_index
from titjudge.stats.people.votes import Vote, aggregate_votes
from titjudge.stats.ppi.bridging import bridge
from titjudge.stats.ppi.cascade import apply, recommend
from titjudge.stats.ppi.judge_pool import best_pool, standardised
from titjudge.stats.ppi.two_tier import two_tier
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
    return ScoreTable(tuple(names), tuple(prompts), means, ones, nothing, nothing, 1.0, "score", "board", bounds=bounds)


# -- compare people --gold -------------------------------------------------------------------------------------------


def _yes_no(rng: np.random.Generator, share: float, agreement: float) -> tuple[Floats, Floats]:
    dear = rng.random(WHOLE) < share
    return dear * 1.0, np.where(rng.random(WHOLE) < agreement, dear, ~dear) * 1.0


def _saturated(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Marks of 100 on nine prompts of ten, of both judges on most of them."""
    dear = np.where(rng.random(WHOLE) < 0.9, 100.0, 10.0 * rng.integers(0, 10, WHOLE))
    other = np.where(rng.random(WHOLE) < 0.5, 100.0, 50.0)
    return dear, np.where(rng.random(WHOLE) < 0.9, dear, other)


def gold_rows(runs: int) -> Rows:
    """By kind of scores: how many of the intervals that there are hold, by the number of prompts of the dear judge."""
    rng = np.random.default_rng(21)
    kinds: list[tuple[str, float, Callable[[], tuple[Floats, Floats]]]] = [
        ("`--gold`: yes 90%, judges agree 90%", 0.9, lambda: _yes_no(rng, 0.9, 0.9)),
        ("`--gold`: yes 95%, judges agree 90%", 0.95, lambda: _yes_no(rng, 0.95, 0.9)),
        ("`--gold`: yes 98%, judges agree 97%", 0.98, lambda: _yes_no(rng, 0.98, 0.97)),
        ("`--gold`: 90% of marks at the top", 94.5, lambda: _saturated(rng)),
    ]
    rows = []
    for name, truth, draw in kinds:
        found = []
        for part in PROMPTS:
            intervals = []
            for _ in range(runs):
                dear, cheap = draw()
                some = np.full(WHOLE, np.nan)
                chosen = rng.choice(WHOLE, part, replace=False)
                some[chosen] = dear[chosen]
                estimate = two_tier(board(cheap[:, None]), board(some[:, None])).generators[0].estimate
                if estimate.interval is not None:
                    intervals.append(estimate.interval)
            found.append(covered(intervals, truth))
        rows.append((name, found))
    return rows


# -- sweep, compare cascade ------------------------------------------------------------------------------------------


def _compared(rng: np.random.Generator, prompts: int) -> tuple[list[Pair], dict[str, dict[str, float | None]]]:
    """Pairs of 4 images of each prompt in their true order, and six judges of various noise who share a part of it."""
    truth, shared = rng.normal(size=(prompts, 4)), 0.7 * rng.normal(size=(prompts, 4))
    pairs = [
        Pair(f"p{p}", f"{p}/{i}", f"{p}/{j}", "a" if truth[p, i] > truth[p, j] else "b")
        for p in range(prompts)
        for i, j in combinations(range(4), 2)
    ]
    values: dict[str, dict[str, float | None]] = {}
    for name, noise in JUDGES.items():
        scores = np.round(4 * (truth + shared + noise * rng.normal(size=(prompts, 4))))
        values[name] = {f"{p}/{i}": float(scores[p, i]) for p in range(prompts) for i in range(4)}
    return pairs, values


def choice_rows(runs: int) -> Rows:
    """How many intervals hold the true accuracy of the pool, and of the cascade, that is named."""
    rng = np.random.default_rng(22)
    pairs, values = _compared(rng, 3000)
    index = pair_index(pairs)
    scores = {name: standardised(index.scores(each)) for name, each in values.items()}

    @functools.cache
    def truth_of(pool: tuple[str, ...]) -> float:
        mean = sum(scores[name] for name in pool)
        return float((np.sign(mean[index.a] - mean[index.b]) == index.preference).mean())

    pools, cascades = [], []
    for prompts in PROMPTS:
        pool_held, cascade_held = [], []
        for k in range(runs):
            some, own = _compared(rng, prompts)
            pool = best_pool(some, own)
            assert pool is not None
            pool_held.append(covered([pool.interval], truth_of(tuple(sorted(pool.judges)))))
            if k < runs // 3:
                advice = recommend(some, own, PRICES)
                truth = apply(advice.outcome.rule, index, values, PRICES).accuracy
                cascade_held.append(covered([advice.interval], truth))
        pools.append(float(np.mean(pool_held)))
        cascades.append(float(np.mean(cascade_held)))
    return [("`sweep`: accuracy of the pool it names", pools), ("`compare cascade`: accuracy of its rule", cascades)]


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
                drifts += _report(canaries, rounds[3], names, {}, {}, "", "").drifted
            found.append(drifts / runs)
        rows.append((f"another description of 1 image in {round(1 / changed)}", found))
    return rows
