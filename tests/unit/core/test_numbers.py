"""A number of somebody else's file is finite, or it is none."""

from __future__ import annotations

from typing import Any

import pytest

from titjudge.core.numbers import finite, is_number


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), ("2.5", 2.5), (" 3 ", 3.0), (True, None), ("nan", None), (float("inf"), None), ("", None), (None, None),
     ([1], None), (10**400, None), ("1e999", None)],
)  # fmt: skip
def test_what_is_no_finite_number_is_none(value: Any, number: float | None) -> None:
    assert finite(value) == number
    assert is_number(value) == (number is not None and not isinstance(value, str))
