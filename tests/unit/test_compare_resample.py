"""The bootstrap by prompt: against scipy's, and does the interval cover what it should."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from titjudge.compare import resample
from titjudge.compare.resample import (
    codes,
    group_sums,
    multiplicities,
    percentile_interval,
    ratio_draws,
    ratio_intervals,
)


def test_codes_count_in_order_of_appearance() -> None:
    found, labels = codes(["b", "a", "b", "c"])
    assert found.tolist() == [0, 1, 0, 2]
    assert labels == ["b", "a", "c"]
    assert codes([])[1] == []


def test_every_draw_draws_as_many_prompts_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resample, "_BLOCK", 50)
    blocks = list(multiplicities(7, 100, seed=1))
    drawn = np.concatenate(blocks)
    assert len(blocks) > 10
    assert drawn.shape == (100, 7)
    assert set(drawn.sum(axis=1)) == {7.0}
    assert abs(drawn.mean() - 1) < 1e-12


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(multiplicities(13, 64, seed=4)))
    monkeypatch.setattr(resample, "_BLOCK", 30)
    np.testing.assert_array_equal(whole, np.concatenate(list(multiplicities(13, 64, seed=4))))


def test_ratio_draws_are_what_a_loop_over_drawn_prompts_gives() -> None:
    rng = np.random.default_rng(0)
    top, bottom = rng.integers(0, 5, (9, 2)).astype(float), rng.integers(0, 9, (9, 2)).astype(float)
    draws = ratio_draws(top, bottom, resamples=50, seed=2)
    for row, weights in zip(draws, np.concatenate(list(multiplicities(9, 50, seed=2))), strict=True):
        picked = np.repeat(np.arange(9), weights.astype(int))
        np.testing.assert_allclose(row, top[picked].sum(axis=0) / bottom[picked].sum(axis=0))


def test_the_interval_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    bottom = rng.integers(5, 78, 150).astype(float)
    top = rng.binomial(bottom.astype(int), rng.beta(6, 4, 150)).astype(float)
    reference = stats.bootstrap(
        (top, bottom),
        lambda x, y, axis: x.sum(axis=axis) / y.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(6),
    )
    found = ratio_intervals(top, bottom, resamples=20_000, seed=7)[0]
    # The end of an interval of half width w moves by about w/1.96 * sqrt(.025*.975/20000)/phi(1.96) per run: under w/80.
    width = reference.confidence_interval.high - reference.confidence_interval.low
    assert found == pytest.approx(tuple(reference.confidence_interval), abs=width / 20)


def test_draws_without_data_are_left_out() -> None:
    top, bottom = np.array([1.0, 0.0, 1.0]), np.array([2.0, 0.0, 2.0])
    draws = ratio_draws(top, bottom, resamples=400, seed=0)
    assert np.isnan(draws).sum() > 0  # (1/3)^3 of them draw the empty prompt alone
    assert ratio_intervals(top, bottom, resamples=400, seed=0) == [(0.5, 0.5)]


def test_no_interval_where_there_is_nothing_to_resample() -> None:
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert ratio_intervals(one, one, resamples=100, seed=0) == [None]
    assert ratio_intervals(two, two, resamples=0, seed=0) == [None]
    assert ratio_intervals(two, np.array([0.0, 2.0]), resamples=100, seed=0) == [None]
    assert ratio_intervals(np.zeros((0, 3)), np.zeros((0, 3)), resamples=100, seed=0) == [None] * 3
    assert percentile_interval(np.array([np.nan])) is None


def test_intervals_by_prompt_cover_and_intervals_by_pair_do_not() -> None:
    """60 prompts of 20 pairs, each prompt with its own accuracy: the truth is the mean of those.

    With 60 clusters the percentile bootstrap should cover P(|t59| < 1.96 sqrt(59/60)) = .943; over 300 runs its standard
    deviation is .0134, so four of them either side leave [.889, .997]. Resampling single pairs ignores that the
    variance of a prompt's mean is 1 + 19 rho times larger, rho = 1/3 for Beta(1.2, .8): the interval is 2.7 times too
    narrow and covers about P(|z| < 1.96/2.7) = .53.
    """
    rng = np.random.default_rng(11)
    runs, prompts, size = 300, 60, 20
    truth = 1.2 / 2.0
    covered = np.zeros(2)
    for run in range(runs):
        right = (rng.random((prompts, size)) < rng.beta(1.2, 0.8, (prompts, 1))).astype(float).ravel()
        for k, unit in enumerate((np.repeat(np.arange(prompts), size), np.arange(prompts * size))):
            sums = group_sums(unit, int(unit.max()) + 1, right, np.ones_like(right))
            low, high = ratio_intervals(sums[:, 0], sums[:, 1], resamples=300, seed=run)[0] or (1.0, 0.0)
            covered[k] += low <= truth <= high
    assert 0.889 <= covered[0] / runs <= 0.997
    assert covered[1] / runs < 0.7
