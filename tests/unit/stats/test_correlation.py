"""Correlations over all images, and of generators by their means."""

import numpy as np
import pytest
from scipy import stats

from titjudge.stats.bootstrap import FEW_PROMPTS, multiplicities
from titjudge.stats.generators.published_tables import published
from titjudge.stats.ranking import correlation as module
from titjudge.stats.ranking.correlation import correlation, generator_correlation


def test_the_three_are_scipys_and_missing_numbers_are_counted() -> None:
    rng = np.random.default_rng(1)
    human = rng.integers(0, 5, 60).astype(float)
    score = human + rng.normal(0, 2, 60)
    groups = [f"p{k // 4}" for k in range(60)]
    found = correlation([*score, None, 1.0], [*human, 1.0, float("nan")], [*groups, "p0", "p1"], resamples=200)
    assert (found.n, found.missing) == (60, 2)
    assert found.srcc == pytest.approx(stats.spearmanr(score, human).statistic)
    assert found.plcc == pytest.approx(stats.pearsonr(score, human).statistic)
    assert found.krcc == pytest.approx(stats.kendalltau(score, human).statistic)
    for value, interval in (
        (found.srcc, found.srcc_interval),
        (found.plcc, found.plcc_interval),
        (found.krcc, found.krcc_interval),
    ):
        assert interval is not None
        assert interval[0] < value < interval[1]


@pytest.mark.parametrize("pairs_at_once", [0, 3000])
def test_a_draw_by_weights_is_scipys_on_repeated_images(pairs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties in both, prompts of several images, draws in which a side does not vary."""
    monkeypatch.setattr(module, "_IMAGES_OF_PAIRS", pairs_at_once)
    x, y = np.array([1.0, 1, 2, 2, 2, 3, 3, 1]), np.array([1.0, 1, 2, 1, 2, 2, 3, 3])
    group = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    found = module._draws(x, y, group, 4, 200)
    undefined = 0
    for row, weights in zip(found, np.concatenate(list(multiplicities(4, 200))), strict=True):
        picked = np.repeat(np.arange(8), weights[group].astype(int))
        a, b = x[picked], y[picked]
        if np.ptp(a) and np.ptp(b):
            wanted = [each(a, b).statistic for each in (stats.spearmanr, stats.pearsonr, stats.kendalltau)]
            assert row.tolist() == pytest.approx(wanted)
        else:
            undefined += 1
            assert np.isnan(row).all()
    assert undefined


@pytest.mark.slow
def test_the_interval_of_a_correlation_covers_it() -> None:
    """PLCC of a bivariate normal with r = .6 in 40 prompts of 3: 95% less small-sample loss, 4 sd of 60 runs is .113."""
    rng = np.random.default_rng(5)
    covered = 0
    groups = [f"p{k // 3}" for k in range(120)]
    for _ in range(60):
        x = rng.normal(size=120)
        y = 0.6 * x + 0.8 * rng.normal(size=120)
        low, high = correlation(x.tolist(), y.tolist(), groups, resamples=80).plcc_interval or (1, 0)
        covered += low <= 0.6 <= high
    assert 0.82 <= covered / 60 <= 1.0


@pytest.mark.parametrize(
    ("scores", "human", "reason"),
    [
        ([], [], "fewer than 3 with both numbers"),
        ([1, 2], [1, 2], "fewer than 3 with both numbers"),
        ([1, 1, 1], [1, 2, 3], "does not vary"),
        ([1, 2, 3], [2, 2, 2], "does not vary"),
    ],
)
def test_undefined_is_none_with_a_reason(scores: list[float | None], human: list[float | None], reason: str) -> None:
    found = correlation(scores, human)
    assert (found.srcc, found.plcc, found.krcc, found.srcc_interval) == (None, None, None, None)
    assert reason in found.reason


def test_one_prompt_has_no_interval() -> None:
    found = correlation([1, 2, 3], [1, 3, 2], ["p", "p", "p"])
    assert found.srcc == pytest.approx(0.5)
    assert found.srcc_interval is None
    assert "two prompts" in found.reason


def test_lengths_must_match() -> None:
    with pytest.raises(ValueError):
        correlation([1, 2], [1])


def test_generators_are_compared_by_their_means_over_the_images_that_have_both_numbers() -> None:
    rng = np.random.default_rng(4)
    generators, prompts = [f"g{k % 6}" for k in range(120)], [f"p{k // 6}" for k in range(120)]
    level = dict(zip(sorted(set(generators)), rng.normal(size=6), strict=True))
    score: list[float | None] = [level[name] + rng.normal() for name in generators]
    human: list[float | None] = [level[name] + rng.normal() for name in generators]
    score[0], human[7] = None, None
    found = generator_correlation(score, human, generators, prompts, resamples=300)
    means = [
        [np.mean([each[k] for k in range(120) if generators[k] == name and k not in (0, 7)]) for name in level]
        for each in (score, human)
    ]
    assert (found.n, found.images) == (6, 118)
    assert found.srcc == pytest.approx(stats.spearmanr(*means).statistic)
    assert found.krcc == pytest.approx(stats.kendalltau(*means).statistic)
    assert found.srcc_interval is not None
    assert found.srcc_interval[0] <= found.srcc <= found.srcc_interval[1]


def test_generators_with_easy_images_only_do_not_come_first() -> None:
    """On each prompt people and the metric say a < b < c < d; people rated images of `a` for easy prompts only, and of `x` for others."""
    rng = np.random.default_rng(1)
    cells = [(g, p) for p in range(20) for g in "abcd" if g != "a" or p < 8] + [("x", 20), ("x", 21)]
    level = {p: 90.0 if p < 8 else 20.0 for p in range(22)}
    score = [level[p] + 4 * "abcdx".index(g) + rng.normal(0, 0.1) for g, p in cells]
    human = [level[p] + 3 * "abcdx".index(g) + rng.normal(0, 0.1) for g, p in cells]
    swapped = [-value if g in "bcd" else value for value, (g, _) in zip(human, cells, strict=True)]
    found, other = (
        generator_correlation(score, y, [g for g, _ in cells], [f"p{p}" for _, p in cells]) for y in (human, swapped)
    )
    assert (found.n, found.images, found.srcc) == (4, 68, pytest.approx(1.0))
    assert "without 1" in found.reason
    assert other.srcc is not None
    assert other.srcc < 0


def test_means_that_tie_are_ranked_as_ties() -> None:
    score, human = [1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 3.0, 3.0]
    found = generator_correlation(score, human, list("abcd"), ["p"] * 4)
    assert found.srcc == pytest.approx(stats.spearmanr(score, human).statistic)
    assert found.krcc == pytest.approx(stats.kendalltau(score, human).statistic)
    assert (found.srcc_interval, found.reason) == (None, FEW_PROMPTS)


@pytest.mark.parametrize(
    ("generators", "human", "reason"),
    [("aabb", [1.0, 2.0, 3.0, 4.0], "fewer than 3 generators"), ("abcd", [1.0] * 4, "one side does not vary")],
)
def test_generators_that_cannot_be_ranked_have_a_reason(generators: str, human: list[float], reason: str) -> None:
    found = generator_correlation(
        [1.0, 2.0, 3.0, 4.0], human, list(generators), list("ppqq" if reason[0] == "f" else "pppp")
    )
    assert (found.srcc, found.reason) == (None, reason)


@pytest.mark.parametrize("pillar", published("qwen-image-bench-experts").columns)
def test_the_rank_correlation_of_a_pillar_is_that_of_the_published_boards(pillar: str) -> None:
    judge, experts = (published(name).column(pillar) for name in ("qwen-image-bench", "qwen-image-bench-experts"))
    names = list(experts)
    found = generator_correlation([judge[name] for name in names], list(experts.values()), names, ["p"] * len(names))
    assert found.n == 18
    assert found.srcc is not None
    assert round(found.srcc, 2) == published("qwen-image-bench-judge").column(pillar)["Spearman"]
