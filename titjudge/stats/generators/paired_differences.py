"""Is one metric better than another? Paired comparisons over the same pairs, or the same images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, compress, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from titjudge.core.declarations import NEEDS_BOTH, Declaration, Exclusion, Population, Unit
from titjudge.core.serialization import fields_of
from titjudge.core.tables import Cell, CellFormat, Table, p_value, percent, plain
from titjudge.core.types import InvalidItem, Item, Note, Pair, Score
from titjudge.core.words import DASH, score_digits
from titjudge.stats.bootstrap import Floats, Interval, Ints, codes, group_sums, unit_sums
from titjudge.stats.equality import score_differences
from titjudge.stats.generators.slices import averages
from titjudge.stats.intervals import doubt, mean_intervals, why_no_interval
from titjudge.stats.pairwise_accuracy import PairIndex, Values, pair_index, values_by_metric
from titjudge.stats.scores.families import ALONE, Families
from titjudge.stats.scores.population import comparable, compared
from titjudge.stats.scores.scores_table import ScoreTable
from titjudge.stats.significance import adjusted, benjamini_hochberg, mcnemar_p, range_p, sign_flip_p, stepped_down

PAIRED = Declaration(
    "paired_differences",
    "accuracies or mean scores of two runs or metrics",
    Population.SCORED_BY_TWO,
    Unit.PROMPT,
    NEEDS_BOTH,
    "place of the runs or metrics",
    "p, by Benjamini and Hochberg over all rows of a kind",
    counts="n",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """`first` minus `second` over the pairs, or images, that both have scored.

    Attributes:
        n: Pairs or images that both have scored, of `prompts` prompts, or families of prompts.
        interval: Of the difference, 95%, Student's t over prompts (see `intervals`).
        p_value: Two-sided; permutation test that exchanges the two within whole prompts (`significance.sign_flip_p`).
        p_adjusted: After Benjamini-Hochberg over the comparisons made together.
        only_first: Pairs on which only `first` is right; likewise `only_second`. For accuracies only.
        mcnemar_p: McNemar's exact test, which takes pairs as independent, or families: one for which each is more often right.
            For accuracies only.
        doubt: The `Doubt` about the level of the interval.
        excluded: Pairs, images or prompts without a score, by `first` or `second`.
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
    doubt: str = ""
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields, without the ids of `excluded`; `doubt` only if the level is not reliable."""
        known = fields_of(replace(self, excluded={}))
        return {name: value for name, value in known.items() if value or name not in ("doubt", "excluded")}

    @property
    def of_accuracy(self) -> bool:
        """Return True if the two values are accuracies, False if they are mean scores."""
        return self.only_first is not None


def paired_differences(
    pairs: Sequence[Pair] | PairIndex, values: Mapping[str, Values], *, with_first: bool = False
) -> list[Difference]:
    """Compare metrics, or runs, by pairwise accuracy (a predicted tie is wrong) over the same human pairs.

    Args:
        pairs: Human pairs.
        values: Metric or run name -> score by image id, higher is better.
        with_first: Whether every other one is compared with the first; if not, all with all.
    """
    index = pair_index(pairs)
    predicted = {name: index.predictions(by_image) for name, by_image in values.items()}
    return adjusted_together(
        [
            _accuracy_difference(index, first, second, predicted[first], predicted[second])
            for first, second in (_with_first(values) if with_first else combinations(values, 2))
        ]
    )


class CommonAccuracy(NamedTuple):
    """Metrics by accuracy on the pairs that all compared metrics have scored.

    Attributes:
        order: Places of the compared metrics, the most accurate first.
        aside: Places of the metrics with scores on fewer than half as many pairs as the fullest one, or on none; by their accuracy.
        right: Number of common pairs that each compared metric in `order` has right.
        pairs: Number of common pairs.
        complete: Whether every metric has scored the same pairs.
    """

    order: list[int]
    aside: list[int]
    right: list[int]
    pairs: int
    complete: bool


def common_accuracy(index: PairIndex, values: Sequence[Values]) -> CommonAccuracy:
    """Order metrics by accuracy on common pairs, so that no metric gains by scoring easy pairs only.

    Args:
        index: Human pairs.
        values: Of each metric, score by image id, higher is better.
    """
    right = np.array([_right(index, by_image) for by_image in values]).T[index.preference != 0]
    scored = np.isfinite(right)
    compared = comparable(right, max(1, -(-int(scored.sum(axis=0).max(initial=0)) // 2)))
    compared = compared or np.flatnonzero(scored.any(axis=0)).tolist() or list(range(len(values)))
    common = right[scored[:, compared].all(axis=1)]
    own = np.nan_to_num(averages(right), nan=-1.0)
    shared = np.nansum(common, axis=0).astype(np.int64).tolist()
    order = sorted(compared, key=lambda k: (-shared[k], -own[k]))
    aside = sorted(set(range(len(values))) - set(compared), key=lambda k: -own[k])
    complete = bool((scored == scored[:, :1]).all())
    return CommonAccuracy(order, aside, [shared[k] for k in order], len(common), complete)


def _right(index: PairIndex, by_image: Values) -> Floats:
    """Return for each pair whether a metric orders it as people do (1.0 or 0.0); NaN without a score."""
    predicted = index.predictions(by_image)
    return np.where(np.isnan(predicted), np.nan, predicted == index.preference)


def below_the_best(
    pairs: Sequence[Pair] | PairIndex, values: Sequence[Values], count: int | None = None
) -> list[float | None]:
    """Test whether each row is less accurate than the best one, which was chosen on the same pairs.

    Multiple comparisons with the best, as `significance.below_best_p`.

    Args:
        pairs: Human pairs.
        values: Of each row, score by image id, higher is better; the most accurate row first, then in order.
        count: How many of the rows, the first ones, are compared; by default as in `common_accuracy`.

    Returns:
        One p for each row but the first; None for a row that is not compared (`common_accuracy`), and for all rows if the first
        is not.
    """
    index = pair_index(pairs)
    predicted = np.array([index.predictions(by_image) for by_image in values])
    compared = sorted(common_accuracy(index, values).order) if count is None else range(count)
    compared = compared if 0 in compared else [0]
    ps: list[float | None] = []
    for k in range(1, len(predicted)):
        if k not in compared:
            ps.append(None)
            continue
        rows = predicted[[place for place in compared if place <= k]]
        both = (index.preference != 0) & ~np.isnan(rows).any(axis=0)
        right = (rows == index.preference) & both
        sums = index.sums(*right.astype(np.float64), both.astype(np.float64))
        ps.append(range_p(sums[sums[:, -1] > 0, :-1]))
    return stepped_down(ps)


def mean_differences(
    prompt_of: Mapping[str, str], values: Mapping[str, Values], ends: Interval | None = None
) -> list[Difference]:
    """Compare the mean scores of every other run and the first over the images both have scored; needs no human pairs.

    Args:
        prompt_of: Prompt, or family, of each image id (both runs must use the same ids).
        values: Run name -> score by image id.
        ends: Of the scale of the scores.
    """
    return adjusted_together([_mean_difference(prompt_of, *couple, values, ends) for couple in _with_first(values)])


def run_differences(
    items: Iterable[Item | InvalidItem],
    runs: Mapping[str, Sequence[Score]],
    ends: Mapping[str, Interval | None] | None = None,
    declared: Families = ALONE,
) -> list[Difference]:
    """Compare the mean scores of every other run and the first, which judged the same images, for each metric of the first.

    `ends` are the ends of the scale of each metric, and `declared` the families of the prompts.
    """
    values = {run: values_by_metric(scores) for run, scores in runs.items()}
    prompt_of = {item.id: declared.get(item.prompt_id, item.prompt_id or item.id) for item in items}
    differences: list[Difference] = []
    for metric in next(iter(values.values()), ()):
        shared = {run: metrics[metric] for run, metrics in values.items() if metric in metrics}
        of_metric = mean_differences(prompt_of, shared, (ends or {}).get(metric))
        differences += [replace(difference, what=f"{difference.what} of {metric}") for difference in of_metric]
    return adjusted_together(differences)


def prompt_differences(
    table: ScoreTable, couples: Sequence[tuple[str, str]], *, every: bool = False
) -> list[Difference]:
    """Compare mean scores over the prompts that both of a pair have: of generators, or of runs whose images have other names.

    Args:
        table: The scores; its generators may stand for runs.
        couples: Pairs of names.
        every: Whether these are all pairs. Those of generators that are set aside (`population.compared`) then have no
            p_adjusted, and change no other.
    """
    unit = np.arange(len(table.prompts)) if table.unit is None else table.unit
    what = f"mean score over prompts, {table.metric}"
    scores = {name: table.sign * table.means[:, table.column(name)] for couple in couples for name in couple}
    in_table = compared(table.means, table.unit)
    return adjusted_together(
        [
            _score_difference((a, b, what), unit, scores[a], scores[b], table.printed(table.bounds), table.prompts)
            for a, b in couples
        ],
        [not every or bool(in_table[[table.column(a), table.column(b)]].all()) for a, b in couples],
    )


def differences_table(
    differences: Sequence[Difference], title: str = "Paired differences", *, families: bool = False
) -> Table:
    """Tabulate the comparisons."""
    several = len({d.what for d in differences}) > 1
    excluded: dict[str, dict[str, None]] = {}
    for d in differences:
        for name, ids in d.excluded.items():
            excluded.setdefault(f"{name} ({d.what})" if several else name, {}).update(dict.fromkeys(ids))
    doubts = {f"{d.first} - {d.second} ({d.what})": d.doubt for d in differences}
    return Table(
        title,
        ("first", "second", "what", "n", "value of first", "value of second", "difference", "p", "p BH", "McNemar p"),
        tuple(
            (d.first, d.second, d.what, d.n, _value(d, d.first_value), _value(d, d.second_value), _difference(d),
             p_value(d.p_value), p_value(d.p_adjusted), p_value(d.mcnemar_p))
            for d in differences
        ),
        explanation=(Note("about_paired_differences", "difference: first minus second"),),
        secondary=("mcnemar_p", "p", "n"),
        keys=("first", "second", "what", "n", "value_first", "value_second", "difference", "p", "p_adjusted", "mcnemar_p"),
        declared=PAIRED.over(
            excluded={Exclusion.NO_SCORE: {name: [*ids] for name, ids in excluded.items() if ids}}, families=families, doubts=doubts
        ),
    )  # fmt: skip


def _value(difference: Difference, value: float | None) -> Cell | None:
    return percent(value) if difference.of_accuracy else plain(value, digits=_digits(difference))


def _digits(difference: Difference) -> int:
    return score_digits([difference.first_value or 0.0, difference.second_value or 0.0])


def _difference(difference: Difference) -> Cell | None:
    if difference.difference is None:
        return Cell(DASH, note=difference.reason) if difference.reason else None
    written = CellFormat.POINTS if difference.of_accuracy else CellFormat.SIGNED
    return Cell(difference.difference, written, _digits(difference) + 1, difference.interval)


def _with_first(names: Iterable[str]) -> list[tuple[str, str]]:
    first, *others = names
    return [(name, first) for name in others]


def _accuracy_difference(index: PairIndex, first: str, second: str, x: Floats, y: Floats) -> Difference:
    """Compare two metrics by accuracy, given what they predict (`x`, `y`) for each pair."""
    both = (index.preference != 0) & ~np.isnan(x) & ~np.isnan(y)
    right_x, right_y = both & (x == index.preference), both & (y == index.preference)
    only_x, only_y = int((right_x & ~right_y).sum()), int((right_y & ~right_x).sum())
    lead = right_x * 1.0 - right_y * 1.0
    if index.in_families:
        lead = index.sums(lead)[:, 0]
    difference = _paired((first, second, "accuracy"), index.unit, right_x * 1.0, right_y * 1.0, both, (-1.0, 1.0))
    return replace(
        difference,
        only_first=only_x,
        only_second=only_y,
        mcnemar_p=mcnemar_p(int((lead > 0).sum()), int((lead < 0).sum())),
        excluded={
            name: index.names((index.preference != 0) & np.isnan(own)) for name, own in ((first, x), (second, y))
        },
        reason=difference.reason if both.any() else "no pair is scored by both",
    )


def _mean_difference(
    prompt_of: Mapping[str, str], first: str, second: str, values: Mapping[str, Values], ends: Interval | None
) -> Difference:
    """Compare two runs by the mean of their scores over the images that both have scored."""
    ids = [id for id in dict.fromkeys([*values[first], *values[second]]) if id in prompt_of]
    x, y = (np.array([values[name].get(id) for id in ids], dtype=np.float64) for name in (first, second))
    return _score_difference((first, second, "mean score"), codes(prompt_of[id] for id in ids)[0], x, y, ends, ids)


def _score_difference(
    names: tuple[str, str, str], prompt: Ints, x: Floats, y: Floats, ends: Interval | None, ids: Sequence[str]
) -> Difference:
    """Compare scores on a scale with these ends, NaN if there is none; the other arguments as for `_paired`."""
    both = np.isfinite(x) & np.isfinite(y)
    reach = (ends[0] - ends[1], ends[1] - ends[0]) if ends else None
    difference = _paired(names, prompt, np.where(both, x, 0.0), np.where(both, y, 0.0), both, reach)
    if reach and difference.difference is not None:
        sums, counts = unit_sums(score_differences(x, y), prompt)
        d, p = difference, difference.p_value
        why = doubt(d.interval, difference.difference, d.prompts, reach, p, scores=sums / counts)
        difference = replace(difference, doubt=why)
    lacking = {name: [*compress(ids, np.isnan(own))] for name, own in zip(names, (x, y), strict=False)}
    difference = replace(difference, excluded={name: without for name, without in lacking.items() if without})
    return difference if both.any() else replace(difference, reason="no image is scored by both")


def _paired(
    names: tuple[str, str, str],
    prompt: Ints,
    x: Floats,
    y: Floats,
    both: NDArray[np.bool_],
    bounds: Interval | None = None,
) -> Difference:
    """Compare values of each pair or image, 0 if not `both` have one; `names` are the two, and the compared quantity."""
    n = int(both.sum())
    sums = group_sums(prompt, int(prompt.max(initial=-1)) + 1, x, y, both.astype(np.float64))
    sums = sums[sums[:, 2] > 0]
    differences = score_differences(sums[:, 0], sums[:, 1])
    interval = mean_intervals(differences, sums[:, 2], bounds)[0]
    return Difference(
        *names,
        n=n,
        prompts=len(sums),
        first_value=float(sums[:, 0].sum()) / n if n else None,
        second_value=float(sums[:, 1].sum()) / n if n else None,
        difference=float(differences.sum()) / n if n else None,
        interval=interval,
        p_value=sign_flip_p(differences[:, None])[0] if len(sums) > 1 else None,
        reason=why_no_interval(interval, len(sums)),
    )


def adjusted_together(differences: Sequence[Difference], family: Iterable[bool] = repeat(True)) -> list[Difference]:
    """Adjust the p-values of comparisons made together, by Benjamini and Hochberg; those outside of the `family` get none."""
    ps = adjusted(
        [d.p_value if inside else None for d, inside in zip(differences, family, strict=False)], benjamini_hochberg
    )
    return [replace(difference, p_adjusted=p) for difference, p in zip(differences, ps, strict=True)]
