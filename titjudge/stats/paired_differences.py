"""Is one metric better than another? Paired comparisons over the same pairs, or the same images."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from titjudge.core.errors import ConfigError, nearest
from titjudge.core.types import InvalidItem, Item, Pair, Score, Table
from titjudge.stats.bootstrap import FEW_PROMPTS, Floats, Interval, Ints, codes, group_sums
from titjudge.stats.equality import score_differences
from titjudge.stats.intervals import mean_intervals
from titjudge.stats.pairwise_accuracy import PairIndex, Values, pair_index, values_by_metric

PERMUTATIONS = 9999
EXCHANGES = 1999


@dataclass(frozen=True, slots=True)
class Difference:
    """`first` minus `second` over what both have scored.

    `difference` with its 95% interval (Student's t over prompts, see `intervals`); `p_value` two-sided, by exchanging the two within
    whole prompts (exact where 2^prompts is at most 9,999); `p_adjusted` after Benjamini-Hochberg over the comparisons
    made together. For accuracies also McNemar's exact test, which takes pairs as independent: `only_first` pairs are
    right with `first` alone, `only_second` with `second` alone.
    """

    first: str
    second: str
    what: str
    n: int
    prompts: int
    first_value: float | None
    second_value: float | None
    difference: float | None
    interval: Interval | None
    p_value: float | None
    p_adjusted: float | None = None
    only_first: int | None = None
    only_second: int | None = None
    mcnemar_p: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Write the numbers as JSON has them."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def paired_differences(
    pairs: Sequence[Pair] | PairIndex,
    values: Mapping[str, Values],
    *,
    baseline: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Difference]:
    """Compare metrics, or runs, by pairwise accuracy (a predicted tie is wrong) over the same human pairs.

    Args:
        pairs: Human pairs.
        values: Metric or run name -> score by image id, higher is better.
        baseline: Compare every other one with this; without it all against all.
        resamples: Bootstrap draws of prompts.
        seed: Of the draws.

    Raises:
        ConfigError: `baseline` is not among the names.
    """
    index = pair_index(pairs)
    predicted = {name: index.predictions(each) for name, each in values.items()}
    return _adjusted(
        [
            _accuracy_difference(index, first, second, predicted[first], predicted[second], resamples, seed)
            for first, second in _couples(list(values), baseline)
        ]
    )


def below_the_best(pairs: Sequence[Pair] | PairIndex, values: Sequence[Values], *, seed: int = 0) -> list[float | None]:
    """Test whether each row is really less accurate than the best, which was chosen on the same pairs.

    Multiple comparisons with the best: the rows up to the one in question are exchanged within each prompt, and p is how
    often the best and the worst of them then lie so far apart; p never falls from a row to a worse one's (step-down).

    Args:
        pairs: Human pairs.
        values: Of each row, score by image id, higher is better; the most accurate row first, then in order.
        seed: Of the exchanges.

    Returns:
        One p for each row but the first; None for a row that shares no scored pair with all rows above it.
    """
    index = pair_index(pairs)
    predicted = [index.predictions(each) for each in values]
    found: list[float | None] = []
    for k in range(1, len(predicted)):
        rows = np.array(predicted[: k + 1])
        both = (index.preference != 0) & ~np.isnan(rows).any(axis=0)
        right = (rows == index.preference) & both
        sums = group_sums(index.group, len(index.groups), *right.astype(np.float64), both.astype(np.float64))
        sums = sums[sums[:, -1] > 0, :-1]
        gap = float(sums[:, 0].sum() - sums[:, k].sum()) if len(sums) else 0.0
        found.append(_range_p(sums, gap, seed) if len(sums) > 1 else None)
    worst = 0.0
    for k in reversed(range(len(found))):
        if found[k] is not None:
            worst = max(worst, found[k] or 0.0)
            found[k] = worst
    return found


def _range_p(sums: Floats, gap: float, seed: int) -> float:
    """How often rows exchanged within prompts lie at least `gap` apart; sums is (prompts, rows)."""
    rng = np.random.default_rng(seed)
    larger = done = 0
    step = max(1, (1 << 21) // sums.size)
    while done < EXCHANGES:
        count = min(step, EXCHANGES - done)
        total = rng.permuted(np.broadcast_to(sums, (count, *sums.shape)), axis=2).sum(axis=1)
        larger += int((np.ptp(total, axis=1) >= gap - 1e-9).sum())
        done += count
    return (larger + 1) / (EXCHANGES + 1)


def mean_differences(
    groups: Mapping[str, str],
    values: Mapping[str, Values],
    *,
    baseline: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Difference]:
    """Compare mean scores over the images both have scored; needs no people.

    Args:
        groups: Prompt of each image id (both runs must use the same ids).
        values: Run name -> score by image id.
        baseline: Compare every other one with this; without it all against all.
        resamples: Bootstrap draws of prompts.
        seed: Of the draws.

    Raises:
        ConfigError: `baseline` is not among the names.
    """
    return _adjusted(
        [
            _mean_difference(groups, first, second, values, resamples, seed)
            for first, second in _couples(list(values), baseline)
        ]
    )


def run_differences(
    items: Iterable[Item | InvalidItem],
    runs: Mapping[str, Sequence[Score]],
    pairs: Sequence[Pair] = (),
    *,
    negate: Collection[str] = (),
    baseline: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Difference]:
    """Compare runs side by side: for each metric that several runs share, the difference in accuracy and in mean score.

    Accuracies need `pairs`; means only that the runs judged the same images (equal item ids).

    Raises:
        ConfigError: `baseline` is not among the runs.
    """
    if baseline is not None:
        _couples(list(runs), baseline)
    values = {run: values_by_metric(scores) for run, scores in runs.items()}
    groups = {item.id: item.prompt_id or item.id for item in items}
    index = pair_index(pairs)
    found: list[Difference] = []
    for metric in dict.fromkeys(name for metrics in values.values() for name in metrics):
        shared = {run: metrics[metric] for run, metrics in values.items() if metric in metrics}
        if len(shared) < 2 or (baseline is not None and baseline not in shared):
            continue
        better = {run: _negated(each) for run, each in shared.items()} if metric in negate else shared
        options: dict[str, Any] = {"baseline": baseline, "resamples": resamples, "seed": seed}
        some = paired_differences(index, better, **options) if len(index) else []
        some += mean_differences(groups, shared, **options)
        found += [replace(each, what=f"{each.what} of {metric}") for each in some]
    return _adjusted(found)


def prompt_differences(
    values: Mapping[str, Mapping[str, Sequence[float | None]]], *, baseline: str | None = None, seed: int = 0
) -> list[Difference]:
    """Compare mean scores over the prompts both have: of generators, or of runs whose images have other names.

    Args:
        values: Name -> prompt -> the scores of its images, which are averaged.
        baseline: Compare every other one with this; without it all against all.
        seed: Of the draws.
    """
    means: dict[str, dict[str, float | None]] = {
        name: {prompt: float(np.mean(known)) for prompt, all_ in prompts.items() if (known := _known(all_))}
        for name, prompts in values.items()
    }
    groups = {prompt: prompt for prompts in means.values() for prompt in prompts}
    found = mean_differences(groups, means, baseline=baseline, seed=seed)
    return [replace(each, what="mean score over prompts") for each in found]


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _negated(values: Values) -> Values:
    return {id: None if value is None else -value for id, value in values.items()}


def differences_table(differences: Sequence[Difference]) -> Table:
    """Show the comparisons as people read them."""
    return Table(
        "Paired differences",
        ("first", "second", "what", "n", "difference", "low", "high", "p", "p adjusted", "McNemar p"),
        tuple(
            (
                d.first,
                d.second,
                d.what,
                d.n,
                d.difference,
                *(d.interval or (None, None)),
                d.p_value,
                d.p_adjusted,
                d.mcnemar_p,
            )
            for d in differences
        ),
        ("first minus second over what both scored; interval and p by prompts, p adjusted after Benjamini-Hochberg",),
    )


def _couples(names: list[str], baseline: str | None) -> list[tuple[str, str]]:
    if baseline is None:
        return list(combinations(names, 2))
    if baseline not in names:
        raise ConfigError(f"unknown baseline '{baseline}'.{nearest(baseline, names)} Known: {', '.join(names)}")
    return [(name, baseline) for name in names if name != baseline]


def _accuracy_difference(
    index: PairIndex, first: str, second: str, x: Floats, y: Floats, resamples: int, seed: int
) -> Difference:
    from scipy.stats import binomtest

    both = (index.preference != 0) & ~np.isnan(x) & ~np.isnan(y)
    right_x, right_y = both & (x == index.preference), both & (y == index.preference)
    only_x, only_y = int((right_x & ~right_y).sum()), int((right_y & ~right_x).sum())
    mcnemar = float(binomtest(only_x, only_x + only_y, 0.5).pvalue) if only_x + only_y else None
    found = _paired(
        index.group, len(index.groups), right_x.astype(float), right_y.astype(float), both, resamples, seed, (-1.0, 1.0)
    )
    if not both.any():
        found["reason"] = "no pair is scored by both"
    return Difference(first, second, "accuracy", only_first=only_x, only_second=only_y, mcnemar_p=mcnemar, **found)


def _mean_difference(
    groups: Mapping[str, str], first: str, second: str, values: Mapping[str, Values], resamples: int, seed: int
) -> Difference:
    ids = [id for id in values[first] if id in groups]
    x = np.array([_float(values[first].get(id)) for id in ids], dtype=np.float64)
    y = np.array([_float(values[second].get(id)) for id in ids], dtype=np.float64)
    both = np.isfinite(x) & np.isfinite(y)
    group, labels = codes(groups[id] for id in ids)
    found = _paired(group, len(labels), np.where(both, x, 0.0), np.where(both, y, 0.0), both, resamples, seed)
    if not both.any():
        found["reason"] = "no image is scored by both"
    return Difference(first, second, "mean score", **found)


def _float(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _paired(
    group: Ints,
    groups: int,
    x: Floats,
    y: Floats,
    both: np.ndarray[Any, Any],
    resamples: int,
    seed: int,
    bounds: Interval | None = None,
) -> dict[str, Any]:
    n = int(both.sum())
    sums = group_sums(group, groups, x, y, both.astype(np.float64)) if groups else np.zeros((0, 3))
    sums = sums[sums[:, 2] > 0]
    apart = score_differences(sums[:, 0], sums[:, 1])
    interval = mean_intervals(apart, sums[:, 2], bounds)[0] if resamples else None
    top_x, top_y = float(sums[:, 0].sum()), float(sums[:, 1].sum())
    return {
        "n": n,
        "prompts": len(sums),
        "first_value": top_x / n if n else None,
        "second_value": top_y / n if n else None,
        "difference": float(apart.sum()) / n if n else None,
        "interval": interval,
        "p_value": _exchange_p(apart, seed) if len(sums) > 1 and resamples else None,
        "reason": "" if interval or not resamples else FEW_PROMPTS if len(sums) < 2 else "every prompt shows the same",
    }


def _exchange_p(per_prompt: Floats, seed: int) -> float:
    """Two-sided p of a sum of paired differences when the sign of each prompt is arbitrary."""
    from scipy.stats import permutation_test

    moved = per_prompt[per_prompt != 0]
    if len(moved) < 2:  # one prompt: both signs give the same absolute value
        return 1.0
    found = permutation_test(
        (moved,),
        lambda sample, axis: np.sum(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=max(1, (1 << 21) // len(moved)),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def _adjusted(differences: list[Difference]) -> list[Difference]:
    from scipy.stats import false_discovery_control

    tested = [k for k, each in enumerate(differences) if each.p_value is not None]
    if not tested:
        return differences
    adjusted = false_discovery_control([differences[k].p_value for k in tested])
    done = list(differences)
    for k, p in zip(tested, adjusted.tolist(), strict=True):
        done[k] = replace(done[k], p_adjusted=p)
    return done
