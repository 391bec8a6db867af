"""How often verdicts on generators err, on people's marks for 12 generators x 2,100 prompts.

    python -m benchmarks.verdicts [--human FILE] [--metric COLUMN] [--quick] [--answers OLD NEW]

FILE has prompt_id, generator and the column (LMM4LMM's marks, not part of this project; by default it is looked for beside
the project). Prints (1) how many 95% intervals from 200 prompts hold the difference over all prompts, and how often
generators that were exchanged at random within prompts fail a gate; (2) what settling a question costs, how often the wrong
generator wins, and how often exchanged generators get a verdict, beside that of peeking at a fixed-sample test; (3) what power a study has that was planned from a pilot, and how often the
printed range holds the number of prompts it takes; (5) what is lost by drawing a tenth of the comparisons of a pairwise judge; with
`--answers OLD NEW`, two official answer trees of TIIF-Bench by two judges, (4) how often a leaderboard that is carried over holds for a
generator that was left out.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from titjudge.runs.study.score_files import read_scores
from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.generator_differences import GeneratorDifference, gate
from titjudge.stats.generators.planning import prompts_needed, variance_factor
from titjudge.stats.generators.sequential import OPEN, replay_pairs, replay_race, settle
from titjudge.stats.intervals import TAIL, mean_intervals, moments
from titjudge.stats.ppi.bridging import BridgeLine, bridge
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table
from titjudge.stats.significance import benjamini_hochberg, sign_flip_p

HUMAN = Path(__file__).resolve().parents[1].parent / "shared" / "human" / "lmm4lmm_12_generators.csv.gz"
DRAWN = 200  # prompts of a verdict


def interval_coverage(scores: Floats, draws: int, *, replace: bool = False, seed: int = 1) -> tuple[float, list[float]]:
    """The share of intervals from 200 prompts that hold the difference over all, and that share for each draw.

    Args:
        scores: shape (prompts, generators). replace: draw prompts with replacement, as from endlessly many.
    """
    rng = np.random.default_rng(seed)
    pairs = list(combinations(range(scores.shape[1]), 2))
    truth = [float((scores[:, a] - scores[:, b]).mean()) for a, b in pairs]
    shares = []
    for _ in range(draws):
        some = scores[rng.choice(len(scores), DRAWN, replace=replace)]
        d = np.stack([some[:, a] - some[:, b] for a, b in pairs], axis=1)
        found = mean_intervals(d, np.ones_like(d), None)
        shares.append(
            float(np.mean([each is not None and each[0] <= t <= each[1] for each, t in zip(found, truth, strict=True)]))
        )
    return float(np.mean(shares)), shares


def exchanged(d: Floats, rng: np.random.Generator) -> Floats:
    """The differences of two generators whose scores were exchanged at random within prompts."""
    mixed: Floats = d * rng.choice([-1.0, 1.0], d.shape)
    return mixed


def gate_errors(scores: Floats, repeats: int, delta: float, seed: int = 2) -> tuple[float, float]:
    """How often a gate on 200 prompts fails two exchanged generators; and any of 11 candidates exchanged with a baseline."""
    rng = np.random.default_rng(seed)
    generators = scores.shape[1]
    one, several = [], []
    for _ in range(repeats):
        for base in range(generators):
            some = scores[rng.choice(len(scores), DRAWN, replace=False)]
            # Every generator's scores are dealt anew on each prompt.
            flips = rng.random((DRAWN, generators)).argsort(axis=1)
            dealt = np.take_along_axis(some, flips, axis=1)
            d = np.delete(dealt - dealt[:, [base]], base, axis=1)
            several.append(gate(_against_base(d), delta, _columns(d)).failed)
            other = (base + 1 + int(rng.integers(generators - 1))) % generators
            pair = exchanged(some[:, other] - some[:, base], rng)
            one.append(gate(_against_base(pair[:, None]), delta, _columns(pair[:, None])).failed)
    return float(np.mean(one)), float(np.mean(several))


def _columns(d: Floats) -> ScoreTable:
    """The table of which `_against_base` gives the differences: the baseline is 0."""
    means = np.column_stack([d, np.zeros(len(d))])
    return _dense(means, [*map(str, range(d.shape[1])), "base"], [f"p{k}" for k in range(len(d))], "exchanged")


def _against_base(d: Floats) -> list[GeneratorDifference]:
    """What a gate looks at, for each column of differences."""
    ones = np.ones_like(d)
    return [
        GeneratorDifference(str(k), "base", mean, interval, None, 1.0, 0, 0, 0, prompts, None)  # p is not used
        for k, (interval, (prompts, mean, *_)) in enumerate(zip(mean_intervals(d, ones), moments(d, ones), strict=True))
    ]


def false_slices(scores: Floats, repeats: int, slices: int = 12, seed: int = 3) -> float:
    """How often any of 12 slices of exchanged generators is called after Benjamini-Hochberg at .05."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, slices, len(scores))
    called = []
    pairs = list(combinations(range(scores.shape[1]), 2))
    for k in range(repeats):
        a, b = pairs[k % len(pairs)]
        d = exchanged(scores[:, a] - scores[:, b], rng)
        columns = np.stack([np.where(of == each, d, np.nan) for each in range(slices)], axis=1)
        called.append(min(benjamini_hochberg(sign_flip_p(columns))) < 0.05)
    return float(np.mean(called))


def false_verdicts(scores: Floats, repeats: int, width: float, seed: int = 4) -> tuple[float, float]:
    """How often exchanged generators get a verdict by `settle`, and by looking at z > 1.96 every ten prompts from the 20th."""
    rng = np.random.default_rng(seed)
    n = np.arange(1, len(scores) + 1)
    settled, peeked = [], []
    for _ in range(repeats):
        for a, b in combinations(range(scores.shape[1]), 2):
            d = rng.permutation(exchanged(scores[:, a] - scores[:, b], rng))
            settled.append(settle(("a", "b"), np.stack([d, 0 * d], axis=1), width=width).verdict != OPEN)
            mean = np.cumsum(d) / n
            error = np.sqrt(np.maximum(np.cumsum(d * d) / n - mean**2, 1e-9) / n)
            peeked.append(bool((np.abs(mean) > 1.96 * error)[19::10].any()))
    return float(np.mean(settled)), float(np.mean(peeked))


def settling(table: ScoreTable, scale: int) -> None:
    pairs = list(combinations(table.generators, 2))
    repeat = 20 // scale
    print(f"\n2. Settling: {len(pairs)} pairs in {repeat} random orders each")
    found = replay_pairs(table, pairs, repeat=repeat, seed=5)
    mean = dict(zip(table.generators, np.nanmean(table.means, axis=0), strict=True))
    wrong = [each.verdict == min(each.a, each.b, key=lambda name: mean[name]) for each in found]
    show("judgements used, on average", float(np.mean([each.used / each.of for each in found])), "at most 20%")
    show("wrong winners", float(np.mean(wrong)), "at most 1%")
    show("settled", float(np.mean([each.verdict != OPEN for each in found])), "no target")
    scores = table.means[np.isfinite(table.means).all(axis=1)]
    settled, peeked = false_verdicts(scores, 50 // scale, float(np.ptp(scores)))
    show("exchanged pairs that get a verdict", settled, "at most 5%")
    show("the same by peeking at z > 1.96 every ten prompts", peeked, "about 47%")
    races = replay_race(table, table.generators, repeat=repeat, seed=6)
    best = max(mean, key=lambda name: mean[name])
    show(
        "judgements of a race for the best of all",
        float(np.mean([race.used / race.of for race in races])),
        "no target",
    )
    show("races that lost the best", float(np.mean([best not in race.left for race in races])), "at most 5%")


def planned(scores: Floats, pilot: int, repeats: int, seed: int = 7) -> tuple[int, float, float, list[float]]:
    """Plan each pair's own difference at 80% from random pilots, where 40 to 1,500 prompts show it.

    Returns: pairs, mean power achieved, share of ranges that hold the true number, and planned over true number at the 10th,
    50th and 90th of a hundred.
    """
    from scipy.special import stdtrit

    rng = np.random.default_rng(seed)
    powers, held, ratios, pairs = [], [], [], 0
    for a, b in combinations(range(scores.shape[1]), 2):
        d = scores[:, a] - scores[:, b]
        gap = abs(float(d.mean()))
        if not gap or not 40 <= (true := prompts_needed(float(d.var()), gap, 0.8)) <= 1500:
            continue
        pairs += 1
        for _ in range(repeats):
            some = rng.choice(d, pilot, replace=False)
            variance = float(some.var(ddof=1))
            low, n, high = (
                prompts_needed(variance * factor, gap, 0.8)
                for factor in (1 / variance_factor(some), 1, variance_factor(some))
            )
            held.append(low <= true <= high)
            ratios.append(n / true)
            studies = rng.choice(d, (60, n))
            error = studies.std(axis=1, ddof=1) / n**0.5
            powers.append(float((np.abs(studies.mean(axis=1)) > -stdtrit(n - 1, TAIL) * error).mean()))
    quantiles = [float(each) for each in np.quantile(ratios, [0.1, 0.5, 0.9])]
    return pairs, float(np.mean(powers)), float(np.mean(held)), quantiles


def planning(table: ScoreTable, scale: int) -> None:
    scores = table.means[np.isfinite(table.means).all(axis=1)]
    print("\n3. Planning at 80% power, from pilots")
    for pilot in (30, 50, 100):
        pairs, power, held, (low, middle, high) = planned(scores, pilot, 10 // scale)
        show(f"pilot of {pilot} prompts, {pairs} pairs: power achieved, mean", power, "76 to 82%")
        show("    printed range holds the number of prompts it takes", held, "at least 80%")
        print(
            f"    planned over true number of prompts, 10th, 50th and 90th percentile: {low:.2f}, {middle:.2f}, {high:.2f}"
        )


def carried_over(old: Floats, new: Floats, anchors: int, repeats: int, seed: int = 8) -> tuple[float, float]:
    """How often the prediction interval from so many random anchors holds another generator's mean, and its half-width.

    Args:
        old, new: mean scores of the same generators by the two judges.
    """
    rng = np.random.default_rng(seed)
    held, halves = [], []
    for k in range(repeats):
        left_out = k % len(old)
        chosen = rng.choice(np.delete(np.arange(len(old)), left_out), anchors, replace=False)
        _, (low, high) = BridgeLine(old[chosen], new[chosen]).predict(float(old[left_out]))
        held.append(low <= new[left_out] <= high)
        halves.append((high - low) / 2)
    return float(np.mean(held)), float(np.median(halves))


def succession(trees: list[Path], scale: int) -> None:
    from titjudge.suites.tiif.answers import answers_as_scores

    old, new = (
        score_table(
            [Entry(each.prompt_id, each.generator, each.item_id, each.value) for each in answers_as_scores(tree)],
            metric="yes-no", source=str(tree),
        )
        for tree in trees
    )  # fmt: skip
    found = bridge(old, new)
    print(f"\n4. Carrying a board over: {len(found.anchors)} generators, {found.prompts} prompts, two judges")
    print(f"  without a bridge scores differ by up to {found.unbridged:.3f}")
    show("intervals from all other generators that hold the one left out", found.held / len(found.anchors), "93 to 97%")
    for anchors in (4, 6, 10, 16):
        held, half = carried_over(found.line.x, found.line.y, anchors, 5000 // scale)
        show(f"intervals from {anchors} random anchors that hold another; half-width {half:.3f}", held, "93 to 97%")


def _dense(means: Floats, generators: list[str], prompts: list[str], source: str) -> ScoreTable:
    nothing = (None,) * len(generators)
    ones = np.ones(means.shape, dtype=np.int64)
    return ScoreTable(tuple(generators), tuple(prompts), means, ones, 0 * ones, nothing, nothing, 1.0, "yes-no", source)


def duels(table: ScoreTable, repeats: int, seed: int = 9) -> None:
    """How near generators ordered by a share of the comparisons on some prompts come to their order by people over all.

    The target was set by a simulation with 24 generators, of whom a tenth of the comparisons shows every image more often.
    """
    from scipy.stats import kendalltau

    from titjudge.core.types import Pair
    from titjudge.metrics.pairwise import drawn
    from titjudge.stats.ranking.bradley_terry import bradley_terry

    scores = table.means[np.isfinite(table.means).all(axis=1)]
    names = [str(k) for k in range(scores.shape[1])]
    truth, rng = scores.mean(axis=0), np.random.default_rng(seed)
    as_of_24 = round(0.1 * (24 - 1) / (len(names) - 1), 3)
    print(
        f"\n5. A share of the comparisons of {len(names)} generators, drawn as `pairwise.duels` does; tau with people's order"
    )
    for count in (DRAWN, 400):
        taus: dict[float, list[float]] = {0.1: [], as_of_24: [], 1.0: []}
        for repeat in range(repeats):
            some = rng.choice(len(scores), min(count, len(scores)), replace=False).tolist()
            for part, found in taus.items():
                pairs = []
                for at in some:
                    for a, b in map(sorted, drawn([f"{at}/{name}" for name in names], part, repeat)):
                        gap = scores[at, int(a.split("/")[1])] - scores[at, int(b.split("/")[1])]
                        pairs.append(Pair(str(at), a, b, "tie" if not gap else "a" if gap > 0 else "b"))
                generator_of = {id: id.split("/")[1] for pair in pairs for id in (pair.a, pair.b)}
                fit = bradley_terry(pairs, generator_of, resamples=0)
                strength = {each.generator: each.strength for each in fit.generators}
                found.append(float(kendalltau([strength[name] for name in names], truth).statistic))
        every = float(np.mean(taus.pop(1.0)))
        for part, found in taus.items():
            like = " (as many for an image as a tenth with 24 generators)" if part == as_of_24 else ""
            few = float(np.mean(found))
            print(
                f"  {count} prompts, {part:g} of the comparisons{like}: tau {few:.3f}, with all {every:.3f}, "
                f"lost {every - few:.4f}   (at most .02)",
                flush=True,
            )


def show(line: str, value: float, wanted: str) -> None:
    print(f"  {line:<92} {100 * value:5.1f}%   ({wanted})", flush=True)


def differences(table: ScoreTable, scale: int) -> None:
    scores = table.means[np.isfinite(table.means).all(axis=1)]
    pairs = scores.shape[1] * (scores.shape[1] - 1) // 2
    print(f"\n1. Differences: {pairs} pairs, {DRAWN} of {len(scores):,} prompts at random")
    share, by_draw = interval_coverage(scores, 20)
    show("95% intervals that hold the difference over all prompts, 20 draws", share, "93 to 97%")
    print(
        f"     from draw to draw {100 * min(by_draw):.0f} to {100 * max(by_draw):.0f}%: pairs of one draw share prompts"
    )
    show(
        f"the same, {300 // scale} draws",
        interval_coverage(scores, 300 // scale)[0],
        "93 to 97%",
    )
    show(
        "the same with replacement, as from endlessly many prompts",
        interval_coverage(scores, 300 // scale, replace=True)[0],
        "95%",
    )
    for delta in (0.01, 0.0):
        one, several = gate_errors(scores, 100 // scale, delta)
        show(f"exchanged pairs that fail --fail-if-worse {delta:g}", one, "at most 5%")
        show(f"exchanged sets of 12 of which any fails --fail-if-worse {delta:g}", several, "at most 5%")
    show("exchanged pairs with any of 12 slices called", false_slices(scores, 198 // scale), "at most 5%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--human", type=Path, default=HUMAN)
    parser.add_argument("--metric", default="yes_no")
    parser.add_argument("--answers", type=Path, nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument("--quick", action="store_true", help="a fifth of the draws")
    given = parser.parse_args()
    if not given.human.is_file():
        parser.error(f"{given.human}: no such file: name the table with --human FILE")
    started = time.perf_counter()
    table = read_scores(given.human, given.metric, bounds=(0.0, 1.0) if given.metric == "yes_no" else None)
    scale = 5 if given.quick else 1
    print(f"{given.human.name}, {given.metric}: {len(table.generators)} generators, {len(table.prompts):,} prompts")
    differences(table, scale)
    settling(table, scale)
    planning(table, scale)
    duels(table, 100 // scale)
    if given.answers:
        succession(given.answers, scale)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
