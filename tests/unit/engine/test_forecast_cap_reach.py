"""What a cap pays for, in words."""

import re

import pytest

from titjudge.engine.forecast import CapReach


@pytest.mark.parametrize("used", [0.0, 0.1159, 12.0])
def test_a_cap_that_is_too_low_names_a_higher_one_that_lets_it_begin(used: float) -> None:
    reach = CapReach(money=0.0011, worst=0.016, likely=0.002, reserved=0.016, role="judge", thinks=False)
    named = float(re.search(r"--max-cost ([\d.]+)", reach.line(10, used))[1])  # type: ignore[index]
    assert used + 0.016 <= named <= used + 0.1
