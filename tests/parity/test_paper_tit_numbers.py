"""TIT-Score paper: the leaderboard correlations of Table 3 and the significance thresholds of A.2."""

from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest

from titjudge.runs.study.ranking_files import compare_ranks
from titjudge.stats.chance_level import Guessing, guessing, paper_threshold
from titjudge.stats.generators.published_tables import published
from titjudge.stats.ranking.leaderboard import rank_correlation

PRINTED = {
    "TIT-Score": 0.929,
    "LMM4LMM": 0.676,
    "VQA-Score": 0.626,
    "ClipScore": -0.159,
    "Blipv2Score": 0.302,
    "FGA blip2": 0.110,
}
RANKS = published("lpg-bench-ranks")


@pytest.mark.parametrize("name", PRINTED)
def test_table_3(name: str) -> None:
    found = rank_correlation(RANKS.column(name), RANKS.column("human"))
    assert found is not None
    assert round(found, 3) == PRINTED[name]


def test_table_3_through_compare_ranks(tmp_path: Path) -> None:
    file = tmp_path / "table3.csv"
    lines = [",".join(("generator", *RANKS.columns)), *(",".join((g, *map(str, r))) for g, r in RANKS.cells)]
    file.write_text("\n".join(lines))
    found, table = compare_ranks(file, "human")
    assert found["reference"] == "human"
    assert {name: round(each["srcc"], 3) for name, each in found["columns"].items()} == PRINTED
    assert {each["n"] for each in found["columns"].values()} == {13}
    assert [row[0] for row in table.rows] == list(PRINTED)


def test_thresholds_of_the_paper() -> None:
    assert paper_threshold(12_832, 0.05) == 6_510
    assert paper_threshold(12_832, 0.001) == 6_592


def independent(pairs: int) -> Guessing:
    """Guessing over pairs of which each is a prompt of its own."""
    each = np.arange(pairs)
    return guessing(each, 2 * each, 2 * each + 1, np.ones(pairs, dtype=np.int64), np.arange(2.0 * pairs))


def test_independent_pairs_are_binomial() -> None:
    found = independent(12_832)
    assert found.p_value(6_510) == pytest.approx(0.04939, abs=5e-6)
    assert found.p_value(6_509) == pytest.approx(0.05122, abs=5e-6)
    assert found.p_value(6_592) == pytest.approx(0.00097175, abs=5e-9)
    assert found.p_value(6_591) == pytest.approx(0.0010313, abs=5e-8)


@pytest.mark.parametrize("alpha", [Fraction(1, 20), Fraction(1, 1000)])
def test_thresholds_against_exact_arithmetic(alpha: Fraction) -> None:
    for n in range(1, 120):
        tail, expected = 0, None
        for k in range(n, -1, -1):
            tail += comb(n, k)
            if Fraction(tail, 2**n) >= alpha:
                break
            expected = k
        assert independent(n).threshold(float(alpha)) == expected, n
