"""Leaderboards by mean rank and by Bradley-Terry strength."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from titjudge.core.types import Item, Pair, Score
from titjudge.stats.people.agreement import agreement
from titjudge.stats.people.agreement_tables import agreement_tables, strengths_table
from titjudge.stats.ranking import bradley_terry as bradley_terry_module
from titjudge.stats.ranking.bradley_terry import bradley_terry
from titjudge.stats.ranking.leaderboard import leaderboard, prompt_ranks, rank_correlation

Image = tuple[str, str, str]


def grid(prompts: int, generators: str) -> list[Image]:
    return [(f"{g}{p}", g, f"p{p}") for p in range(prompts) for g in generators]


def test_mean_ranks_are_averages_of_the_ranks_in_each_prompt() -> None:
    images = grid(2, "xyz")
    found = leaderboard(images, {"x0": 3, "y0": 2, "z0": 1, "x1": 1, "y1": 5, "z1": 1})
    places = found.places
    assert list(places) == ["y", "x", "z"]
    assert [places[g].mean_rank for g in "xyz"] == [1.75, 1.5, 2.75]
    assert [places[g].rank for g in "xyz"] == [2, 1, 3]
    assert [places[g].mean for g in "xyz"] == [2, 3.5, 1]
    assert places["z"].interval is None  # the same everywhere, on a scale without ends
    assert found.warnings == ()


def test_lower_is_better_turns_ranks_but_not_means() -> None:
    found = leaderboard(grid(2, "xy"), {"x0": 1, "x1": 1, "y0": 2, "y1": 2}, higher_is_better=False)
    assert [(name, place.mean, place.rank) for name, place in found.places.items()] == [("x", 1, 1), ("y", 2, 2)]


def test_equal_mean_ranks_share_a_place() -> None:
    found = leaderboard(grid(2, "xyz"), {"x0": 2, "y0": 1, "z0": 0, "x1": 1, "y1": 2, "z1": 0})
    assert [(name, place.rank) for name, place in found.places.items()] == [("x", 1), ("y", 1), ("z", 3)]


def test_several_images_of_a_generator_for_a_prompt_are_averaged() -> None:
    images = [("x-a", "x", "p"), ("x-b", "x", "p"), ("y-a", "y", "p")]
    found = leaderboard(images, {"x-a": 0.0, "x-b": 1.0, "y-a": 0.4})
    assert [(name, place.mean, place.images) for name, place in found.places.items()] == [("x", 0.5, 2), ("y", 0.4, 1)]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_generator_to_which_a_metric_does_not_apply_stays_with_the_others(names: tuple[str, str]) -> None:
    items = [Item(image, "a prompt", None, generator, prompt) for image, generator, prompt in grid(2, "xyz")]
    scores = [Score(item.id, name, 0.5) for name in names for item in items if name == "a" or item.generator != "z"]
    found = agreement(items, scores, [], not_applicable={"b": {"z0", "z1"}}, resamples=0)
    places = {row.generator: row.metrics for row in found.leaderboard}
    assert set(places) == {"x", "y", "z"}
    assert (places["z"]["a"].scored, places["z"]["b"].images, places["z"]["b"].coverage) == (2, 0, None)
    assert agreement_tables(found)


def test_a_generator_without_scores_has_no_place_and_warns() -> None:
    found = leaderboard(grid(2, "xyz"), {"x0": 1.0, "y0": None, "x1": 1.0, "y1": 2.0}, name="tit")
    *others, (name, last) = found.places.items()
    assert (name, last.mean, last.interval, last.mean_rank, last.rank) == ("z", None, None, None, None)
    assert last.coverage == 0.0
    assert [(place.prompts, place.mean_rank) for _, place in others] == [(1, 1.0), (2, 2.0)]  # ranks: of p1 alone
    assert found.declared.excluded == {"no_score": {"z": ["p0", "p1"]}, "no_score_estimated": {"y": ["p0"]}}


def test_full_coverage_of_different_prompts_warns_too() -> None:
    images = [("x0", "x", "p0"), ("y0", "y", "p0"), ("y1", "y", "p1")]
    over = leaderboard(images, {"x0": 1, "y0": 2, "y1": 3}).declared
    assert (over.sizes, over.excluded) == (
        {"same_prompts": [2], "common_of_all": [1]},
        {"no_score_estimated": {"x": ["p1"]}},
    )


def test_the_ranks_of_a_prompt_leave_missing_scores_out() -> None:
    scores = np.array([[3.0, np.nan, 1.0, 3.0], [np.nan] * 4])
    np.testing.assert_array_equal(prompt_ranks(scores), [[1.5, np.nan, 3.0, 1.5], [np.nan] * 4])


def test_correlation_of_leaderboards_needs_three_and_variation() -> None:
    assert rank_correlation({"x": 1, "y": 2}, {"x": 1, "y": 2}) is None
    assert rank_correlation({"x": 1, "y": 1, "z": 1}, {"x": 1, "y": 2, "z": 3}) is None
    assert rank_correlation({"x": 1, "y": None, "z": 3, "w": 4}, {"x": 1, "y": 2, "z": 3}) is None
    assert rank_correlation({}, {}) is None
    assert rank_correlation({"x": 1, "y": 2, "z": 3}, {"z": 1, "y": 2, "x": 3}) == pytest.approx(-1)


def test_nothing_to_rank() -> None:
    assert leaderboard([], {}).places == {}
    alone = leaderboard([("i", "x", "p")], {"i": 0.5})
    assert (alone.places["x"].rank, alone.places["x"].interval, alone.warnings) == (None, None, ())


def simulated(strengths: dict[str, float], tie: float, prompts: int, seed: int) -> tuple[list[Pair], dict[str, str]]:
    rng = np.random.default_rng(seed)
    names = list(strengths)
    pairs, generator_of = [], {}
    for p in range(prompts):
        for i, x in enumerate(names):
            generator_of[f"{x}{p}"] = x
            for y in names[i + 1 :]:
                a, b = np.exp(strengths[x]), np.exp(strengths[y])
                weight = np.array([a, b, 2 * tie * np.sqrt(a * b)])
                choice = rng.choice(["a", "b", "tie"], p=weight / weight.sum())
                pairs.append(Pair(f"p{p}", f"{x}{p}", f"{y}{p}", str(choice)))
    return pairs, generator_of


def test_bradley_terry_is_the_maximum_of_the_likelihood() -> None:
    pairs, generator_of = simulated({"x": 0.8, "y": 0.0, "z": -0.3, "w": -0.5}, 0.3, 40, seed=1)
    names = sorted(set(generator_of.values()))

    def loss(parameters: np.ndarray) -> float:
        log = dict(zip(names, [*parameters[:-1], -parameters[:-1].sum()], strict=True))
        total = 0.0
        for pair in pairs:
            a, b = log[generator_of[pair.a]], log[generator_of[pair.b]]
            parts = {"a": a, "b": b, "tie": np.log(2) + parameters[-1] + (a + b) / 2}
            total += np.logaddexp.reduce(list(parts.values())) - parts[pair.preference]
        return total

    best = optimize.minimize(loss, np.zeros(4), tol=1e-10).x
    expected = dict(zip(names, [*best[:-1], -best[:-1].sum()], strict=True))
    found = bradley_terry(pairs, generator_of, resamples=100)
    assert {s.generator: s.strength for s in found.generators} == pytest.approx(expected, abs=1e-3)
    assert found.tie == pytest.approx(np.exp(best[-1]), abs=1e-3)
    assert [s.strength for s in found.generators] == sorted((s.strength for s in found.generators), reverse=True)
    for each in found.generators:
        assert each.interval is not None
        low, high = each.interval
        assert low is not None
        assert high is not None
        assert low < each.strength < high
    assert (found.resamples, found.degenerate) == (100, 0)


@pytest.mark.parametrize("outcomes", [["a", "a"], ["a", "tie"], ["tie", "tie", "b"]])
def test_without_a_finite_fit_there_is_none_and_a_reason(outcomes: list[str]) -> None:
    """One win and any ties: the further apart and the likelier ties, the better the fit, without end."""
    pairs = [Pair(f"p{k}", "x", "y", outcome) for k, outcome in enumerate(outcomes)]
    found = bradley_terry(pairs, {"x": "X", "y": "Y"})
    assert found.generators == []
    assert "no finite fit" in found.reason


def test_degenerate_resamples_are_counted_and_infinite() -> None:
    pairs = [Pair("p", "x", "y", "a"), Pair("q", "x", "y", "b"), Pair("r", "x", "y", "a")]
    found = bradley_terry(pairs, {"x": "X", "y": "Y"}, resamples=600)
    # A draw is degenerate when prompt q is missing (8/27) or alone (1/27): 600 x 1/3, standard deviation 11.5.
    assert 150 <= found.degenerate <= 250
    assert found.resamples == 600 - found.degenerate
    assert found.generators[0].strength - found.generators[1].strength == pytest.approx(np.log(2), abs=1e-6)
    assert [each.interval for each in found.generators] == [(None, None)] * 2


def test_draws_fitted_together_are_those_fitted_singly() -> None:
    pairs, generator_of = simulated({"x": 0.9, "y": 0.0, "z": -0.9}, 0.3, 7, seed=4)
    used = [(generator_of[pair.a], generator_of[pair.b], pair) for pair in pairs]
    outcomes, _, generators = bradley_terry_module._counted(used)
    model = bradley_terry_module._Likelihood(len(generators), outcomes)
    weights = np.random.default_rng(0).integers(0, 3, (60, len(outcomes))).astype(float)
    together, tie = model.fit(weights)
    singly = [model.fit(row[None]) for row in weights]
    np.testing.assert_allclose(together, [strengths[0] for strengths, _ in singly], atol=1e-7)
    np.testing.assert_allclose(tie, [each[0] for _, each in singly], atol=1e-7)
    assert 0 < np.isnan(together).any(axis=1).sum() < 60


def test_who_loses_once_may_be_infinitely_strong() -> None:
    pairs = [Pair(f"p{k}", "x", "y", "b" if k == 0 else "a") for k in range(12)]
    found = bradley_terry(pairs, {"x": "X", "y": "Y"}, resamples=400)
    strongest = found.generators[0]
    assert strongest.interval is not None
    low, high = strongest.interval
    assert low is not None
    assert 0 < low < strongest.strength
    assert high is None
    assert f"{strongest.strength:.2f} [{low:.2f}, ∞]" in str(strengths_table("people", found).plain_rows)


@pytest.mark.parametrize(("wins", "ties", "losses", "weight"), [(2, 1, 2, 0.25), (2, 3, 1, 1.0607)])
def test_the_weight_of_ties_has_settled(wins: int, ties: int, losses: int, weight: float) -> None:
    """Davidson's model of two: the strengths are half the log ratio of wins apart from 0, t = ties / (2 sqrt(wins losses))."""
    outcomes = ["a"] * wins + ["tie"] * ties + ["b"] * losses
    pairs = [Pair(f"p{k}", "x", "y", outcome) for k, outcome in enumerate(outcomes)]
    found = bradley_terry(pairs, {"x": "X", "y": "Y"}, resamples=0)
    assert found.tie == pytest.approx(weight, abs=1e-4)
    assert {each.generator: each.strength for each in found.generators}["X"] == pytest.approx(np.log(wins / losses) / 2)


def test_only_ties_are_a_draw_between_all() -> None:
    found = bradley_terry([Pair("p", "x", "y", "tie"), Pair("q", "x", "y", "tie")], {"x": "X", "y": "Y"}, resamples=20)
    assert [s.strength for s in found.generators] == [0.0, 0.0]
    assert found.tie is None


def test_pairs_of_one_generator_or_unknown_images_say_nothing() -> None:
    pairs = [Pair("p", "x", "x2", "a"), Pair("p", "x", "stranger", "a")]
    found = bradley_terry(pairs, {"x": "X", "x2": "X"})
    assert (found.pairs, found.reason) == (0, "no pair compares two generators")


def test_mean_rank_correlates_with_scipys_spearman() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 6, 13), rng.integers(0, 6, 13)
    found = rank_correlation(dict(zip("abcdefghijklm", x, strict=True)), dict(zip("abcdefghijklm", y, strict=True)))
    assert found == pytest.approx(stats.spearmanr(x, y).statistic)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from(["xy", "xz", "yz", "zw", "xw"]), st.sampled_from(["a", "b", "tie"])), max_size=14
    )
)
def test_a_fit_is_given_exactly_when_the_likelihood_has_a_maximum(outcomes: list[tuple[str, str]]) -> None:
    """Where there is no fit, some direction never lowers the likelihood: a linear programme finds it."""
    pairs = [Pair("p", pair[0], pair[1], preference) for pair, preference in outcomes]
    found = bradley_terry(pairs, {g: g for g in "xyzw"}, resamples=0)
    if not pairs:
        return
    seen = sorted({g for pair, _ in outcomes for g in pair})
    tied = any(preference == "tie" for _, preference in outcomes)
    rows = []  # each: predictor of what happened minus predictor of an alternative, over (strengths, weight of ties)
    for pair, preference in outcomes:
        one = {name: np.array([float(g == name) for g in seen] + [0.0]) for name in pair}
        predictor = {"a": one[pair[0]], "b": one[pair[1]], "tie": (one[pair[0]] + one[pair[1]]) / 2}
        predictor["tie"][-1] = 1.0
        others = [name for name in predictor if name != preference and (tied or name != "tie")]
        rows += [predictor[preference] - predictor[other] for other in others]
    matrix = np.array(rows)
    free = len(seen) + 1
    decided = any(preference != "tie" for _, preference in outcomes)
    bounds = [(0.0, 0.0), *[(-1.0, 1.0)] * (len(seen) - 1), (-1.0, 1.0) if tied and decided else (0.0, 0.0)]
    runs_off = any(
        -optimize.linprog(-sign * np.eye(free)[k], A_ub=-matrix, b_ub=np.zeros(len(matrix)), bounds=bounds).fun > 1e-6
        for k in range(free)
        for sign in (1, -1)
    )
    assert bool(found.generators) == (not runs_off)


def test_a_generator_without_competition_takes_no_rank() -> None:
    images = [("l0", "lonely", "p0"), ("l1", "lonely", "p1"), ("x", "x", "q"), ("y", "y", "q"), ("l2", "lonely", "r")]
    images += [("y2", "y", "r")]
    found = leaderboard(images, {"l0": 9, "l1": 9, "x": 2, "y": 1, "l2": 3, "y2": 4})
    places = found.places
    assert (places["lonely"].mean_rank, places["lonely"].prompts, places["lonely"].mean) == (
        2.0,
        3,
        pytest.approx(5.25),
    )
    assert list(places) == ["y", "lonely", "x"]
    assert places["x"].rank is None  # it shares no prompt with the one that has most
    assert found.declared.excluded == {
        "too_few_own_mean": {"x": ["q"]},
        "no_score_estimated": {"lonely": ["q"], "y": ["p0", "p1"]},
    }


@pytest.mark.parametrize(("prompts", "few"), [(6, True), (12, False)])
def test_a_leaderboard_of_few_prompts_is_not_reliable(prompts: int, few: bool) -> None:
    images = [(f"{name}{k}", name, f"p{k}") for name in "ab" for k in range(prompts)]
    board = leaderboard(images, {id: float(k % 5) for k, (id, *_) in enumerate(images)})
    assert ("fewer than 10 prompts" in board.declared.caption()) == few
