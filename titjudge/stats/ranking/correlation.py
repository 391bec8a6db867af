"""Correlation of scores with human scores over all images (SRCC, PLCC, KRCC), and of rankings in a CSV with one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from titjudge.stats.bootstrap import (
    FEW_PROMPTS,
    Floats,
    Interval,
    Ints,
    by_content,
    codes,
    multiplicities,
    percentile_interval,
)
from titjudge.stats.equality import rankdata, with_ties
from titjudge.stats.scores.population import adjusted_scores, is_complete

FEWEST = 3
_TOGETHER = 64  # draws computed at once
_IMAGES_OF_PAIRS = 3000  # up to this number of images all pairs are in memory


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation with human scores over all images, each in [-1, 1] with a 95% interval by resampling prompts.

    `srcc` is Spearman's, `plcc` Pearson's, `krcc` Kendall's tau-b; None with a reason below three images or when one
    side does not vary. `n` counts the images with both numbers, `missing` the others.
    """

    n: int
    missing: int
    srcc: float | None
    srcc_interval: Interval | None
    plcc: float | None
    plcc_interval: Interval | None
    krcc: float | None
    krcc_interval: Interval | None
    reason: str = ""


def correlation(
    scores: Sequence[float | None],
    human: Sequence[float | None],
    groups: Sequence[str] | None = None,
    *,
    resamples: int = 2000,
) -> Correlation:
    """Compute SRCC, PLCC and KRCC (tau-b) of scores with human scores.

    Args:
        scores: One number an image; images with None or NaN are left out.
        human: One number an image, in the same order; None or NaN likewise.
        groups: Prompt of each image, the unit of resampling; without it the image is the unit.
        resamples: Bootstrap draws of prompts for the intervals.

    Raises:
        ValueError: Different lengths.
    """
    from scipy.stats import kendalltau, pearsonr, spearmanr

    if not len(scores) == len(human) == len(groups if groups is not None else scores):
        raise ValueError("scores, human and groups must have the same length")
    x, y, both = _both(scores, human)
    labels = [str(k) for k in range(len(x))] if groups is None else list(groups)
    group, distinct = codes(label for label, keep in zip(labels, both, strict=True) if keep)
    x, y = with_ties(x[both]), with_ties(y[both])
    group = by_content(group, zip(x.tolist(), y.tolist(), strict=True))
    missing = int((~both).sum())
    if len(x) < FEWEST or not np.ptp(x) or not np.ptp(y):
        reason = f"fewer than {FEWEST} with both numbers" if len(x) < FEWEST else "one side does not vary"
        return Correlation(len(x), missing, None, None, None, None, None, None, reason)
    srcc, plcc, krcc = (float(coefficient(x, y).statistic) for coefficient in (spearmanr, pearsonr, kendalltau))
    draws = _draws(x, y, group, len(distinct), resamples) if len(distinct) > 1 else np.zeros((0, 3))
    ends = [percentile_interval(draws[:, k], len(distinct)) for k in range(3)]
    reason = FEW_PROMPTS if len(distinct) < 2 else ""
    return Correlation(len(x), missing, srcc, ends[0], plcc, ends[1], krcc, ends[2], reason)


@dataclass(frozen=True, slots=True)
class GeneratorCorrelation:
    """Rank correlation of generators' mean scores with their mean human scores, in [-1, 1], with 95% intervals over prompts.

    `n` counts the generators, `images` the images with both numbers, over which the means are. None with a reason below three
    generators or when one side does not vary.
    """

    n: int
    images: int
    srcc: float | None
    srcc_interval: Interval | None
    krcc: float | None
    krcc_interval: Interval | None
    reason: str = ""


def generator_correlation(
    scores: Sequence[float | None],
    human: Sequence[float | None],
    generators: Sequence[str],
    groups: Sequence[str],
    *,
    prompts: Sequence[str] = (),
    resamples: int = 2000,
) -> GeneratorCorrelation:
    """Compute SRCC and KRCC (tau-b) of generators by their mean score with generators by their mean human score.

    If not every generator has every prompt, means are estimated for the same prompts (`population.adjusted_scores`), without
    generators that share no prompt with the others. This is Table 1 of the Qwen-Image-Bench paper, and with the images of one dimension Tables A4 and A5 of TIIF-Bench.

    Args:
        scores: One number an image; images with None or NaN are left out of both means.
        human: One number an image, in the same order; likewise.
        generators: Generator of each image; images without one are left out.
        groups: Prompt of each image, the unit of resampling.
        prompts: Prompt of each image, if `groups` are families.
        resamples: Bootstrap draws of prompts for the intervals.
    """
    x, y, both = _both(scores, human)
    both &= np.array([bool(name) for name in generators], dtype=bool)
    images, reason = int(both.sum()), ""
    cells = _same_prompts(x, y, both, generators, prompts or groups)
    if cells is not None:
        x, y, generators, of, images, reason = cells
        unit_of = dict(zip(prompts or groups, groups, strict=True))
        groups, both = [unit_of[prompt] for prompt in of], np.ones(len(x), dtype=bool)
    kept = [(name, prompt) for name, prompt, keep in zip(generators, groups, both.tolist(), strict=True) if keep]
    made_by, names = codes(name for name, _ in kept)
    group, units = codes(unit for _, unit in kept)
    group = by_content(group, zip(x[both].tolist(), y[both].tolist(), strict=True))
    sums = np.zeros((3, len(units), len(names)))  # of scores, of human scores, of images
    for total, values in zip(sums, (x[both], y[both], np.ones(len(kept))), strict=True):
        np.add.at(total, (group, made_by), values)
    whole = _rank_rows(sums, np.ones((1, len(units))))[0] if len(names) >= FEWEST else np.full(2, np.nan)
    if np.isnan(whole[0]):
        reason = f"fewer than {FEWEST} generators" if len(names) < FEWEST else "one side does not vary"
        return GeneratorCorrelation(len(names), images, None, None, None, None, reason)
    blocks = [_rank_rows(sums, block) for block in multiplicities(len(units), resamples)]
    draws = np.concatenate(blocks) if blocks else np.zeros((0, 2))
    ends = [percentile_interval(draws[:, k], len(units)) for k in range(2)]
    reason = FEW_PROMPTS if len(units) < 2 else reason
    return GeneratorCorrelation(len(names), images, float(whole[0]), ends[0], float(whole[1]), ends[1], reason)


def _same_prompts(
    x: Floats, y: Floats, both: NDArray[np.bool_], generators: Sequence[str], prompts: Sequence[str]
) -> tuple[Floats, Floats, list[str], list[str], int, str] | None:
    """Estimate both numbers of each generator on each prompt; None if every generator has every prompt.

    Returns:
        Two numbers, generator and prompt of each cell, the number of images behind them, and how many generators are left out.
    """
    (made_by, names), (prompt, known) = codes(generators), codes(prompts)
    cell, size = (prompt * len(names) + made_by)[both], len(known) * len(names)
    count = np.bincount(cell, minlength=size)
    means = [
        np.divide(np.bincount(cell, values[both], size), count, out=np.full(size, np.nan), where=count > 0).reshape(
            len(known), len(names)
        )
        for values in (x, y)
    ]
    if is_complete(means[0]):
        return None
    first, second = map(adjusted_scores, means)
    rows, columns = (found.tolist() for found in np.nonzero(np.isfinite(first)))
    inside = np.asarray(np.isfinite(first).any(axis=0))
    aside = int((np.isfinite(means[0]).any(axis=0) & ~inside).sum())
    images = int(np.count_nonzero(both & inside[made_by]))
    words = f"without {aside} of other prompts" if aside else ""
    of = [names[k] for k in columns], [known[row] for row in rows]
    return first[rows, columns], second[rows, columns], *of, images, words


def _both(scores: Sequence[float | None], human: Sequence[float | None]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return both numbers of each image, NaN if there is none, and which images have both."""
    x, y = (np.array(values, dtype=np.float64) for values in (scores, human))
    return x, y, np.isfinite(x) & np.isfinite(y)


def _rank_rows(sums: Floats, weights: Floats) -> Floats:
    """Compute srcc and tau-b of the generators' two means for each row of weights of prompts: shape (draws, 2), NaN if undefined."""
    out = np.full((len(weights), 2), np.nan)
    first, second, count = (weights @ column for column in sums)
    defined = (count > 0).all(axis=1)
    x, y = (rankdata(with_ties(column[defined] / count[defined])) for column in (first, second))
    out[defined, 0] = weighted_correlation(x, y, np.ones_like(x))
    a, b = (np.sign(side[:, :, None] - side[:, None, :]) for side in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        out[defined, 1] = (a * b).sum(axis=(1, 2)) / np.sqrt((a * a).sum(axis=(1, 2)) * (b * b).sum(axis=(1, 2)))
    return out


def _draws(x: Floats, y: Floats, group: Ints, groups: int, resamples: int) -> Floats:
    """Compute srcc, plcc and krcc of each draw of prompts, NaN if a side does not vary: shape (resamples, 3).

    The images of a prompt that is drawn twice have weight two, so that no draw is written out or sorted.
    """
    out = np.full((resamples, 3), np.nan)
    ranks = weighted_ranks(x), weighted_ranks(y)
    pairs = _concordance(x, y, group, groups) if len(x) <= _IMAGES_OF_PAIRS else None
    row = 0
    for block in multiplicities(groups, resamples):
        for drawn in np.split(block, range(_TOGETHER, len(block), _TOGETHER)):
            weights, rows = drawn[:, group], slice(row, row + len(drawn))
            out[rows, 0] = weighted_correlation(ranks[0](weights), ranks[1](weights), weights)
            out[rows, 1] = weighted_correlation(x, y, weights)
            out[rows, 2] = _tau(drawn, pairs) if pairs else [_repeated_tau(x, y, draw) for draw in weights]
            row += len(drawn)
    return out


def weighted_ranks(values: Floats) -> Callable[[Floats], Floats]:
    """Return a function from weights, shape (draws, images), to the mid-ranks of the weighted images, same shape."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=np.nan) != 0)
    place = np.empty(len(values), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))

    def ranks(weights: Floats) -> Floats:
        tied = np.add.reduceat(weights[:, order], starts, axis=1)
        middle: Floats = (np.cumsum(tied, axis=1) - (tied - 1) / 2)[:, place]
        return middle

    return ranks


def weighted_correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Compute Pearson's r for each row of weights."""
    total = weights.sum(axis=1, keepdims=True)
    x, y = (side - (weights * side).sum(axis=1, keepdims=True) / total for side in (x, y))
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
        r: Floats = np.where(spread > 1e-12 * total[:, 0], (weights * x * y).sum(axis=1) / spread, np.nan)
    return r


def _concordance(x: Floats, y: Floats, group: Ints, groups: int) -> list[Floats]:
    """Sum over pairs of images, by their two prompts: concordant minus discordant, untied in x, untied in y."""
    of_prompt = np.zeros((groups, len(x)), dtype=np.float32)
    of_prompt[group, np.arange(len(x))] = 1
    a, b = (np.sign(side[:, None] - side).astype(np.float32) for side in (x, y))
    return [(of_prompt @ product @ of_prompt.T).astype(np.float64) for product in (a * b, a * a, b * b)]


def _tau(drawn: Floats, pairs: list[Floats]) -> Floats:
    """Compute Kendall's tau-b for each row of multiplicities of prompts."""
    both, first, second = ((drawn @ product * drawn).sum(axis=1) for product in pairs)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau: Floats = both / np.sqrt(first * second)
    return tau


def _repeated_tau(x: Floats, y: Floats, weights: Floats) -> float:
    from scipy.stats import kendalltau

    picked = np.repeat(np.arange(len(x)), weights.astype(np.int64))
    return float(kendalltau(x[picked], y[picked]).statistic)
