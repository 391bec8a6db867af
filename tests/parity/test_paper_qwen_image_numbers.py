"""Qwen-Image-Bench paper: the six Spearman values of Table 1 come out of Table 2 (judge) and Table 4 (experts)."""

from pathlib import Path

import pytest

from titjudge.runs.study.ranking_files import compare_ranks
from titjudge.stats.generators.published_tables import published
from titjudge.stats.generators.slices import between_variance, tier_means
from titjudge.stats.ranking.leaderboard import rank_correlation

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


TIERS = {
    "T1": ("GPT Image 2",),
    "T2": ("Nano Banana 2.0", "GPT Image 1.5", "Nano Banana Pro"),
    "T3": ("Qwen Image 2.0 Pro", "Seedream 5.0", "Seedream 4.5", "Seedream 4.0"),
}


@pytest.mark.parametrize("pillar", PILLARS)
def test_table_3_from_table_2(pillar: str) -> None:
    """Means of the tiers and gaps between them, but for what both tables are rounded by."""
    judge, printed = published("qwen-image-bench").column(pillar), published("qwen-image-bench-tiers").column(pillar)
    means, gaps = tier_means(judge, list(TIERS.values()))
    assert means == [pytest.approx(printed[f"{tier} mean"], abs=0.0101) for tier in TIERS]
    assert gaps == [pytest.approx(printed[gap], abs=0.0151) for gap in ("T1-T2 gap", "T2-T3 gap")]


def test_creative_generation_tells_generators_apart_most() -> None:
    """Section 4.5: its variance is over 11 times that of quality and over 4 times that of aesthetics."""
    table = published("qwen-image-bench")
    variance = between_variance({pillar: list(table.column(pillar).values()) for pillar in PILLARS[:-1]})
    most = max(variance, key=lambda pillar: variance[pillar] or 0.0)
    assert most == "Creative Generation"
    assert variance[most] / variance["Quality"] == pytest.approx(11.17, abs=0.005)  # type: ignore[operator]
    assert variance[most] / variance["Aesthetics"] == pytest.approx(4.27, abs=0.005)  # type: ignore[operator]
