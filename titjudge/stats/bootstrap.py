"""The cluster bootstrap: prompts are drawn with replacement, each with all its images and pairs.

Pairs of one prompt share images and are far from independent, so the prompt is the unit of resampling. It serves statistics
over all prompts at once (correlations, strengths); shares and means over prompts have closed-form intervals, in `intervals`.
A draw is a vector of multiplicities. The draws depend on (number of prompts, resamples) alone: two metrics over the
same prompts see the same draws.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Interval = tuple[float, float]
Label = TypeVar("Label", bound=Hashable)

LEVEL = 0.95
FEW_PROMPTS = "fewer than two prompts: no interval"
_BLOCK = 1 << 18  # multiplicities in memory at once: 2 MB, and a few copies while they are computed


def codes(labels: Iterable[Label]) -> tuple[Ints, list[Label]]:
    """Encode labels as integers in order of first appearance: `(codes of shape (n,), distinct labels)`."""
    code_of: dict[Label, int] = {}
    encoded = np.fromiter((code_of.setdefault(label, len(code_of)) for label in labels), dtype=np.int64)
    return encoded, list(code_of)


def renumbered(numbers: Ints) -> tuple[Ints, Ints]:
    """Encode numbers as `codes` does, with arrays, which need less memory: codes, and the first position of each."""
    _, first, code = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[code], first[order]


def by_content(group: Ints, rows: Iterable[Any]) -> Ints:
    """Renumber groups by the rows in each of them.

    Draws of groups then depend neither on the order of rows in a file nor on the names of prompts.
    """
    content: dict[int, list[Any]] = {}
    for number, row in zip(group.tolist(), rows, strict=True):
        content.setdefault(number, []).append(row)
    order = sorted(content, key=lambda number: sorted(content[number]))
    place = np.zeros(max(order, default=-1) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))
    return np.asarray(place[group])


def multiplicities(prompts: int, resamples: int) -> Iterator[Floats]:
    """Yield how often each prompt is drawn, in blocks of shape (draws, prompts); each row sums to `prompts`."""
    rng = np.random.default_rng(0)
    step = max(1, _BLOCK // max(prompts, 1))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        picks = rng.integers(0, prompts, size=(rows, prompts))
        picks += np.arange(rows)[:, None] * prompts
        yield np.bincount(picks.ravel(), minlength=rows * prompts).reshape(rows, prompts).astype(np.float64)


def percentile_interval(draws: Floats, units: int) -> Interval | None:
    """Compute the 95% expanded percentile interval (Hesterberg 2015).

    A bootstrap interval of n units is too narrow by sqrt((n - 1) / n), and by the use of the normal instead of Student's t: the
    percentiles are moved out accordingly. Infinite draws count; NaN draws are dropped.

    Args:
        draws: Draws of the statistic, shape (draws,).
        units: Units (prompts) in each draw.

    Returns:
        The interval; None when no draw is defined or there are fewer than two units.
    """
    from titjudge.stats.special import ndtr, stdtrit

    defined = np.sort(draws[~np.isnan(draws)])
    if not len(defined) or units < 2:
        return None
    tail = float(ndtr(stdtrit(units - 1, (1 - LEVEL) / 2) * (units / (units - 1)) ** 0.5))
    last = len(defined) - 1
    return float(defined[int(tail * last)]), float(defined[last - int(tail * last)])


def group_sums(group: Ints, groups: int, *columns: Floats) -> Floats:
    """Sum each column within groups: shape (groups, columns)."""
    return np.stack([np.bincount(group, weights=column, minlength=groups) for column in columns], axis=1)


def unit_sums(values: Floats, unit: Ints | None) -> tuple[Floats, Floats]:
    """Sum the values of each unit, a prompt or a family of prompts, and count them; units without any are left out.

    Args:
        values: One per prompt, NaN if there is none.
        unit: Number of the unit of each prompt; None if every prompt is a unit.
    """
    defined = np.isfinite(values)
    values = values[defined]
    if unit is None:
        return values, np.ones(len(values))
    _, unit = np.unique(unit[defined], return_inverse=True)
    sums = group_sums(unit, int(unit.max(initial=-1)) + 1, values, np.ones(len(values)))
    return sums[:, 0], sums[:, 1]


def table_sums(table: Floats, unit: Ints | None) -> Floats:
    """Sum the rows of each unit, shape (units, columns); the table itself if every row is a unit."""
    return table if unit is None else group_sums(unit, int(unit.max(initial=-1)) + 1, *table.T)


def number(value: float) -> float | None:
    """Convert to a plain float, or None for what is not finite."""
    return float(value) if np.isfinite(value) else None
