"""Ranks as ranges: what the tests leave open, for neighbours that cannot be distinguished and for scores that are missing."""

import numpy as np
import pytest

from titjudge.stats.bootstrap import Floats
from titjudge.stats.generators.slices import in_order, rank_ranges
from titjudge.stats.scores.scores_table import Entry, ScoreTable, score_table


def table(means: Floats) -> ScoreTable:
    """Scores of generators a, b, ... by prompt; NaN is a prompt without an image."""
    entries = [
        Entry(f"p{prompt}", "abcdefgh"[k], f"{k}-{prompt}", float(value))
        for (prompt, k), value in np.ndenumerate(means)
        if np.isfinite(value)
    ]
    return score_table(entries, metric="m", source="s", bounds=(0.0, 100.0))


def scores(*levels: float, prompts: int = 40, noise: float = 2.0, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return np.array(levels) + rng.normal(50, 9, (prompts, 1)) + rng.normal(0, noise, (prompts, len(levels)))


def test_neighbours_that_cannot_be_told_apart_share_ranks() -> None:
    assert rank_ranges(table(scores(0, 10, 10.1, -10))) == {2: (1, 2), 1: (1, 2), 0: (3, 3), 3: (4, 4)}
    chain = scores(0.0, 0.7, 1.4, seed=2)
    assert in_order(table(chain)) == [2, 1, 0]
    assert rank_ranges(table(chain)) == {2: (1, 2), 1: (1, 3), 0: (2, 3)}


def test_ranks_of_equal_generators_are_open() -> None:
    open_ = dict.fromkeys(range(5), (1, 5))
    wrong = np.mean([rank_ranges(table(scores(*[0] * 5, seed=seed))) != open_ for seed in range(60)])
    assert wrong <= 0.05 + 2 * (0.05 * 0.95 / 60) ** 0.5


def test_a_leader_that_lacks_prompts_is_not_ranked_above_those_that_have_them() -> None:
    means = scores(0, 10, 20)
    means[24:, 0] = np.nan
    assert rank_ranges(table(means)) == {2: (1, 1), 1: (2, 2), 0: (3, 3)}
    means = scores(0, 10, 20)
    means[24:, 2] = np.nan
    assert rank_ranges(table(means)) == {2: (1, 3), 1: (1, 2), 0: (2, 3)}


@pytest.mark.parametrize(
    ("prompts", "strangers", "ranks"), [(5, 0, {1: (1, 2), 0: (1, 2)}), (12, 12, {1: (1, 1), 0: (2, 2)})]
)
def test_ranks_are_of_those_that_share_enough_prompts(
    prompts: int, strangers: int, ranks: dict[int, tuple[int, int]]
) -> None:
    means = np.full((prompts + strangers, 3), np.nan)
    means[:prompts, :2] = scores(0, 30, prompts=prompts)
    means[prompts:, 2] = 99.0
    assert rank_ranges(table(means)) == ranks
    assert rank_ranges(table(means[:, :1])) == {}
