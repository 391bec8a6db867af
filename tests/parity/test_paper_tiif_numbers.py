"""TIIF-Bench paper: Table A10 from the overall columns of Table 2 (GPT-4o) and Table A9 (Qwen2.5-VL-72B).

The diffusion and the closed group reproduce; the paper's values for AR and all models do not follow from its own tables.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from titjudge.core.prompts import PromptLibrary
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


def test_the_prompt_that_makes_prompts_longer_is_the_papers(shared: Path) -> None:
    """A3.1, quoted exactly; its first line is where the prompt stands."""
    paper = shared / "papers" / "tiif-bench.txt"
    if not paper.is_file():
        pytest.skip("the paper's text is not there")
    quoted = paper.read_text(encoding="utf-8").partition("###RAW CAP###\n")[2].partition("\n```")[0]
    (asked,) = PromptLibrary().get("recipes/tiif_long").messages({"prompt": "###RAW CAP###"}, [])
    assert asked.parts == ("###RAW CAP###\n" + quoted,)
