"""Estimate the means by an expensive judge from a cheap judge on all prompts and the expensive one on a random part.
python two_judges.py runs/cheap runs/expensive    # or tables of scores; `judge --limit N --limit-seed S` draws a part
The 95% intervals hold however wrong the cheap judge is (prediction-powered inference)."""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from titjudge.cli.compare_options import read_judged
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import mean_interval
from titjudge.stats.scores.population import adjusted_scores


def estimate(high, low, bounds=None):
    """Return the mean of `high` over all prompts, and its interval; `high` and `low` are the judges' scores by prompt."""
    part = np.isfinite(high) & np.isfinite(low)
    y, f, every = high[part], low[part], low[np.isfinite(low)]
    weight = np.cov(y, f)[0, 1] / f.var(ddof=1) if np.ptp(f) else 0.0
    rest = with_ties(y - weight * f)
    if len(y) - np.unique(rest, return_counts=True)[1].max() < 10:  # the judges differ in one way: too little to go by
        weight, rest = 0.0, y
    value, ends = rest.mean() + weight * every.mean(), mean_interval(rest, None if weight else bounds)
    error = 1.96 * weight * every.std(ddof=1) / len(every) ** 0.5
    below, above = (np.hypot(end - rest.mean(), error) for end in ends or (np.nan, np.nan))
    return value, value - below, value + above


if __name__ == "__main__":
    cheap, dear = (read_judged(Path(path), None) for path in sys.argv[1:3])
    names = [name for name in cheap.generators if name in dear.generators]
    rows = {prompt: dear.means[row, list(map(dear.column, names))] for row, prompt in enumerate(dear.prompts)}
    high = adjusted_scores(np.array([rows.get(prompt, np.full(len(names), np.nan)) for prompt in cheap.prompts]))
    low = adjusted_scores(cheap.means[:, list(map(cheap.column, names))])
    found = {name: estimate(high[:, k], low[:, k], dear.bounds) for k, name in enumerate(names)}
    for a, b in combinations(range(len(names)), 2):
        found[f"{names[a]} - {names[b]}"] = estimate(high[:, a] - high[:, b], low[:, a] - low[:, b])
    print(*(f"{name}\t{{:.4g}} [{{:.4g}}, {{:.4g}}]".format(*told) for name, told in found.items()), sep="\n")
