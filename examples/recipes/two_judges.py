"""Estimate the means by an expensive judge from a cheap judge on all prompts and the expensive one on a random part.
python two_judges.py runs/cheap runs/expensive    # or tables of scores; `judge --limit N --set limit_seed=S` draws a part
The 95% intervals hold however wrong the cheap judge is (prediction-powered inference)."""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from titjudge.cli.compare_options import read_judged
from titjudge.stats.bootstrap import unit_sums
from titjudge.stats.equality import with_ties
from titjudge.stats.intervals import mean_intervals, moments
from titjudge.stats.scores.population import adjusted_scores


def estimate(high, low, bounds=None, unit=None):
    """Return the mean of `high` over all prompts, and its interval: the judges' scores by prompt; `unit` numbers families."""
    part = np.isfinite(high) & np.isfinite(low)
    weight = np.cov(high[part], low[part])[0, 1] / low[part].var(ddof=1) if np.ptp(low[part]) else 0.0
    sums, sizes = unit_sums(with_ties(np.where(part, high - weight * low, np.nan)), unit)
    if len(sums) - np.unique(sums / sizes, return_counts=True)[1].max() < 10:  # they differ in one way: too little
        weight, (sums, sizes) = 0.0, unit_sums(np.where(part, high, np.nan), unit)
    rest, error = sums.sum() / sizes.sum(), 1.96 * weight * moments(*unit_sums(low, unit))[0][2]
    ends = mean_intervals(sums, sizes, None if weight else bounds)[0] or (np.nan, np.nan)
    value = rest + weight * np.nanmean(low)
    return (value, *(value + [-1, 1] * np.hypot(np.subtract(ends, rest), error)))


if __name__ == "__main__":
    cheap, dear = (read_judged(Path(path), None) for path in sys.argv[1:3])
    names, unit = [name for name in cheap.generators if name in dear.generators], cheap.unit
    rows = {prompt: dear.means[row, list(map(dear.column, names))] for row, prompt in enumerate(dear.prompts)}
    high = adjusted_scores(np.array([rows.get(prompt, np.full(len(names), np.nan)) for prompt in cheap.prompts]))
    low = adjusted_scores(cheap.means[:, list(map(cheap.column, names))])
    found = {name: estimate(high[:, k], low[:, k], dear.bounds, unit) for k, name in enumerate(names)}
    for a, b in combinations(range(len(names)), 2):
        found[f"{names[a]} - {names[b]}"] = estimate(high[:, a] - high[:, b], low[:, a] - low[:, b], unit=unit)
    print(*(f"{name}\t{{:.4g}} [{{:.4g}}, {{:.4g}}]".format(*told) for name, told in found.items()), sep="\n")
