"""The bootstrap by prompt: against scipy's, and does the interval cover what it should."""

import numpy as np
import pytest
from scipy import stats

from titjudge.stats import bootstrap
from titjudge.stats.bootstrap import codes, multiplicities, percentile_interval, renumbered


def test_codes_count_in_order_of_appearance() -> None:
    found, labels = codes(["b", "a", "b", "c"])
    assert found.tolist() == [0, 1, 0, 2]
    assert labels == ["b", "a", "c"]
    assert codes([])[1] == []


@pytest.mark.parametrize("numbers", [[], [3], [5, 2, 5, 9, 2, 0]])
def test_numbers_are_encoded_as_labels_are(numbers: list[int]) -> None:
    found, first = renumbered(np.array(numbers, dtype=np.int64))
    assert (found.tolist(), [numbers[k] for k in first]) == (codes(numbers)[0].tolist(), codes(numbers)[1])


def test_every_draw_draws_as_many_prompts_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_BLOCK", 50)
    blocks = list(multiplicities(7, 100))
    drawn = np.concatenate(blocks)
    assert len(blocks) > 10
    assert drawn.shape == (100, 7)
    assert set(drawn.sum(axis=1)) == {7.0}
    assert abs(drawn.mean() - 1) < 1e-12


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(multiplicities(13, 64)))
    monkeypatch.setattr(bootstrap, "_BLOCK", 30)
    np.testing.assert_array_equal(whole, np.concatenate(list(multiplicities(13, 64))))


def test_percentiles_of_few_units_lie_as_far_out_as_students_t() -> None:
    draws = np.random.default_rng(0).normal(0, 1, 200_000)
    low, high = percentile_interval(draws, 6) or (0, 0)
    reach = stats.t.ppf(0.975, 5) * (6 / 5) ** 0.5
    assert (low, high) == (pytest.approx(-reach, abs=0.1), pytest.approx(reach, abs=0.1))
    assert percentile_interval(draws, 10_000) == (pytest.approx(-1.96, abs=0.03), pytest.approx(1.96, abs=0.03))


def test_infinite_draws_count_and_undefined_ones_do_not() -> None:
    draws = np.concatenate([np.full(100, np.inf), np.arange(100.0), np.full(50, np.nan)])
    assert percentile_interval(draws, 100) == (pytest.approx(4, abs=2), np.inf)
    assert percentile_interval(np.array([np.nan]), 9) is None
    assert percentile_interval(draws, 1) is None
