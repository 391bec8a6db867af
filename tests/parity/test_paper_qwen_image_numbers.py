"""Qwen-Image-Bench paper: the six Spearman values of Table 1 come out of Table 2 (judge) and Table 4 (experts)."""

from __future__ import annotations

from pathlib import Path

import pytest

from titjudge.stats.correlation import compare_ranks
from titjudge.stats.leaderboard import rank_correlation
from titjudge.stats.published_tables import published

PILLARS = published("qwen-image-bench").columns
RECOMPUTED = (0.8906, 0.8865, 0.8906, 0.9216, 0.9236, 0.9236)


def scores(pillar: str) -> tuple[dict[str, float], dict[str, float]]:
    """Judge's and experts' scores."""
    return published("qwen-image-bench").column(pillar), published("qwen-image-bench-experts").column(pillar)


@pytest.mark.parametrize(("pillar", "recomputed"), list(zip(PILLARS, RECOMPUTED, strict=True)))
def test_table_1(pillar: str, recomputed: float) -> None:
    judge, experts = scores(pillar)
    assert len(judge) == 18
    assert judge.keys() == experts.keys()
    found = rank_correlation(judge, experts)
    assert found is not None
    assert round(found, 2) == published("qwen-image-bench-judge").column(pillar)["Spearman"]
    assert found == pytest.approx(recomputed, abs=5e-5)


def test_table_1_through_compare_ranks(tmp_path: Path) -> None:
    judge, experts = scores("Overall")
    file = tmp_path / "overall.csv"
    file.write_text("model,judge,experts\n" + "".join(f"{name},{judge[name]},{experts[name]}\n" for name in judge))
    found, _ = compare_ranks(file, "experts")
    assert found["columns"]["judge"]["srcc"] == pytest.approx(0.9236, abs=5e-5)
    assert found["columns"]["judge"]["n"] == 18
