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
    assert (range_p(apart) or 1) < 0.01 < (range_p(equal) or 0)
    assert range_p(apart.reshape(18, 2)) != range_p(apart)
