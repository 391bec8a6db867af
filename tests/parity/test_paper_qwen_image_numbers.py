"""Qwen-Image-Bench paper: the six Spearman values of Table 1 come out of Table 2 (judge) and Table 4 (experts)."""

from __future__ import annotations

from pathlib import Path

import pytest

from titjudge.stats.correlation import compare_ranks
from titjudge.stats.leaderboard import rank_correlation

PILLARS = ("quality", "aesthetics", "alignment", "real-world", "creative", "overall")
PRINTED = (0.89, 0.89, 0.89, 0.92, 0.92, 0.92)
RECOMPUTED = (0.8906, 0.8865, 0.8906, 0.9216, 0.9236, 0.9236)

# The printed scores, one row a generator, columns as in PILLARS.
JUDGE = """
GPT Image 2          58.65  67.53  65.85  57.38  75.23  64.69
Nano Banana 2.0      54.77  61.08  62.40  54.28  67.05  59.82
GPT Image 1.5        55.14  60.88  61.72  53.95  66.35  59.65
Nano Banana Pro      55.67  60.26  61.25  54.07  66.23  59.45
Qwen Image 2.0 Pro   54.39  58.67  59.28  51.83  64.94  57.84
Seedream 5.0         52.55  58.40  58.90  51.92  65.29  57.22
Seedream 4.5         54.41  58.72  57.31  51.69  60.64  56.78
Seedream 4.0         54.01  58.81  56.64  51.05  58.15  56.21
FLUX 2 Max           53.64  56.85  57.35  49.35  56.50  55.33
FLUX 2 Pro           52.30  56.94  57.01  47.29  56.18  54.57
GPT Image 1          52.34  55.09  56.28  48.14  55.78  54.07
Qwen Image 2512      51.76  54.74  52.72  47.00  50.19  52.06
Imagen 4.0 Ultra     50.90  54.25  54.02  45.59  51.14  51.99
HunyuanImage 3.0     50.35  53.57  52.00  44.31  49.12  50.81
Imagen 4.0           50.16  52.68  51.64  44.84  47.94  50.29
Qwen Image           48.44  52.25  50.72  43.16  47.30  49.23
Kling Image 2.1      49.11  50.15  49.18  44.74  44.67  48.26
GLM Image            49.26  50.64  47.90  44.69  45.23  48.19
"""
EXPERTS = """
GPT Image 2           9.48   9.19   8.96   8.80   8.78   9.10
Nano Banana 2.0       8.87   8.67   8.76   8.64   8.48   8.71
Nano Banana Pro       8.79   8.65   8.65   8.45   8.46   8.63
GPT Image 1.5         7.37   7.46   7.64   7.29   7.25   7.43
Qwen Image 2.0 Pro    7.03   6.84   7.21   7.27   6.61   6.99
Seedream 5.0          6.55   6.39   6.59   6.22   6.43   6.44
Seedream 4.5          5.56   5.52   5.65   5.17   5.40   5.50
Qwen Image 2512       5.48   5.51   5.62   5.23   5.22   5.45
GPT Image 1           5.20   5.32   5.48   4.98   5.10   5.25
Seedream 4.0          4.75   4.88   4.98   4.67   4.59   4.80
Imagen 4.0 Ultra      4.74   4.85   4.81   4.63   4.41   4.72
Imagen 4.0            4.67   4.72   4.69   4.51   4.29   4.61
FLUX 2 Max            4.48   4.61   4.67   4.07   4.36   4.49
FLUX 2 Pro            4.57   4.42   4.66   3.41   3.97   4.33
HunyuanImage 3.0      3.28   3.35   3.61   3.08   3.40   3.37
Kling Image 2.1       3.08   3.15   3.30   2.97   3.06   3.13
Qwen Image            2.39   2.70   3.04   2.45   2.82   2.70
GLM Image             2.20   2.31   2.69   2.35   2.46   2.40
"""


def scores(table: str, column: int) -> dict[str, float]:
    rows = [line.rsplit(maxsplit=len(PILLARS)) for line in table.strip().splitlines()]
    return {row[0].strip(): float(row[1 + column]) for row in rows}


@pytest.mark.parametrize("column", range(6), ids=PILLARS)
def test_table_1(column: int) -> None:
    judge, experts = scores(JUDGE, column), scores(EXPERTS, column)
    assert len(judge) == 18
    assert judge.keys() == experts.keys()
    found = rank_correlation(judge, experts)
    assert found is not None
    assert round(found, 2) == PRINTED[column]
    assert found == pytest.approx(RECOMPUTED[column], abs=5e-5)


def test_table_1_through_compare_ranks(tmp_path: Path) -> None:
    judge, experts = scores(JUDGE, 5), scores(EXPERTS, 5)
    file = tmp_path / "overall.csv"
    file.write_text("model,judge,experts\n" + "".join(f"{name},{judge[name]},{experts[name]}\n" for name in judge))
    found, _ = compare_ranks(file, "experts")
    assert found["columns"]["judge"]["srcc"] == pytest.approx(0.9236, abs=5e-5)
    assert found["columns"]["judge"]["n"] == 18
