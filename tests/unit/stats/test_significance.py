"""Exchange tests of several generators: the same scores are tested once, and other scores have a result of their own."""

import numpy as np
import pytest

from titjudge.stats import significance
from titjudge.stats.significance import below_best_p, range_p


def test_the_same_scores_are_tested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(31).normal(size=(20, 4)) - np.arange(4)
    first = below_best_p(scores)
    monkeypatch.setattr(significance, "_range_p", lambda _: pytest.fail("tested again"))
    assert below_best_p(scores.copy()) == first
    assert below_best_p(np.asfortranarray(scores)) == first


def test_other_scores_and_other_shapes_have_their_own_result() -> None:
    rng = np.random.default_rng(32)
    equal, apart = rng.normal(size=(12, 3)), rng.normal(size=(12, 3)) - 3 * np.arange(3)
    assert (range_p(apart, 0.0) or 1) < 0.01 < (range_p(equal, 0.0) or 0)
    assert range_p(apart.reshape(9, 4), 0.0) != range_p(apart, 0.0)


def test_the_p_among_several_is_never_below_the_p_of_the_two_alone() -> None:
    """Each prompt shows the same gap: the interval of the difference contains 0, and so no test tells the generators apart."""
    scores = np.stack([np.arange(12.0) + 60, np.arange(12.0) + 55, np.arange(12.0) + 50], axis=1)
    assert below_best_p(scores, spans=(-100.0, 100.0)) == [1.0, pytest.approx(2 / 1.1**12)]
    assert below_best_p(scores) == [1 / 2000, 1 / 2000]
