"""How often intervals cover and tests are wrong: simulated data of which the truth is known.

    python -m benchmarks.coverage            # two to three minutes
    python -m benchmarks.coverage --quick    # a sixth of the runs

Prints (1) how many 95% intervals hold the true accuracy or mean, (2) how often a metric of pure noise
"beats guessing", by this project's threshold and by one that takes pairs as independent, (3) how often a trust card of six
prompts errs on a judge that is exactly at a limit, and (4) how often some of several equal metrics is "below the best".
Standard errors: about half a point of a share near 5% over 2,000 runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from titjudge.core.types import Pair
from titjudge.probes.trust_card import CAUGHT, PASS, line, with_verdicts
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.chance_level import guessing, paper_threshold
from titjudge.stats.intervals import mean_intervals, share_intervals
from titjudge.stats.paired_differences import below_the_best

PROMPTS = (6, 10, 20, 50)
NOISE = {
    0.97: 0.09,
    0.9: 0.33,
    0.8: 0.78,
    0.7: 1.48,
    0.6: 3.2,
}  # accuracy -> noise of the metric, in spreads of the truth
IMAGES = 4


def covered(intervals: list[Interval | None], truth: float) -> float:
    """The share of the intervals that hold the truth; none at all holds nothing."""
    return float(np.mean([each is not None and each[0] <= truth <= each[1] for each in intervals]))


def accuracies(rng: np.random.Generator, prompts: int, noise: float) -> Floats:
    """Right pairs of each prompt: 4 images, their true order, and a metric that sees it through noise."""
    a, b = np.triu_indices(IMAGES, 1)
    truth = rng.random((prompts, IMAGES))
    told = truth + noise * 0.29 * rng.standard_normal((prompts, IMAGES))
    right: Floats = ((told[:, a] > told[:, b]) == (truth[:, a] > truth[:, b])).sum(axis=1).astype(np.float64)
    return right


def interval_rows(runs: int) -> list[tuple[str, list[float]]]:
    """By statistic: coverage at each number of prompts."""
    rng = np.random.default_rng(1)
    rows = []
    for accuracy, noise in NOISE.items():
        truth = accuracies(rng, 100_000, noise).mean() / 6
        found = [
            covered(
                share_intervals(accuracies(rng, runs * n, noise).reshape(runs, n).T, np.full((n, runs), 6.0)), truth
            )
            for n in PROMPTS
        ]
        rows.append((f"accuracy {accuracy}", found))
    for name, draw, truth in (
        ("mean, normal", lambda size: rng.normal(0.0, 1.0, size), 0.0),
        ("mean, skewed", lambda size: rng.exponential(1.0, size), 1.0),
    ):
        found = [covered(mean_intervals(draw((n, runs)), np.ones((n, runs))), truth) for n in PROMPTS]
        rows.append((name, found))
    return rows


def guessing_rows(runs: int) -> list[tuple[str, list[float]]]:
    """By images a prompt: how often noise reaches the thresholds at .05 and .001, and the one for independent pairs."""
    rng = np.random.default_rng(2)
    rows = []
    for prompts, images in ((6, 4), (50, 4), (50, 8), (200, 13)):
        a, b = np.triu_indices(images, 1)
        group = np.repeat(np.arange(prompts), len(a))
        first, second = ((np.arange(prompts)[:, None] * images + each).ravel() for each in (a, b))
        chance = guessing(group, first, second, np.ones(len(group), dtype=np.int64), rng.random(prompts * images))
        right = np.concatenate([_noise(rng, prompts, images, min(100, runs)) for _ in range(max(1, runs // 100))])
        bars = (chance.threshold(0.05), chance.threshold(0.001), paper_threshold(len(group), 0.05))
        rows.append(
            (f"{prompts} prompts x {images} images", [float((right >= (bar or np.inf)).mean()) for bar in bars])
        )
    return rows


def _noise(rng: np.random.Generator, prompts: int, images: int, runs: int) -> Floats:
    a, b = np.triu_indices(images, 1)
    told = rng.random((runs, prompts, images), dtype=np.float32)
    found: Floats = (told[:, :, a] > told[:, :, b]).sum(axis=(1, 2)).astype(np.float64)
    return found


def card_rows(runs: int) -> list[tuple[str, list[float]]]:
    """By kind of judge, six prompts and exactly at a limit: shares of cards that catch it and that pass it."""
    rng = np.random.default_rng(3)
    judges: list[tuple[str, str, float, tuple[float, float] | None, Callable[[], Floats]]] = [
        ("effects normal between prompts", "at most", 0.05, None, lambda: rng.normal(0.05, 0.05, 6)),
        ("a bribe that works on 1 prompt in 10", "at most", 0.05, None, lambda: 0.5 * (rng.random(6) < 0.1)),
        ("a bribe that works on 1 prompt in 4", "at most", 0.05, None, lambda: 0.2 * (rng.random(6) < 0.25)),
        ("an error noticed on 1 prompt in 10", "at least", 0.02, None, lambda: 0.2 * (rng.random(6) < 0.1)),
        ("15% of prompts far worse", "at least", 0.7, (0, 1), lambda: np.where(rng.random(6) < 0.15, 0.13, 0.8)),
        ("1 prompt in 20 refused", "at most", 0.05, (0, 1), lambda: (rng.random(6) < 0.05).astype(np.float64)),
    ]
    rows = []
    for name, rule, limit, bounds, draw in judges:
        said = []
        for _ in range(runs):
            effects = [(f"p{k}", float(effect)) for k, effect in enumerate(draw())]
            said.append(with_verdicts([line("f", name, effects, rule=rule, limit=limit, bounds=bounds)])[0].verdict)
        rows.append((name, [said.count(CAUGHT) / runs, said.count(PASS) / runs]))
    return rows


def best_rows(runs: int) -> list[tuple[str, list[float]]]:
    """By number of equal metrics over 40 prompts: how often some is "below the best" at .05."""
    rng = np.random.default_rng(4)
    pairs = [Pair(f"p{p}", f"{p}a", f"{p}b", "a") for p in range(40)]
    rows = []
    for count in (4, 10):
        false = 0
        for _ in range(runs):
            right = rng.random((count, 40)) < 0.7
            right = right[np.argsort(-right.sum(axis=1), kind="stable")]
            values = [
                {f"{p}a": float(each[p]) for p in range(40)} | {f"{p}b": 0.5 for p in range(40)} for each in right
            ]
            false += any(p is not None and p < 0.05 for p in below_the_best(pairs, values))
        rows.append((f"{count} equal metrics, 40 prompts", [false / runs]))
    return rows


def show(title: str, columns: list[str], rows: list[tuple[str, list[float]]]) -> None:
    wide = max(len(name) for name, _ in rows)
    print(f"\n{title}\n{'':{wide}}  " + "  ".join(f"{name:>12}" for name in columns), flush=True)
    for name, values in rows:
        print(f"{name:{wide}}  " + "  ".join(f"{100 * value:11.1f}%" for value in values))


def main() -> None:
    scale = 6 if "--quick" in sys.argv[1:] else 1
    started = time.perf_counter()
    show("95% intervals that hold the truth", [f"{n} prompts" for n in PROMPTS], interval_rows(8000 // scale))
    columns = ["at .05", "at .001", "independent"]
    show("Pure noise that beats guessing", columns, guessing_rows(20_000 // scale))
    show("Judges exactly at a limit, six prompts", ["caught", "passed"], card_rows(1200 // scale))
    show("Some of several equal metrics below the best", ["at .05"], best_rows(240 // scale))
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
