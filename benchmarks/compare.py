"""Comparing a metric with people: `python -m benchmarks.compare`.

Prints the time of one metric on 12,832 human pairs (200 prompts x 13 images, the size of LPG-Bench), with intervals and what
guessing reaches, beside two references measured in the same run, which give an interval alone: a bootstrap of 2,000
resamples as a plain Python loop (one measured, times 2,000) and scipy.stats.bootstrap over per-prompt sums. Then the ratio of one million to a hundred thousand pairs (linear: 10).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from titjudge.core.types import Item, Pair, Score
from titjudge.stats.pairwise_accuracy import pairwise_accuracy
from titjudge.stats.people.agreement import agreement

RESAMPLES = 2000
GENERATORS = 13
PAIRS_A_PROMPT = 78
TIES = 15_600 - 12_832


def data(prompts: int, ties: int, seed: int = 0) -> tuple[list[Pair], dict[str, float | None]]:
    """`prompts` x 78 pairs, `ties` of them ties of people, and the scores of a metric that is right about two times in three."""
    rng = np.random.default_rng(seed)
    tied = np.zeros(prompts * PAIRS_A_PROMPT, dtype=bool)
    tied[rng.choice(len(tied), ties, replace=False)] = True
    quality = rng.normal(size=(prompts, GENERATORS))
    seen = quality + rng.normal(scale=1.6, size=quality.shape)
    values: dict[str, float | None] = {f"{p}/{g}": float(seen[p, g]) for p in range(prompts) for g in range(GENERATORS)}
    pairs = []
    for p in range(prompts):
        for i, j in combinations(range(GENERATORS), 2):
            preference = "tie" if tied[len(pairs)] else "a" if quality[p, i] > quality[p, j] else "b"
            pairs.append(Pair(f"p{p}", f"{p}/{i}", f"{p}/{j}", preference))
    return pairs, values


def timed(work: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest of `repeats` runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def one_resample_in_plain_python(pairs: list[Pair], values: dict[str, float | None]) -> float:
    """Seconds for one draw of prompts, counted pair by pair; preparing the pairs by prompt is not counted."""
    by_prompt: defaultdict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for pair in pairs:
        if pair.preference != "tie":
            by_prompt[pair.prompt_id].append((values[pair.a] or 0.0, values[pair.b] or 0.0, pair.preference))
    prompts = list(by_prompt.values())
    picks = np.random.default_rng(0).integers(0, len(prompts), len(prompts)).tolist()

    def work() -> float:
        correct = total = 0
        for pick in picks:
            for a, b, preference in prompts[pick]:
                total += 1
                if (a > b and preference == "a") or (a < b and preference == "b"):
                    correct += 1
        return correct / total

    return timed(work)


def scipy_bootstrap(pairs: list[Pair], values: dict[str, float | None]) -> float:
    """Seconds of scipy.stats.bootstrap over (right, decided) sums by prompt; making the sums is not counted."""
    from scipy.stats import bootstrap

    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for pair in pairs:
        if pair.preference != "tie":
            sums[pair.prompt_id][0] += ((values[pair.a] or 0.0) > (values[pair.b] or 0.0)) == (pair.preference == "a")
            sums[pair.prompt_id][1] += 1
    right, total = np.array(list(sums.values()), dtype=float).T
    return timed(
        lambda: bootstrap(
            (right, total),
            lambda x, y, axis: x.sum(axis=axis) / y.sum(axis=axis),
            paired=True,
            n_resamples=RESAMPLES,
            method="percentile",
        )
    )


def main() -> None:
    pairs, values = data(200, TIES)
    found = pairwise_accuracy(pairs, values)
    ours = timed(lambda: pairwise_accuracy(pairs, values))
    loop = one_resample_in_plain_python(pairs, values) * RESAMPLES
    library = scipy_bootstrap(pairs, values)
    print(f"{found.pairs} pairs with a preference, {len(pairs)} with ties, {found.prompts} prompts")
    print(f"  accuracy, intervals and guessing         {ours:8.3f} s   (limit 2 s)")
    print(
        f"  plain Python loop, 1 resample x {RESAMPLES}     {loop:8.3f} s   extrapolated; ours takes {ours / loop:.4f} of it"
    )
    print(
        f"  scipy.stats.bootstrap on prompt sums     {library:8.3f} s   sums not counted; ours takes {ours / library:.2f} of it"
    )

    items = [Item(id, "", None, id.split("/")[1], f"p{id.split('/')[0]}") for id in values]
    scores = [Score(id, "metric", value) for id, value in values.items()]
    whole = timed(lambda: agreement(items, scores, pairs), repeats=2)
    print(
        f"  everything of `compare` for one metric   {whole:8.3f} s   (limit 2 s): accuracy, ranks, nDCG, leaderboard"
    )

    seconds = []
    for prompts in (1_282, 12_821):
        pairs, values = data(prompts, 0)
        seconds.append(timed(lambda p=pairs, v=values: pairwise_accuracy(p, v), repeats=2))  # type: ignore[misc]
        print(
            f"{len(pairs):>9} pairs of {prompts:>6} prompts: {seconds[-1]:.3f} s, {1e6 * seconds[-1] / len(pairs):.2f} s a million"
        )
    print(f"100k -> 1M pairs: x{seconds[1] / seconds[0]:.1f} (linear: x10.0)")


if __name__ == "__main__":
    main()
