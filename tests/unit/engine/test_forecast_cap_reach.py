"""How far a cap reaches, and what the advice on it says."""

import re

from titjudge.engine.forecast import CapReach


def test_the_cap_that_is_advised_lets_the_run_begin() -> None:
    """It is a sum to add: a part of the cap may be spent already, by this run or on images that are judged."""
    money = 0.0011
    reach = CapReach(money, worst=0.02, likely=0.004, reserved=0.016, role="judge", thinks=False)
    more = float(re.search(r"Raise --max-cost by \$([\d.]+)", reach.line(10))[1])  # type: ignore[index]
    assert CapReach(money + more, 0.02, 0.004, 0.016, "judge", thinks=False).expected >= 1
