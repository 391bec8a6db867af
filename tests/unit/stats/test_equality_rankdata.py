"""Our ranks are scipy's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from titjudge.stats.equality import rankdata

FEW = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("method", ["average", "min", "max"])
@given(values=arrays(float, st.tuples(st.integers(0, 4), st.integers(1, 7)), elements=FEW))
def test_ranks_are_scipys(method: Any, values: np.ndarray) -> None:
    expected = stats.rankdata(values, method=method, axis=1, nan_policy="omit") if len(values) else values
    np.testing.assert_array_equal(rankdata(values, method), expected)
    for row in values:
        np.testing.assert_array_equal(rankdata(row, method), stats.rankdata(row, method=method, nan_policy="omit"))


def test_nothing_has_no_ranks() -> None:
    assert rankdata(np.array([])).shape == (0,)
