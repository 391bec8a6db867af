"""95% intervals for shares and means over prompts that keep their coverage when there are few prompts.

Pairs of one prompt share images, so the prompt is the unit: the functions take sums per prompt, and the variance of a
ratio of sums is linearised. A share has a Student's t interval on the scale of log odds, which cannot leave [0, 1]; if a
sample of this few prompts can exclude a share from one side only, that side takes the error probability of both. If each of at
least 40 prompts gives one yes or no, the interval is Wilson's (JASA 22, 1927), with Student's t. A mean
has a Student's t interval, wider on the side of a long tail that a few prompts may not have shown (Johnson 1978). If all
prompts agree, there is no variance to estimate, and the bound is exact: a result shown by all of n prompts may still be
absent in a share of 1 - 0.025^(1/n) of prompts (46% for 6). `python -m benchmarks.coverage` measures the coverage of
these intervals.

Gaffke's bound for the mean of a bounded quantity does not use the standard deviation. An effect in one prompt of ten is absent
from half of all samples of six prompts: their standard deviation is then near zero, and a Student's t interval excludes the
truth. Gaffke (2005) adds one more prompt, at the end of the scale, and weights all prompts by the spacings of uniform points.
If all n prompts show the same, this is the exact bound, and for 0/1 values it is the bound of Clopper and Pearson.
"""

from __future__ import annotations

import functools
from functools import lru_cache
from typing import Any

import numpy as np

from titjudge.core.declarations import FEW_ANNOTATORS as FEW_ANNOTATORS
from titjudge.core.declarations import RELIABLE, Doubt
from titjudge.stats.bootstrap import FEW_PROMPTS, LEVEL, Floats, Interval, Ints, group_sums, unit_sums

TAIL = (1 - LEVEL) / 2
# Error probability of an end that errs alone; with 0.05 coverage falls to 89.5% near the ends of the scale.
_ALONE = 0.045
WAY = "t-logit-3"
"""The method in results.json: change it whenever the intervals change, and `IN_WORDS` with it."""
IN_WORDS = (
    "Student's t; for shares on the scale of log odds, and with 4.5% error at one end if the other end cannot be wrong; "
    "Wilson's for one answer for each of at least 40 prompts"
)
_FLAT = 1e-12  # a standard error below this part of the scale is rounding
_ENOUGH = 40  # units from which few different scores, and rare low ones, keep the level
_STEPS = 5.5  # standard deviation of a sum, in steps, below which its probabilities are too lumpy for 95%
_FAR = 7.0  # median distances from the median: 4.7 standard deviations of normal scores


def share_intervals(hits: Floats, trials: Floats, people: tuple[Floats, Floats] | None = None) -> list[Interval | None]:
    """Compute the interval of sum(hits) / sum(trials) of each statistic; None if fewer than two prompts have trials.

    Args:
        hits: Sums per prompt, shape (prompts,) or (prompts, statistics), at most the sums of `trials`.
        trials: Sums per prompt, of the same shape.
        people: The same sums per annotator, if these are a sample too: their variance is added, without that which both share
            (Cameron, Gelbach and Miller, "Robust inference with multiway clustering", JBES 29, 2011), with Satterthwaite's
            degrees of freedom.
    """
    from titjudge.stats.special import stdtrit

    intervals: list[Interval | None] = []
    totals = np.atleast_1d(trials.sum(axis=0)).tolist()
    by_person = moments(*people) if people is not None else [(0, 0.0, 0.0, 0.0)] * len(totals)
    for (prompts, share, error, _), total, (raters, _, spread, _) in zip(
        moments(hits, trials), totals, by_person, strict=True
    ):
        freedom = float(prompts - 1)
        if prompts < 2:
            intervals.append(None)
        elif min(share, 1 - share) <= _FLAT or (error <= _FLAT and not (raters > 1 and spread > _FLAT)):
            intervals.append(exact_bound(share, prompts, (0.0, 1.0)))
        elif prompts == total >= _ENOUGH and raters < 2:
            per_trial = (float(stdtrit(freedom, TAIL)) * error) ** 2 / (share * (1 - share))
            half = (per_trial * share * (1 - share) + per_trial**2 / 4) ** 0.5
            low, high = share + per_trial / 2 - half, share + per_trial / 2 + half
            intervals.append((low / (1 + per_trial), high / (1 + per_trial)))
        else:
            if raters > 1:
                parts = error**2, spread**2
                both = max(*parts, sum(parts) - share * (1 - share) / total)
                freedom = both**2 / (parts[0] ** 2 / freedom + parts[1] ** 2 / (raters - 1))
                error = both**0.5
            (low, high), (inner_low, inner_high) = (_log_odds(share, error, freedom, tail) for tail in (TAIL, _ALONE))
            top = _highest_low(prompts, total)
            low, high = max(low, min(inner_low, 1 - top)), min(high, max(inner_high, top))
            intervals.append((float(min(low, top)), float(max(high, 1 - top))))
    return intervals


def share_interval(prompt: Ints, hits: Floats, trials: Floats | None = None) -> Interval | None:
    """Compute the interval of the share of hits, clustered by prompt.

    Args:
        prompt: Number of the prompt of each trial, from 0.
        hits: 1 for a hit and 0 for a miss, same shape.
        trials: 0 for rows that do not count; without it all do.
    """
    sums = group_sums(prompt, int(prompt.max(initial=-1)) + 1, hits, np.ones(len(hits)) if trials is None else trials)
    return share_intervals(sums[:, 0], sums[:, 1])[0]


def _log_odds(share: Any, error: Any, freedom: float, tail: float) -> tuple[Any, Any]:
    """Compute the ends of the t interval on the scale of log odds, with the error probability `tail` on each side."""
    from titjudge.stats.special import expit, logit, stdtrit

    half = -stdtrit(freedom, tail) * error / (share * (1 - share))
    return expit(logit(share) - half), expit(logit(share) + half)


@lru_cache(maxsize=4096)
def _highest_low(prompts: int, trials: float) -> float:
    """Compute the highest lower end that any sample can have.

    Either all trials are hits, or some prompts have one miss more than the others.
    """
    agreed = max(0.5, exact_bound(1.0, prompts, (0.0, 1.0))[0])
    if trials < prompts:
        return agreed
    wrong = np.arange(1, prompts)
    error = np.sqrt(wrong * (prompts - wrong) / (prompts - 1)) / trials
    return max(agreed, float(_log_odds(1 - wrong / trials, error, prompts - 1, TAIL)[0].max()))


def mean_intervals(
    sums: Floats, counts: Floats, bounds: Interval | None = None, tail: float = TAIL
) -> list[Interval | None]:
    """Compute the interval of sum(sums) / sum(counts) of each statistic.

    It is None if fewer than two prompts have data, and if all prompts agree on a scale without ends.

    Args:
        sums: Per prompt, shape (prompts,) or (prompts, statistics).
        counts: Per prompt, of the same shape.
        bounds: Ends of the scale, which the interval is cut to.
        tail: Error probability of each end.
    """
    from titjudge.stats.special import stdtrit

    intervals: list[Interval | None] = []
    for prompts, mean, error, skewness in moments(sums, counts):
        if prompts < 2:
            intervals.append(None)
        elif error <= _FLAT * max(1.0, abs(mean)):
            intervals.append(exact_bound(mean, prompts, bounds, tail) if bounds and np.isfinite(bounds).all() else None)
        else:
            t = -float(stdtrit(prompts - 1, tail))
            shift = skewness_shift(skewness / prompts**0.5, t)
            low, high = bounds or (-np.inf, np.inf)
            intervals.append(
                (max(low, mean - (t + max(0.0, -shift)) * error), min(high, mean + (t + max(0.0, shift)) * error))
            )
    return intervals


def mean_interval(scores: Floats, bounds: Interval | None = None, unit: Ints | None = None) -> Interval | None:
    """Compute the interval of the mean of scores, one per prompt; None as in `mean_intervals`.

    If all scores lie at the two ends of the scale, such as yes and no, the mean is a share, and has the interval of a share.

    Args:
        scores: NaN is left out.
        bounds: Ends of the scale.
        unit: Number of the family of each prompt; None if each prompt is a unit.
    """
    sums, counts = unit_sums(scores, unit)
    low, high = bounds or (0.0, np.inf)
    width = high - low
    if np.isinf(width) or not np.isin(scores[np.isfinite(scores)], (low, high)).all():
        return mean_intervals(sums, counts, bounds)[0]
    (ends,) = share_intervals((sums - low * counts) / width, counts)
    return ends and (low + width * ends[0], low + width * ends[1])


def exact_bound(value: float, prompts: int, bounds: Interval, tail: float = TAIL) -> Interval:
    """Compute the interval of a mean when every prompt shows the same `value`: unseen ones may lie at the ends of the scale."""
    share = 1 - float(tail ** (1 / prompts))
    low, high = bounds
    return value - share * (value - low), value + share * (high - value)


def doubt(
    interval: Interval | None,
    mean: float,
    units: int,
    bounds: Interval | None,
    p: float | None = None,
    tail: float = TAIL,
    scores: Floats | None = None,
) -> str:
    """Return the reason why the level of the interval of a mean is not reliable; empty if it is, or without an interval.

    Rare scores far from the others, such as 0 for a blank image, may be absent from the data at hand. One such score more
    may then change the mean by more than the interval allows for. A test does not allow for any, so p may be low if the
    interval contains 0. A difference with only two values, such as yes or no against one score, is coarse with more units than other
    means: its test has few values too.

    Args:
        interval: Of the mean.
        mean: The mean.
        units: Prompts, or families.
        bounds: Ends of the scale, if they are known.
        p: Of the test whether the mean is 0, if there is one.
        tail: Error probability of each end of the interval.
        scores: Of the units, whose mean it is.

    Returns:
        The `Doubt`.
    """
    if interval is None:
        return ""
    if units < RELIABLE:
        return Doubt.FEW_UNITS
    low, high = interval
    if p is not None and (p < 2 * tail) == (low <= 0 <= high):
        return Doubt.DISAGREE
    rooms = zip((mean - low, high - mean), (mean - end for end in bounds or (mean, mean)), strict=True)
    if any(room < abs(reach) / (units + 1) < np.inf for room, reach in rooms):
        return Doubt.ONE_SCORE
    if scores is not None and (units < _ENOUGH or (p is not None and len(np.unique(scores)) < 3)) and is_coarse(scores):
        return Doubt.COARSE
    return ""


def is_coarse(scores: Floats) -> bool:
    """Return True if few different scores, or few scores far from the others, make up the mean, so that few units do not reach 95%.

    The sum of few different scores, such as yes and no, has a lumpy distribution; rare scores may be more in these data than in
    others, or fewer. `python -m benchmarks.coverage` measures the coverage.
    """
    ordered = np.sort(scores)
    gaps = np.diff(ordered)
    gaps = gaps[gaps > _FLAT * np.abs(ordered).max(initial=0.0)]
    if not len(gaps) or float(((scores - scores.mean()) ** 2).sum()) < (_STEPS * float(gaps.min())) ** 2:
        return True
    away = np.abs(scores - np.median(scores))
    return bool(0 < (away > max(_FAR * float(np.median(away)), _FLAT)).sum() < 2 * RELIABLE)


def why_no_interval(interval: Interval | None, prompts: int) -> str:
    """Return the reason why a mean over prompts has no interval; empty if it has one."""
    return "" if interval else FEW_PROMPTS if prompts < 2 else "every prompt shows the same"


def two_sided_p(mean: float, error: float, prompts: int, skewness: float) -> float:
    """Compute the two-sided p of a mean against 0: below 0.05 if its interval does not contain 0; arguments from `moments`."""
    sign = 1 if mean > 0 else -1
    return min(1.0, 2 * mean_p(sign * mean / error, prompts, -sign * skewness))


def mean_p(distance: float, prompts: int, skewness: float) -> float:
    """One-sided p of a mean `distance` standard errors below a limit: below 0.025 exactly if its interval is below the limit."""
    from titjudge.stats.special import stdtr

    skew = max(0.0, skewness / (6 * prompts**0.5))
    beyond = distance - skew
    t = 2 * beyond / (1 + (1 + 8 * skew * beyond) ** 0.5) if beyond > 0 else beyond  # t + skew (1 + 2 t^2) = distance
    return float(stdtr(prompts - 1, -t))


def skewness_shift(skewness: float, t: float) -> float:
    """Compute how much longer the interval is on the side of the long tail, in standard errors (Johnson 1978).

    Args:
        skewness: Of the mean: the skewness of the prompts divided by the root of their number.
        t: Half-width of the interval without skewness, in standard errors.
    """
    return float(skewness / 6 * (1 + 2 * t**2))


def sample_skewness(prompts: float) -> float:
    """Compute the factor by which a sample underestimates skewness: the usual one, and 1 + 3 / n, found by simulation."""
    return (prompts * (prompts - 1)) ** 0.5 / (prompts - 2) * (1 + 3 / prompts) if prompts > 2 else 0.0


def moments(tops: Floats, bottoms: Floats) -> list[tuple[int, float, float, float]]:
    """For each statistic: prompts with data, the ratio of the sums, its standard error and the skewness over prompts.

    Small samples underestimate skewness: it is multiplied by `sample_skewness`.

    Args:
        tops: Numerators, sums per prompt, shape (prompts,) or (prompts, statistics).
        bottoms: Denominators, same shape; 0 is a prompt without data.
    """
    top, bottom = (sums[:, None] if sums.ndim == 1 else sums for sums in (tops, bottoms))
    prompts, total = np.count_nonzero(bottom > 0, axis=0), bottom.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(bottom > 0, top, 0.0).sum(axis=0) / total
        rest = np.where(bottom > 0, top - ratio * bottom, 0.0)
        # Squares neither overflow nor vanish.
        scale = np.ldexp(1.0, np.frexp(np.abs(rest).max(axis=0, initial=0.0))[1] - 1)
        rest = rest / scale
        square = (rest**2).sum(axis=0)
        error = scale * np.sqrt(square * prompts / (prompts - 1)) / total
        factor = np.array([sample_skewness(number) for number in prompts.tolist()])
        skewness = np.where(square > 0, factor * (rest**3).sum(axis=0) * np.sqrt(prompts) / square**1.5, 0.0)
    return list(zip(prompts.tolist(), ratio.tolist(), error.tolist(), skewness.tolist(), strict=True))


DRAWS = 20_000
MOST_DRAWN = (
    400  # prompts: above, three moments give the bound to within 5% of its distance from the mean, on the safe side
)
_BLOCK = 1 << 21


def below(means: Floats, end: float, limits: Floats) -> Floats:
    """Compute the probability that Gaffke's mean, with the added prompt at `end`, is at most each limit; shape of `limits`."""
    draws = _gaffke(means, end)
    return (np.searchsorted(draws, limits, side="right") + 1) / (len(draws) + 1)


def bound(means: Floats, end: float, alpha: float) -> float:
    """Compute the one-sided bound of the mean on the side of `end`: the lower bound if `end` is below the mean."""
    if len(means) > MOST_DRAWN:
        return float(approximate_bound(means, end, alpha, np.array([len(means)]))[0])
    draws = _gaffke(means, end)
    tail = int(alpha * len(draws))
    return float(draws[tail if end <= float(means.mean()) else len(draws) - 1 - tail])


def approximate_bound(means: Floats, end: float, alpha: float, counts: Floats) -> Floats:
    """Approximate `bound` for each number of prompts in `counts` that are distributed as `means`; shape of `counts`.

    Uses the first three moments of Gaffke's mean (Cornish-Fisher).
    """
    from titjudge.stats.special import ndtri

    mean = means.mean()
    centre = (mean * counts + end) / (counts + 1)
    variance, skew = (((means - mean) ** power).mean() for power in (2, 3))
    shift, last = mean - centre, end - centre
    squares = (variance + shift**2) * counts + last**2
    cubes = (skew + 3 * variance * shift + shift**3) * counts + last**3
    second = squares / ((counts + 1) * (counts + 2))
    third = 2 * cubes / ((counts + 1) * (counts + 2) * (counts + 3))
    deviation = np.sqrt(np.maximum(second, 1e-24))
    z = ndtri(alpha if end <= mean else 1 - alpha)
    bounds: Floats = centre + deviation * (z + (z**2 - 1) / 6 * third / deviation**3)
    return bounds


def _gaffke(means: Floats, end: float) -> Floats:
    """Draw the weighted mean, sorted."""
    points = np.append(np.sort(means), end)
    return np.sort(np.concatenate([weights @ points for weights in _weights(len(points))]))


@functools.lru_cache(maxsize=4)
def _weights(points: int) -> list[Floats]:
    """Draw spacings of uniform points (Dirichlet with all ones), in blocks of shape (rows, points).

    The last weight, of the added prompt, is stratified over its quantiles: if all others agree, only it matters.
    """
    rng = np.random.default_rng(points)
    last = 1 - (1 - (np.arange(DRAWS) + 0.5) / DRAWS) ** (1 / (points - 1))
    blocks = []
    for part in np.array_split(last, max(1, DRAWS * points // _BLOCK)):
        weights = rng.standard_exponential((len(part), points - 1))
        weights *= ((1 - part) / weights.sum(axis=1))[:, None]
        blocks.append(np.column_stack([weights, part]))
    return blocks
