"""A number of somebody else's file is finite, or it is none."""

from typing import Any

import pytest

from titjudge.core.numbers import finite, is_number, missing_code


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), ("2.5", 2.5), (" 3 ", 3.0), (True, None), ("nan", None), (float("inf"), None), ("", None), (None, None),
     ([1], None), (10**400, None), ("1e999", None)],
)  # fmt: skip
def test_what_is_no_finite_number_is_none(value: Any, number: float | None) -> None:
    assert finite(value) == number
    assert is_number(value) == (number is not None and not isinstance(value, str))


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([0, 3, 4, 5], 0),
        ([0, 1, 2, 3], 0),
        ([-1, 0.2, 0.7, 1], -1),
        ([-1, 55, 60, 61], -1),
        ([-999, 1, 3, 4], -999),
        ([0, 40, 60, 100], None),
        ([0, 0.5, 3, 4], None),
        ([-1, 0, 1, 0], None),
        ([-1, 0, 1, 2], None),
        ([-2, -1, 3, 4, 5], None),
        ([-0.5, 1, 3, 5], None),
        ([1, 2, 3, 4], None),
        ([], None),
        ([0, 0, 0], None),
    ],
)
def test_a_number_that_may_stand_for_none(numbers: list[float], code: float | None) -> None:
    assert missing_code(numbers) == code
