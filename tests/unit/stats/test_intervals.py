"""Intervals keep their level over few prompts; where all agree they are exact."""

import itertools

import numpy as np
import pytest
from scipy import stats

from titjudge.core.declarations import Doubt
from titjudge.stats.bootstrap import group_sums
from titjudge.stats.intervals import (
    doubt,
    exact_bound,
    mean_interval,
    mean_intervals,
    moments,
    share_interval,
    share_intervals,
    skewness_shift,
    two_sided_p,
)


@pytest.mark.parametrize(("prompts", "noise"), [(6, 0.1), (6, 0.8), (10, 0.4), (20, 0.4), (50, 0.8)])
def test_an_interval_of_accuracy_covers(prompts: int, noise: float) -> None:
    """Pairs of 4 images of each prompt; 92.5% of 95 less three standard errors of 600 runs is 92.3%."""
    rng = np.random.default_rng(prompts)
    a, b = np.triu_indices(4, 1)

    def right(count: int) -> np.ndarray:
        truth = rng.random((count, 4))
        told = truth + noise * 0.29 * rng.standard_normal((count, 4))
        return ((told[:, a] > told[:, b]) == (truth[:, a] > truth[:, b])).sum(axis=1).astype(float)

    accuracy = right(200_000).mean() / 6
    found = share_intervals(right(600 * prompts).reshape(600, prompts).T, np.full((prompts, 600), 6.0))
    covered = np.mean([low <= accuracy <= high for low, high in filter(None, found)])
    assert len(found) == 600
    assert covered >= 0.923


def test_a_mean_has_students_t() -> None:
    values = np.array([1.0, 2.0, 2.5, 3.5, 4.0, 5.0])  # symmetric: no tail
    wanted = stats.t.interval(0.95, 5, values.mean(), stats.sem(values))
    assert mean_intervals(values, np.ones(6)) == [pytest.approx(wanted)]
    assert mean_intervals(values, np.ones(6), (wanted[0] + 0.1, 99.0)) == [pytest.approx((wanted[0] + 0.1, wanted[1]))]


def test_the_interval_of_a_mean_reaches_into_the_tail() -> None:
    values = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 3.0])
    low, high = stats.t.interval(0.95, 5, values.mean(), stats.sem(values))
    skewed = mean_intervals(values, np.ones(6))[0]
    assert skewed is not None
    assert skewed[0] == pytest.approx(low)
    assert skewed[1] > high + 0.3
    assert mean_intervals(-values, np.ones(6)) == [pytest.approx((-skewed[1], -skewed[0]))]
    assert skewness_shift(0.6, 2.0) == pytest.approx(0.6 / 6 * (1 + 2 * 2.0**2))  # Johnson (1978): 0.9


@pytest.mark.parametrize(("prompts", "least"), [(40, 0.85), (60, 0.85), (100, 0.95), (200, 0.97)])
def test_the_mean_of_yes_and_no_is_a_share(prompts: int, least: float) -> None:
    """Over every possible outcome, for shares of 50 to 98%: 93 to 97% of intervals hold nearly all of them, and at least 93% any."""
    scores = [np.where(np.arange(prompts) < right, 100.0, 0.0) for right in range(prompts + 1)]
    found = np.array([mean_interval(each, (0.0, 100.0)) for each in scores])
    assert found[-1] == pytest.approx([100 * end for end in exact_bound(1.0, prompts, (0.0, 1.0))])
    truth = np.linspace(0.5, 0.98, 49)
    chance = stats.binom.pmf(np.arange(prompts + 1), prompts, truth[:, None])
    covered = (chance * ((found[:, 0] <= 100 * truth[:, None]) & (100 * truth[:, None] <= found[:, 1]))).sum(axis=1)
    assert covered.min() >= 0.93
    assert (covered <= 0.97).mean() >= least
    inner = scores[prompts // 2]
    assert mean_interval(inner, (-1.0, 100.0)) == mean_intervals(inner, np.ones(prompts), (-1.0, 100.0))[0]
    assert mean_interval(inner * 0, (0.0, np.inf)) is None


def test_a_share_of_few_prompts_is_that_of_accuracies() -> None:
    right = np.array([1.0, 0, 1, 1, 1, 1, 0, 1, 1, 1])
    assert mean_interval(100 * right, (0.0, 100.0)) == pytest.approx(
        [100 * end for end in share_interval(np.arange(10), right) or ()]
    )


def test_a_share_of_one_answer_for_each_prompt_has_wilsons_interval() -> None:
    """That of Wilson (1927) with Student's t, for one trial less."""
    right = np.where(np.arange(50) < 36, 100.0, 0.0)
    share, trials = 0.72, 49 / stats.t.ppf(0.975, 49) ** 2
    middle, half = (
        (share + 0.5 / trials) / (1 + 1 / trials),
        (share * (1 - share) / trials + 0.25 / trials**2) ** 0.5 / (1 + 1 / trials),
    )
    assert mean_interval(right, (0.0, 100.0)) == pytest.approx((100 * (middle - half), 100 * (middle + half)))
    wide = mean_interval(np.repeat(right, 2), (0.0, 100.0), np.repeat(np.arange(50), 2))  # families of two
    assert wide == pytest.approx((57.57, 82.97), abs=0.01)


@pytest.mark.parametrize("prompts", [6, 10, 20])
def test_the_interval_of_a_skewed_mean_covers(prompts: int) -> None:
    """Exponential: Student's t alone covers 88.7, 90 and 91.8%; three standard errors of 4,000 runs are 1.2%."""
    values = np.random.default_rng(prompts).exponential(1.0, (prompts, 4000))
    found = mean_intervals(values, np.ones_like(values))
    covered = np.mean([low <= 1.0 <= high for low, high in filter(None, found)])
    assert covered >= 0.92
    assert covered <= 0.97


@pytest.mark.parametrize(
    ("prompts", "right"),  # how often a prompt has 0 to 6 of 6 pairs right: four images seen through noise
    [
        (6, [0.0, 0.0, 0.0001, 0.0021, 0.0093, 0.1545, 0.834]),  # .970
        (6, [0.0003, 0.0009, 0.0028, 0.0217, 0.0782, 0.3615, 0.5346]),  # .900
        (6, [0.0019, 0.0071, 0.0214, 0.0834, 0.2098, 0.395, 0.2814]),  # .800
        (6, [0.0072, 0.027, 0.0694, 0.1653, 0.2724, 0.3067, 0.152]),  # .700
        (10, [0.0, 0.0, 0.0001, 0.0021, 0.0093, 0.1545, 0.834]),
        (10, [0.0003, 0.0009, 0.0028, 0.0217, 0.0782, 0.3615, 0.5346]),
    ],
)
def test_an_interval_of_accuracy_is_no_wider_than_it_must_be(prompts: int, right: list[float]) -> None:
    """Over every possible outcome. With 2.5% for each end 97.4 to 99.1% hold: near the end of the scale one end cannot err."""
    chance = np.array(right) / sum(right)
    truth = float(chance @ np.arange(7)) / 6
    samples = np.array(list(itertools.combinations_with_replacement(range(7), prompts)))
    counts = (samples[:, :, None] == np.arange(7)).sum(axis=1)
    weight = np.exp(stats.multinomial.logpmf(counts, prompts, chance))
    found = np.array(share_intervals(samples.T.astype(float), np.full(samples.T.shape, 6.0)))
    covered = weight[(found[:, 0] <= truth) & (truth <= found[:, 1])].sum()
    assert 0.92 <= covered <= 0.9705
    shares = samples.mean(axis=1) / 6
    assert (found[:, 0] <= shares + 1e-12).all()
    assert (found[:, 1] >= shares - 1e-12).all()


def test_an_interval_that_reaches_far_from_the_ends_has_students_t() -> None:
    hits, trials = np.array([12.0, 9.0, 15.0, 11.0, 8.0, 10.0] * 4), np.full(24, 20.0)
    share, error = hits.sum() / trials.sum(), (hits / trials).std(ddof=1) / 24**0.5
    wide = stats.t.ppf(0.975, 23) * error / (share * (1 - share))
    odds = np.log(share / (1 - share))
    wanted = [1 / (1 + np.exp(-each)) for each in (odds - wide, odds + wide)]
    assert share_intervals(hits, trials) == [pytest.approx(wanted)]


def test_prompts_that_all_have_half_right_have_the_exact_bound() -> None:
    """No variance between prompts is no reason to be certain."""
    assert share_intervals(np.full(6, 3.0), np.full(6, 6.0)) == [pytest.approx(exact_bound(0.5, 6, (0.0, 1.0)))]


def test_prompts_that_agree_have_the_exact_bound() -> None:
    reach = 1 - 0.025 ** (1 / 6)
    six = np.full(6, 5.0)
    assert share_intervals(six, six) == [pytest.approx((1 - reach, 1.0))]
    assert share_intervals(six * 0, six) == [pytest.approx((0.0, reach))]
    assert stats.binomtest(6, 6).proportion_ci().low == pytest.approx(1 - reach)
    assert mean_intervals(six * 5, six, (-10.0, 10.0)) == [pytest.approx((5 - 15 * reach, 5 + 5 * reach))]
    assert mean_intervals(six * 5, six) == [None]
    assert exact_bound(0.5, 1, (0.0, 1.0)) == pytest.approx((0.0125, 0.9875))


@pytest.mark.parametrize("scale", [2.0**1000, 2.0**-600])
def test_an_interval_has_the_scale_of_the_scores(scale: float) -> None:
    """Also where their squares would overflow, or vanish and look as if all prompts agreed."""
    scores, one = np.array([1.0, -1.0, 0.5, 3.0]), np.ones(4)
    ((low, high),) = mean_intervals(scores, one)
    assert moments(scores * scale, one)[0][2] == moments(scores, one)[0][2] * scale
    if scale > 1:
        assert mean_intervals(scores * scale, one) == [pytest.approx((low * scale, high * scale))]


def test_no_interval_of_one_prompt() -> None:
    one, two = np.array([1.0]), np.array([0.0, 2.0])
    assert share_intervals(one, one) == mean_intervals(one, one) == [None]
    assert share_intervals(two, two) == [None]
    assert mean_intervals(np.zeros((0, 3)), np.zeros((0, 3))) == [None] * 3


def test_two_prompts_have_an_interval() -> None:
    six = np.full(2, 6.0)
    assert share_intervals(six, six) == [pytest.approx((0.025**0.5, 1.0))]
    low = 1 / (1 + np.exp(stats.t.ppf(0.955, 1) * (1 / 6) / 0.25))  # each end errs alone; standard error 1/6 of 50%
    assert share_intervals(np.array([2.0, 4.0]), six) == [pytest.approx((low, 1 - low))]
    assert mean_intervals(np.array([0.0, 2.0]), np.ones(2)) == [pytest.approx((1 - 12.7062, 1 + 12.7062), abs=1e-4)]


def test_the_prompt_is_the_unit_and_not_the_pair() -> None:
    """Prompts of 20 pairs, each with its own accuracy: by single pairs the interval is 2.7 times too narrow."""
    rng = np.random.default_rng(11)
    covered = np.zeros(2)
    for _ in range(300):
        right = (rng.random((60, 20)) < rng.beta(1.2, 0.8, (60, 1))).astype(float).ravel()
        for k, unit in enumerate((np.repeat(np.arange(60), 20), np.arange(1200))):
            sums = group_sums(unit, int(unit.max()) + 1, right, np.ones_like(right))
            low, high = share_intervals(sums[:, 0], sums[:, 1])[0] or (1.0, 0.0)
            covered[k] += low <= 0.6 <= high
    assert 0.9 <= covered[0] / 300 <= 0.99
    assert covered[1] / 300 < 0.7


@pytest.mark.parametrize(
    ("mean", "half", "units", "bounds", "found"),
    [
        (97.0, 0.5, 40, (0.0, 100.0), Doubt.ONE_SCORE),  # one 0 more: 94.6
        (97.0, 2.5, 40, (0.0, 100.0), ""),
        (97.0, 0.5, 400, (0.0, 100.0), ""),
        (3.0, 0.5, 40, (0.0, 100.0), Doubt.ONE_SCORE),  # one 100 more
        (97.0, 0.5, 40, None, ""),
        (3.0, 0.5, 40, (0.0, np.inf), ""),
        (97.0, 20.0, 9, None, Doubt.FEW_UNITS),
    ],
)
def test_a_level_is_in_doubt_if_one_more_score_moves_the_mean_out_of_its_interval(
    mean: float, half: float, units: int, bounds: tuple[float, float] | None, found: str
) -> None:
    assert doubt((mean - half, mean + half), mean, units, bounds) == found
    assert doubt(None, mean, units, bounds) == ""


@pytest.mark.parametrize(("units", "found"), [(40, Doubt.COARSE), (200, Doubt.COARSE), (400, "")])
def test_a_difference_of_two_values_is_coarse_with_more_units_than_a_mean(units: int, found: str) -> None:
    """Yes or no against one score."""
    scores = np.where(np.arange(units) < 0.1 * units, -90.0, 10.0)
    (interval,) = mean_intervals(scores, np.ones(units))
    assert doubt(interval, 0.0, units, (-100.0, 100.0), 0.5, scores=scores) == found
    assert doubt(interval, 0.0, units, (-100.0, 100.0), scores=scores) == ""
    scores[:3] = 0.0
    assert doubt(interval, 0.0, units, (-100.0, 100.0), 0.5, scores=scores) == ""


def test_p_is_below_the_level_exactly_where_the_interval_excludes_zero() -> None:
    rng = np.random.default_rng(4)
    values = 0.4 + rng.exponential(1.0, (40, 200)) - 1.0
    ends = mean_intervals(values, np.ones(values.shape))
    excluded = [low > 0 or high < 0 for low, high in filter(None, ends)]
    ps = [
        two_sided_p(mean, error, prompts, skewness)
        for prompts, mean, error, skewness in moments(values, np.ones(values.shape))
    ]
    assert [p < 0.05 for p in ps] == excluded
    assert 20 < sum(excluded) < 180
