"""TIIF-Bench paper: Table A10 from the overall columns of Table 2 (GPT-4o) and Table A9 (Qwen2.5-VL-72B).

The diffusion and the closed group reproduce; the paper's values for AR and all models do not follow from its own tables.
"""

from __future__ import annotations

import pytest

from titjudge.stats.leaderboard import rank_correlation

# Overall: Table 2 short, Table 2 long, Table A9 short, Table A9 long; models that both tables have.
DIFFUSION = {
    "SD XL": (54.96, 42.13, 53.40, 44.97),
    "SD 3": (67.46, 66.09, 65.84, 63.30),
    "SD 3.5": (71.15, 66.96, 67.21, 63.98),
    "SANA Sprint": (63.68, 58.50, 59.45, 56.42),
    "SANA 1.5": (67.15, 65.73, 62.96, 60.88),
    "Playground v2": (45.64, 52.78, 45.51, 52.73),
    "Playground v2.5": (47.73, 54.82, 45.13, 52.36),
    "PixArt-delta": (41.01, 48.24, 42.33, 47.18),
    "PixArt-alpha": (44.37, 50.50, 45.55, 51.11),
    "PixArt-sigma": (62.00, 58.12, 56.37, 56.87),
    "LUMINA-Next": (50.93, 52.46, 48.77, 48.78),
    "Hunyuan-DiT": (51.38, 53.28, 48.49, 53.29),
    "FLUX.1 dev": (71.09, 71.78, 65.96, 65.74),
}
CLOSED = {
    "DALL-E 3": (75.13, 70.98, 74.18, 72.94),
    "MidJourney v6": (70.95, 67.87, 71.46, 67.84),
    "MidJourney v7": (68.91, 65.86, 66.21, 64.13),
    "FLUX.1 Pro": (67.49, 70.06, 66.04, 67.30),
    "GPT-4o": (89.32, 88.46, 84.19, 84.61),
}


@pytest.mark.parametrize(
    ("group", "length", "printed"),
    [(DIFFUSION, 0, 0.973), (DIFFUSION, 1, 0.973), (CLOSED, 0, 1.000), (CLOSED, 1, 0.900)],
    ids=["diffusion short", "diffusion long", "closed short", "closed long"],
)
def test_table_a10(group: dict[str, tuple[float, ...]], length: int, printed: float) -> None:
    first = {name: row[length] for name, row in group.items()}
    second = {name: row[2 + length] for name, row in group.items()}
    found = rank_correlation(first, second)
    assert found is not None
    assert round(found, 3) == printed
