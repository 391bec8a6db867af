"""Prediction-powered inference: few preferences of people and many of a judge give valid intervals for PEOPLE.

Angelopoulos et al. 2023, with power tuning (PPI++, Angelopoulos, Duchi and Zrnic 2023):

    estimate = mean of people on the labelled pairs + lambda * (judge on the other pairs - judge on the labelled pairs)

lambda in [0, 1] minimises the estimated variance (its trace, for several generators at once): an uninformative judge gets 0,
and the interval of people alone remains. Means are in closed form; variances are sums over prompts of linearised
contributions, so that pairs of one prompt may be correlated, labelled or not. As lambda is fitted on the labelled prompts,
their part has one degree of freedom less.

Valid when the labelled pairs are a random sample of all pairs. The judge may be anything that does not depend on the
labels; a pair without an answer of the judge counts as its tie, which costs precision but not validity, as long as
unanswered unlabelled pairs are listed as ties, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from titjudge.core.errors import DataError
from titjudge.core.grouping import group_means
from titjudge.core.types import Pair
from titjudge.stats.bootstrap import LEVEL, Floats, Interval, Ints, codes, number
from titjudge.stats.intervals import FEW_ANNOTATORS

FEW = 20  # labelled prompts below which an interval is only approximate
_WIN = {"a": 1.0, "tie": 0.5, "b": 0.0}


@dataclass(frozen=True, slots=True)
class Estimate:
    """One mean, estimated by people with the judge (`value`), by people alone (`people`), and by the judge alone (`naive`).

    Attributes:
        interval: 95%, unless another level is asked for; None, with a `reason`, where undefined.
        power: lambda, the weight of the judge.
        worth: Number of labels with which people alone would reach the same precision (effective sample size).
    """

    value: float | None
    interval: Interval | None
    power: float
    people: float | None
    people_interval: Interval | None
    naive: float | None
    naive_interval: Interval | None
    labelled: int
    unlabelled: int
    prompts: int
    worth: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PreferenceArrays:
    """Preferences as arrays, for K estimates at once.

    Attributes:
        people, judge: On the labelled pairs, shape (labelled, K).
        rest: The judge on the unlabelled pairs, shape (unlabelled, K).
        mask, rest_mask: 1 where a row counts for an estimate, else 0; same shapes.
        group, rest_group: Number of the prompt of each row, together from 0 to `groups`.
        annotator: Number of who labelled each row, if these are a small sample, too; else empty.
    """

    people: Floats
    judge: Floats
    mask: Floats
    group: Ints
    rest: Floats
    rest_mask: Floats
    rest_group: Ints
    groups: int
    annotator: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Fit:
    """K estimates.

    Attributes:
        value, people, naive: As in `Estimate`, shape (K,).
        spread, people_spread, naive_spread: Their covariances, shape (K, K).
        power: lambda.
        parts: Per-prompt contributions of people, the judge on labelled pairs, and the judge on the rest, each (groups, K).
        effective, naive_effective: Effective number of prompts (of equal size) of the labelled, and of all, pairs, shape (K,);
            that of the labelled ones is one more than the degrees of freedom of an interval.
        annotators: The part of `spread` that comes from the choice of few annotators.
    """

    value: Floats
    people: Floats
    naive: Floats
    spread: Floats
    people_spread: Floats
    naive_spread: Floats
    power: float
    parts: tuple[Floats, Floats, Floats]
    labelled_prompts: int
    effective: Floats
    naive_effective: Floats
    annotators: Floats


def fit(columns: PreferenceArrays) -> Fit:
    """Compute the power-tuned estimate of every column; NaN for a column without labelled rows."""
    people, a = _linear(columns.people, columns.mask, columns.group, columns.groups)
    judge, b = _linear(columns.judge, columns.mask, columns.group, columns.groups)
    rest, u = _linear(columns.rest, columns.rest_mask, columns.rest_group, columns.groups)
    gap = b - u
    usable = np.isfinite(rest).all() and np.isfinite(judge).all()
    below = float((gap * gap).sum()) if usable else 0.0
    labelled = len(np.unique(columns.group))
    freedom = labelled - 1 - 1 / a.shape[1]  # degrees of freedom: lambda takes one, for all columns together
    power = float(np.clip((a * gap).sum() / below, 0.0, 1.0)) if below > 0 and freedom > 0 else 0.0
    value = people + power * (rest - judge) if power else people
    contributions = ((labelled - 1) / freedom) ** 0.5 * (a - power * b) + power * u if power else a
    mask, group = np.concatenate([columns.mask, columns.rest_mask]), np.concatenate([columns.group, columns.rest_group])
    naive, all_judge = _linear(np.concatenate([columns.judge, columns.rest]), mask, group, columns.groups)
    effective = _effective(columns.mask, columns.group, columns.groups), _effective(mask, group, columns.groups)
    parts = (a, b, u)
    spread, alone = contributions.T @ contributions, a.T @ a
    with_judge, by_people = (_of_annotators(columns, weight) for weight in (power, 0.0))
    if len(columns.annotator):
        whole, few = np.diag(spread + with_judge), np.diag(with_judge)
        parts_of_freedom = np.diag(spread) ** 2 / np.maximum(effective[0] - 1, 1) + few**2 / columns.annotator.max()
        freedom = np.divide(whole**2, parts_of_freedom, out=effective[0] - 1, where=parts_of_freedom > 0)
        effective = freedom + 1, effective[1]
    spreads = (spread + with_judge, alone + by_people, all_judge.T @ all_judge)
    return Fit(value, people, naive, *spreads, power, parts, labelled, *effective, with_judge)


def _of_annotators(columns: PreferenceArrays, weight: float) -> Floats:
    """Estimate the covariance of all columns that comes from the choice of few annotators; 0 if they are no sample.

    Their variance, without that of what one of them says of one prompt, which the variance over prompts has already.
    """
    size, who = columns.people.shape[1], columns.annotator
    people = int(who.max(initial=-1)) + 1
    if people < 2:
        return np.zeros((size, size))
    rows = columns.people - weight * columns.judge
    count = np.maximum(columns.mask.sum(axis=0), 1.0)
    rows = columns.mask * (rows - (rows * columns.mask).sum(axis=0) / count) / count
    cells = np.zeros((people, columns.groups, size))
    np.add.at(cells, (who, columns.group), rows)
    by_person, single = cells.sum(axis=1), cells.reshape(-1, size)
    values, vectors = np.linalg.eigh((by_person.T @ by_person - single.T @ single) * people / (people - 1))
    spread: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return spread


def _linear(values: Floats, mask: Floats, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """Compute masked column means, shape (K,), and the contribution of each prompt to their error, shape (groups, K).

    A contribution is the change when the prompt is left out (delete-one jackknife), so that the variance is not
    underestimated where a prompt has many pairs.
    """
    count = mask.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (values * mask).sum(axis=0) / count
        share = np.nan_to_num(mask * (values - mean) / count)
    out = np.zeros((groups, values.shape[1]))
    np.add.at(out, group, share)
    remaining = 1 - leverage(mask, group, groups)
    return mean, np.divide(out, remaining, out=np.zeros_like(out), where=remaining > 1e-12)


def leverage(mask: Floats, group: Ints, groups: int) -> Floats:
    """Compute the share of each prompt in each column's rows; shape (groups, K), 0 for a column without rows."""
    share = np.zeros((groups, mask.shape[1]))
    np.add.at(share, group, mask / np.maximum(mask.sum(axis=0), 1.0))
    return share


def _effective(mask: Floats, group: Ints, groups: int) -> Floats:
    """Compute the effective number of prompts (of equal size) of each column; shape (K,), 0 for a column without rows."""
    squares = (leverage(mask, group, groups) ** 2).sum(axis=0)
    effective: Floats = np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0)
    return effective


def ppi_mean(
    people: Sequence[float] | Floats,
    judge: Sequence[float] | Floats,
    rest: Sequence[float] | Floats,
    groups: Sequence[str] | None = None,
    rest_groups: Sequence[str] | None = None,
    *,
    annotators: Ints | None = None,
    level: float = LEVEL,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Estimate the mean of the labels that people would give to all pairs.

    Args:
        people: Labels of people on the labelled pairs, shape (n,): win = 1, tie = 0.5, loss = 0, for example.
        judge: The judge on the same pairs, shape (n,), in the same unit.
        rest: The judge on the unlabelled pairs, shape (N,).
        groups: Prompt of each labelled pair; without them every pair is its own prompt.
        rest_groups: Prompt of each unlabelled pair.
        annotators: Number of who labelled each pair, if they are few (`PreferenceArrays`).
        level: Coverage of the interval, in (0, 1).
        bounds: Ends of the scale, which the interval is cut to.

    Raises:
        ValueError: Lengths differ, or a number is not finite.
    """
    y, f, r = (np.asarray(labels_of, dtype=np.float64) for labels_of in (people, judge, rest))
    labels = list(groups) if groups is not None else [f"labelled {k}" for k in range(len(y))]
    others = list(rest_groups) if rest_groups is not None else [f"rest {k}" for k in range(len(r))]
    if not len(y) == len(f) == len(labels) or len(r) != len(others):
        raise ValueError("people, judge and groups (rest and rest_groups) must have the same length")
    if not all(np.isfinite(column).all() for column in (y, f, r)):
        raise ValueError("people, judge and rest must be finite")
    if not len(y):
        return Estimate(None, None, 0.0, None, None, None, None, 0, len(r), 0, None, "people labelled no pair")
    group, prompts = codes([*labels, *others])
    ones = np.ones((len(y), 1)), np.ones((len(r), 1))
    columns = PreferenceArrays(
        y[:, None], f[:, None], ones[0], group[: len(y)], r[:, None], ones[1], group[len(y) :], len(prompts),
        np.zeros(0, dtype=np.int64) if annotators is None else annotators,
    )  # fmt: skip
    return estimate(fit(columns), columns, 0, level=level, bounds=bounds)


def estimate(
    fitted: Fit,
    columns: PreferenceArrays,
    k: int,
    *,
    level: float = LEVEL,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Return column `k` of a fit with its intervals by Student's t."""
    n, rest = int(columns.mask[:, k].sum()), int(columns.rest_mask[:, k].sum())
    reason = undefined(fitted, columns, k)
    spread, alone = float(fitted.spread[k, k]), float(fitted.people_spread[k, k])
    effective, naive = float(fitted.effective[k]), float(fitted.naive_effective[k])
    worth = n * alone / spread if not reason and spread > 0 else None
    few = f"only {fitted.labelled_prompts} labelled prompts: the interval is approximate"
    return Estimate(
        value=number(fitted.value[k]),
        interval=None if reason else _interval(fitted.value[k], spread, effective, level, bounds),
        power=fitted.power,
        people=number(fitted.people[k]),
        people_interval=(None if reason else _interval(fitted.people[k], alone, effective, level, bounds)),
        naive=number(fitted.naive[k]),
        naive_interval=_interval(fitted.naive[k], float(fitted.naive_spread[k, k]), naive, level, bounds),
        labelled=n,
        unlabelled=rest,
        prompts=columns.groups,
        worth=worth,
        reason=reason or (few if fitted.labelled_prompts < FEW else ""),
    )


def undefined(fitted: Fit, columns: PreferenceArrays, k: int) -> str:
    """Return why column `k` has no interval; empty when it has one."""
    if not columns.mask[:, k].any():
        return "people labelled no pair"
    if fitted.labelled_prompts < 2:
        return "people labelled pairs of fewer than two prompts: no interval"
    return "" if fitted.people_spread[k, k] > 0 else "all labels are equal: no interval"


def half_width(prompts: float, level: float) -> float:
    """Compute the half-width of an interval, in standard errors: the quantile of Student's t with (effective) prompts - 1 degrees of freedom."""
    from titjudge.stats.special import stdtrit

    return float(stdtrit(max(prompts - 1, 1.0), 0.5 + level / 2))


def _interval(
    value: float, variance: float, prompts: float, level: float, bounds: tuple[float, float] | None
) -> Interval | None:
    """Compute the interval of one estimate, cut to the scale; None without variance."""
    if not np.isfinite(value) or variance <= 0:
        return None
    half = half_width(prompts, level) * variance**0.5
    low, high = value - half, value + half
    return (float(low), float(high)) if bounds is None else (max(bounds[0], float(low)), min(bounds[1], float(high)))


# -- pairs -----------------------------------------------------------------------------------------------------------

Key = tuple[str, str, str]  # prompt, and the two images in sorted order


@dataclass(slots=True)
class Joined:
    """Human and judge pairs matched, each pair once, as wins (1, 0.5, 0) of the first image in sorted order.

    Attributes:
        labelled: Wins by people and by the judge.
        rest: Wins by the judge on pairs without a label.
        unjudged: Labelled pairs without an answer of the judge, which counts as a tie.
        annotator: Who labelled each pair, if each was labelled by one of few people; else empty.
    """

    labelled: dict[Key, tuple[float, float]] = field(default_factory=dict)
    rest: dict[Key, float] = field(default_factory=dict)
    unjudged: int = 0
    annotator: Mapping[Key, str] = field(default_factory=dict)

    def annotators(self, keys: Iterable[Key]) -> Ints:
        """Return the number of who labelled each of some pairs; empty if that is not known."""
        return codes(self.annotator[key] for key in keys)[0] if self.annotator else np.zeros(0, dtype=np.int64)


def join(human: Sequence[Pair], judge: Sequence[Pair]) -> Joined:
    """Match human pairs with judge pairs, in either order of the two images; repeated ones are averaged.

    Raises:
        DataError: A preference is not a, b or tie.
    """
    people, machine = _wins(human), _wins(judge)
    known = {_key(pair): pair.annotator for pair in human if pair.annotator}
    one_each = len(known) == len(human) and 1 < len(set(known.values())) < FEW_ANNOTATORS
    return Joined(
        annotator=known if one_each else {},
        labelled={key: (value, machine.get(key, 0.5)) for key, value in people.items()},
        rest={key: value for key, value in machine.items() if key not in people},
        unjudged=sum(key not in machine for key in people),
    )


def _wins(pairs: Sequence[Pair]) -> dict[Key, float]:
    """Return how often the first image of each pair, in sorted order, wins: 1, 0.5 or 0, repeated pairs averaged."""
    wins: dict[Key, list[float]] = {}
    for pair in pairs:
        if pair.preference not in _WIN:
            raise DataError(f"pair {pair.a} / {pair.b}: preference '{pair.preference}' is not 'a', 'b' or 'tie'")
        win = _WIN[pair.preference]
        wins.setdefault(_key(pair), []).append(1 - win if pair.a > pair.b else win)
    return group_means(wins)


def _key(pair: Pair) -> Key:
    return pair.prompt_id, min(pair.a, pair.b), max(pair.a, pair.b)


def win_rate(
    both: Joined, generator_of: Mapping[str, str], first: str, second: str, *, level: float = LEVEL
) -> Estimate:
    """Estimate how often people prefer `first` over `second` (ties count half), in [0, 1], over all pairs of the two.

    Args:
        both: Human and judge pairs, from `join`.
        generator_of: Generator of each image id; pairs of other generators are left out.
        first: A generator.
        second: Another generator.
        level: Coverage of the interval, in (0, 1).
    """

    def swapped(key: Key) -> bool | None:
        generators = generator_of.get(key[1]), generator_of.get(key[2])
        return False if generators == (first, second) else True if generators == (second, first) else None

    def win(value: float, of_second: bool) -> float:
        return 1 - value if of_second else value

    labelled = [
        (key, win(y, swap), win(f, swap)) for key, (y, f) in both.labelled.items() if (swap := swapped(key)) is not None
    ]
    rest = [(key[0], win(f, swap)) for key, f in both.rest.items() if (swap := swapped(key)) is not None]
    return ppi_mean(
        [y for _, y, _ in labelled],
        [f for _, _, f in labelled],
        [f for _, f in rest],
        [key[0] for key, _, _ in labelled],
        [group for group, _ in rest],
        annotators=both.annotators(key for key, _, _ in labelled),
        level=level,
        bounds=(0.0, 1.0),
    )
