"""TIT-Score paper: the leaderboard correlations of Table 3 and the significance thresholds of A.2."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest

from titjudge.stats.chance_level import Guessing, guessing, paper_threshold
from titjudge.stats.correlation import compare_ranks
from titjudge.stats.leaderboard import rank_correlation

NAMES = ("human", "TIT-Score", "LMM4LMM", "VQA-Score", "ClipScore", "Blipv2Score", "FGA blip2")
PRINTED = {
    "TIT-Score": 0.929,
    "LMM4LMM": 0.676,
    "VQA-Score": 0.626,
    "ClipScore": -0.159,
    "Blipv2Score": 0.302,
    "FGA blip2": 0.110,
}
RANKS = {
    "Qwen-Image": (1, 1, 1, 1, 1, 1, 2),
    "Gemini-2.5-flash-image": (2, 3, 8, 3, 9, 12, 3),
    "gpt-image-1": (3, 2, 3, 2, 4, 5, 8),
    "Kolors 2.1": (4, 5, 4, 12, 13, 9, 11),
    "FLUX.1-Krea-dev": (5, 4, 6, 4, 6, 2, 4),
    "SeeDream3.0": (6, 6, 12, 5, 12, 7, 10),
    "Bagel": (7, 7, 2, 7, 8, 3, 7),
    "Cogview4": (8, 10, 5, 9, 10, 11, 12),
    "FLUX.1-Dev": (9, 12, 9, 13, 11, 6, 9),
    "Omnigen2": (10, 8, 7, 11, 7, 8, 13),
    "Infinity": (11, 9, 10, 6, 5, 13, 5),
    "SD3.5": (12, 11, 11, 8, 2, 4, 1),
    "Kolors": (13, 13, 13, 10, 3, 10, 6),
}


@pytest.mark.parametrize("name", PRINTED)
def test_table_3(name: str) -> None:
    column = NAMES.index(name)
    found = rank_correlation({g: r[column] for g, r in RANKS.items()}, {g: r[0] for g, r in RANKS.items()})
    assert found is not None
    assert round(found, 3) == PRINTED[name]


def test_table_3_through_compare_ranks(tmp_path: Path) -> None:
    file = tmp_path / "table3.csv"
    lines = [",".join(("generator", *NAMES)), *(",".join((g, *map(str, r))) for g, r in RANKS.items())]
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
