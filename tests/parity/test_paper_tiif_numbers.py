"""TIIF-Bench paper: Table A10 from the overall columns of Table 2 (GPT-4o) and Table A9 (Qwen2.5-VL-72B).

The diffusion and the closed group reproduce; the paper's values for AR and all models do not follow from its own tables.
"""

from __future__ import annotations

import pytest

from titjudge.stats.leaderboard import rank_correlation
from titjudge.stats.published_tables import published


@pytest.mark.parametrize("length", ["short", "long"])
@pytest.mark.parametrize("group", ["diffusion", "closed"])
def test_table_a10(group: str, length: str) -> None:
    first, second = (
        published(name).column(f"Overall {length}", group=group) for name in ("tiif-bench", "tiif-bench-qwen")
    )
    assert second.keys() <= first.keys()
    found = rank_correlation({name: first[name] for name in second}, second)
    assert found is not None
    assert round(found, 3) == published("tiif-bench-judges").column(length)[group]
