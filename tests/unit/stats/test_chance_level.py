"""What guessing reaches: exact against brute force, and held under noise."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest

from titjudge.stats.chance_level import Guessing, guessing, paper_threshold

Column = list[int]


def brute(rank: Column, score: Column) -> list[float]:
    """P(at least k right) over all exchanges of the scores; rank 1 is best."""
    pairs = [(a, b) for a, b in permutations(range(len(rank)), 2) if rank[a] < rank[b]]
    counts = Counter(sum(each[a] > each[b] for a, b in pairs) for each in permutations(score))
    return [sum(n for got, n in counts.items() if got >= k) / counts.total() for k in range(len(pairs) + 1)]


def of(rank: Column, score: Column) -> Guessing:
    pairs = [(a, b, 1 if rank[a] < rank[b] else -1) for a, b in combinations(range(len(rank)), 2) if rank[a] != rank[b]]
    a, b, sign = np.array(pairs).T
    return guessing(np.zeros(len(pairs), dtype=np.int64), a, b, sign, np.array(score, dtype=np.float64))


@pytest.mark.parametrize(
    ("rank", "score"),
    [
        ([1, 2], [7, 3]),
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        ([1, 1, 2, 3, 3], [5, 1, 2, 4, 3]),
        ([3, 1, 2, 5, 4], [1, 1, 1, 2, 3]),
        ([1, 1, 2, 3, 3], [1, 1, 2, 2, 3]),
        ([1, 2, 2], [5, 5, 5]),
        ([2, 1, 1, 1, 3, 4, 4], [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_exact_for_rankings_with_ties_on_either_side(rank: Column, score: Column) -> None:
    found = of(rank, score)
    for k, wanted in enumerate(brute(rank, score)):
        assert found.p_value(k) == pytest.approx(wanted, abs=1e-12)


def test_incomplete_pairs_are_enumerated_and_prompts_add_up() -> None:
    group, a, b = np.array([0, 0, 1]), np.array([0, 1, 3]), np.array([1, 2, 4])
    found = guessing(group, a, b, np.array([1, 1, -1]), np.arange(5.0))
    # a chain of three images: of 6 orders 1 has none right, 4 have one, 1 has both; and one pair of another prompt
    assert [found.p_value(k) for k in range(5)] == pytest.approx([1, 1 - 1 / 12, 0.5, 1 / 12, 0])
    assert found.threshold(0.1) == 3
    assert found.threshold(0.05) is None


def test_drawn_exchanges_come_close_to_counted_ones() -> None:
    rank, score = list(range(9)), list(range(9))
    counted = of(rank, score)
    pairs = np.array([*combinations(range(9), 2), (0, 1)])  # one couple twice: no ranking's pairs
    drawn = guessing(np.zeros(37, dtype=np.int64), *pairs.T, np.ones(37, dtype=np.int64), np.arange(9.0))
    assert drawn.p_value(25) == pytest.approx(counted.p_value(24), abs=0.05)
    assert drawn.mean == pytest.approx(18.5, abs=0.3)


@pytest.mark.parametrize(("prompts", "images"), [(6, 4), (30, 8), (40, 13)])
def test_noise_beats_guessing_as_often_as_is_said(prompts: int, images: int) -> None:
    """3,000 metrics of noise; three standard errors of .05 are .012. By the paper's threshold 13 images give .18."""
    rng = np.random.default_rng(images)
    a, b = np.triu_indices(images, 1)
    size = len(a)
    group = np.repeat(np.arange(prompts), size)
    first, second = ((np.arange(prompts)[:, None] * images + each).ravel() for each in (a, b))
    found = guessing(group, first, second, np.ones(len(group), dtype=np.int64), rng.random(prompts * images))
    noise = rng.random((3000, prompts, images))
    right = (noise[:, :, a] > noise[:, :, b]).sum(axis=(1, 2))
    bar = found.threshold(0.05) or 0
    assert found.p_value(bar) < 0.05 <= found.p_value(bar - 1)
    assert (right >= bar).mean() == pytest.approx(found.p_value(bar), abs=0.012)
    if images == 13:
        assert (right >= (paper_threshold(len(group), 0.05) or 0)).mean() > 0.15


def test_many_pairs_are_normal() -> None:
    exact = of(list(range(13)), list(range(13)))
    normal = Guessing(exact.pairs, exact.mean, exact.deviation, None)
    assert normal.p_value(55) == pytest.approx(exact.p_value(55), abs=0.003)


def test_the_papers_thresholds() -> None:
    assert (paper_threshold(12_832, 0.05), paper_threshold(12_832, 0.001)) == (6510, 6592)
    assert [paper_threshold(n, 0.05) for n in (36, 50, 200)] == [23, 31, 112]
    assert paper_threshold(2, 0.001) is None
    assert paper_threshold(0, 0.05) is None
