"""How often intervals cover and tests are wrong: simulated data of which the truth is known.

    python -m benchmarks.coverage            # some five minutes of processor time
    python -m benchmarks.coverage --quick    # a fifth of the runs
    python -m benchmarks.coverage --write    # and puts the tables into docs/measurements/statistics.md

Prints (1) how many 95% intervals hold the true accuracy, mean, difference of two judges, correlation with people or
Bradley-Terry strength; how often (2) a metric of pure noise "beats guessing", by this project's threshold and by one that
takes pairs as independent, (3) two equal judges are said to differ, (4) a trust card of six prompts errs on a judge that is
exactly at a limit, and (5) some of several equal metrics is "below the best". Then the same on unkind data: answers at an end
of the scale, choices among judges, rare collapses, boards carried over, attacks that move many spans, canaries that share
descriptions (`benchmarks.unkind`); and verdicts on generators of one mean whose scores collapse now and then, or are missing
(`benchmarks.equal_generators`); and prompts in families, unequal numbers of images, and few people (`benchmarks.families`).
Standard errors: a quarter of a point for accuracies, means and differences, a point and a half for correlations and strengths.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import binom, multinomial

from benchmarks.coverage_rows import Doubtful, Rows, covered, holds
from titjudge.core.types import Pair
from titjudge.probes.trust_card import CAUGHT, PASS, line, with_verdicts
from titjudge.stats.bootstrap import Floats, Interval
from titjudge.stats.chance_level import guessing, paper_threshold
from titjudge.stats.generators.paired_differences import below_the_best, mean_differences
from titjudge.stats.intervals import mean_interval, mean_intervals, share_intervals
from titjudge.stats.ranking.bradley_terry import bradley_terry
from titjudge.stats.ranking.correlation import correlation

PAGE = Path(__file__).resolve().parents[1] / "docs" / "measurements" / "statistics.md"
COMMAND = "python -m benchmarks.coverage --write"
PART = re.compile(rf"(<!-- measured: {re.escape(COMMAND)} -->\n).*?(<!-- end measured -->)", re.DOTALL)
PROMPTS = (6, 10, 20, 50)
YES_NO_PROMPTS = (40, 100, 200)
NOISE = {
    0.97: 0.094,
    0.9: 0.334,
    0.8: 0.759,
    0.7: 1.425,
    0.6: 3.15,
}  # accuracy -> noise of the metric, in spreads of the truth
IMAGES = 4
RESAMPLES = 400
LINES = 10  # of a card


def accuracies(rng: np.random.Generator, prompts: int, *noises: float) -> list[Floats]:
    """Right pairs of each prompt by metric: 4 images, their true order, and metrics that see it through noise."""
    a, b = np.triu_indices(IMAGES, 1)
    truth = rng.random((prompts, IMAGES))
    found = []
    for noise in noises:
        told = truth + noise * 0.29 * rng.standard_normal((prompts, IMAGES))
        found.append(((told[:, a] > told[:, b]) == (truth[:, a] > truth[:, b])).sum(axis=1).astype(np.float64))
    return found


def interval_rows(runs: int) -> Rows:
    """By statistic of sums over prompts: coverage at each number of prompts."""
    rng = np.random.default_rng(1)
    rows = []

    def draws(of: Callable[[int], Floats], prompts: int) -> Floats:
        return of(runs * prompts).reshape(runs, prompts).T

    def shares(name: str, of: Callable[[int], Floats], pairs: float) -> None:
        truth = of(100_000).mean() / pairs
        found = [share_intervals(draws(of, n), np.full((n, runs), pairs)) for n in PROMPTS]
        rows.append((name, [covered(each, truth) for each in found]))

    def means(name: str, of: Callable[[int], Floats], truth: float, bounds: Interval | None = None) -> None:
        found = [mean_intervals(draws(of, n), np.ones((n, runs)), bounds) for n in PROMPTS]
        rows.append((name, [covered(each, truth) for each in found]))

    for accuracy, noise in NOISE.items():
        shares(f"accuracy {accuracy}", lambda size, noise=noise: accuracies(rng, size, noise)[0], 6.0)  # type: ignore[misc]
    shares(
        "accuracy .9, most prompts all right", lambda size: rng.binomial(6, rng.beta(2.7, 0.3, size)).astype(float), 6.0
    )
    means("mean, normal", lambda size: rng.normal(0.0, 1.0, size), 0.0)
    means("mean, skewed (exponential)", lambda size: rng.exponential(1.0, size), 1.0)
    for first, second in ((0.9, 0.8), (0.7, 0.6), (0.8, 0.8)):

        def difference(size: int, noises: tuple[float, float] = (NOISE[first], NOISE[second])) -> Floats:
            one, other = accuracies(rng, size, *noises)
            return (one - other) / 6

        truth = float(difference(400_000).mean()) if first != second else 0.0
        means(f"difference of accuracies {first} and {second}", difference, truth, (-1.0, 1.0))
    means("mean, skewness 6 (log-normal)", lambda size: rng.lognormal(0.0, 1.0, size), float(np.exp(0.5)))
    return rows


def yes_no_rows() -> Rows:
    """By shares of yes: coverage of the interval of a mean score, and of a difference of two generators; exact, over every outcome."""
    rows: Rows = []
    for share in (0.5, 0.7, 0.9, 0.95):
        found: list[float | Doubtful] = []
        for n in YES_NO_PROMPTS:
            yes = np.arange(n + 1)
            ends = [mean_interval(100.0 * (np.arange(n) < count), (0.0, 100.0)) for count in yes]
            found.append(float(binom.pmf(yes, n, share) @ [holds(each, 100 * share) for each in ends]))
        rows.append((f"mean score, {share:.0%} yes", found))
    for first, second in ((0.9, 0.9), (0.8, 0.8), (0.9, 0.8), (0.9, 0.7)):
        found, chances = [], (first * (1 - second), second * (1 - first))
        for n in YES_NO_PROMPTS:
            won, lost = (each.ravel() for each in np.indices((n + 1, n + 1)))
            won, lost = won[won + lost <= n], lost[won + lost <= n]
            prompt = np.arange(n)[:, None]
            scores = 100.0 * ((prompt < won).astype(np.float64) - (prompt >= n - lost))
            weight = multinomial.pmf(np.stack([won, lost, n - won - lost], axis=1), n, [*chances, 1 - sum(chances)])
            ends = mean_intervals(scores, np.ones_like(scores), (-100.0, 100.0))
            found.append(float(weight @ [holds(each, 100 * (first - second)) for each in ends]))
        rows.append((f"difference, {first:.0%} and {second:.0%} yes", found))
    return rows


def resampled_rows(runs: int) -> Rows:
    """By statistic over all prompts at once, with intervals by resampling prompts: coverage at each number of prompts."""
    rng = np.random.default_rng(5)
    rows = []
    for weight in (0.3, 0.7, 0.95):
        human, told = _scored(rng, 20_000, weight)
        truth = correlation(told, human, resamples=0).srcc or 0.0
        found = [covered((_srcc(*_scored(rng, n, weight)) for _ in range(runs)), truth) for n in PROMPTS]
        rows.append((f"SRCC {truth:.2f}", found))
    strengths = {each.generator: each.strength for each in bradley_terry(*_fights(rng, 8_000), resamples=0).generators}
    found = []
    for n in PROMPTS:
        fits = [bradley_terry(*_fights(rng, n), resamples=RESAMPLES).generators for _ in range(runs // 2)]
        found.append(
            float(np.mean([covered([each.interval], strengths[each.generator]) for fit in fits for each in fit]))
        )
    rows.append(("Bradley-Terry strengths, 4 generators", found))
    return rows


def _scored(rng: np.random.Generator, prompts: int, weight: float) -> tuple[list[float], list[float]]:
    """Marks of people from 0 to 10, and a metric: both also hang on the prompt, each in its own way."""
    hard, easy = 0.5 * rng.standard_normal((2, prompts, 1))
    own = rng.standard_normal((prompts, IMAGES))
    told = weight * (hard + own) + easy + (1 - weight**2) ** 0.5 * rng.standard_normal((prompts, IMAGES))
    return np.clip(np.round(1.5 * (hard + own) + 5), 0, 10).ravel().tolist(), told.ravel().tolist()


def _srcc(human: list[float], told: list[float]) -> Interval | None:
    prompts = [str(k // IMAGES) for k in range(len(human))]
    return correlation(told, human, prompts, resamples=RESAMPLES).srcc_interval


def _fights(rng: np.random.Generator, prompts: int) -> tuple[list[Pair], dict[str, str]]:
    """All pairs of 4 generators on each prompt, with ties; how good a generator is differs from prompt to prompt."""
    a, b = np.triu_indices(IMAGES, 1)
    good = np.linspace(0.6, -0.6, IMAGES) + 0.5 * rng.standard_normal((prompts, IMAGES))
    lead = good[:, a] - good[:, b] + rng.logistic(size=(prompts, len(a)))
    pairs = [
        Pair(f"p{p}", f"{p}/{a[k]}", f"{p}/{b[k]}", "tie" if abs(lead[p, k]) < 0.3 else "a" if lead[p, k] > 0 else "b")
        for p in range(prompts)
        for k in range(len(a))
    ]
    return pairs, {f"{p}/{k}": f"g{k}" for p in range(prompts) for k in range(IMAGES)}


def equal_rows(runs: int) -> Rows:
    """By statistic: how often two equal judges are said to differ at .05, at each number of prompts."""
    rng = np.random.default_rng(6)
    rows = []
    for name, of in (
        ("equal accuracies .8", lambda n: [each / 6 for each in accuracies(rng, n, NOISE[0.8], NOISE[0.8])]),
        ("equal accuracies .97", lambda n: [each / 6 for each in accuracies(rng, n, NOISE[0.97], NOISE[0.97])]),
        ("equal means, skewed", lambda n: rng.exponential(1.0, (2, n))),
    ):
        found = []
        for n in PROMPTS:
            false = 0
            for _ in range(runs):
                judges = {
                    f"judge {k}": {str(p): float(v) for p, v in enumerate(column)} for k, column in enumerate(of(n))
                }
                (difference,) = mean_differences({str(p): str(p) for p in range(n)}, judges)
                false += (difference.p_value or 1.0) < 0.05
            found.append(false / runs)
        rows.append((name, found))
    return rows


def guessing_rows(runs: int) -> Rows:
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


def card_rows(runs: int) -> Rows:
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
    cards = []
    for _ in range(runs // LINES):
        effects = [[(f"p{k}", float(effect)) for k, effect in enumerate(judges[2][-1]())] for _ in range(LINES)]
        lines = with_verdicts([line("f", "bribe", each, rule="at most", limit=0.05) for each in effects])
        cards.append({each.verdict for each in lines})
    rows.append(
        (
            f"any of {LINES} such lines of one card",
            [float(np.mean([kind in card for card in cards])) for kind in (CAUGHT, PASS)],
        )
    )
    return rows


def best_rows(runs: int) -> Rows:
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


def table(title: str, columns: list[str], rows: Rows | list[tuple[str, list[str]]]) -> str:
    """Markdown, aligned to be read as it is."""
    wide = max(len(title), *(len(name) for name, _ in rows))
    cells = [[_cell(value) for value in values] for _, values in rows]
    lines = [[title.ljust(wide), *(name.rjust(11) for name in columns)], ["-" * wide, *["-" * 11] * len(columns)]]
    lines += [[name.ljust(wide), *(cell.rjust(11) for cell in row)] for (name, _), row in zip(rows, cells, strict=True)]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def _cell(value: float | Doubtful | str) -> str:
    """Write a share; in brackets the share of results whose own line calls the level not reliable."""
    if isinstance(value, tuple):
        return f"{100 * value[0]:.1f}% ({100 * value[1]:.0f}%)"
    return value if isinstance(value, str) else f"{100 * value:.1f}%"


def fill(page: Path, part: re.Pattern[str], text: str) -> None:
    """Put what a command printed into its place on a page, between the two groups of `part`."""
    old = page.read_text(encoding="utf-8")
    page.write_text(part.sub(lambda match: f"{match[1]}\n{text}\n\n{match[2]}", old), encoding="utf-8")


def main() -> None:
    from benchmarks import equal_generators, families, unkind

    scale = 5 if "--quick" in sys.argv[1:] else 1
    started, worked = time.perf_counter(), time.process_time()
    sizes = [f"{n} prompts" for n in PROMPTS]
    tables: list[str] = []

    def show(title: str, columns: list[str], rows: Rows | list[tuple[str, list[str]]]) -> None:
        tables.append(table(title, columns, rows))
        print(f"\n{tables[-1]}", flush=True)

    show("95% intervals that hold the truth", sizes, interval_rows(8000 // scale) + resampled_rows(250 // scale))
    columns = [f"{n} prompts" for n in YES_NO_PROMPTS]
    show("95% intervals that hold yes and no scores, every outcome", columns, yes_no_rows())
    columns = ["at .05", "at .001", "independent"]
    show("Pure noise that beats guessing", columns, guessing_rows(20_000 // scale))
    show("Equal judges that are said to differ at .05", sizes, equal_rows(200 // scale))
    show("Judges exactly at a limit, six prompts", ["caught", "passed"], card_rows(600 // scale))
    show("Some of several equal metrics below the best", ["at .05"], best_rows(160 // scale))
    columns = [f"{n} prompts" for n in unkind.PROMPTS]
    hard = unkind.alpha_rows(200 // scale)
    show("95% intervals on unkind data that hold", columns, hard)
    show("90% ranges of prompts that hold", columns, unkind.plan_rows(1000 // scale))
    columns = [f"{n} anchors" for n in unkind.ANCHORS]
    show("95% intervals of a generator carried over", columns, unkind.bridge_rows(100 // scale))
    show("Judges exactly at a limit, 72 prompts", ["caught", "passed"], unkind.far_rows(400 // scale))
    show("Canaries of an unchanged judge that drift", ["1 metric", "5 metrics"], unkind.canary_rows(1000 // scale))
    columns = [f"{n} prompts" for n in equal_generators.PROMPTS]
    held, passed, failed, differ = equal_generators.gate_rows(400 // scale)
    show("95% intervals that hold a difference of generators", columns, held)
    show("A gate says not worse of one exactly at its margin", columns, passed)
    show("A gate says worse of one exactly at its margin", columns, failed)
    show("Generators with one mean that differ at .05 by exchange", columns, differ)
    best = equal_generators.best_rows(400 // scale)
    show("Some of several equal generators below the best", ["p best", "interval"], best)
    settled = equal_generators.settle_rows(200 // scale)
    show("Generators with one mean, one of which `--settle` prefers", ["277 prompts", "2,000"], settled)
    cost = equal_generators.settling_cost(100 // scale)
    show("What settling costs, median prompts", ["betting", "asymptotic"], cost)
    missing = equal_generators.missing_rows(200 // scale)
    show("a has no score on most prompts on which it does badly", columns[1:], missing)
    show("Equal generators whose prompts come in 40 families", families.COLUMNS, families.family_rows(400 // scale))
    columns = ["40 units", "200 units"]
    show("95% intervals of the accuracy that hold", columns, families.people_rows(400 // scale))
    columns = ["40 prompts", "200 prompts"]
    show("95% intervals that hold for people who differ", columns, families.annotator_rows(200 // scale))
    print(
        f"\n{time.perf_counter() - started:.0f} s, of which the processor worked {time.process_time() - worked:.0f} s"
    )
    if "--write" in sys.argv[1:]:
        fill(PAGE, PART, "\n\n".join(tables))


if __name__ == "__main__":
    main()
