"""Rows of `benchmarks.coverage` on generators of one mean: how often a gate, a test, the best of several or `--settle` err.

By the functions that `compare generators`, `compare early-stopping` and `judge --settle` call, on scores that lie in lumps, are
saturated, collapse now and then, or are missing where they are bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.coverage_rows import Doubtful, Rows, holds, told
from titjudge.core import registry
from titjudge.core.types import Item, Score
from titjudge.runs.study.settling import Settling, SettlingQuestion
from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.generator_differences import NOT_WORSE, WORSE, gate, generator_differences, is_best
from titjudge.stats.generators.sequential import EQUIVALENT, OPEN, replay_pairs, replay_race
from titjudge.stats.scores.scores_table import ScoreTable

PROMPTS = (6, 12, 40, 100)
Scores = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def _collapsing(level: float, noise: float, share: float, loss: float) -> Scores:
    """Scores from 0 to 100 near a level, of which a share is lower by `loss`."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        kept = level + noise * rng.standard_normal(shape)
        return np.clip(np.where(rng.random(shape) < share, kept - loss, kept), 0, 100)

    return draw


GENERATORS: dict[str, Scores] = {
    "scores in lumps, many at both ends": lambda rng, shape: np.clip(5 * np.round(rng.normal(12, 9, shape)), 0, 100),
    "95 +- 2": _collapsing(95, 2, 0, 0),
    "yes or no, 90% yes": lambda rng, shape: 100.0 * (rng.random(shape) < 0.9),
    "70 +- 8, 5% of images 60 lower": _collapsing(70, 8, 0.05, 60),
    "72 +- 2, 5% of images 60 lower": _collapsing(72, 2, 0.05, 60),
    "97 +- 1, 3% of images blank": _collapsing(97, 1, 0.03, 97),
}


def gate_rows(runs: int) -> tuple[Rows, Rows, Rows, Rows]:
    """By kind of scores, from 0 to 100: a generator against a baseline that always has its mean score.

    Returns:
        Intervals that hold the difference, which is 0; how often a gate with no allowance passes the generator, and fails a baseline
        that always has the mean score against it; and how often p is below .05; at each number of prompts.
    """
    rng = np.random.default_rng(7)
    held, passed, failed, differ = [], [], [], []
    for name, draw in GENERATORS.items():
        mean = float(draw(rng, (2_000_000,)).mean())
        cells: list[list[float | Doubtful]] = [[], [], [], []]
        for n in PROMPTS:
            scores = draw(rng, (n, runs))
            for mirrored, rest in ((False, (0, 1, 3)), (True, (2,))):
                compared = _against(100 - scores if mirrored else scores, 100 - mean if mirrored else mean)
                differences = generator_differences(compared, baseline="base")
                # only "not worse" asks for the ends of the scale
                scores_of = replace(compared, bounds=None) if mirrored else compared
                verdicts = [gate([each], 0.0, scores_of).verdicts[each.a] for each in differences]
                measured = (
                    [holds(each.interval, 0.0) for each in differences],
                    [verdict == NOT_WORSE for verdict in verdicts],
                    [verdict == WORSE for verdict in verdicts],
                    [(each.p or 1.0) < 0.05 for each in differences],
                )
                for k in rest:
                    cells[k].append(told(measured[k], ("" if k == 1 else each.doubt for each in differences)))
        for rows, own in zip((held, passed, failed, differ), cells, strict=True):
            rows.append((name, own))
    return held, passed, failed, differ


def _against(scores: Floats, baseline: float) -> ScoreTable:
    """A table of one generator for each run, and of a baseline."""
    return _scores(
        np.column_stack([scores, np.full(len(scores), baseline)]), [*map(str, range(scores.shape[1])), "base"]
    )


def _scores(means: Floats, names: Sequence[str]) -> ScoreTable:
    """A table on a scale from 0 to 100 as the commands read it; NaN is an image without a score."""
    known, nothing = np.isfinite(means), (None,) * len(names)
    prompts = tuple(f"p{k}" for k in range(len(means)))
    return ScoreTable(
        tuple(names), prompts, means, known.astype(np.int64), (~known).astype(np.int64), nothing, nothing, 1.0,
        "score", "scores.csv", missing=int((~known).sum()), bounds=(0.0, 100.0),
    )  # fmt: skip


def best_rows(runs: int) -> Rows:
    """By number of equal generators and prompts: how often some is below the best of them, by p best and by interval."""
    rng = np.random.default_rng(8)
    rows = []
    for count, prompts in ((5, 12), (5, 30), (5, 100), (12, 30), (12, 100)):
        by_p, by_interval = 0, 0
        for _ in range(runs):
            hard = rng.normal(60, 30, (prompts, 1))
            compared = _scores(
                np.clip(np.round(hard + rng.normal(0, 25, (prompts, count))), 0, 100), [f"g{k}" for k in range(count)]
            )
            best = compared.generators[int(compared.means.mean(axis=0).argmax())]
            differences = generator_differences(compared, baseline=best, chosen=is_best(compared, best))
            by_p += any(each.p_adjusted is not None and each.p_adjusted < 0.05 for each in differences)
            by_interval += any(each.interval is not None and each.interval[1] < 0 for each in differences)
        rows.append((f"{count} equal generators, {prompts} prompts", [by_p / runs, by_interval / runs]))
    return rows


PAIRS: dict[str, Scores] = {
    "scores in lumps, many at both ends": lambda rng, shape: GENERATORS["scores in lumps, many at both ends"](
        rng, shape
    ),
    "a better by 2, and blank on 2% of prompts": lambda rng, shape: _better(rng, shape, 96, 0, 2, 0.02),
    "a better by 3 +- 2, and blank on 3%": lambda rng, shape: _better(rng, shape, 95, 2, 3, 0.03),
    "b misses one of 20 questions, a blank on 5%": lambda rng, shape: _better(rng, shape, 95, 0, 5, 0.05),
    "hard and easy prompts, a better by 3, blank on 3%": lambda rng, shape: _better(rng, shape, 88, 8, 3, 0.03),
}


def _better(
    rng: np.random.Generator, shape: tuple[int, ...], level: float, noise: float, gain: float, blank: float
) -> Floats:
    """Scores of b, and of a generator a that is better by `gain` and blank now and then."""
    b = np.minimum(level + noise * rng.standard_normal(shape[0]), 100 - gain)
    a = np.where(rng.random(shape[0]) < blank, 0.0, b + gain)
    return np.column_stack([a, b])


def settle_rows(runs: int) -> Rows:
    """By kind of scores, two generators with one mean: how often `judge --settle` and `compare early-stopping` name a better one."""
    rng = np.random.default_rng(9)
    rows = []
    for name, draw in PAIRS.items():
        gap = float(np.diff(draw(rng, (1_000_000, 2)).mean(axis=0))[0])
        few = [judged_verdict(_level(draw(rng, (277, 2)), gap)) != OPEN for _ in range(runs)]
        many = [
            replay_pairs(_scores(_level(draw(rng, (2000, 2)), gap), "ab"), [("a", "b")])[0].verdict != OPEN
            for _ in range(runs)
        ]
        rows.append((name, [float(np.mean(few)), float(np.mean(many))]))
    races = [
        replay_race(_scores(_collapsing(97, 1, 0.03, 97)(rng, (2000, 4)), "abcd"), "abcd")[0].verdict != OPEN
        for _ in range(runs)
    ]
    few = [judged_verdict(_collapsing(97, 1, 0.03, 97)(rng, (277, 4))) != OPEN for _ in range(runs)]
    rows.append(("a race of four, 3% of images blank", [float(np.mean(few)), float(np.mean(races))]))
    margin: list[list[bool]] = [[], []]
    for _ in range(runs):
        for k, prompts in enumerate((277, 2000)):
            scores = np.column_stack([np.where(rng.random(prompts) < 0.02, 0.0, 90.0), np.full(prompts, 90.0)])
            found = replay_pairs(_scores(scores, "ab"), [("a", "b")], margin=1.8)[0]
            margin[k].append(found.verdict == EQUIVALENT)
    rows.append(("equivalent, by blanks at the margin", [float(np.mean(each)) for each in margin]))
    return rows


def _level(scores: Floats, gap: float) -> Floats:
    """Give b the mean of a: the higher one comes down, so that scores stay on the scale."""
    return scores + np.array([gap, 0.0] if gap < 0 else [0.0, -gap])


def judged_verdict(scores: Floats) -> str:
    """The verdict of `judge --settle` on generators a, b, ...; NaN is an image without a score."""
    names = tuple("abcdefgh"[: scores.shape[1]])
    items = [Item(f"{name}{p}", "", None, name, f"{p}") for p in range(len(scores)) for name in names]
    settling = Settling(
        SettlingQuestion(names), items, {"m": replace(registry.load("metrics", "tit-llm"), range=(0.0, 100.0))}
    )
    for item in settling.order():
        value = float(scores[int(item.id[1:]), names.index(item.generator)])
        settling.take(Score(item.id, "m", None if np.isnan(value) else value))
    verdict: str = settling.record(0.0, 0.0).pairs[0].verdict
    return verdict


def missing_rows(runs: int) -> Rows:
    """By number of prompts: how often a is passed, or said to be better, that is worse and has no score where it does badly."""
    rng = np.random.default_rng(10)
    passed, better = [], []
    for prompts in PROMPTS[1:]:
        verdicts = []
        for _ in range(runs):
            verdicts.append(
                gate(
                    generator_differences(one := _scores(_hiding(rng, prompts), "ab"), baseline="b"), 2.0, one
                ).verdicts["a"]
            )
        passed.append(verdicts.count(NOT_WORSE) / runs)
        better.append(float(np.mean([judged_verdict(_hiding(rng, prompts)) == "a" for _ in range(runs)])))
    return [("a gate that allows 2 passes a, which is 4 worse", passed), ("`--settle` says that a is better", better)]


def _hiding(rng: np.random.Generator, prompts: int) -> Floats:
    """Scores of a and b; a is 4 worse, and lacks those that are clearly below its own mean."""
    hard = rng.normal(60, 15, (prompts, 1))
    scores = np.clip(hard + rng.normal(0, 10, (prompts, 2)) - [4, 0], 0, 100)
    scores[:, 0] = np.where((scores[:, 0] < hard[:, 0] - 2) & (rng.random(prompts) < 0.8), np.nan, scores[:, 0])
    return scores


def settling_cost(runs: int) -> list[tuple[str, list[str]]]:
    """By scores and gap: the median number of prompts to a verdict, by betting and by the asymptotic interval, of at most 2,000."""
    rng = np.random.default_rng(11)
    kinds: list[tuple[str, Callable[[], Floats]]] = [
        ("scores use the scale, spread 25, gap 10", lambda: np.clip(rng.normal((65, 55), 25, (2000, 2)), 0, 100)),
        ("scores use the scale, spread 25, gap 20", lambda: np.clip(rng.normal((70, 50), 25, (2000, 2)), 0, 100)),
        ("yes or no, 60% and 50%", lambda: 100.0 * (rng.random((2000, 2)) < (0.6, 0.5))),
        ("90 +- 2, gap 5", lambda: np.clip(rng.normal((92.5, 87.5), 2, (2000, 2)), 0, 100)),
        ("95 +- 2, gap 1", lambda: np.clip(rng.normal((95.5, 94.5), 2, (2000, 2)), 0, 100)),
    ]
    rows = []
    for name, draw in kinds:
        used = []
        for _ in range(runs):
            one = _scores(draw(), "ab")
            ended = [replay_pairs(each, [("a", "b")])[0].used for each in (one, replace(one, bounds=None))]
            used.append(ended)
        rows.append((name, [f"{middle:.0f}" for middle in np.median(used, axis=0)]))
    return rows
